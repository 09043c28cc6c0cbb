"""The validation text of a model, from its training folder."""

from __future__ import annotations

from pathlib import Path

from sixfold.data.shards import Corpus
from sixfold.errors import DataError
from sixfold.text import AnyTokenizer


def held_out_corpus(training: Path, tokenizer: AnyTokenizer) -> Corpus | None:
    """Return the corpus a model was validated on; None if the training folder is missing or another model's."""
    own = training / tokenizer.file_name
    if not own.is_file() or own.read_bytes() != tokenizer.model:
        return None
    try:
        return Corpus(training / "data" / "valid")
    except DataError:
        return None
