"""docs/paper.md is true: whatever it cites exists, in the file that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sixfold.cli import app
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.recipe import gather_overrides, make_recipe, shipped_recipes

ROOT = Path(__file__).parents[2]
HOMES = (ROOT / "src" / "sixfold", ROOT / "tests", ROOT)
LINES = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split("\n")

IS_PATH = re.compile(r"[a-z][\w/-]*(/|\.(py|c|md|yaml))")
IS_NAME = re.compile(r"[A-Za-z_]\w*(\.[a-z_]\w*)?")
IS_SETTING = re.compile(r"(data|model|train|decode)\.\w+(=\w+)?")
IS_SHIPPED = re.compile(r"(--recipe )?(paper|wmt14|multi30k)-[\w-]+")
IS_COMMAND = re.compile(r"sixfold \w+.*|pytest -k NAME")


def citations() -> list[tuple[str, Path | None]]:
    """Return everything cited with the file that the same cell of a table, or the same line, names before it."""
    return [cited for line in LINES for cell in line.split("|") for cited in citations_of(cell)]


def citations_of(cell: str) -> Iterator[tuple[str, Path | None]]:
    """Yield what a cell cites."""
    file: Path | None = None
    for cited in re.findall(r"`([^`]+)`", cell):
        if IS_PATH.fullmatch(cited):
            file = place_of(cited)
        yield cited, file


def place_of(path: str) -> Path | None:
    """Return where a cited file or folder is, if it is anywhere."""
    return next((home / path for home in HOMES if (home / path).exists()), None)


def settings_in(cited: str) -> list[str]:
    """Return the settings of `--set part.key=value --set …`."""
    return re.findall(r"--set (\S+)", cited)


def is_plain_name(cited: str) -> bool:
    """Return whether this is the name of something in the code."""
    return bool(IS_NAME.fullmatch(cited)) and not IS_SETTING.fullmatch(cited) and not cited.startswith("test_")


def defines(file: Path, name: str) -> bool:
    """Return whether a file defines a name: a function, a class, or something that is assigned."""
    pattern = rf"^\s*(async )?(def|class) {name}\b|^\s*(self\.)?{name}(: [^=\n]+)? = |^\s*{name}: "
    return bool(re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE))


def files_below(folder: str) -> list[Path]:
    """Return all Python files of a folder of the repository."""
    return sorted((ROOT / folder).rglob("*.py"))


CITATIONS = citations()


def test_everything_cited_is_of_a_kind_that_is_checked() -> None:
    kinds = (IS_PATH, IS_NAME, IS_SETTING, IS_SHIPPED, IS_COMMAND)
    odd = [c for c, _ in CITATIONS if not settings_in(c) and not any(kind.fullmatch(c) for kind in kinds)]
    assert len(CITATIONS) > 150
    assert not odd


def test_every_path_that_it_cites_exists() -> None:
    assert not [cited for cited, _ in CITATIONS if IS_PATH.fullmatch(cited) and place_of(cited) is None]


def test_every_test_that_it_cites_is_in_the_file_named_before_it_or_in_some_file() -> None:
    for cited, file in CITATIONS:
        if cited.startswith("test_"):
            assert any(defines(each, cited) for each in ([file] if file else files_below("tests"))), cited


def test_every_name_that_it_cites_is_in_the_file_named_before_it_or_in_some_file() -> None:
    for cited, file in CITATIONS:
        if is_plain_name(cited):
            files = [file] if file and file.suffix == ".py" else files_below("src")
            parts = cited.split(".")
            assert any(all(defines(each, part) for part in parts) for each in files), cited


@pytest.mark.parametrize("cited", sorted({cited for cited, _ in CITATIONS if settings_in(cited)}))
def test_every_row_of_its_tables_is_a_run_that_can_be_asked_for(cited: str) -> None:
    settings = [setting.replace("=W", "=3") for setting in settings_in(cited)]
    make_recipe(TranslateRecipe, gather_overrides(TranslateRecipe, "paper-base", settings, minutes=0))


def test_every_setting_that_it_cites_exists() -> None:
    known = {part: {*keys, *GenerateRecipe.known()[part]} for part, keys in TranslateRecipe.known().items()}
    for cited, _ in CITATIONS:
        if IS_SETTING.fullmatch(cited):
            part, key = cited.partition("=")[0].split(".")
            assert key in known[part], cited


def test_every_recipe_and_command_that_it_cites_exists() -> None:
    commands = {(command.name or getattr(command.callback, "__name__", "")) for command in app.registered_commands}
    for cited, _ in CITATIONS:
        if IS_SHIPPED.fullmatch(cited):
            assert cited.removeprefix("--recipe ") in shipped_recipes()
        if cited.startswith("sixfold "):
            assert cited.split()[1] in commands
