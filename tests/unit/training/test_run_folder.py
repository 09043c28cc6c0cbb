"""The folder of a run: what it remembers of its input, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sixfold.errors import DataError, RequestError, TrainingError
from sixfold.files import BLANK, seal
from sixfold.training.run_folder import RunFolder

CONTENT = {
    "task": "sum",
    "recipe": {"train": {"steps": 1}},
    "seed": 1,
    "facts": {"of": "Grüße"},
    "base": {},
    "continues": False,
    "files": {},
}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """The folder of a run that was set up from one file, and from what came through a pipe."""
    folder = RunFolder(tmp_path / "model")
    folder.training.mkdir(parents=True)
    (tmp_path / "grüße.en").write_text("one\ntwo\n")
    folder.write(CONTENT)
    folder.write_inputs([tmp_path / "grüße.en", Path("-")])
    return folder


# Its input files


def test_an_unchanged_input_is_accepted(folder: RunFolder) -> None:
    assert [file["bytes"] for file in folder.inputs()] == [8]
    folder.refuse_changed_input()


@pytest.mark.parametrize("text", ["one\ntwp\n", "one\ntwo\nthree\n", ""])
def test_a_changed_input_is_noticed(folder: RunFolder, text: str) -> None:
    (folder.model.parent / "grüße.en").write_text(text)
    with pytest.raises(DataError, match=r"grüße\.en has changed"):
        folder.refuse_changed_input()


def test_an_input_that_is_gone_is_not_needed_any_more(folder: RunFolder) -> None:
    (folder.model.parent / "grüße.en").unlink()
    folder.refuse_changed_input()


def test_the_same_input_may_be_named_again_by_itself_or_by_its_folder_and_no_other(folder: RunFolder) -> None:
    place = folder.model.parent
    folder.refuse_other_input(place / "grüße.en")
    folder.refuse_other_input(place)
    with pytest.raises(RequestError, match="was started with other files"):
        folder.refuse_other_input(place / "other.en")


# run.json


def test_what_was_written_comes_back(folder: RunFolder) -> None:
    assert folder.read() == CONTENT


@pytest.mark.parametrize("key", CONTENT)
def test_a_run_that_lacks_something_is_refused_although_its_digest_is_right(folder: RunFolder, key: str) -> None:
    rest = {name: value for name, value in CONTENT.items() if name != key}
    (folder.training / "run.json").write_bytes(seal(json.dumps({**rest, "sha256": BLANK}, indent=1)))
    with pytest.raises(TrainingError, match=r"run\.json is damaged"):
        folder.read()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"{}", b"\xff", b"[" * 10_000, b'{"sha256": 5}'])
def test_what_is_no_run_is_named(folder: RunFolder, content: bytes) -> None:
    (folder.training / "run.json").write_bytes(content)
    with pytest.raises(TrainingError, match=r"run\.json is damaged"):
        folder.read()


def test_a_file_that_is_not_what_was_written_or_is_gone_is_named(folder: RunFolder) -> None:
    path = folder.training / "data"
    path.write_bytes(b"whole")
    digests = folder.digests([path])
    folder.refuse_damaged(digests)
    path.write_bytes(b"other")
    with pytest.raises(TrainingError, match="data is damaged"):
        folder.refuse_damaged(digests)
    path.unlink()
    with pytest.raises(TrainingError, match="data is damaged"):
        folder.refuse_damaged(digests)
