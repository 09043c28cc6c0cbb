"""A small model that has learned something."""

from __future__ import annotations

from pathlib import Path

import pytest

import sixfold
from sixfold.decode.translate import Translator

PHRASES = Path(__file__).parents[2] / "compat" / "format-1-phrases"


@pytest.fixture(scope="module", autouse=True)
def quick(one_core: None) -> None:
    """Use one core: the models are tiny."""


@pytest.fixture(scope="session")
def phrases() -> Translator:
    """Open the stored model of the phrasebook."""
    return sixfold.load(PHRASES, device="cpu")


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Return sentences that the model can translate."""
    path = PHRASES.parent / "source-format-1-phrases.txt"
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
