"""Head roles: what each attention head mostly attends to, measured over a sample of sentences.

For each head and each query position, we sum the attention weights on
- `self`: the position itself;
- `previous`, `next`: the position before or after it;
- `delimiter`: BOS, EOS and punctuation, that is tokens without letters and digits;
- `aligned`: in cross-attention, the source words aligned to the target word (`decode.alignment`, from all heads).
The mean over all positions of the sample is the head's weight on each. The role is the one with the largest weight
if that is at least MIN_WEIGHT; otherwise `broad` if the attention is spread out (its entropy is at least
MIN_ENTROPY of the maximum), else `mixed`. Positions that can attend to one position only are not counted.

Two more measures help to find the heads of the paper's figures 3 to 5: `distance`, the mean attention distance in
tokens (delimiters excluded), and `max_weight`, the mean of the largest weight of each position.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from sixfold.data.corpora.phrasebook import sentences
from sixfold.decode.alignment import pairs, source_attention, word_weights, words_of
from sixfold.decode.scoring import forced_batch
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import Kind
from sixfold.tasks.translate.held_out import held_out
from sixfold.text import Tokenizer
from sixfold.text.tokenizer import SPACE_MARK
from sixfold.text.words import BYTE_PIECE

Role = Literal["self", "previous", "next", "delimiter", "aligned", "broad", "mixed"]
TARGETS: tuple[Role, ...] = ("self", "previous", "next", "delimiter", "aligned")  # what a head may attend to
MIN_WEIGHT = 1 / 3  # of a role
MIN_ENTROPY = 0.8  # of a broad head, as a fraction of the maximum
MAX_SENTENCES = 32
TINY = 1e-9
MEASURES = len(TARGETS) + 4  # weights, entropy, max_weight, sum of distances and of their weights


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
    """The role of each head of each layer."""

    num_sentences: int
    encoder: tuple[tuple[HeadRole, ...], ...]
    decoder: tuple[tuple[HeadRole, ...], ...]
    cross: tuple[tuple[HeadRole, ...], ...]


def sample_sentences(folder: Path, translator: Translator) -> list[str]:
    """Return sentences to measure on: validation sentences of the model, or English ones from the phrasebook."""
    own = held_out(folder / "training", translator.tokenizer)
    if own:
        return own[:MAX_SENTENCES]
    is_english = translator.info is not None and translator.info.languages.source == "en"
    return [english for english, _ in islice(sentences(), MAX_SENTENCES)] if is_english else []


def measure_head_roles(translator: Translator, texts: Sequence[str]) -> HeadRoles:
    """Measure the heads of the first model on up to MAX_SENTENCES texts and their greedy translations."""
    texts = [text for text in texts if text.strip()][:MAX_SENTENCES]
    found = [best for best, *_ in translator.search(texts, beam=1)]
    source_ids, _ = translator.encode(texts)
    rows = [(ids, list(each.tokens[:-1])) for ids, each in zip(source_ids, found, strict=True) if each.tokens]
    if not rows:
        raise ConfigError(
            "There is no sentence to measure the heads on.", "Give a file with at least one: --sample FILE"
        )
    return head_roles_of(translator, rows)


def head_roles_of(translator: Translator, rows: Sequence[tuple[list[int], list[int]]]) -> HeadRoles:
    """Measure the heads on pairs of token ids (without BOS and EOS)."""
    sums: dict[Kind, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}
    counts: dict[Kind, float] = dict.fromkeys(sums, 0.0)
    for source, target in rows:
        for kind, layers in measured(translator, source, target).items():
            counts[kind] += layers[0][1]
            before = sums[kind] or [torch.zeros(())] * len(layers)
            sums[kind] = [total + each for total, (each, _) in zip(before, layers, strict=True)]
    means = {kind: [total / max(counts[kind], 1.0) for total in layers] for kind, layers in sums.items()}
    return HeadRoles(len(rows), *(roles(means[kind]) for kind in ("encoder", "decoder", "cross")))


def roles(layers: Sequence[Tensor]) -> tuple[tuple[HeadRole, ...], ...]:
    """Return the roles of all heads, from the mean measures (H, MEASURES) of each layer."""
    return tuple(tuple(head_role(head.tolist()) for head in layer) for layer in layers)


def head_role(measures: Sequence[float]) -> HeadRole:
    """Return the role of a head, from its mean measures."""
    *weights, entropy, max_weight, distance_sum, weight_sum = measures
    named = {name: round(weight, 4) for name, weight in zip(TARGETS, weights, strict=True)}
    distance = distance_sum / max(weight_sum, TINY)
    return HeadRole(role_of(named, entropy), named, round(entropy, 4), round(max_weight, 4), round(distance, 2))


def role_of(weights: dict[Role, float], entropy: float) -> Role:
    """Return the role that these mean weights and this entropy make."""
    best = max(TARGETS, key=lambda name: weights[name])
    if weights[best] >= MIN_WEIGHT:
        return best
    return "broad" if entropy >= MIN_ENTROPY else "mixed"


@torch.inference_mode()
def measured(
    translator: Translator, source: list[int], target: list[int]
) -> dict[Kind, list[tuple[Tensor, float]]]:
    """Return for each layer the sums of the measures (H, MEASURES) of a pair, and the number of positions."""
    model, tokenizer = translator.model, translator.tokenizer
    source_in, target_in, _ = forced_batch(model, tokenizer.special, [source], [target])
    source_delimiters = delimiters(tokenizer, source_in[0].tolist())
    target_delimiters = delimiters(tokenizer, target_in[0].tolist())
    aligned = aligned_tokens(translator, source, target)
    sums: dict[Kind, list[tuple[Tensor, float]]] = {"encoder": [], "decoder": [], "cross": []}

    def collect(kind: Kind, weights: Tensor) -> None:
        weights = weights[0].float().cpu()
        if kind == "cross":
            sums[kind].append(measure(weights, source_delimiters, aligned=aligned))
        else:
            sums[kind].append(measure(weights, source_delimiters if kind == "encoder" else target_delimiters))

    model.hidden(source_in, target_in, collect)
    return sums


def measure(weights: Tensor, is_delimiter: Tensor, aligned: Tensor | None = None) -> tuple[Tensor, float]:
    """Return the sums of the measures (H, MEASURES) over all counted positions, and their number.

    `is_delimiter` (K,) says which keys are delimiters. `aligned` (Q, K) is for cross-attention only, which has no
    distances, because queries and keys are positions in different texts.
    """
    _, queries, keys = weights.shape
    offset = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]  # (Q, K)
    no_key = torch.zeros(queries, keys, dtype=torch.bool)
    near = [(offset == distance) & (aligned is None) for distance in (0, -1, 1)]
    targets = torch.stack([*near, is_delimiter.expand(queries, keys), no_key if aligned is None else aligned])
    num_seen = (weights > 0).any(dim=0).sum(dim=-1)  # (Q,)
    has_choice = num_seen > 1
    on_targets = torch.einsum("hqk,sqk->hqs", weights, targets.float())
    entropy = -(weights * weights.clamp(min=TINY).log()).sum(dim=-1) / num_seen.clamp(min=2).log()  # (H, Q)
    far = weights * (~is_delimiter & (aligned is None))
    distance = (far * offset.abs()).sum(dim=-1)
    columns = [on_targets, entropy[..., None], weights.amax(dim=-1)[..., None], distance[..., None]]
    measures = torch.cat([*columns, far.sum(dim=-1)[..., None]], dim=-1)  # (H, Q, MEASURES)
    return measures[:, has_choice].sum(dim=1), float(has_choice.sum())


def delimiters(tokenizer: Tokenizer, ids: Sequence[int]) -> Tensor:
    """Return which tokens (K,) are delimiters."""
    pieces = tokenizer.pieces(ids)
    return torch.tensor([is_delimiter(tokenizer, token, piece) for token, piece in zip(ids, pieces, strict=True)])


def is_delimiter(tokenizer: Tokenizer, token: int, piece: str) -> bool:
    """Whether a token is BOS, EOS or punctuation, that is without letters and digits."""
    if tokenizer.processor.is_control(token):
        return True
    text = piece.strip(SPACE_MARK)
    return bool(text) and not BYTE_PIECE.fullmatch(piece) and not any(character.isalnum() for character in text)


def aligned_tokens(translator: Translator, source: list[int], target: list[int]) -> Tensor:
    """Return which source tokens (K) the word of each target token (Q) is aligned to; EOS is aligned to none."""
    special = translator.tokenizer.special
    weights = source_attention(translator.model, special, [source], [target])
    attention = weights[0, : len(target), : len(source)].cpu()
    _, source_shares = words_of(translator.tokenizer, source)
    _, target_shares = words_of(translator.tokenizer, target)
    weights = word_weights(attention, source_shares, target_shares)
    linked = torch.zeros_like(weights)
    for target_word, source_word in pairs(weights):
        linked[target_word, source_word] = 1.0
    tokens = (target_shares > 0).float() @ linked @ (source_shares > 0).float().T > 0  # (target, source) tokens
    found = torch.zeros(len(target) + 1, len(source) + 1, dtype=torch.bool)
    found[: len(target), : len(source)] = tokens
    return found
