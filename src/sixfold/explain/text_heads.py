"""Head roles of models that continue text, measured on texts; and which heads copy by induction.

An induction head looks for an earlier occurrence of the current token and attends to the token after it, so that
the model can go on as the text went on then (Olsson et al., 2022). Ordinary text hardly shows one: most tokens are
new, and the head rests. So it is measured apart, on random tokens that are repeated: the weight on the token after
the earlier occurrence of each one. Several lengths tell such a head from one that attends at a fixed distance.

Shapes: H heads, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sixfold.decode.generate import Generator
from sixfold.errors import ConfigError
from sixfold.explain.head_roles import (
    MAX_TEXTS,
    MIN_WEIGHT,
    HeadRole,
    HeadRoles,
    Measures,
    Role,
    delimiters,
    mean_roles,
    measure,
    offsets,
)
from sixfold.nn.attention import Watch
from sixfold.tasks.generate.held_out_texts import held_out_texts

STACK = "self"
MOST_TOKENS = 128  # of a text that is measured
SERIES_LENGTHS = (13, 21, 34, 50)  # of random tokens, each read twice
SEED = 1


def sample_texts(folder: Path, generator: Generator) -> list[str]:
    """Return validation texts of the model to measure on; none if they are gone."""
    return held_out_texts(folder / "training", generator.tokenizer, MAX_TEXTS)


def measure_text_heads(generator: Generator, texts: Sequence[str]) -> HeadRoles:
    """Measure the heads on the beginnings of up to MAX_TEXTS texts."""
    texts = [text for text in texts if text.strip()][:MAX_TEXTS]
    if not texts:
        raise ConfigError("There is no text to measure the heads on.", "Give a file with some: --sample FILE")
    most = min(MOST_TOKENS, generator.engine.max_positions)
    rows = [[generator.start_token, *ids][:most] for ids in generator.tokenizer.encode_batch(texts)]
    return text_head_roles(generator, rows)


def text_head_roles(generator: Generator, rows: Sequence[Sequence[int]]) -> HeadRoles:
    """Measure the heads on texts of token ids, and on repeated random ones."""
    found = mean_roles([measured(generator, ids) for ids in rows])
    induction = induction_weights(generator)
    if induction is None:
        return found
    layers = zip(found.stacks[STACK], induction.tolist(), strict=True)
    named = tuple(tuple(map(with_induction, heads, weights)) for heads, weights in layers)
    return HeadRoles(found.num_texts, {STACK: named})


def with_induction(head: HeadRole, weight: float) -> HeadRole:
    """Add what a head does where there is something to repeat; elsewhere it rests, which is no role of its own."""
    weights = {**head.weights, "induction": round(weight, 4)}
    return replace(head, weights=weights, role="induction" if weight >= MIN_WEIGHT else head.role)


@torch.inference_mode()
def watch_attention(generator: Generator, ids: Sequence[int], watch: Watch) -> None:
    """Show each layer's attention weights (1, H, T, T) on a text."""
    generator.model.hidden(torch.tensor([ids], device=generator.model.head.weight.device), watch=watch)


def measured(generator: Generator, ids: Sequence[int]) -> dict[str, list[Measures]]:
    """Return the measures of each layer on a text."""
    found: list[Measures] = []
    is_delimiter = delimiters(generator.tokenizer, ids)
    watch_attention(
        generator, ids, lambda weights: found.append(measure_causal_attention(weights[0].cpu(), is_delimiter))
    )
    return {STACK: found}


def measure_causal_attention(weights: Tensor, is_delimiter: Tensor) -> Measures:
    """Measure attention (H, T, T) to a token and those before it, of which some (T,) are delimiters."""
    offset, is_first = offsets(weights), torch.arange(weights.size(-1)) == 0
    targets: dict[Role, Tensor] = {
        "self": offset == 0,
        "previous": offset == -1,
        "first": is_first.expand_as(offset),
        "delimiter": (is_delimiter & ~is_first).expand_as(offset),
    }
    return measure(weights, targets, ~(is_delimiter | is_first))


def induction_weights(generator: Generator) -> Tensor | None:
    """Return the weight (layers, H) on the token after the earlier occurrence; None where no series fits."""
    found = [induction_on(generator, ids) for ids in repeated_series(generator)]
    return torch.stack(found).mean(dim=0) if found else None


def induction_on(generator: Generator, ids: Sequence[int]) -> Tensor:
    """Return the mean weight (layers, H) on the token after an earlier occurrence, where there is one."""
    layers: list[Tensor] = []
    after = after_earlier_occurrence(ids)
    has_earlier = after.any(dim=-1)

    def watch(weights: Tensor) -> None:
        layers.append((weights[0].cpu() * after).sum(dim=-1)[:, has_earlier].mean(dim=-1))

    watch_attention(generator, ids, watch)
    return torch.stack(layers)


def repeated_series(generator: Generator) -> list[list[int]]:
    """Return series of different random tokens, each followed by itself, as many as the context holds."""
    known = [token for token, spelled in enumerate(generator.tokenizer.spelling()) if spelled]
    draw = np.random.default_rng(SEED)
    series = [
        draw.choice(known, length, replace=False).tolist()
        for length in SERIES_LENGTHS
        if length <= len(known) and 1 + 2 * length <= generator.engine.max_positions
    ]
    return [[generator.start_token, *tokens, *tokens] for tokens in series]


def after_earlier_occurrence(ids: Sequence[int]) -> Tensor:
    """Return which positions stand behind an earlier occurrence of the token at each position (T, T)."""
    tokens = torch.tensor(ids)
    same = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    same[:, 1:] = tokens[:, None] == tokens[None, :-1]
    return same & (torch.arange(len(ids))[None, :] <= torch.arange(len(ids))[:, None])
