"""Embed: texts in, a unit vector for each out, so that texts of like meaning have like vectors.

Models that embed come from `sixfold import`; they cannot be trained here yet.

Shapes: S texts, d = d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import overload

import numpy as np
import torch
from numpy.typing import NDArray

from sixfold.callbacks import OnProgress, no_progress
from sixfold.errors import ModelFolderError
from sixfold.tasks.understand.predictor import Predictor
from sixfold.text.encoder_row import EncoderRow
from sixfold.training.task import Opening

Vectors = NDArray[np.float32]
TEXTS_AT_ONCE = 4096  # in one call, so that progress is seen and memory bounded


class Embedder(Predictor):
    """A model that embeds, with its tokenizer."""

    task = "embed"

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return self.encoder.model.config.d_model

    @overload
    def embed(self, texts: str, on_progress: OnProgress = no_progress) -> Vectors: ...

    @overload
    def embed(self, texts: Sequence[str], on_progress: OnProgress = no_progress) -> Vectors: ...

    def embed(self, texts: str | Sequence[str], on_progress: OnProgress = no_progress) -> Vectors:
        """Return the unit vector (d,) of a text, or those (S, d) of several.

        A text has the same vector, to the bit, alone and among any others. One that is too long is cut; `read`
        tells which.
        """
        if isinstance(texts, str):
            return self.embed([texts])[0]
        vectors = np.empty((len(texts), self.width), dtype=np.float32)
        for begin in range(0, len(texts), TEXTS_AT_ONCE):
            some = texts[begin : begin + TEXTS_AT_ONCE]
            vectors[begin : begin + len(some)] = self.vectors(self.read(some))
            on_progress(begin + len(some))
        return vectors

    def read(self, texts: Sequence[str]) -> list[EncoderRow]:
        """Return the tokens of texts, and which were cut."""
        return self.encoder.rows(texts)

    def vectors(self, rows: Sequence[EncoderRow]) -> Vectors:
        """Return the unit vectors (S, d) of texts that were read."""
        with torch.inference_mode():
            return np.ascontiguousarray(self.encoder.encoder.vectors(rows).cpu().numpy())

    def num_unknown(self, row: EncoderRow) -> int:
        """Return how many words of a text the tokenizer has no pieces for."""
        return row.tokens.count(self.encoder.tokenizer.special.unk)


def open_embedder(opening: Opening) -> Embedder:
    """Open a model folder for embedding."""
    if opening.partners:
        raise ModelFolderError("A model that embeds stands alone: no ensemble averages vectors.")
    embedder = Embedder.load(Path(opening.folder), opening.device, opening.precision)
    if (head := embedder.encoder.model.config.head) != "projection":
        raise ModelFolderError(f"{opening.folder} is no model that embeds: its head is {head!r}.")
    return embedder
