"""Heads: from hidden vectors to outputs.

Shapes: B batch, T positions, L labels. `present` (B, T) is True at tokens and False at padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.nn.config import BlockConfig
from sixfold.nn.dropout import Dropout
from sixfold.nn.embedding import Embedding
from sixfold.nn.feed_forward import ACTIVATIONS
from sixfold.nn.norms import make_norm

Pooling = Literal["first", "mean"]
PoolerActivation = Literal["none", "tanh", "relu"]
POOLER_ACTIVATIONS: dict[PoolerActivation, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}


class TokenHead(nn.Module):
    """Hidden vectors to logits of a token, with the embedding's matrix (section 3.4) or its own.

    A masked language model transforms the vectors first and adds a bias to the logits.
    """

    def __init__(
        self,
        embedding: Embedding,
        is_tied: bool = True,
        transform: nn.Module | None = None,
        has_bias: bool = False,
    ) -> None:
        super().__init__()
        self.weight = embedding.weight if is_tied else nn.Parameter(torch.empty_like(embedding.weight))
        if not is_tied:
            nn.init.normal_(self.weight, std=self.weight.size(1) ** -0.5)
        self.transform = transform or nn.Identity()
        self.bias = nn.Parameter(torch.zeros(self.weight.size(0))) if has_bias else None

    def forward(self, hidden: Tensor, present: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return the unnormalised log-probabilities (…, vocabulary) of hidden (…, d_model)."""
        return F.linear(self.transform(hidden), self.weight, self.bias)


class TokenTransform(nn.Module):
    """What stands before a masked language model's logits: a dense layer, the activation and a norm (BERT)."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.d_model, config.d_model)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = make_norm(config)

    def forward(self, hidden: Tensor) -> Tensor:
        """Transform each vector (…, d_model) on its own."""
        return self.norm(self.activation(self.dense(hidden)))


class Pooler(nn.Module):
    """The vector of a text, through a dense layer if there is one: BERT's has tanh, DistilBERT's relu."""

    def __init__(self, d_model: int, pooling: Pooling, activation: PoolerActivation) -> None:
        super().__init__()
        self.pooling: Pooling = pooling
        self.dense = None if activation == "none" else nn.Linear(d_model, d_model)
        self.activation = POOLER_ACTIVATIONS.get(activation, torch.tanh)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Return the vectors (B, d_model) of texts (B, T, d_model)."""
        vectors = text_vectors(hidden, present, self.pooling)
        return vectors if self.dense is None else self.activation(self.dense(vectors))


def text_vectors(hidden: Tensor, present: Tensor, pooling: Pooling) -> Tensor:
    """Return one vector (B, d_model) for each text: that of its first token, or the mean of all but padding."""
    if pooling == "first":
        return hidden[:, 0]
    total = hidden.masked_fill(~present[:, :, None], 0.0).sum(dim=1)
    return total / present.sum(dim=1, keepdim=True).clamp_min(1)


class ClassHead(nn.Module):
    """A text to logits of its label; a number is a single one."""

    def __init__(self, pooler: Pooler, d_model: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.pooler = pooler
        self.dropout = Dropout(dropout)
        self.classifier = nn.Linear(d_model, labels)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Return the logits (B, L)."""
        return self.classifier(self.dropout(self.pooler(hidden, present)))


class TagHead(nn.Module):
    """Each token to logits of its label."""

    def __init__(self, d_model: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.classifier = nn.Linear(d_model, labels)

    def forward(self, hidden: Tensor, present: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return the logits (B, T, L)."""
        return self.classifier(self.dropout(hidden))


class SpanHead(nn.Module):
    """A question and its context to logits of where the answer starts and where it ends."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.bounds = nn.Linear(d_model, 2)

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Return the logits (B, T, 2) of start and end, -∞ at padding, where no answer is."""
        return self.bounds(hidden).masked_fill(~present[:, :, None], float("-inf"))


class ProjectionHead(nn.Module):
    """A text to a vector of length one: the cosine of two texts is the product of their vectors."""

    def __init__(self, pooling: Pooling) -> None:
        super().__init__()
        self.pooling: Pooling = pooling

    def forward(self, hidden: Tensor, present: Tensor) -> Tensor:
        """Return the vectors (B, d_model)."""
        return F.normalize(text_vectors(hidden, present, self.pooling), dim=-1)


class VectorHead(nn.Module):
    """No head: the vector of each token as the last layer leaves it."""

    def forward(self, hidden: Tensor, present: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return the vectors (B, T, d_model)."""
        return hidden
