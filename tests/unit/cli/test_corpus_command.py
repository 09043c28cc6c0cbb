"""The command `sixfold corpus`, run as a person runs it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sixfold.cli.corpus import parse_languages
from sixfold.errors import ConfigError

SOURCE = Path(__file__).parents[3] / "src"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from sixfold.cli import main; main()", "corpus", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_without_a_name_the_corpora_are_listed(tmp_path: Path) -> None:
    done = run(folder=tmp_path)
    assert done.returncode == 0
    for name in ("phrasebook", "home-assistant", "cmudict", "dates", "wikitext-2", "enwik8", "gutenberg"):
        assert name in done.stdout
    assert not list(tmp_path.iterdir())


def test_a_corpus_is_written_described_and_followed_by_the_next_command(tmp_path: Path) -> None:
    done = run("phrasebook", "--pairs", "200", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for part in ("source", "licence  Apache-2.0", "200 pairs", "From the test split:"):
        assert part in done.stdout
    command = shlex.split(done.stdout.strip().split("\n")[-1].removeprefix("Next: "))
    assert command[:2] == ["sixfold", "train"]
    for file in command[2:4]:
        assert len((tmp_path / file).read_bytes().split(b"\n")) == 201


def test_three_examples_are_shown(tmp_path: Path) -> None:
    done = run("phrasebook", "--pairs", "60", "-o", "my folder", folder=tmp_path)
    shown = done.stdout.partition("From the test split:\n")[2].partition("\n\n")[0].split("\n")
    english = (tmp_path / "my folder" / "test.en").read_text(encoding="utf-8").split("\n")
    assert len(shown) == 6
    assert all(line.strip() in english for line in shown[::2])


def test_files_that_differ_are_kept_unless_forced(tmp_path: Path) -> None:
    assert run("phrasebook", "--pairs", "30", folder=tmp_path).returncode == 0
    refused = run("phrasebook", "--pairs", "30", "--seed", "2", folder=tmp_path)
    assert refused.returncode == 2
    assert "error: " in refused.stderr
    assert "--force" in refused.stderr
    assert run("phrasebook", "--pairs", "30", "--seed", "2", "--force", folder=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("frasebook",), "Did you mean phrasebook?"),
        (("phrasebook", "--languages", "ende"), "Try en-de."),
        (("phrasebook", "--pairs", "0"), "at least 1 pair"),
        (("home-assistant", "--languages", "en-xx"), "no language 'xx'"),
        (("enwik8", "--pairs", "5"), "--pairs is for corpora of pairs"),
        (("wikitext-2", "--seed", "1"), "--seed is for corpora of pairs"),
    ],
)
def test_a_mistake_is_explained_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    done = run(*arguments, folder=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("en-de", ("en", "de")),
        ("en-zh-Hans", ("en", "zh-Hans")),
        ("pt-BR-en", ("pt-BR", "en")),
        ("sr-Latn-pt-BR", ("sr-Latn", "pt-BR")),
    ],
)
def test_languages_may_hold_hyphens(text: str, pair: tuple[str, str]) -> None:
    assert parse_languages(text) == pair


@pytest.mark.parametrize("text", ["", "en", "-en", "en-"])
def test_languages_come_in_pairs(text: str) -> None:
    with pytest.raises(ConfigError, match="two languages"):
        parse_languages(text)
