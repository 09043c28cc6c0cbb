"""Example texts for a model, from its validation text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sixfold.tasks.held_out import held_out_corpus
from sixfold.text import AnyTokenizer


def held_out_texts(training: Path, tokenizer: AnyTokenizer, most: int) -> list[str]:
    """Return texts the model was validated on, the longest of each row; none if they are gone."""
    corpus = held_out_corpus(training, tokenizer)
    if corpus is None:
        return []
    rows = np.linspace(0, len(corpus) - 1, min(most, len(corpus))).round().astype(int).tolist()
    documents = [np.split(record["tokens"], record["starts"]) for record in map(corpus.record, rows)]
    return [tokenizer.decode(max(parts, key=len).tolist()) for parts in documents]
