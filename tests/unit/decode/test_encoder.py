"""Encoders laid out for use: the numbers of `EncoderOnly`, and the same bits alone and in any company."""

from __future__ import annotations

import platform
import random
import shutil
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from tests.unit.decode.test_kernel_contexts import library
from tests.unit.decode.test_kernels import INSTRUCTIONS, needs_compiler
from torch import Tensor

from sixfold.decode.batch_decoder import threads
from sixfold.decode.encoder import Encoder, open_encoder
from sixfold.decode.kernel_contexts import ACTIVATIONS
from sixfold.decode.kernel_encoder import BATCH_ROWS, KernelEncoder, first_texts, try_out
from sixfold.decode.torch_encoder import TorchEncoder
from sixfold.errors import RequestError
from sixfold.kernels import build
from sixfold.kernels.encoding import SOURCE, EncoderKernels, find_encoder_kernels
from sixfold.kernels.trial import WrongResultError
from sixfold.models.encoder_only import BERT, EncoderOnly, EncoderOnlyConfig
from sixfold.text.encoder_row import EncoderRow

VOCABULARY, POSITIONS = 91, 120
SHAPE: dict[str, object] = {**BERT, "vocabulary": VOCABULARY, "max_positions": POSITIONS, "layers": 2}
MODELS: dict[str, dict[str, object]] = {
    "bert": {"d_model": 64, "d_ff": 192, "heads": 4},
    "minilm": {"d_model": 96, "d_ff": 160, "heads": 6, "pooling": "mean"},
    "roberta": {"d_model": 64, "d_ff": 96, "heads": 2, "first_position": 2, "pad_id": 1, "token_types": 1},
    "distilbert": {"d_model": 64, "d_ff": 96, "heads": 2, "token_types": 0},
}
pytestmark = pytest.mark.usefixtures("seed")


def need_kernels() -> EncoderKernels:
    """Return the compiled kernels, or skip the test where there are none."""
    found = find_encoder_kernels()
    if found.kernels is None:
        pytest.skip(f"there are no compiled kernels here: {found.reason}")
    return found.kernels


ENGINES: dict[str, Callable[[EncoderOnly], Encoder]] = {
    "kernels": lambda model: KernelEncoder(model, "float32", need_kernels()),
    "kernels int8": lambda model: KernelEncoder(model, "int8", need_kernels()),
    "torch": TorchEncoder,
    "torch int8": lambda model: TorchEncoder(model, "int8"),
}
every_engine = pytest.mark.parametrize("engine", ENGINES)
every_model = pytest.mark.parametrize("name", MODELS)


def make_model(**choices: object) -> EncoderOnly:
    """Return a random model, no weight of which is 0 or 1 only."""
    model = EncoderOnly(EncoderOnlyConfig.model_validate({**SHAPE, **choices, "init_std": 0.15})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def make_row(length: int, num_types: int = 2) -> EncoderRow:
    """Return a row of random tokens, of which the last ones belong to a second text."""
    types = [int(place > length // 2 and num_types > 1) for place in range(length)]
    return EncoderRow(torch.randint(5, VOCABULARY, (length,)).tolist(), types, (1,), False)


def rows_for(model: EncoderOnly, lengths: Sequence[int]) -> list[EncoderRow]:
    return [make_row(length, model.config.token_types) for length in lengths]


def exact_hidden(model: EncoderOnly, row: EncoderRow) -> Tensor:
    """Return the vectors of a row by the model itself, in float64."""
    types = torch.tensor([row.types]) if model.config.token_types else None
    return model.double().hidden(torch.tensor([row.tokens]), types)[0].float()


@pytest.mark.parametrize("engine", ["kernels", "torch"])
@every_model
@torch.inference_mode()
def test_the_vectors_are_those_of_the_model(engine: str, name: str) -> None:
    model = make_model(**MODELS[name])
    rows, encoder = rows_for(model, [40, 1, 17, 118, 16]), ENGINES[engine](model)
    found, vectors = encoder.hidden(rows), encoder.vectors(rows)
    for row, hidden, vector in zip(rows, found, vectors, strict=True):
        expected = exact_hidden(model, row)
        torch.testing.assert_close(hidden, expected, rtol=0, atol=1e-4)
        pooled = expected.mean(dim=0) if model.config.pooling == "mean" else expected[0]
        torch.testing.assert_close(vector, pooled / pooled.norm(), rtol=0, atol=1e-5)


def drawn_choices(draw: random.Random) -> dict[str, object]:
    """Return parts of a model, each drawn by itself."""
    return {
        "d_model": draw.choice([8, 20, 33, 64, 130]),
        "d_ff": draw.choice([7, 40, 161, 600]),
        "heads": draw.choice([1, 2, 3, 5]),
        "d_k": draw.choice([2, 6, 16, 24, 64]),
        "d_v": draw.choice([1, 5, 16, 40, 64]),
        "score_scale": draw.choice([0, 0.4]),
        "norm": draw.choice(["post", "pre"]),
        "norm_kind": draw.choice(["layer", "rms"]),
        "norm_epsilon": draw.choice([1e-12, 1e-2]),
        "activation": draw.choice(ACTIVATIONS),
        "gated": draw.random() < 0.5,
        "attention_bias": draw.random() < 0.5,
        "feed_forward_bias": draw.random() < 0.5,
        "token_types": draw.choice([0, 1, 2]),
        "first_position": draw.choice([0, 2]),
        "pooling": draw.choice(["first", "mean"]),
    }


@pytest.mark.parametrize("number", range(16))
@torch.inference_mode()
def test_any_parts_give_the_numbers_of_the_model(number: int, seed: int) -> None:
    choices = drawn_choices(random.Random(seed + number))
    model = make_model(**choices)
    rows = rows_for(model, [110, 1, 33])
    found = torch.cat(ENGINES["kernels"](model).hidden(rows))
    expected = torch.cat([exact_hidden(model, row) for row in rows])
    scale = expected.abs().max().clamp_min(1)  # nothing normalises what a pre-norm stack adds up
    torch.testing.assert_close(
        found / scale, expected / scale, rtol=0, atol=1e-4, msg=lambda text: f"{choices}: {text}"
    )


@pytest.mark.parametrize(("engine", "least"), [("kernels int8", 0.998), ("torch int8", 0.99)])
def test_int8_is_near_float32(engine: str, least: float) -> None:
    model = make_model(**{**MODELS["minilm"], "d_model": 384, "heads": 12, "d_ff": 700})
    rows = rows_for(model, [40, 3, 17])
    exact, coarse = ENGINES["torch"](model).vectors(rows), ENGINES[engine](model).vectors(rows)
    assert not torch.equal(exact, coarse)
    assert (exact * coarse).sum(dim=1).min() > least


@every_engine
def test_a_text_has_the_same_bits_alone_and_in_any_company(engine: str, seed: int) -> None:
    draw, model = random.Random(seed), make_model(**MODELS["minilm"])
    encoder = ENGINES[engine](model)
    rows = rows_for(model, [draw.choice([1, 2, 5, 9, 15, 16, 17, 33, 64, 118]) for _ in range(60)])
    hidden, vectors = encoder.hidden(rows), encoder.vectors(rows)
    for row, its_hidden, vector in zip(rows, hidden, vectors, strict=True):
        assert torch.equal(encoder.hidden([row])[0], its_hidden)
        assert torch.equal(encoder.vectors([row])[0], vector)
    draw.shuffle(order := list(range(60)))
    for count in (2, 3, 1):
        with threads(count):
            assert torch.equal(encoder.vectors([rows[i] for i in order]), vectors[order])


@every_engine
def test_no_texts_give_no_vectors(engine: str) -> None:
    model = make_model(**MODELS["bert"])
    encoder = ENGINES[engine](model)
    assert encoder.hidden([]) == []
    assert encoder.vectors([]).shape == (0, 64)


def test_what_stands_outside_the_tables_is_refused() -> None:
    model = make_model(**MODELS["bert"])
    encoder = ENGINES["kernels"](model)
    for tokens, types in (([5, VOCABULARY], [0, 0]), ([5, -1], [0, 0]), ([5, 6], [0, 2]), ([5] * 121, [0] * 121)):
        with pytest.raises(RequestError):
            encoder.hidden([EncoderRow(tokens, types, (1,), False)])


def test_batches_are_as_full_as_they_may_be() -> None:
    assert first_texts([3, 3, 3, 3], 6) == [0, 2, 4]
    assert first_texts([9, 1, 1, 9], 6) == [0, 1, 3, 4]
    lengths = [random.randint(1, 118) for _ in range(200)]
    begins = first_texts(lengths, BATCH_ROWS)
    sizes = [sum(lengths[begin:end]) for begin, end in pairwise(begins)]
    assert sum(sizes) == sum(lengths)
    assert max(sizes) <= BATCH_ROWS


def test_what_the_kernels_do_not_compute_runs_on_torch() -> None:
    sinusoidal = make_model(**{**MODELS["bert"], "positions": "sinusoidal"})
    assert isinstance(open_encoder(sinusoidal), TorchEncoder)
    with torch.inference_mode():
        [found] = open_encoder(sinusoidal).hidden(rows := rows_for(sinusoidal, [20]))
        torch.testing.assert_close(found, exact_hidden(sinusoidal, rows[0]), rtol=0, atol=1e-4)


# The library


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are instructions of another processor")
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_fewer_instructions_give_the_same_results(name: str, tmp_path: Path) -> None:
    flags, needed = INSTRUCTIONS[name]
    if needed not in build.cpu_flags():
        pytest.skip(f"this processor has no {needed}")
    try_out(str(library(tmp_path, "-w", *flags, source=SOURCE)))


@needs_compiler
def test_the_source_compiles_without_a_warning(tmp_path: Path) -> None:
    library(tmp_path, "-march=native", "-O1", "-Wall", "-Wextra", "-Werror", source=SOURCE)


@needs_compiler
@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("encoding.c", "load(x + r * m->padded_d_model + i)", "load(x + i)"),
        ("encoding.c", "sum + load(type + i)", "sum"),
        ("encoding.c", "shorter(first + j, h->count - 1)", "shorter(first + j, h->count - 2)"),
        ("activations.h", "0.707106781f", "0.71f"),
        ("words.h", "load(scale + LANES)", "load(scale)"),
    ],
)
def test_the_trial_notices_another_result(tmp_path: Path, file: str, before: str, after: str) -> None:
    folder = tmp_path / "changed"
    folder.mkdir()
    for path in (SOURCE, *SOURCE.parent.glob("*.h")):
        shutil.copy(path, folder)
    text = (folder / file).read_text()
    assert text.count(before) == 1
    (folder / file).write_text(text.replace(before, after))
    with pytest.raises((AssertionError, WrongResultError)):
        try_out(str(library(tmp_path, "-w", "-march=native", "-O1", source=folder / SOURCE.name)))
