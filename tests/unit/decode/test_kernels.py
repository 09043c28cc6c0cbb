"""Compiled kernels: used where they work, done without where they do not, never a reason to fail."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from sixfold.decode.engine import Engine
from sixfold.decode.kernel_engine import KernelEngine, KernelStepper, open_engine, try_out
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import best_extensions
from sixfold.decode.translate import Translator
from sixfold.kernels import build as compiled
from sixfold.kernels import decoding as kernels
from sixfold.kernels.decoding import FLAGS, SOURCE, Kernels, find_kernels
from sixfold.machine import cpu_flags
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.nn import dropout
from sixfold.text.tokens import BOS_ID, EOS_ID

COMPILER = next(filter(None, map(shutil.which, compiled.COMPILERS)), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
SHAPE = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 48, "d_ff": 80, "heads": 3}
INSTRUCTIONS = {  # what a compiler may use, and what the processor must have for it
    "no more than all have": ((), ""),
    "AVX2": (("-mavx2", "-mfma"), "avx2"),
    "AVX-512 without VNNI": (("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma"), "avx512bw"),
}


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty cache folder, in a process that has not looked for kernels yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(compiled.VARIABLE, raising=False)
    compiled.opened.cache_clear()
    yield tmp_path
    compiled.opened.cache_clear()


@pytest.fixture
def library() -> Kernels:
    """Return the kernels, or skip the test where there are none."""
    found = find_kernels()
    if found.kernels is None:
        pytest.skip(f"there are no compiled kernels here: {found.reason}")
    return found.kernels


def make_model(vocabulary: int = 150, **choices: object) -> EncoderDecoder:
    """Return a small random model."""
    torch.manual_seed(5)
    return EncoderDecoder(
        EncoderDecoderConfig.model_validate({"vocabulary": vocabulary, **SHAPE, **choices})
    ).eval()


def sabotage(folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, replacement: str) -> None:
    """Let the kernels be compiled from a changed source, for one target only."""
    text, count = re.subn(pattern, replacement, SOURCE.read_text(encoding="utf-8"), count=1)
    assert count == 1
    (folder / "kernels.c").write_text(text, encoding="utf-8")
    monkeypatch.setattr(kernels, "SOURCE", folder / "kernels.c")
    monkeypatch.setattr(compiled, "TARGETS", compiled.TARGETS[:1])


# Made once, and only used if they work


@needs_compiler
def test_the_first_use_compiles_and_the_next_only_loads(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_kernels().kernels is not None, find_kernels().reason
    [made] = (fresh / "cache/sixfold").iterdir()
    compiled.opened.cache_clear()
    monkeypatch.setenv("PATH", "")  # not even a compiler is needed any more
    assert find_kernels().kernels is not None
    assert [*(fresh / "cache/sixfold").iterdir()] == [made]


@needs_compiler
@pytest.mark.usefixtures("fresh")
def test_threads_that_need_a_library_at_the_same_time_get_the_same_one() -> None:
    ready = threading.Barrier(4)

    def first_use() -> object:
        ready.wait()
        return dropout.kernels().library

    with ThreadPoolExecutor(4) as pool:
        found = [each.result() for each in [pool.submit(first_use) for _ in range(4)]]
    assert found[0] is not None
    assert all(library is found[0] for library in found)


@pytest.mark.usefixtures("fresh")
def test_without_a_compiler_torch_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert find_kernels().kernels is None
    assert "no C compiler" in find_kernels().reason
    assert isinstance(open_engine(make_model()), Engine)


def test_a_cache_folder_that_cannot_be_written_is_no_error(fresh: Path) -> None:
    (fresh / "cache").write_text("a file in its place", encoding="utf-8")
    assert find_kernels().kernels is None
    assert find_kernels().reason


@needs_compiler
def test_a_source_that_does_not_compile_is_tried_once(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(fresh, monkeypatch, r"long panel\(void\)", "lung panel(void)")
    assert "compiling failed" in find_kernels().reason
    compiled.opened.cache_clear()
    monkeypatch.setattr(compiled, "first_failure", lambda *_: pytest.fail("it was tried again"))
    assert "compiling failed" in find_kernels().reason


@needs_compiler
def test_a_library_that_computes_something_else_is_not_used(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(fresh, monkeypatch, r"1 / sqrtf\(variance", "1 / sqrtf(1.01f * variance")
    assert find_kernels().kernels is None
    assert "the trial failed" in find_kernels().reason


@needs_compiler
def test_a_processor_that_traps_some_instructions_gets_fewer(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = "#if TRAPPED\n__builtin_trap();\n#endif\nfloats largest = all(-INFINITY)"
    sabotage(fresh, monkeypatch, r"floats largest = all\(-INFINITY\)", trap)
    monkeypatch.setattr(compiled, "TARGETS", (("-march=native", "-DTRAPPED=1"), ("-march=native",)))
    assert find_kernels().kernels is not None


@pytest.mark.parametrize("word", ["off", "OFF", "0"])
def test_a_variable_switches_them_off(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compiled.VARIABLE, word)
    assert find_kernels().kernels is None
    assert compiled.VARIABLE in find_kernels().reason


def test_another_precision_than_float32_is_for_torch() -> None:
    assert isinstance(open_engine(make_model().double()), Engine)


# They compute the same, with whatever instructions there are


@needs_compiler
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are instructions of another processor")
@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_fewer_instructions_give_the_same_results(name: str, tmp_path: Path) -> None:
    flags, needed = INSTRUCTIONS[name]
    if needed not in cpu_flags():
        pytest.skip(f"this processor has no {needed}")
    path = tmp_path / "kernels.so"
    subprocess.run([COMPILER, *compiled.FLAGS, *FLAGS, "-w", *flags, SOURCE, "-o", path, "-lm"], check=True)
    try_out(str(path))


@needs_compiler
def test_the_source_compiles_without_a_warning(tmp_path: Path) -> None:
    command = [
        COMPILER,
        *compiled.FLAGS,
        *FLAGS,
        "-march=native",
        "-Wall",
        "-Wextra",
        SOURCE,
        "-o",
        tmp_path / "k.so",
        "-lm",
    ]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr == ""


@pytest.mark.parametrize("way", ["greedy", "beam", "n best"])
def test_texts_are_those_of_torch(
    way: str, library: Kernels, trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["old man", "the dog sees", "small house and tree", "blue", "woman paints a window and a tree"]
    ways = {"greedy": {"beam": 1}, "beam": {"beam": 4}, "n best": {"beam": 6, "n_best": 6}}
    options = SearchOptions(**ways[way])
    found = []
    for engine in (KernelEngine(trained.model, "float32", library), Engine(trained.model)):
        monkeypatch.setattr(trained, "engines", [engine])
        found.append(trained.search(texts, options))
    for ours, theirs in zip(*found, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)


# What a step finds


def several_steps(stepper: KernelStepper, width: int, rows: int) -> tuple[list[int], list[float]]:
    """Let all hypotheses differ; return their next tokens and log-probabilities so far."""
    stepper.step(torch.full((rows // width,), BOS_ID))
    stepper.select(None, torch.arange(rows) // width)
    stepper.step(4 + torch.arange(rows) % 100)
    return [(7 * row) % 90 + 5 for row in range(rows)], [-0.37 * (row % 5) for row in range(rows)]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    vocabulary=st.sampled_from([110, 127, 128, 129, 700]),
    sentences=st.integers(1, 5),
    width=st.integers(1, 9),
    count=st.integers(1, 64),
)
@torch.inference_mode()
def test_the_best_extensions_are_those_of_all_logits(
    vocabulary: int, sentences: int, width: int, count: int, library: Kernels
) -> None:
    engine = KernelEngine(make_model(vocabulary), "float32", library)
    source = torch.randint(4, 100, (sentences, 8))
    first, second = engine.start(source), engine.start(source)
    tokens, before = several_steps(first, width, sentences * width)
    several_steps(second, width, sentences * width)
    found = first.step_best(tokens, before, count)
    log_probs = second.step(torch.tensor(tokens))
    offsets = torch.tensor(before).view(sentences, width)
    scores, parents, chosen = best_extensions(log_probs.unflatten(0, (-1, width)), offsets, count)
    torch.testing.assert_close(torch.tensor(found.scores), scores, rtol=0, atol=1e-5)
    assert same_but_for_ties(found.parents, parents, scores)
    assert same_but_for_ties(found.tokens, chosen, scores)
    torch.testing.assert_close(torch.tensor(found.ends), log_probs[:, EOS_ID], rtol=0, atol=1e-5)
    assert found.favourites == log_probs.argmax(dim=1).tolist()


def same_but_for_ties(found: list[list[int]], expected: Tensor, scores: Tensor) -> bool:
    """Return whether numbers are the same wherever the score beside them is not nearly its neighbour's."""
    gaps = (scores[:, 1:] - scores[:, :-1]).abs() < 1e-5
    is_tie = torch.nn.functional.pad(gaps, [1, 0]) | torch.nn.functional.pad(gaps, [0, 1])
    return bool(((torch.tensor(found) == expected) | is_tie | (scores == float("-inf"))).all())


@torch.inference_mode()
def test_rows_without_a_chance_bring_none(library: Kernels) -> None:
    stepper = KernelEngine(make_model(), "float32", library).start(torch.randint(4, 100, (1, 8)))
    stepper.step(torch.tensor([BOS_ID]))
    stepper.select(None, torch.zeros(4, dtype=torch.long))
    found = stepper.step_best([9, 8, 7, 6], [-1.0, float("-inf"), float("-inf"), float("-inf")], 8)
    assert found.parents == [[0] * 8]
    assert len(set(found.tokens[0])) == 8


@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.inference_mode()
def test_a_row_has_the_same_bits_among_any_number_of_others(precision: str, library: Kernels) -> None:
    shape = {"d_model": 96, "d_ff": 200, "heads": 6, "encoder_layers": 2}
    engine = KernelEngine(make_model(300, **shape), precision, library)  # type: ignore[arg-type]
    source = torch.randint(4, 300, (40, 11))
    together = engine.start(source).step(torch.arange(40) + 4)
    for count in (1, 2, 3, 5, 11, 12, 13, 25, 39):
        assert torch.equal(engine.start(source[:count]).step(torch.arange(count) + 4), together[:count])


@torch.inference_mode()
def test_padding_costs_nothing_and_changes_nothing(library: Kernels) -> None:
    engine = KernelEngine(make_model(), "float32", library)
    source = torch.randint(4, 100, (3, 7))
    wide = torch.nn.functional.pad(source, [0, 20])
    assert torch.equal(engine.start(source).memory, engine.start(wide).memory)
    tokens = torch.tensor([5, 6, 7])
    assert torch.equal(engine.start(source).step(tokens), engine.start(wide).step(tokens))


@torch.inference_mode()
def test_searches_at_the_same_time_do_not_disturb_each_other(library: Kernels) -> None:
    engine = KernelEngine(make_model(), "float32", library)
    sources = [torch.randint(4, 100, (1 + number, 9)) for number in range(4)]

    @torch.inference_mode()
    def steps(source: Tensor) -> Tensor:
        stepper = engine.start(source)
        return torch.stack([stepper.step(torch.arange(source.size(0)) + 5 + i) for i in range(30)])

    expected = [steps(source) for source in sources]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(steps, sources), expected, strict=True):
            assert torch.equal(found, wanted)
