"""Model folders of earlier versions keep loading and translating to the letter; those of later ones are refused.

format-1          the first folder ever written; it holds no digest of its configuration
format-1-phrases  a model that has learned something, so that a wrong letter shows
format-2          an ensemble of two, each with a file of weights of its own
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sixfold
from sixfold.errors import ModelFolderError
from sixfold.models.folder import FORMAT

HERE = Path(__file__).parent
FOLDERS = sorted(HERE.glob("format-*"))


def lines_of(name: str) -> list[str]:
    """Return the lines of a file beside this one."""
    return (HERE / name).read_text(encoding="utf-8").removesuffix("\n").split("\n")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_stored_model_still_translates_to_the_letter(folder: Path) -> None:
    translator = sixfold.load(folder, device="cpu")
    assert translator.translate(lines_of(f"source-{folder.name}.txt")) == lines_of(f"expected-{folder.name}.txt")


def test_there_is_a_stored_model_of_every_format() -> None:
    formats = {json.loads((folder / "sixfold.json").read_text(encoding="utf-8"))["format"] for folder in FOLDERS}
    assert formats == set(range(1, FORMAT + 1))


def test_a_stored_model_that_was_trained_makes_sense() -> None:
    assert sixfold.load(HERE / "format-1-phrases", "cpu").translate(["Please look at the dog."]) == [
        "Bitte schau den Hund an."
    ]


def test_a_folder_from_the_future_is_refused_with_the_version_it_needs(tmp_path: Path) -> None:
    shutil.copytree(HERE / "format-1", tmp_path / "model")
    path = tmp_path / "model" / "sixfold.json"
    content = {**json.loads(path.read_bytes()), "format": FORMAT + 1, "sixfold": "7.3.1", "what_is_new": {}}
    path.write_text(json.dumps(content))
    with pytest.raises(
        ModelFolderError, match=f"format {FORMAT + 1}; this version reads formats up to {FORMAT}"
    ) as no:
        sixfold.load(tmp_path / "model", "cpu")
    assert no.value.hint == "Install sixfold 7.3.1 or newer."
