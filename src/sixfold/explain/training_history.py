"""The history of a training run, read from its metrics log: loss, learning rate, validation score and a sample."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from sixfold.errors import ModelFolderError

MAX_POINTS = 600  # of a curve; a screen cannot show more
MAX_VALIDATIONS = 300


class StepRecord(BaseModel):
    """A training step in the metrics log."""

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
    """A held-out example in the metrics log."""

    model_config = ConfigDict(frozen=True)

    given: str
    answer: str
    expected: str


class ValidationRecord(BaseModel):
    """A validation in the metrics log."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    kind: Literal["validation"]
    step: int
    loss: float
    score_name: str
    score: float
    is_best: bool
    weights: str
    sample: SampleRecord
    decimals: int = 1


Record = StepRecord | ValidationRecord


@dataclass(frozen=True)
class Point:
    """The mean of a few consecutive steps."""

    step: int  # the last one
    loss: float
    learning_rate: float  # at the last step
    grad_norm: float
    tokens_per_second: float


@dataclass(frozen=True)
class Validation:
    """The scores on held-out examples, and one of these examples."""

    step: int
    loss: float
    score_name: str  # such as BLEU
    score: float
    is_best: bool
    weights: str  # single or averaged
    given: str
    answer: str
    expected: str
    decimals: int  # that are shown of a score


@dataclass(frozen=True)
class TrainingHistory:
    """A training run, reduced to as many numbers as a page shows."""

    name: str
    source_language: str
    target_language: str
    num_steps: int
    epoch: int  # from 1; 0 before the first step
    seconds: float
    points: tuple[Point, ...]
    validations: tuple[Validation, ...]


def metrics_log_path(folder: Path) -> Path:
    """Return the path of a model's metrics log."""
    return folder / "training" / "log.jsonl"


def read_training(folder: Path) -> TrainingHistory:
    """Read the metrics log of the run in a model folder."""
    path = metrics_log_path(folder)
    if not path.is_file():
        raise ModelFolderError(
            f"{folder} has no metrics log (training/log.jsonl).",
            "`sixfold train` writes it; it is gone if the folder training/ was deleted or the model was imported.",
        )
    log = list(records(path))
    if not log and b"\n" in path.read_bytes()[:10_000]:
        raise ModelFolderError(f"{path} is damaged: no line of it is a step or a validation.")
    return history_of(folder, log)


def records(path: Path) -> Iterator[Record]:
    """Yield the steps and validations of a metrics log; its last line may be incomplete."""
    with path.open("rb") as file:
        for line in file:
            kind = ValidationRecord if b'"validation"' in line[:40] else StepRecord
            try:
                yield kind.model_validate_json(line)
            except ValidationError:  # a skipped step, or the last line of a killed process
                continue


def history_of(folder: Path, log: Sequence[Record]) -> TrainingHistory:
    """Return the history that the records of a metrics log describe."""
    steps = [record for record in log if isinstance(record, StepRecord)]
    validations = [record for record in log if isinstance(record, ValidationRecord)]
    last = steps[-1] if steps else None
    return TrainingHistory(
        folder.resolve().name,
        *languages(folder / "training" / "run.json"),
        num_steps=last.step if last else 0,
        epoch=last.epoch + 1 if last else 0,
        seconds=last.seconds if last else 0.0,
        points=curve(steps),
        validations=tuple(map(as_validation, thinned(validations))),
    )


def languages(path: Path) -> tuple[str, str]:
    """Return the source and target language of a run, or empty names if it has none."""
    try:
        source, target = json.loads(path.read_bytes())["facts"]["languages"]
    except (OSError, ValueError, LookupError, TypeError):
        return "", ""
    return str(source), str(target)


def curve(steps: Sequence[StepRecord]) -> tuple[Point, ...]:
    """Return at most MAX_POINTS points, each the mean of equally many steps (the last one of the rest)."""
    size = -(-len(steps) // MAX_POINTS)
    return tuple(point(steps, begin, begin + size) for begin in range(0, len(steps), max(1, size)))


def point(steps: Sequence[StepRecord], begin: int, end: int) -> Point:
    """Return the mean of steps begin to end - 1; their time is counted from the step before."""
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
    """Return about MAX_VALIDATIONS of them, evenly spaced, with the latest and the best one."""
    every = -(-len(validations) // MAX_VALIDATIONS) or 1
    best = max((i for i, each in enumerate(validations) if each.is_best), default=-1)
    newest = len(validations) - 1
    return [each for i, each in enumerate(validations) if i in (best, newest) or (newest - i) % every == 0]


def as_validation(record: ValidationRecord) -> Validation:
    """Return a validation as the page shows it."""
    sample = record.sample
    return Validation(
        step=record.step,
        loss=round(record.loss, 4),
        score_name=record.score_name,
        score=round(record.score, max(2, record.decimals)),
        is_best=record.is_best,
        weights=record.weights,
        given=sample.given,
        answer=sample.answer,
        expected=sample.expected,
        decimals=record.decimals,
    )
