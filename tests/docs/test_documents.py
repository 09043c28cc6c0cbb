"""The documents are true: their commands run, their links lead somewhere, the names they mention exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer

from sixfold.cli import app
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.recipe import make_recipe, read_recipe

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
pytestmark = pytest.mark.timeout(900)  # a command after the other, most of which load torch

RUNNABLE = re.compile(r"<!-- run -->\n```sh\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run every command of docs/commands.md, in order, in one empty folder."""
    folder = tmp_path_factory.mktemp("documents")
    blocks = RUNNABLE.findall((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 7
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for block in blocks:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return folder


def test_every_command_of_the_documents_runs(folder: Path) -> None:
    assert (folder / "model" / "sixfold.json").is_file()
    num_sentences = len((folder / "phrases" / "test.en").read_text().splitlines())
    assert len((folder / "test.translated").read_text().splitlines()) == num_sentences
    assert len((folder / "scores.txt").read_text().splitlines()) == num_sentences


def test_the_python_of_the_tutorial_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    blocks = PYTHON.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, "docs/tutorial.md", "exec"), {})


def test_the_rooms_that_the_readme_draws_are_those_there_are() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rooms, others = re.search(r"```\nsrc/sixfold/(.*?)\n(recipes/.*?)```", text, re.DOTALL).groups()
    folders = {path.name for path in (ROOT / "src" / "sixfold").iterdir() if (path / "__init__.py").is_file()}
    assert set(re.findall(r"^ *(\w+)/ ", rooms, re.MULTILINE)) == folders
    assert all((ROOT / folder).is_dir() for folder in re.findall(r"^(\w+)/ ", others, re.MULTILINE))


def test_every_command_and_flag_in_the_table_of_the_readme_exists() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## What it does")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `sixfold (\w+)(.*)$", table, re.MULTILINE)
    commands = typer.main.get_group(app).commands
    assert {name for name, _ in rows} == set(commands)
    for name, row in rows:
        flags = {flag for parameter in commands[name].params for flag in parameter.opts}
        assert set(re.findall(r"(?<!\S)`?(--[\w-]+)", row)) <= flags, name


def test_every_path_that_the_contributors_are_told_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"`([a-z][\w./-]*/[\w./-]*)`", text) if "your_" not in path]
    assert len(paths) > 15
    for path in paths:
        assert any((home / path).exists() for home in (ROOT, ROOT / "src" / "sixfold")), path


def test_the_recipes_of_the_documents_are_recipes(tmp_path: Path) -> None:
    shown = re.findall(r"```yaml\n(data:.*?)```", (ROOT / "docs" / "commands.md").read_text("utf-8"), re.DOTALL)
    for recipe, content in zip((TranslateRecipe, GenerateRecipe), shown, strict=True):
        (tmp_path / "shown.yaml").write_text(content, encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a key of an earlier version
            make_recipe(recipe, read_recipe(recipe, str(tmp_path / "shown.yaml")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
