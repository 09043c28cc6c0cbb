"""docs/faults.md tells the truth about what is tested."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_list_of_faults_names_exists() -> None:
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    sources = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = set(re.findall(r"`(test_\w+)`", text))
    assert len(names) > 40
    assert not [name for name in sorted(names) if f"def {name}(" not in sources]


def test_every_row_of_the_faults_is_listed() -> None:
    text = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    rows = {int(row) for cell in re.findall(r"^\| ([\d, ]+) \|", text, re.MULTILINE) for row in cell.split(",")}
    assert rows >= {*range(1, 47), 49, *range(52, 57)}
