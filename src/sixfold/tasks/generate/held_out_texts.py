"""Texts that a model was validated on, to try it with; they are there as long as its training folder is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sixfold.data.shards import Corpus
from sixfold.errors import DataError
from sixfold.text import AnyTokenizer


def held_out_texts(training: Path, tokenizer: AnyTokenizer, most: int) -> list[str]:
    """Return texts the model was validated on; none if the training folder is gone, or a next model's."""
    own = training / tokenizer.file_name
    if not own.is_file() or own.read_bytes() != tokenizer.model:
        return []
    try:
        corpus = Corpus(training / "data" / "valid")
    except DataError:
        return []
    rows = np.unique(np.linspace(0, len(corpus) - 1, min(most, len(corpus))).round().astype(int))
    records = [corpus.record(row) for row in rows.tolist()]
    documents = [np.split(record["tokens"], record["starts"]) for record in records]
    return [tokenizer.decode(max(parts, key=len).tolist()) for parts in documents]
