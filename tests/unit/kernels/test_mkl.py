"""MKL's fast kernels on AMD's processors: asked for before torch is loaded, and never elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sixfold.kernels.build import VARIABLE
from sixfold.kernels.mkl import is_underrated

PREPARE = "from sixfold.kernels import prepare; prepare()"
SAYS_WHY = "from sixfold.kernels.mkl import slow_because; print(slow_because())"
needs_amd = pytest.mark.skipif(not is_underrated(), reason="MKL is fast here by itself")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


def run(code: str, **variables: str) -> str:
    """Run Python in a fresh process; return what it prints."""
    environment = {**os.environ, VARIABLE: "on", **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nflags\t: fpu avx2 avx512f avx512dq\n",
            True,
        ),
        ("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 23\nflags\t: fpu avx2 sha_ni\n", False),
        (
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t: fpu avx2 avx512f avx512dq\n",
            False,
        ),
        ("processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n", False),
        ("", False),
    ],
)
def test_maker_and_instructions_are_read_from_the_first_processor(
    tmp_path: Path, content: str, expected: bool
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(content)
    assert is_underrated(cpuinfo) is expected


def test_where_the_system_does_not_say_mkl_is_left_alone(tmp_path: Path) -> None:
    assert not is_underrated(tmp_path / "cpuinfo")


@needs_compiler
def test_products_are_as_fast_as_they_can_be_when_sixfold_is_loaded_first() -> None:
    assert run(f"{PREPARE}; import torch; {SAYS_WHY}") == ""


@needs_amd
@needs_compiler
def test_when_torch_is_loaded_first_we_say_so() -> None:
    assert run(f"import torch; {PREPARE}; {SAYS_WHY}") == (
        "torch was imported before sixfold.kernels.prepare() was called"
    )


@needs_amd
def test_it_can_be_switched_off() -> None:
    assert run(f"{PREPARE}; {SAYS_WHY}", SIXFOLD_KERNELS="off") == "SIXFOLD_KERNELS=off"


@needs_amd
@needs_compiler
def test_another_torch_is_tried_anew(tmp_path: Path) -> None:
    broken = tmp_path / "torch" / "__init__.py"
    broken.parent.mkdir()
    broken.write_text("raise ImportError('half installed')")
    answers = "from sixfold.kernels.mkl import answer; print(answer().library is not None)"
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert run(answers, PYTHONPATH=str(tmp_path), **cache) == "False"
    assert run(answers, **cache) == "True"


@needs_amd
def test_without_a_home_it_is_slow_and_not_an_error() -> None:
    home = (
        "from pathlib import Path\ndef no_home(path): raise RuntimeError('no home')\nPath.expanduser = no_home\n"
    )
    assert run(f"{home}{PREPARE}; {SAYS_WHY}", XDG_CACHE_HOME="") == "no home"
