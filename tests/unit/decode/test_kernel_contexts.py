"""Contexts on the compiled kernels: the numbers of `DecoderOnly`, whatever its parts and the company."""

from __future__ import annotations

import os
import platform
import random
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from tests.unit.decode.test_kernels import COMPILER, INSTRUCTIONS, needs_compiler
from torch import Tensor

from sixfold.decode.batch_decoder import threads
from sixfold.decode.contexts import open_contexts
from sixfold.decode.kernel_contexts import ACTIVATIONS, KernelContexts, try_out
from sixfold.decode.matrices import Precision
from sixfold.decode.torch_contexts import TorchContexts
from sixfold.errors import RequestError
from sixfold.kernels import build
from sixfold.kernels.contexts import FLAGS, SOURCE, ContextKernels, find_context_kernels
from sixfold.kernels.trial import WrongResultError
from sixfold.models.decoder_only import GPT, LLAMA, DecoderOnly, DecoderOnlyConfig
from sixfold.text import SpecialIds

VOCABULARY, CONTEXT = 91, 150
SHAPE: dict[str, object] = {"vocabulary": VOCABULARY, "max_positions": CONTEXT, "layers": 2, "init_std": 0.2}
MODELS: dict[str, dict[str, object]] = {
    "gpt": {**GPT, "d_model": 64, "d_ff": 192, "heads": 4},
    "llama": {**LLAMA, "d_model": 96, "d_ff": 160, "heads": 6, "key_value_heads": 2},
}
every_model = pytest.mark.parametrize("name", MODELS)
every_precision = pytest.mark.parametrize("precision", ["float32", "int8"])
pytestmark = pytest.mark.usefixtures("seed")


def need_kernels() -> ContextKernels:
    """Return the compiled kernels, or skip the test where there are none."""
    found = find_context_kernels()
    if found.kernels is None:
        pytest.skip(f"there are no compiled kernels here: {found.reason}")
    return found.kernels


def make_model(**choices: object) -> DecoderOnly:
    """Return a random model, no weight of which is 0 or 1 only."""
    model = DecoderOnly(DecoderOnlyConfig.model_validate({**SHAPE, **choices})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def make_engine(model: DecoderOnly, precision: Precision = "float32") -> KernelContexts:
    return KernelContexts(model, precision, need_kernels())


def make_tokens(count: int) -> list[int]:
    return torch.randint(VOCABULARY, (count,)).tolist()


def drawn_choices(draw: random.Random) -> dict[str, object]:
    """Return parts of a model, each drawn by itself."""
    key_value_heads, group = draw.choice([1, 2, 3]), draw.choice([1, 2, 3, 5])
    return {
        "d_model": draw.choice([8, 20, 33, 64, 130]),
        "d_ff": draw.choice([7, 40, 96, 161]),
        "heads": key_value_heads * group,
        "key_value_heads": draw.choice([0, key_value_heads]),
        "d_k": draw.choice([2, 6, 16, 24, 64]),
        "d_v": draw.choice([1, 5, 16, 40, 64]),
        "score_scale": draw.choice([0, 0.4]),
        "norm": "pre",
        "norm_kind": draw.choice(["layer", "rms"]),
        "norm_epsilon": draw.choice([1e-5, 1e-2]),
        "activation": draw.choice(ACTIVATIONS),
        "gated": draw.random() < 0.5,
        "attention_bias": draw.random() < 0.5,
        "feed_forward_bias": draw.random() < 0.5,
        "positions": draw.choice(["learned", "rotary", "sinusoidal"]),
        "rotary_base": draw.choice([100.0, 10_000.0]),
        "tied": draw.random() < 0.5,
        "scaled_embedding": draw.random() < 0.5,
    }


@pytest.mark.parametrize("number", range(24))
@torch.inference_mode()
def test_any_parts_give_the_numbers_of_the_model(number: int, seed: int) -> None:
    choices = drawn_choices(random.Random(seed + number))
    model, rows = make_model(**choices), [make_tokens(count) for count in (110, 1, 33)]
    engine = make_engine(model)
    found = engine.log_probabilities(engine.read([engine.new_context() for _ in rows], rows))
    exact = model.double()
    expected = torch.cat([exact(torch.tensor([row]))[0].log_softmax(dim=-1).float() for row in rows])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, msg=lambda text: f"{choices}: {text}")


@every_model
def test_int8_is_near_float32(name: str) -> None:
    model, tokens = make_model(**MODELS[name], d_k=64, d_v=64), make_tokens(100)
    engines = [TorchContexts(model), make_engine(model, "int8")]
    exact, coarse = (each.read([each.new_context()], [tokens]) for each in engines)
    assert not torch.equal(coarse, exact)
    assert (coarse - exact).norm() < 0.2 * exact.norm()


@every_model
def test_int8_predicts_what_float32_predicts(name: str) -> None:
    model, rows = taught(make_model(**MODELS[name])), counting_texts(8)
    exact, coarse = (texts(make_engine(model, precision), rows) for precision in ("float32", "int8"))
    assert perplexity(exact, rows) < 3  # it has learned something: there are 91 tokens
    assert abs(perplexity(coarse, rows) / perplexity(exact, rows) - 1) < 0.02
    assert (coarse.argmax(dim=1) == exact.argmax(dim=1)).float().mean() > 0.95


def counting_texts(count: int) -> list[list[int]]:
    """Return texts that count up in steps of 1, 2 or 3, from any token."""
    starts = torch.randint(VOCABULARY, (count,)).tolist()
    return [[(start + (1 + place % 3) * i) % VOCABULARY for i in range(40)] for place, start in enumerate(starts)]


def taught(model: DecoderOnly) -> DecoderOnly:
    """Train a model to count."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(120):
        tokens = torch.tensor(counting_texts(16))
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def perplexity(log_probs: Tensor, rows: Sequence[Sequence[int]]) -> float:
    """Return the perplexity of texts of one length, given what was predicted after each of their tokens."""
    predicted = log_probs.unflatten(0, (len(rows), -1))[:, :-1]
    return float(predicted.gather(2, torch.tensor(rows)[:, 1:, None]).mean().neg().exp())


def texts(engine: KernelContexts, tokens: Sequence[Sequence[int]]) -> Tensor:
    """Return the log-probabilities after every token of some texts."""
    return engine.log_probabilities(engine.read([engine.new_context() for _ in tokens], tokens))


@every_model
@every_precision
def test_any_number_of_threads_gives_the_same_bits(name: str, precision: Precision) -> None:
    engine, tokens = make_engine(make_model(**MODELS[name]), precision), [make_tokens(90), make_tokens(1)]
    alone = texts(engine, tokens)
    for count in (2, 3, 5, 2):
        with threads(count):
            assert torch.equal(texts(engine, tokens), alone)


@every_model
@every_precision
def test_token_by_token_gives_the_bits_of_all_at_once(name: str, precision: Precision) -> None:
    engine, tokens = make_engine(make_model(**MODELS[name]), precision), make_tokens(70)
    context = engine.new_context()
    one_by_one = torch.cat([engine.read([context], [[token]]) for token in tokens])
    assert torch.equal(one_by_one, engine.read([engine.new_context()], [tokens]))


def test_more_rows_than_go_through_a_layer_together_change_no_bit() -> None:
    engine, rows = make_engine(make_model(**MODELS["llama"])), [make_tokens(count) for count in (140, 3, 149, 100)]
    together = texts(engine, rows)
    assert torch.equal(together, torch.cat([texts(engine, [row]) for row in rows]))


def test_readings_at_the_same_time_do_not_disturb_each_other() -> None:
    engine = make_engine(make_model(**MODELS["gpt"]))
    rows = [[make_tokens(40 + number)] for number in range(4)]
    expected = [texts(engine, row) for row in rows]

    def read_often(number: int) -> bool:
        with torch.inference_mode():
            return all(torch.equal(texts(engine, rows[number]), expected[number]) for _ in range(20))

    with threads(3), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read_often, range(4)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_computes_on() -> None:
    engine, tokens = make_engine(make_model(**MODELS["gpt"])), [make_tokens(60)]
    with threads(2):
        expected = texts(engine, tokens)
        child = os.fork()
        if not child:
            os._exit(0 if torch.equal(texts(engine, tokens), expected) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert torch.equal(texts(engine, tokens), expected)


# Pages


def test_contexts_share_all_pages_of_what_they_have_in_common() -> None:
    engine = make_engine(make_model(**MODELS["gpt"]))
    context = engine.new_context()
    engine.read([context], [make_tokens(2 * engine.page_length + 5)])
    forks = [context.fork() for _ in range(5)]
    assert len({id(page) for each in (context, *forks) for page in each.pages}) == 3
    engine.read(forks, [[number] for number in range(5)])
    assert len({id(page) for each in (context, *forks) for page in each.pages}) == 2 + 5


def test_one_who_writes_first_after_a_fork_needs_no_copy() -> None:
    engine = make_engine(make_model(**MODELS["gpt"]))
    first = engine.new_context()
    engine.read([first], [make_tokens(5)])
    second, pages = first.fork(), [*first.pages]
    engine.read([second], [[1]])
    engine.read([first], [[2]])
    assert second.pages == pages
    assert first.pages != pages


@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 64, 70])
def test_after_a_cut_a_context_goes_on_as_if_it_had_read_no_more(length: int) -> None:
    engine, tokens, ending = make_engine(make_model(**MODELS["llama"])), make_tokens(70), make_tokens(40)
    context = engine.new_context()
    engine.read([context], [tokens])
    whole = context.fork()
    context.cut(length)
    found = engine.read([context, whole], [ending, ending])
    for row, beginning in enumerate((tokens[:length], tokens)):
        anew = engine.read([engine.new_context()], [beginning + ending])
        assert torch.equal(found[40 * row : 40 * row + 40], anew[-40:])


# What is refused


def test_a_token_outside_the_vocabulary_is_refused_and_nothing_is_read() -> None:
    engine = make_engine(make_model(**MODELS["gpt"]))
    context = engine.new_context()
    for token in (-1, VOCABULARY):
        with pytest.raises(RequestError, match="vocabulary"):
            engine.read([context], [[3, token]])
    assert [*context.tokens] == []


def test_what_the_kernels_compute_is_opened_on_them_and_the_rest_on_torch() -> None:
    need_kernels()
    for choices in MODELS.values():
        assert isinstance(open_contexts(make_model(**choices), SpecialIds()), KernelContexts)
        assert isinstance(open_contexts(make_model(**choices).double(), SpecialIds()), TorchContexts)
        assert isinstance(open_contexts(make_model(**{**choices, "norm": "post"}), SpecialIds()), TorchContexts)


# The library


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are instructions of another processor")
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_fewer_instructions_give_the_same_results(name: str, tmp_path: Path) -> None:
    flags, needed = INSTRUCTIONS[name]
    if needed not in build.cpu_flags():
        pytest.skip(f"this processor has no {needed}")
    try_out(str(library(tmp_path, "-w", *flags)))


@needs_compiler
def test_the_source_compiles_without_a_warning(tmp_path: Path) -> None:
    library(tmp_path, "-march=native", "-O1", "-Wall", "-Wextra", "-Werror")


@needs_compiler
@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("contexts.c", "second * cosine[i] + first", "second * cosine[i] - first"),
        ("contexts.c", "span->begin + row + 1", "span->begin + row + 2"),
        ("norms.h", "1 / sqrtf(variance", "1 / sqrtf(1.01f * variance"),
        ("activations.h", "0.044715f", "0.05f"),
    ],
)
def test_the_trial_notices_another_result(tmp_path: Path, file: str, before: str, after: str) -> None:
    folder = tmp_path / "changed"
    folder.mkdir()
    for path in (SOURCE, *SOURCE.parent.glob("*.h")):
        shutil.copy(path, folder)
    text = (folder / file).read_text(encoding="utf-8")
    assert text.count(before) == 1
    (folder / file).write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises((AssertionError, WrongResultError)):
        try_out(str(library(tmp_path, "-march=native", "-O1", source=folder / SOURCE.name)))


def library(folder: Path, *flags: str, source: Path = SOURCE) -> Path:
    """Compile the kernels with some flags."""
    assert COMPILER
    path = folder / "contexts.so"
    command = [COMPILER, *build.FLAGS, *FLAGS, *flags, str(source), "-o", str(path), "-lm", "-pthread"]
    subprocess.run(command, check=True)
    return path
