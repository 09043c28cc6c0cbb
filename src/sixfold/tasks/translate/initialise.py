"""Co-occurrence initialisation: tokens that occur in each other's translations start with similar embeddings.

With random embeddings a model spends much of a short training run on finding out which words translate each other.
Counting tells that in seconds: the positive pointwise mutual information (PMI⁺) of two tokens says how much more
often they occur in a pair than by chance, and the leading eigenvectors of the PMI⁺ matrix give vectors in which a
word is close to its translation. The embedding matrix is also the output layer, so cross-attention starts by
copying what it attends to, and self-attention starts by attending to similar and nearby tokens (Trockman and
Kolter, 2023, found trained matrices close to such identities).

Shapes: C tokens counted, d_model width, K eigenvectors.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sixfold.data.shards import Corpus
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.nn.layout import AttentionWeights, layers_of

MOST_PAIRS = 200_000  # enough for counting
MOST_TOKENS = 8192  # the most frequent: the rest are too rare, and the matrix grows quadratically
DOUBT = 5.0  # joint occurrences at which the PMI counts half
ROWS = 256  # of the matrix, computed at a time: copies of the whole would be the peak of memory use
EXTRA_VECTORS, ITERATIONS = 32, 4  # of subspace iteration


@torch.no_grad()
def initialise_from_cooccurrence(members: Sequence[EncoderDecoder], corpus: Corpus) -> None:
    """Initialise the embeddings from co-occurrence in the corpus, and attention close to the identity."""
    tied = ties(corpus, min(members[0].config.vocabulary, MOST_TOKENS))
    for member in members:
        initialise_member(member, tied)


def initialise_member(model: EncoderDecoder, tied: Tensor) -> None:
    """Initialise one model; each member of an ensemble gets the same vectors in another rotation."""
    weight = model.head.weight
    vectors, is_known = word_vectors(tied, weight.size(1))
    known = is_known.nonzero()[:, 0].to(weight.device)
    weight[known] = vectors[is_known].to(weight)  # of length 1, as random ones are on average
    for layer in layers_of(model.encoder):
        look_for_the_alike(layer.self_attention)
    for layer in layers_of(model.decoder):
        look_for_the_alike(layer.self_attention)
        if layer.cross_attention is not None:
            carry_through(layer.cross_attention)


def ties(corpus: Corpus, num_tokens: int) -> Tensor:
    """Return the PMI⁺ of each two tokens (C, C), discounted where they occur together rarely."""
    num_pairs = min(len(corpus), MOST_PAIRS)
    together = np.zeros((num_tokens, num_tokens), dtype=np.float32)  # source token, target token
    in_source, in_target = (np.zeros(num_tokens, dtype=np.float32) for _ in range(2))
    for pair in np.linspace(0, len(corpus) - 1, num_pairs, dtype=np.int64).tolist():
        record = corpus.record(pair)
        source, target = np.unique(record["source"]), np.unique(record["target"])
        source, target = source[source < num_tokens], target[target < num_tokens]
        in_source[source] += 1
        in_target[target] += 1
        together[np.ix_(source, target)] += 1
    tied, of_source, of_target = map(torch.from_numpy, (together, in_source.clip(1), in_target.clip(1)))
    for counts, occurrences in zip(tied.split(ROWS), of_source.split(ROWS), strict=True):
        information = (counts * num_pairs / (occurrences[:, None] * of_target)).log().clamp_(min=0.0)
        counts.copy_(information * counts / (counts + DOUBT))
    return tied + tied.T


def word_vectors(tied: Tensor, d_model: int) -> tuple[Tensor, Tensor]:
    """Return a vector of length 1 for each token (C, d_model), and which tokens (C,) have any positive PMI.

    The vectors are the leading eigenvectors times the square roots of their eigenvalues, so that their products
    approximate the matrix; a random rotation spreads them over all of d_model.
    """
    values, eigenvectors = leading_eigenvectors(tied, min(d_model, len(tied)))
    rotation = torch.linalg.qr(torch.randn(d_model, d_model)).Q[: len(values)]
    vectors = (eigenvectors * values.sqrt()) @ rotation  # (C, d_model)
    lengths = vectors.norm(dim=1)
    return vectors / lengths.clamp(min=1e-6)[:, None], lengths > 1e-3


def leading_eigenvectors(matrix: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest positive eigenvalues (K,) of a symmetric matrix and their vectors (C, K), K ≤ count.

    Uses subspace iteration from a random start, which is accurate for the dominant ones; no more is needed here.
    """
    basis = torch.randn(len(matrix), min(len(matrix), count + EXTRA_VECTORS))
    for _ in range(ITERATIONS):
        basis = torch.linalg.qr(matrix @ basis).Q
    small = basis.T @ (matrix @ basis)
    values, inner = torch.linalg.eigh((small + small.T) / 2)
    chosen = values.argsort(descending=True)[:count]
    chosen = chosen[values[chosen] > 0]
    return values[chosen], basis @ inner[:, chosen]


def look_for_the_alike(attention: AttentionWeights) -> None:
    """Set W^Q and W^K to the identity: similar vectors, and similar positions, attend to each other."""
    nn.init.eye_(attention.query.weight)
    nn.init.eye_(attention.key.weight)


def carry_through(attention: AttentionWeights) -> None:
    """Set W^V and W^O to the identity: attention copies what it attends to."""
    nn.init.eye_(attention.value.weight)
    nn.init.eye_(attention.output.weight)
