"""The arguments of `train`, in the order of today and of version 0.1."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.tasks.arguments import Arguments, read_by_former_name, read_by_place


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two text files, a folder of texts and a folder for a model in the folder one is in."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de", "a.tsv"):
        Path(name).write_text("one\n")
    Path("de").mkdir()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("a.tsv", "m"), (["a.tsv"], "m", None)),
        ((["a.en", "a.de"], "m"), (["a.en", "a.de"], "m", None)),
        ((["a.en", "a.de"], "m", "translate"), (["a.en", "a.de"], "m", "translate")),
        (("a.tsv", "m", "translate"), (["a.tsv"], "m", "translate")),
        (("a.tsv", None, "translate"), (["a.tsv"], "model", "translate")),
        ((Path("a.tsv"), Path("m")), ([Path("a.tsv")], "m", None)),
        ((None, "m"), ([], "m", None)),
        ((None, None, "m"), ([], "m", None)),
        ((["a.tsv"],), (["a.tsv"], "model", None)),
    ],
)
def test_inputs_output_and_task_are_what_they_say(given: tuple[object, ...], expected: tuple[object, ...]) -> None:
    inputs, output, task = (*given, None, None)[:3]
    found = read_by_place(inputs, output, task)  # type: ignore[arg-type]
    assert (found.inputs, str(found.output), found.task) == expected


@pytest.mark.parametrize(
    ("given", "output"),
    [
        (("a.en", "a.de", "m"), "m"),
        (("a.en", "a.de", None), "model"),  # a model cannot be written over a file
        (("a.en", "de", Path("translated")), "translated"),
        (("a.en", "missing", "m"), "m"),  # and it is the target that is missing
    ],
)
def test_a_source_a_target_and_a_model_still_mean_a_pair(given: tuple[str, str, str | None], output: str) -> None:
    assert read_by_place(*given) == Arguments(list(given[:2]), Path(output), None)


def test_a_misspelled_task_is_a_task() -> None:
    assert read_by_place("a.tsv", "m", "translte").task == "translte"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ((None, None, None), ("a.en", "a.de", "m")),
        (("a.en", None, None), (None, "a.de", "m")),
        (("a.en", "a.de", None), (None, None, "m")),
    ],
)
def test_the_names_of_version_0_1_still_mean_what_they_did(
    given: tuple[str | None, str | None, None], names: tuple[str | None, str | None, str]
) -> None:
    assert read_by_former_name(given, *names) == Arguments(["a.en", "a.de"], Path("m"), None)


def test_a_model_alone_can_be_named_to_resume_it() -> None:
    assert read_by_former_name((None, None, None), None, None, "m") == Arguments([], Path("m"), None)


def test_what_is_given_by_place_and_by_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="given twice"):
        read_by_former_name(("a.en", None, None), "b.en", None, None)
