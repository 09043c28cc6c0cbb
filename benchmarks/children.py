"""Child processes of benchmarks: Sixfold's code of one checkout, and programs that answer every line they read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]


def python(*arguments: object) -> list[str]:
    """Return the command that runs this Python; -P keeps the current folder from being imported from."""
    return [sys.executable, "-P", *map(str, arguments)]


def environment(checkout: Path = HERE) -> dict[str, str]:
    """Return the environment in which `import sixfold` means the code of a checkout, installed or not."""
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [str(checkout / "src"), str(checkout / "benchmarks"), *filter(None, inherited)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


class Child:
    """A process that answers each line with one line of JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, line: str) -> dict[str, Any]:
        """Send a line; return the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(line, file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} failed")  # it has said why
        return json.loads(answer)


@contextmanager
def started(command: Sequence[str], variables: Mapping[str, str]) -> Iterator[Child]:
    """Start a program; it ends when its input does."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
    ) as process:
        yield Child(process)
