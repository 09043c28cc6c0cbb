"""A small trained model."""

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
    """Return the stored phrasebook model."""
    return sixfold.load(PHRASES, device="cpu")


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """Return sentences that the model can translate."""
    path = PHRASES.parent / "source-format-1-phrases.txt"
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
