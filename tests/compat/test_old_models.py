"""Model folders of earlier versions keep loading and translating to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

import sixfold

HERE = Path(__file__).parent


@pytest.mark.parametrize("folder", sorted(HERE.glob("format-*")), ids=lambda path: path.name)
def test_a_stored_model_still_translates_to_the_letter(folder: Path) -> None:
    sources = (HERE / "source.txt").read_text(encoding="utf-8").splitlines()
    expected = (HERE / f"expected-{folder.name}.txt").read_text(encoding="utf-8").splitlines()
    assert sixfold.load(folder, device="cpu").translate(sources) == expected
