"""What each head tends to do, measured over a sample of sentences.

For each head, and each position that looks, we add up the attention that goes to
- `self`: the position itself;
- `previous`, `next`: the position before or after it;
- `mark`: begin and end marks, and tokens of other signs than letters and digits, such as the full stop;
- `aligned`: in cross-attention, the tokens of the source words that the written word belongs to, as
  `decode.alignment` finds them from the average of all heads.
The mean over all positions of the sample is the head's share of each. Its role is the largest share if that is at
least ENOUGH; otherwise `wide` if it spreads its attention (an entropy of at least WIDE of what is possible), or
else `other`. Positions that can see only one position are left out: they have no choice.

Two more numbers help to find the heads of the paper's figures 3 to 5: `reach`, the mean distance in tokens of what
is looked at (marks left out), and `focus`, the mean of each position's largest weight.

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

Role = Literal["self", "previous", "next", "mark", "aligned", "wide", "other"]
SHARES: tuple[Role, ...] = ("self", "previous", "next", "mark", "aligned")
ENOUGH = 1 / 3  # the share of a head's attention that makes a role
WIDE = 0.8  # of the largest possible entropy
MOST_SENTENCES = 32
TINY = 1e-9
MEASURES = len(SHARES) + 4  # shares, entropy, focus, distance, and the attention that the distance counts


@dataclass(frozen=True)
class Habit:
    """What one head tends to do."""

    role: Role
    shares: dict[Role, float]  # of its attention
    entropy: float  # of what is possible: 0 is one position, 1 all alike
    focus: float  # the mean of the largest weight
    reach: float  # tokens


@dataclass(frozen=True)
class Habits:
    """What each head tends to do: layer by layer, head by head."""

    num_sentences: int
    encoder: tuple[tuple[Habit, ...], ...]
    decoder: tuple[tuple[Habit, ...], ...]
    cross: tuple[tuple[Habit, ...], ...]


def sample_sentences(folder: Path, translator: Translator) -> list[str]:
    """Return sentences to measure over: some the model was validated on, or English ones from our own grammar."""
    own = held_out(folder / "training", translator.tokenizer)
    if own:
        return own[:MOST_SENTENCES]
    is_english = translator.info is not None and translator.info.languages.source == "en"
    return [english for english, _ in islice(sentences(), MOST_SENTENCES)] if is_english else []


def find_habits(translator: Translator, texts: Sequence[str]) -> Habits:
    """Measure the heads of a translator's first model over at most MOST_SENTENCES texts and their translations."""
    texts = [text for text in texts if text.strip()][:MOST_SENTENCES]
    found = [best for best, *_ in translator.search(texts, beam=1)]
    source_ids, _ = translator.encode(texts)
    rows = [(ids, list(each.tokens[:-1])) for ids, each in zip(source_ids, found, strict=True) if each.tokens]
    if not rows:
        raise ConfigError("There is no sentence to measure the heads on.")
    return habits_of(translator, rows)


def habits_of(translator: Translator, rows: Sequence[tuple[list[int], list[int]]]) -> Habits:
    """Measure over pairs of token ids (without marks)."""
    sums: dict[Kind, list[Tensor]] = {"encoder": [], "decoder": [], "cross": []}
    counts: dict[Kind, float] = dict.fromkeys(sums, 0.0)
    for source, target in rows:
        for kind, layers in measured(translator, source, target).items():
            counts[kind] += layers[0][1]
            before = sums[kind] or [torch.zeros(())] * len(layers)
            sums[kind] = [total + each for total, (each, _) in zip(before, layers, strict=True)]
    means = {kind: [total / max(counts[kind], 1.0) for total in layers] for kind, layers in sums.items()}
    return Habits(len(rows), *(habits(means[kind]) for kind in ("encoder", "decoder", "cross")))


def habits(layers: Sequence[Tensor]) -> tuple[tuple[Habit, ...], ...]:
    """Return the habits that the mean measures (H, MEASURES) of each layer show."""
    return tuple(tuple(habit(head.tolist()) for head in layer) for layer in layers)


def habit(measures: Sequence[float]) -> Habit:
    """Return the habit that a head's mean measures show."""
    *shares, entropy, focus, distance, counted = measures
    named = {name: round(share, 4) for name, share in zip(SHARES, shares, strict=True)}
    reach = distance / max(counted, TINY)
    return Habit(role_of(named, entropy), named, round(entropy, 4), round(focus, 4), round(reach, 2))


def role_of(shares: dict[Role, float], entropy: float) -> Role:
    """Return the role of a head."""
    best = max(SHARES, key=lambda name: shares[name])
    if shares[best] >= ENOUGH:
        return best
    return "wide" if entropy >= WIDE else "other"


@torch.inference_mode()
def measured(
    translator: Translator, source: list[int], target: list[int]
) -> dict[Kind, list[tuple[Tensor, float]]]:
    """Return, for each layer, the sums of a pair's measures (H, MEASURES) and over how many positions they are."""
    model, tokenizer = translator.model, translator.tokenizer
    source_in, target_in, _ = forced_batch(model, tokenizer.special, [source], [target])
    source_marks, target_marks = marks(tokenizer, source_in[0].tolist()), marks(tokenizer, target_in[0].tolist())
    aligned = aligned_tokens(translator, source, target)
    sums: dict[Kind, list[tuple[Tensor, float]]] = {"encoder": [], "decoder": [], "cross": []}

    def watch(kind: Kind, weights: Tensor) -> None:
        weights = weights[0].float().cpu()
        if kind == "cross":
            sums[kind].append(measure(weights, source_marks, aligned=aligned))
        else:
            sums[kind].append(measure(weights, source_marks if kind == "encoder" else target_marks))

    model.hidden(source_in, target_in, watch)
    return sums


def measure(weights: Tensor, is_mark: Tensor, aligned: Tensor | None = None) -> tuple[Tensor, float]:
    """Return the sums of the measures (H, MEASURES) over positions that have a choice, and how many these are.

    `is_mark` (K,) tells which keys are marks. Self-attention has no aligned tokens (Q, K); cross-attention has no
    distances, because its positions are those of two texts.
    """
    _, queries, keys = weights.shape
    offset = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]  # (Q, K)
    near = [(offset == distance) & (aligned is None) for distance in (0, -1, 1)]
    targets = torch.stack([*near, is_mark.expand(queries, keys), near[0] & False if aligned is None else aligned])
    num_seen = (weights > 0).any(dim=0).sum(dim=-1)  # (Q,)
    has_choice = num_seen > 1
    shares = torch.einsum("hqk,sqk->hqs", weights, targets.float())
    entropy = -(weights * weights.clamp(min=TINY).log()).sum(dim=-1) / num_seen.clamp(min=2).log()  # (H, Q)
    far = weights * (~is_mark & (aligned is None))
    distance = (far * offset.abs()).sum(dim=-1)
    columns = [shares, entropy[..., None], weights.amax(dim=-1)[..., None], distance[..., None]]
    measures = torch.cat([*columns, far.sum(dim=-1)[..., None]], dim=-1)  # (H, Q, MEASURES)
    return measures[:, has_choice].sum(dim=1), float(has_choice.sum())


def marks(tokenizer: Tokenizer, ids: Sequence[int]) -> Tensor:
    """Return which tokens (K,) are marks."""
    pieces = tokenizer.pieces(ids)
    return torch.tensor([is_mark(tokenizer, token, piece) for token, piece in zip(ids, pieces, strict=True)])


def is_mark(tokenizer: Tokenizer, token: int, piece: str) -> bool:
    """Whether a token is a begin or end mark, or punctuation: signs, and none a letter or digit."""
    if tokenizer.processor.is_control(token):
        return True
    signs = piece.strip(SPACE_MARK)
    return bool(signs) and not BYTE_PIECE.fullmatch(piece) and not any(sign.isalnum() for sign in signs)


def aligned_tokens(translator: Translator, source: list[int], target: list[int]) -> Tensor:
    """Return which source tokens (K) the word of each written token (Q) belongs to; marks belong to none."""
    special = translator.tokenizer.special
    looked = source_attention(translator.model, special, [source], [target])
    attention = looked[0, : len(target), : len(source)].cpu()
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
