"""How a training went, from its journal: loss, learning rate, BLEU and a sample translation over time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sixfold.errors import ModelFolderError

MOST_POINTS = 600  # of a curve; more cannot be told apart
MOST_VALIDATIONS = 300


class StepRecord(BaseModel):
    """A step, as the journal has it."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Literal["step"]
    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    targets: int
    epoch: int
    seconds: float


class SampleRecord(BaseModel):
    """A held-out example, as the metrics log has it."""

    model_config = ConfigDict(frozen=True)

    given: str
    answer: str
    expected: str


class ValidationRecord(BaseModel):
    """A validation, as the journal has it."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Literal["validation"]
    step: int
    loss: float
    score_name: str
    score: float
    is_best: bool
    weights: str
    sample: SampleRecord


Record = StepRecord | ValidationRecord


@dataclass(frozen=True)
class Point:
    """A few steps in a row."""

    step: int  # the last of them
    loss: float  # their mean
    learning_rate: float  # at the last
    grad_norm: float  # their mean
    tokens_per_second: float


@dataclass(frozen=True)
class Validation:
    """What was measured on held-out sentences, and one of these."""

    step: int
    loss: float
    score_name: str  # such as BLEU
    score: float
    is_best: bool
    weights: str  # which ones: single or averaged
    given: str
    answer: str
    expected: str


@dataclass(frozen=True)
class Training:
    """A whole run, in few enough numbers for a page."""

    name: str
    source_language: str
    target_language: str
    num_steps: int
    epoch: int  # from 1; 0 before the first step
    seconds: float
    points: tuple[Point, ...]
    validations: tuple[Validation, ...]


def journal_of(folder: Path) -> Path:
    """Return where the journal of a model's training is."""
    return folder / "training" / "log.jsonl"


def read_training(folder: Path) -> Training:
    """Read the journal of the run in a model folder."""
    path = journal_of(folder)
    if not path.is_file():
        raise ModelFolderError(
            f"{folder} has no journal of its training (training/log.jsonl).",
            "The folder training/ is there while a model trains, and after it until it is deleted.",
        )
    journal = list(records(path))
    if not journal and b"\n" in path.read_bytes()[:10_000]:
        raise ModelFolderError(f"{path} is damaged: it has lines, but none of them is a step or a validation.")
    return training_of(folder, journal)


def records(path: Path) -> Iterator[Record]:
    """Yield the steps and validations of a journal; its last line may still be half written."""
    with path.open("rb") as file:
        for line in file:
            kind = ValidationRecord if b'"validation"' in line[:40] else StepRecord
            try:
                yield kind.model_validate_json(line)
            except ValidationError:  # a step left out, or the last line of a process that was killed
                continue


def training_of(folder: Path, journal: Sequence[Record]) -> Training:
    """Return the run that a journal tells of."""
    steps = [record for record in journal if isinstance(record, StepRecord)]
    validations = [record for record in journal if isinstance(record, ValidationRecord)]
    last = steps[-1] if steps else None
    return Training(
        folder.resolve().name,
        *languages(folder / "training" / "run.json"),
        num_steps=last.step if last else 0,
        epoch=last.epoch + 1 if last else 0,
        seconds=last.seconds if last else 0.0,
        points=curve(steps),
        validations=tuple(map(as_validation, thinned(validations))),
    )


def languages(path: Path) -> tuple[str, str]:
    """Return the languages that a run was set up with, if it says so."""
    try:
        source, target = json.loads(path.read_bytes())["facts"]["languages"]
    except (OSError, ValueError, LookupError, TypeError):
        return "", ""
    return str(source), str(target)


def curve(steps: Sequence[StepRecord]) -> tuple[Point, ...]:
    """Return at most MOST_POINTS points, each of equally many steps (the last of what is left)."""
    size = -(-len(steps) // MOST_POINTS)
    return tuple(point(steps, begin, begin + size) for begin in range(0, len(steps), max(1, size)))


def point(steps: Sequence[StepRecord], begin: int, end: int) -> Point:
    """Return the point of a few steps; their time is counted from the step before them."""
    chosen = steps[begin:end]
    seconds = chosen[-1].seconds - (steps[begin - 1].seconds if begin else 0.0)
    return Point(
        step=chosen[-1].step,
        loss=round(fmean(step.loss for step in chosen), 4),
        learning_rate=chosen[-1].learning_rate,
        grad_norm=round(fmean(step.grad_norm for step in chosen), 4),
        tokens_per_second=round(sum(step.targets for step in chosen) / max(seconds, 1e-3), 1),
    )


def thinned(validations: Sequence[ValidationRecord]) -> list[ValidationRecord]:
    """Return at most MOST_VALIDATIONS of them, evenly spread; the newest and the last best one stay."""
    every = -(-len(validations) // MOST_VALIDATIONS) or 1
    best = max((i for i, each in enumerate(validations) if each.is_best), default=-1)
    newest = len(validations) - 1
    return [each for i, each in enumerate(validations) if i in (best, newest) or (newest - i) % every == 0]


def as_validation(record: ValidationRecord) -> Validation:
    """Return what a page shows of a validation."""
    sample = record.sample
    return Validation(
        step=record.step,
        loss=round(record.loss, 4),
        score_name=record.score_name,
        score=round(record.score, 2),
        is_best=record.is_best,
        weights=record.weights,
        given=sample.given,
        answer=sample.answer,
        expected=sample.expected,
    )
