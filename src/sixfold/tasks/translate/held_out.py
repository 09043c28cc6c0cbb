"""Example sentences for a model, from its validation text."""

from __future__ import annotations

from pathlib import Path

from sixfold.tasks.held_out import held_out_corpus
from sixfold.text import Tokenizer

MOST = 50


def held_out(training: Path, tokenizer: Tokenizer) -> list[str]:
    """Return sentences the model was validated on; none if they are gone."""
    corpus = held_out_corpus(training, tokenizer)
    if corpus is None:
        return []
    return [tokenizer.decode(corpus.record(i)["source"].tolist()) for i in range(min(MOST, len(corpus)))]
