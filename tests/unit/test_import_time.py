"""What a user waits for before anything happens."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 7
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
HELP = "import sys; sys.argv = ['sixfold', '--help']; from sixfold.cli import main; main()"


def run(code: str) -> str:
    """Run Python code in a fresh process and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fastest(code: str) -> float:
    """Return the seconds of the fastest of several fresh processes: the others shared the machine."""
    run(code)  # compiles what was never imported before
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        run(code)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def test_importing_sixfold_takes_under_0_3_seconds() -> None:
    assert fastest("import sixfold") - fastest("pass") < 0.3


def test_importing_sixfold_loads_no_torch() -> None:
    assert run("import sys, sixfold; print('torch' in sys.modules)").strip() == "False"


def test_help_answers_in_under_0_5_seconds() -> None:
    assert fastest(HELP) < 0.5


def test_help_names_the_program_and_loads_no_torch() -> None:
    code = f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); {HELP}"
    output = run(code)
    assert "sixfold" in output
    assert output.strip().endswith("False")
