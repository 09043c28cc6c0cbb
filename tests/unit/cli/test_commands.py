"""What all commands have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

import sixfold
from sixfold.cli import app

Command = Callable[..., tuple[int, str, str]]
NAMES = sorted(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
every_command = pytest.mark.parametrize("name", NAMES)


@every_command
def test_the_help_has_an_example(command: Command, name: str) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert "Example" in out
    assert f"sixfold {name}" in out


@every_command
def test_an_unknown_option_is_refused(command: Command, name: str) -> None:
    code, out, messages = command(name, "--no-such-option")
    assert (code, out) == (2, "")
    assert "--no-such-option" in messages
    assert "Traceback" not in messages


@pytest.mark.parametrize("name", ["translate", "score", "evaluate", "plan", "check"])
def test_a_missing_argument_is_refused(command: Command, name: str) -> None:
    code, _, messages = command(name)
    assert code == 2
    assert "Missing argument" in messages


def test_an_unknown_command_is_refused(command: Command) -> None:
    code, _, messages = command("trian")
    assert code == 2
    assert "trian" in messages


def test_the_version_is_printed(command: Command) -> None:
    assert command("--version")[:2] == (0, f"sixfold {sixfold.__version__}\n")


def test_debug_shows_the_traceback_of_an_error(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIXFOLD_DEBUG", "")  # so that it is put back afterwards
    code, _, messages = command("--debug", "translate", "no/such/model")
    assert code == 2
    assert "Traceback" in messages
    assert "error: There is no model folder" in messages
