"""What every explain page has, whatever the task of its model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from sixfold.decode.scoring import TokenScore
from sixfold.explain.head_roles import HeadRoles
from sixfold.explain.packed_attention import AttentionMaps
from sixfold.explain.positions import PositionTable
from sixfold.models.encoder_decoder import count_parameters
from sixfold.nn import BlockConfig
from sixfold.text import AnyTokenizer

NUM_ALTERNATIVES = 8
DECIMALS = 5  # of a log-probability: as many as the page shows
LOWEST = -1000.0  # log-probability; JSON has no infinity


@dataclass(frozen=True)
class ModelFacts:
    """The model, in numbers."""

    name: str
    layers: tuple[int, ...]  # of each stack
    heads: int
    key_value_heads: int
    d_model: int
    parameters: int


@dataclass(frozen=True)
class Choice:
    """The probability of one token, and of its alternatives."""

    log_probability: float
    alternatives: tuple[tuple[str, float], ...]  # the most probable tokens and their log-probabilities


@dataclass(frozen=True)
class Page:
    """What a page shows of any model; `asdict` returns it as JSON-compatible data."""

    script: ClassVar[str]  # the module of `browser/` that shows it
    title: ClassVar[str]

    model: ModelFacts
    notes: tuple[str, ...]  # warnings, and what the page cannot show
    attention: AttentionMaps
    head_roles: HeadRoles
    positions: PositionTable


def model_facts(
    name: str, layers: tuple[int, ...], config: BlockConfig, models: Sequence[nn.Module]
) -> ModelFacts:
    """Return what a reader should know about a model."""
    return ModelFacts(
        name=name,
        layers=layers,
        heads=config.heads,
        key_value_heads=config.key_value_heads or config.heads,
        d_model=config.d_model,
        parameters=sum(map(count_parameters, models)),
    )


def choice(tokenizer: AnyTokenizer, score: TokenScore) -> Choice:
    """Return the probability of a token and of its alternatives, as text."""
    pieces = tokenizer.pieces([token for token, _ in score.alternatives])
    probable = zip(pieces, (rounded(number) for _, number in score.alternatives), strict=True)
    return Choice(rounded(score.log_probability), tuple(probable))


def rounded(number: float) -> float:
    """Return a finite log-probability, to as many digits as the page shows."""
    return round(max(number, LOWEST), DECIMALS)
