"""The documents are true: their commands run, their links lead somewhere, the names they mention exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_file_and_test_that_the_paper_map_names_exists() -> None:
    text = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    sources = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    names = set(re.findall(r"`(test_\w+)`", text))
    assert names
    assert not [name for name in sorted(names) if f"def {name}(" not in sources]
    homes = (ROOT, ROOT / "src" / "sixfold", ROOT / "tests")
    for path in sorted(set(re.findall(r"`([a-z]+/[\w./-]+\.(?:py|md|yaml))`", text))):
        assert any((home / path).exists() for home in homes), f"docs/paper.md names {path}"
