"""The phrasebook: English sentences and their German translations, made by our own grammar.

`words/` holds the words, one in a line, which `lexicon` reads; `grammar` writes a clause in both languages;
`phrases` and `clauses` choose what to say, and `author` makes sentences of it. One English sentence has exactly
one German translation, the supply does not end, and a seed decides everything. `you` is always one friend: du.
"""

from __future__ import annotations

from collections.abc import Iterator

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import PairsBySplit, TextPair, fill, sizes
from sixfold.data.corpora.phrasebook.author import Author

__all__ = ["Author", "load", "sentences"]

NUM_PAIRS = 60_000
MIN_WORDS, MAX_WORDS = 3, 14


def load(num_pairs: int | None = None, seed: int = 1, on_progress: OnProgress = no_progress) -> PairsBySplit:
    """Return train, val and test pairs; a sentence is held out by its own text, whatever the sizes."""
    return PairsBySplit(
        fill(sentences(seed), sizes(num_pairs or NUM_PAIRS), on_progress),
        ("Made by the grammar in this package: one English sentence has one German translation (you = du).",),
    )


def sentences(seed: int = 1) -> Iterator[TextPair]:
    """Yield pairs without end; some come more than once."""
    author = Author(seed)
    while True:
        english, german = author.sentence()
        if MIN_WORDS <= english.count(" ") + 1 <= MAX_WORDS:
            yield english, german
