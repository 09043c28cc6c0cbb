"""Head roles: what each attention head mostly attends to, measured over a sample of texts.

For each head and each query position, we sum the attention weights on
- `self`: the position itself;
- `previous`, `next`: the position before or after it;
- `first`: the first position, in models that continue text, where many heads rest that have nothing to do;
- `delimiter`: special tokens and punctuation, that is tokens without letters and digits (where the first position
  is a role of its own: all others);
- `aligned`: in cross-attention, the source words aligned to the target word (`decode.alignment`, from all heads).
The mean over all positions of the sample is the head's weight on each. The role is the one with the largest weight
if that is at least MIN_WEIGHT; otherwise `broad` if the attention is spread out (its entropy is at least
MIN_ENTROPY of the maximum), else `mixed`. Positions that can attend to one position only are not counted.

Two more measures help to find the heads of the paper's figures 3 to 5: `distance`, the mean attention distance in
tokens (delimiters excluded), and `max_weight`, the mean of the largest weight of each position.

One role is not measured on the sample: `induction`, by `text_heads.py`.

Shapes: H heads, Q queries, K keys, M measures.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import torch
from torch import Tensor

from sixfold.text import AnyTokenizer

Role = Literal["self", "previous", "next", "first", "delimiter", "aligned", "induction", "broad", "mixed"]
LayerRoles = tuple["HeadRole", ...]
MIN_WEIGHT = 1 / 3  # of a role
MIN_ENTROPY = 0.8  # of a broad head, as a fraction of the maximum
MAX_TEXTS = 32  # of a sample
TINY = 1e-9


@dataclass(frozen=True)
class HeadRole:
    """The role of one head and the measures behind it."""

    role: Role
    weights: dict[Role, float]  # mean attention weight on each target
    entropy: float  # as a fraction of the maximum: 0 is one position, 1 is uniform
    max_weight: float  # mean of the largest weight of each position
    distance: float  # mean attention distance, in tokens


@dataclass(frozen=True)
class HeadRoles:
    """The role of each head of each layer of each stack."""

    num_texts: int
    stacks: Mapping[str, tuple[LayerRoles, ...]]


@dataclass(frozen=True)
class Measures:
    """What the heads of a layer attend to, summed over the counted positions."""

    targets: tuple[Role, ...]
    sums: Tensor  # (H, M): weights on the targets, entropy, largest weight, distances, the weights of these
    count: float

    def __add__(self, other: Measures) -> Measures:
        return Measures(self.targets, self.sums + other.sums, self.count + other.count)

    def roles(self) -> LayerRoles:
        """Return the role of each head."""
        means = self.sums / max(self.count, 1.0)
        return tuple(head_role(self.targets, head.tolist()) for head in means)


def mean_roles(texts: Sequence[Mapping[str, Sequence[Measures]]]) -> HeadRoles:
    """Return the roles of the heads whose layers were measured on each of some texts."""
    layers = {stack: zip(*(each[stack] for each in texts), strict=True) for stack in texts[0]}
    means = {stack: tuple(reduce(operator.add, each).roles() for each in found) for stack, found in layers.items()}
    return HeadRoles(len(texts), means)


def head_role(targets: Sequence[Role], measures: Sequence[float]) -> HeadRole:
    """Return the role of a head, from its mean measures."""
    *weights, entropy, max_weight, distance_sum, weight_sum = measures
    named = {name: round(weight, 4) for name, weight in zip(targets, weights, strict=True)}
    distance = distance_sum / max(weight_sum, TINY)
    return HeadRole(role_of(named, entropy), named, round(entropy, 4), round(max_weight, 4), round(distance, 2))


def role_of(weights: Mapping[Role, float], entropy: float) -> Role:
    """Return the role that these mean weights and this entropy make."""
    best = max(weights, key=lambda name: weights[name])
    if weights[best] >= MIN_WEIGHT:
        return best
    return "broad" if entropy >= MIN_ENTROPY else "mixed"


def measure_self_attention(weights: Tensor, is_delimiter: Tensor) -> Measures:
    """Measure attention (H, T, T) between the tokens of one text, of which some (T,) are delimiters."""
    offset = offsets(weights)
    targets: dict[Role, Tensor] = {"self": offset == 0, "previous": offset == -1, "next": offset == 1}
    return measure(weights, {**targets, "delimiter": is_delimiter.expand_as(offset)}, ~is_delimiter)


def measure(weights: Tensor, targets: Mapping[Role, Tensor], is_far: Tensor) -> Measures:
    """Sum the attention weights (H, Q, K) on each target (Q, K), and the distances to keys that are `is_far`."""
    num_seen = (weights > 0).any(dim=0).sum(dim=-1)  # (Q,)
    has_choice = num_seen > 1
    on_targets = torch.einsum("hqk,sqk->hqs", weights, torch.stack([*targets.values()]).float())
    entropy = -(weights * weights.clamp(min=TINY).log()).sum(dim=-1) / num_seen.clamp(min=2).log()  # (H, Q)
    far = weights * is_far
    distance = (far * offsets(weights).abs()).sum(dim=-1)
    columns = [on_targets, entropy[..., None], weights.amax(dim=-1)[..., None], distance[..., None]]
    measures = torch.cat([*columns, far.sum(dim=-1)[..., None]], dim=-1)  # (H, Q, M)
    return Measures(tuple(targets), measures[:, has_choice].sum(dim=1), float(has_choice.sum()))


def offsets(weights: Tensor) -> Tensor:
    """Return how far each key stands behind each query (Q, K)."""
    _, queries, keys = weights.shape
    return torch.arange(keys)[None, :] - torch.arange(queries)[:, None]


def delimiters(tokenizer: AnyTokenizer, ids: Sequence[int]) -> Tensor:
    """Return which tokens (K,) are delimiters."""
    spelling = tokenizer.spelling()
    return torch.tensor([is_delimiter(spelling[token]) for token in ids])


def is_delimiter(spelled: bytes) -> bool:
    """Whether a token that writes these bytes is special, or punctuation: without letters and digits."""
    if not spelled:
        return True
    text = spelled.decode(errors="replace").strip(" ")
    return bool(text) and "\ufffd" not in text and not any(character.isalnum() for character in text)
