"""What a user waits for before anything happens: nothing large is loaded by `import sixfold` or by `--help`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
HELP = "import sys; sys.argv = ['sixfold', '--help']; from sixfold.cli import main; main()"
LOADED = "import atexit, sys; atexit.register(lambda: print(*{name.partition('.')[0] for name in sys.modules}))"
OF_THE_COMMAND_LINE = {"typer", "rich"}
LARGE = {"torch", "numpy", "pydantic", "sentencepiece", "safetensors", "sacrebleu", "ruamel"}


def output_of(code: str) -> list[str]:
    """Run Python code in a fresh process and return the lines it prints; the last are the packages it loaded."""
    command = [sys.executable, "-c", f"{LOADED}; {code}"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_importing_sixfold_loads_nothing_but_python_itself() -> None:
    without, loaded = (set(output_of(code)[-1].split()) for code in ("pass", "import sixfold"))
    assert loaded - without - sys.stdlib_module_names == {"sixfold"}


def test_help_names_the_program_and_loads_only_what_draws_it() -> None:
    *lines, last = output_of(HELP)
    assert "sixfold" in "".join(lines)
    assert set(last.split()) >= OF_THE_COMMAND_LINE
    assert not set(last.split()) & LARGE
