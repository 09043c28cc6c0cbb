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
from tests.unit.decode.engines import DESCENDANTS, SPECIAL, make_engine, make_model

from sixfold.decode.engine import open_engine
from sixfold.decode.kernel_engine import KernelEngine, try_out
from sixfold.decode.options import SearchOptions
from sixfold.decode.torch_engine import TorchEngine
from sixfold.decode.translate import Translator
from sixfold.kernels import build as compiled
from sixfold.kernels import decoding as kernels
from sixfold.kernels import dropout
from sixfold.kernels.decoding import FLAGS, SOURCE, find_kernels
from sixfold.machine import cpu_flags

COMPILER = next(filter(None, map(shutil.which, compiled.COMPILERS)), None)
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
INSTRUCTIONS = {  # what a compiler may use, and what the processor must have for it
    "no more than all have": ((), ""),
    "AVX2": (("-mavx2", "-mfma"), "avx2"),
    "AVX-VNNI": (("-mavx2", "-mfma", "-mavxvnni"), "avx_vnni"),
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


def sabotage(folder: Path, monkeypatch: pytest.MonkeyPatch, pattern: str, replacement: str) -> None:
    """Let the kernels be compiled from a changed source, for one target only."""
    counts = []
    for path in (SOURCE, *SOURCE.parent.glob("*.h")):
        text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=1)
        (folder / path.name).write_text(text, encoding="utf-8")
        counts.append(count)
    assert sum(counts) == 1
    monkeypatch.setattr(kernels, "SOURCE", folder / SOURCE.name)
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
    assert isinstance(open_engine([make_model()], SPECIAL), TorchEngine)


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


@needs_compiler
def test_what_the_kernels_compute_is_opened_on_them_and_the_rest_on_torch() -> None:
    assert isinstance(open_engine([make_model()], SPECIAL), KernelEngine)
    assert isinstance(open_engine([make_model().double()], SPECIAL), TorchEngine)
    for choices in DESCENDANTS.values():
        assert isinstance(open_engine([make_model(**choices)], SPECIAL), TorchEngine)


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
def test_texts_are_those_of_torch(way: str, trained: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["old man", "the dog sees", "small house and tree", "blue", "woman paints a window and a tree"]
    ways = {"greedy": {"beam": 1}, "beam": {"beam": 4}, "n best": {"beam": 6, "n_best": 6}}
    options = SearchOptions(**ways[way])
    found = []
    for name in ("kernels", "torch"):
        monkeypatch.setattr(trained.decoder, "engine", make_engine(name, trained.model))
        found.append(trained.search(texts, options))
    for ours, theirs in zip(*found, strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)
