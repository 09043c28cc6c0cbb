"""The command line as a person uses it, in this process or in one of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sixfold.cli import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module", autouse=True)
def quick(one_core: None) -> None:
    """Use one core: the models are tiny."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs `sixfold` and returns its exit code, output and messages."""

    def run(*arguments: str | Path, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sixfold", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin.encode()))))
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[bytes]]:
    """Return a function that starts `sixfold` in a process of its own, with pipes to and from it."""

    def run(*arguments: str | Path, **variables: str) -> subprocess.Popen[bytes]:
        source = str(Path(__file__).parents[3] / "src")
        return subprocess.Popen(
            [sys.executable, "-m", "sixfold", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": source, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return run
