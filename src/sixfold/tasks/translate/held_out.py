"""Example sentences for a model, from the validation text in its training folder."""

from __future__ import annotations

from pathlib import Path

from sixfold.data.shards import Corpus
from sixfold.errors import DataError
from sixfold.text import Tokenizer

MOST = 50


def held_out(training: Path, tokenizer: Tokenizer) -> list[str]:
    """Return sentences the model was validated on; none if the training folder is missing or another model's."""
    own = training / "tokenizer.model"
    if not own.is_file() or own.read_bytes() != tokenizer.model:
        return []
    try:
        corpus = Corpus(training / "data" / "valid")
    except DataError:
        return []
    return [tokenizer.decode(corpus.record(i)["source"].tolist()) for i in range(min(MOST, len(corpus)))]
