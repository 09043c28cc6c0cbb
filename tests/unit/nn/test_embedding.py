"""The one matrix of both embeddings and the projection to the vocabulary."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from sixfold.nn import Embedding, TokenHead
from sixfold.nn.embedding import lookups_apart

pytestmark = pytest.mark.usefixtures("seed")


def test_a_vector_is_the_row_of_its_token_multiplied_by_root_d_model() -> None:
    embedding = Embedding(vocabulary=9, d_model=6)
    vectors = embedding(torch.tensor([[3, 8, 3]]))
    expected = torch.stack([embedding.weight[token] * math.sqrt(6) for token in (3, 8, 3)])
    torch.testing.assert_close(vectors[0], expected)


def test_without_the_scale_a_vector_is_the_row_of_its_token() -> None:
    embedding = Embedding(vocabulary=9, d_model=6, is_scaled=False)
    assert torch.equal(embedding(torch.tensor([3, 8])), embedding.weight[[3, 8]])


def test_a_logit_is_the_product_with_the_row_of_its_token_without_the_scale() -> None:
    embedding = Embedding(vocabulary=9, d_model=6)
    hidden = torch.randn(2, 5, 6)
    logits = TokenHead(embedding)(hidden)
    for token in range(9):
        torch.testing.assert_close(logits[..., token], (hidden * embedding.weight[token]).sum(-1))


def test_both_directions_share_one_parameter() -> None:
    embedding = Embedding(vocabulary=9, d_model=6)
    head = TokenHead(embedding)
    assert head.weight is embedding.weight
    both = torch.nn.ModuleList([embedding, head])
    assert [parameter.shape for parameter in both.parameters()] == [(9, 6)]


def test_a_fresh_matrix_has_a_spread_of_one_over_root_d_model() -> None:
    weight = Embedding(vocabulary=2000, d_model=64).weight
    assert weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert weight.mean().item() == pytest.approx(0, abs=0.003)


def test_fresh_vectors_and_fresh_logits_have_variance_one() -> None:
    embedding = Embedding(vocabulary=2000, d_model=64)
    hidden = torch.nn.functional.layer_norm(torch.randn(500, 64), (64,))
    assert embedding(torch.arange(2000)).var().item() == pytest.approx(1, rel=0.05)
    assert TokenHead(embedding)(hidden).var().item() == pytest.approx(1, rel=0.05)


def test_lookups_apart_have_the_gradient_of_the_matrix_in_their_rows() -> None:
    embedding, tokens = Embedding(vocabulary=9, d_model=6), torch.tensor([[3, 8, 3], [0, 3, 1]])
    weights = torch.randn(2, 3, 6)
    (embedding(tokens) * weights).sum().backward()
    with lookups_apart() as lookups:
        loss = (embedding(tokens) * weights).sum()
    (lookup,) = lookups
    (of_rows,) = torch.autograd.grad(loss, [lookup.rows])
    rebuilt = torch.zeros(9, 6).index_add_(0, lookup.tokens.flatten(), of_rows.flatten(0, 1))
    assert lookup.weight is embedding.weight
    torch.testing.assert_close(rebuilt, embedding.weight.grad)


def test_lookups_are_apart_only_inside_and_only_in_that_thread() -> None:
    embedding, tokens = Embedding(vocabulary=9, d_model=6), torch.tensor([[3]])
    with ThreadPoolExecutor(1) as other, lookups_apart() as lookups:
        assert other.submit(embedding, tokens).result().grad_fn.next_functions[0][0].name() == "EmbeddingBackward0"
        assert not lookups
    with pytest.raises(ValueError, match="inside"), lookups_apart():
        raise ValueError("inside")
    embedding(tokens).sum().backward()
    assert embedding.weight.grad is not None
