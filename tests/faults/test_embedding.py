"""The company of a text changes nothing about its vector (FAULTS 50)."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sixfold.data.corpora.phrasebook import sentences
from sixfold.decode.matrices import Precision
from sixfold.decode.torch_encoder import TorchEncoder
from sixfold.tasks.embed import open_embedder
from sixfold.training.task import Opening

pytest.importorskip("tokenizers")

from tests.unit.tasks.embedders import save_embedder, word_pieces


@pytest.mark.parametrize("engine", ["as it opens", "torch"])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_thousand_texts_have_the_same_vectors_alone_and_in_any_batch(
    tmp_path: Path, precision: Precision, engine: str, seed: int
) -> None:
    embedder = open_embedder(Opening(save_embedder(tmp_path / "m", word_pieces()), precision=precision))
    if engine == "torch":
        embedder.encoder.encoder = TorchEncoder(embedder.encoder.model, precision)
    draw = random.Random(seed)
    texts = [" ".join([english] * draw.choice([1, 1, 1, 2, 4])) for english, _ in islice(sentences(), 1000)]
    together, order = embedder.embed(texts), [*range(1000)]
    draw.shuffle(order)
    assert np.array_equal(embedder.embed([texts[i] for i in order]), together[order])
    begin = 0
    while begin < 1000:
        end = begin + draw.choice([1, 1, 2, 3, 17])
        assert np.array_equal(embedder.embed(texts[begin:end]), together[begin:end])
        begin = end
