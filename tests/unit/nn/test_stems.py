"""The stem of tokens: embedding, position and dropout."""

from __future__ import annotations

import math

import pytest
import torch

from sixfold.nn import Dropout, Embedding, LearnedPositions, SinusoidalPositions, TokenStem, sinusoids

pytestmark = pytest.mark.usefixtures("seed")

TOKENS = torch.tensor([[3, 8, 3, 1], [5, 2, 0, 0]])


def test_a_vector_is_the_scaled_embedding_of_its_token_plus_its_position() -> None:
    embedding = Embedding(vocabulary=9, d_model=6)
    stem = TokenStem(embedding, SinusoidalPositions(6), dropout=0.0)
    torch.testing.assert_close(stem(TOKENS), embedding.weight[TOKENS] * math.sqrt(6) + sinusoids(4, 6))


def test_tokens_that_stand_later_have_the_positions_there() -> None:
    stem = TokenStem(Embedding(vocabulary=9, d_model=6), LearnedPositions(6, max_positions=10), dropout=0.0)
    assert torch.equal(stem(TOKENS[:, 2:], start=2), stem(TOKENS)[:, 2:])


def test_dropout_falls_on_the_sum_of_embedding_and_position() -> None:
    embedding = Embedding(vocabulary=9, d_model=6)
    stem = TokenStem(embedding, SinusoidalPositions(6), dropout=0.5)
    torch.manual_seed(1)
    vectors = stem(TOKENS)
    torch.manual_seed(1)
    torch.testing.assert_close(vectors, Dropout(0.5)(embedding(TOKENS) + sinusoids(4, 6)))
    assert torch.equal(stem.eval()(TOKENS), stem(TOKENS))
