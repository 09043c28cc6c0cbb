"""The trial of a new library: a child process loads it and checks its results.

It runs in a child process, because a processor that traps its own instructions kills the process that uses them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from sixfold.errors import WorkError

SECONDS = 120.0
PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from sixfold.kernels import trial; trial.main()"
)
REFUSED = 3  # the exit code of a trial that finished and found the library wrong
CRASHES = {signal.SIGILL, signal.SIGSEGV, signal.SIGFPE}  # caused by the library; other signals are not


class WrongResultError(WorkError):
    """A library computes wrong results."""


@dataclass(frozen=True)
class Failure:
    """The reason why there is no library."""

    reason: str
    is_final: bool  # the compiler refuses the source, or the library is wrong: retrying is useless


def failure_of_trial(trial: str, path: Path, variables: dict[str, str]) -> Failure | None:
    """Try a library in a child process with the same imports as this one; return the failure, or None."""
    search_path = json.dumps([str(each) for each in sys.path])
    command = [sys.executable, "-P", "-c", PROGRAM, search_path, trial, str(path)]
    done = run(command, "the trial", variables)
    if isinstance(done, Failure):
        return done
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return Failure(f"the trial died with {name}", -done.returncode in CRASHES)
    last_line = done.stderr.strip().rpartition("\n")[2]
    return Failure(f"the trial failed: {last_line}", done.returncode == REFUSED) if done.returncode else None


def run(command: list[str], what: str, variables: dict[str, str]) -> subprocess.CompletedProcess[str] | Failure:
    """Run a command with additional environment variables."""
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=SECONDS,
            env=os.environ | variables, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Failure(f"{what} took more than {SECONDS:.0f} s", is_final=False)


def main() -> None:
    """Run the trial named on the command line, in the child process."""
    _, _, trial, path = sys.argv
    module, _, function = trial.partition(":")
    try:
        getattr(import_module(module), function)(path)
    except (AssertionError, WrongResultError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        sys.exit(REFUSED)
