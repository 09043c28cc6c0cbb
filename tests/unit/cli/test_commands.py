"""What all commands have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

import sixfold
from sixfold.cli import app
from sixfold.cli.set_option import known_settings

Command = Callable[..., tuple[int, str, str]]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
NAMES = sorted(COMMANDS)
MOST_FLAGS, MOST_OF_GENERATE = 12, 16
SETTABLE = {"check", "evaluate", "generate", "train", "plan", "translate", "score", "serve", "explain"}
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


@pytest.mark.parametrize("name", ["translate", "generate", "score", "evaluate", "plan", "check"])
def test_a_missing_argument_is_refused(command: Command, name: str) -> None:
    code, _, messages = command(name)
    assert code == 2
    assert "Missing argument" in messages


# Few flags, and --set for the rest


def flags_of(name: str) -> set[str]:
    """Return the flags of a command, each by its longest name; --help is everywhere."""
    options = [each for each in COMMANDS[name].params if each.param_type_name == "option"]
    return {max(each.opts, key=len) for each in options}


@every_command
def test_a_command_has_few_flags(name: str) -> None:
    assert len(flags_of(name)) <= (MOST_OF_GENERATE if name == "generate" else MOST_FLAGS)


@every_command
def test_a_command_takes_settings_where_it_has_some(name: str) -> None:
    assert ("--set" in flags_of(name)) == bool(known_settings(name)) == (name in SETTABLE)


@pytest.mark.parametrize("name", sorted(SETTABLE))
def test_the_help_lists_every_setting_with_its_meaning(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no meaning is folded
    lines = command(name, "--help")[1].splitlines()
    for part, keys in known_settings(name).items():
        for key, meaning in keys.items():
            assert any(f" {part}.{key} " in line and meaning in line for line in lines), key


@pytest.mark.parametrize("name", ["translate", "score", "serve"])
def test_every_setting_has_a_meaning(name: str) -> None:
    assert all(meaning for keys in known_settings(name).values() for meaning in keys.values())


@pytest.mark.parametrize(
    ("name", "flag", "setting"),
    [
        ("translate", "--length-penalty", "decode.length_penalty"),
        ("translate", "--top-k", "decode.top_k"),
        ("translate", "--max-length", "decode.max_length"),
        ("translate", "--prefix", "decode.prefix"),
        ("translate", "--alternatives", "decode.alternatives"),
        ("translate", "--seed", "decode.seed"),
        ("score", "--length-penalty", "decode.length_penalty"),
        ("serve", "--batch-tokens", "serve.batch_tokens"),
        ("serve", "--queue", "serve.most_waiting"),
        ("serve", "--deadline", "serve.deadline_seconds"),
        ("serve", "--max-characters", "serve.most_characters"),
        ("train", "--steps", "train.steps"),
    ],
)
def test_a_flag_that_is_a_setting_is_refused_with_the_way_to_say_it(
    command: Command, name: str, flag: str, setting: str
) -> None:
    for arguments in ([flag, "3"], [f"{flag}=3"]):
        code, out, messages = command(name, "model", *arguments)
        assert (code, out) == (2, "")
        assert messages == f"error: `sixfold {name}` has no flag {flag}.\nhint: Write --set {setting}=VALUE\n"


def test_a_flag_that_is_gone_is_refused_with_another_way(command: Command) -> None:
    code, _, messages = command("translate", "model", "--diverse", "1")
    assert code == 2
    assert "hint: For more diverse translations" in messages


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (("translate", "model", "--beam", "4"), "decode.beam=8"),
        (("translate", "model", "--n-best", "2"), "decode.n_best=2"),
        (("translate", "model", "--forbid", "zwei"), "decode.forbid=[drei]"),
        (("train", "a.en", "a.de", "--minutes", "1"), "train.minutes=2"),
        (("plan", "a.en", "a.de", "--minutes", "1"), "train.minutes=2"),
    ],
)
def test_a_flag_and_a_setting_that_say_the_same_are_refused(
    command: Command, arguments: tuple[str, ...], setting: str
) -> None:
    code, out, messages = command(*arguments, "--set", setting)
    assert (code, out) == (2, "")
    name = setting.partition("=")[0]
    assert messages == f"error: {arguments[-2]} and --set {name} set the same key.\nhint: Leave one of them out.\n"


@pytest.mark.parametrize(
    ("name", "setting", "hint"),
    [
        ("translate", "decode.topk=3", "Did you mean top_k?"),
        ("translate", "decod.top_k=3", "Did you mean decode?"),
        ("translate", "top_k=3", "For example --set decode.beam=…"),
        ("score", "decode.length_penality=1", "Did you mean length_penalty?"),
        ("serve", "serve.most_charaters=9", "Did you mean most_characters?"),
    ],
)
def test_an_unknown_setting_is_refused_and_the_nearest_suggested(
    command: Command, name: str, setting: str, hint: str
) -> None:
    code, out, messages = command(name, "model", *(["text"] if name == "score" else []), "--set", setting)
    assert (code, out) == (2, "")
    assert f"hint: {hint}\n" in messages


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
