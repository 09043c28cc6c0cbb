"""Bigram initialisation: a model begins by knowing which token follows which.

A random model spends much of a short training on finding that out, and counting tells it in seconds. With
log P(next | token) = log P(next) + PMI(token, next), the leading singular vectors of the positive PMI become the
embeddings and the head's weights: their products, after the final norm, are close to these logarithms. The layers
begin by adding nothing, so that the first loss is that of the bigrams. Tokens that stand before the same others
get similar embeddings, and those that stand behind the same others similar weights of the head; the two are not
the same matrix, so the model must not be tied.

Shapes: V vocabulary, d_model width, K singular vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from sixfold.data.shards import Corpus
from sixfold.models.decoder_only import DecoderOnly
from sixfold.nn.layer import Layer

MOST_TOKENS = 5_000_000  # enough to count; more would only take longer
DOUBT = 5.0  # bigrams of each token that are presumed to follow the next token's overall frequency
SHARPNESS = 1.4  # of the PMI: without the negative ones the rest is too flat
EXTRA_VECTORS, ITERATIONS = 32, 4  # of the search for singular vectors


@dataclass(frozen=True)
class Bigrams:
    """How often each token stands first or second in a bigram, and the bigrams that occur."""

    first: Tensor  # (V,)
    second: Tensor  # (V,)
    places: Tensor  # (2, N): the two tokens of each bigram
    counts: Tensor  # (N,)


@torch.no_grad()
def initialise_from_bigrams(model: DecoderOnly, corpus: Corpus) -> None:
    """Set embeddings and head so that the model begins as the bigrams of the corpus, and its layers at nothing."""
    embedding, head = model.stem.embedding.weight, model.head.weight
    found = count_bigrams(corpus, model.config.vocabulary)
    rows, weights = bigram_factors(found, model.config.d_model)
    spread = model.config.init_std * model.config.d_model**0.5  # the length of a random embedding
    seen = found.first > 0
    embedding[seen.to(embedding.device)] = (spread * rows[seen]).to(embedding)
    head.copy_(weights)
    for layer in model.stack.layers:
        assert isinstance(layer, Layer)
        for last in (layer.self_attention.output, layer.feed_forward.outer):
            nn.init.zeros_(last.weight)


def count_bigrams(corpus: Corpus, vocabulary: int) -> Bigrams:
    """Count which token follows which in rows at even distances."""
    mean_length = float(corpus.lengths[:, [*corpus.columns].index("tokens")].mean())
    num_rows = min(len(corpus), int(MOST_TOKENS / mean_length) + 1)
    chosen = np.linspace(0, len(corpus) - 1, num_rows, dtype=np.int64).tolist()
    rows = [corpus.record(row)["tokens"].astype(np.int64) for row in chosen]
    codes, counts = np.unique(
        np.concatenate([row[:-1] * vocabulary + row[1:] for row in rows]), return_counts=True
    )
    places = torch.from_numpy(np.stack(np.divmod(codes, vocabulary)))
    number = torch.from_numpy(counts).float()
    first, second = (torch.zeros(vocabulary).index_add_(0, side, number) for side in places)
    return Bigrams(first, second, places, number)


def bigram_factors(found: Bigrams, d_model: int) -> tuple[Tensor, Tensor]:
    """Return embeddings (V, d_model), of length one on average, and a head's weights (V, d_model).

    One direction is the same in all embeddings and carries log P(next); the others carry the positive PMI. A
    random rotation spreads both over all of d_model.
    """
    total, vocabulary = found.counts.sum(), len(found.first)
    chance = (found.second + 1) / (total + vocabulary)
    given, following = found.places
    expected = (found.first[given] + DOUBT) * chance[following]
    information = ((found.counts + DOUBT * chance[following]) / expected).log().clamp_(min=0.0)
    weight_first, weight_second = (((side + 1) / total).sqrt() for side in (found.first, found.second))
    weighted = information * weight_first[given] * weight_second[following]  # the frequent are fitted better
    u, values, v = leading_singular(sparse(found.places, weighted, vocabulary), min(d_model, vocabulary) - 1)
    u, v = u * values.sqrt() / weight_first[:, None], SHARPNESS * v * values.sqrt() / weight_second[:, None]
    constant = float((found.first * u.norm(dim=1)).sum() / total)
    rows = torch.cat([torch.full((vocabulary, 1), constant), u], dim=1)
    length = float((found.first * rows.norm(dim=1)).sum() / total)
    scale = length / d_model**0.5  # the final norm makes a row's root mean square 1
    weights = torch.cat([chance.log()[:, None] / constant, v], dim=1) * scale
    rotation = torch.linalg.qr(torch.randn(d_model, d_model)).Q[: rows.size(1)]
    return rows @ rotation / length, weights @ rotation


def sparse(places: Tensor, values: Tensor, size: int) -> Tensor:
    """Return a square matrix that is zero but at some places."""
    kept = values > 0
    return torch.sparse_coo_tensor(places[:, kept], values[kept], (size, size), check_invariants=False).coalesce()


def leading_singular(matrix: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest singular values (K,) of a matrix between their left and right vectors (V, K).

    By subspace iteration from a random start: exact for what dominates, which is all that is needed here.
    """
    forth, back = matrix, matrix.t().coalesce()
    basis = torch.randn(len(matrix), min(len(matrix), count + EXTRA_VECTORS))
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(forth @ torch.linalg.qr(back @ basis).Q).Q
    left, values, right = torch.linalg.svd((back @ basis).T, full_matrices=False)
    return (basis @ left)[:, :count], values[:count], right[:count].T
