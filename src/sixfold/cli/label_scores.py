"""What `evaluate` tells of classifiers and taggers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sixfold.cli.output import print_table, write_lines
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from sixfold.tasks.understand.evaluate import UnderstandEvaluation

MOST_SHOWN = 30  # labels
LONGEST_NAME = 16  # of a label in the confusion matrix


def labels_texts(model: Path) -> str:
    """Return the task of a folder whose model labels texts or words, or nothing; refuse other encoders."""
    task = task_of(model)
    if task in ("answer", "fill"):
        raise ConfigError(
            f"{model} has a model for the task {task!r}, which `evaluate` does not score.",
            "Its score on held-out examples stands in its README.md, or train with --valid FILE.",
        )
    return task if task in ("classify", "tag") else ""


def task_of(model: Path) -> str:
    """Return the task of a model folder, or nothing for a file."""
    from sixfold.models.folder import load_info

    return load_info(model).task if model.is_dir() else ""


def evaluate_labelled(
    model: Path,
    files: Sequence[str],
    against: Path | None,
    flags: Mapping[str, object],
    as_json: bool,
    device: str,
) -> None:
    """Print how well a model labels texts or words, and whether it does so better than another one."""
    from sixfold.tasks.understand.evaluate import compared

    if given := [flag for flag, value in flags.items() if value]:
        raise ConfigError(f"{given[0]} is for translation; this model labels texts.", "Leave it out.")
    if against and task_of(against) != task_of(model):
        raise ConfigError(
            f"{against} is no model for the task {task_of(model)!r}.", "--against takes a model of the same task."
        )
    found = evaluated(model, files, device)
    other = evaluated(against, files, device) if against else None
    sentence = compared(found, other) if other else None
    if as_json:
        content = {key: value for key, value in asdict(found).items() if key != "outcomes"}
        write_lines([json.dumps({**content, "comparison": sentence}, ensure_ascii=False)])
        return
    show(found)
    if sentence:
        typer.echo(sentence)


def evaluated(model: Path, files: Sequence[str], device: str) -> UnderstandEvaluation:
    """Score the model of a folder."""
    from sixfold.cli.progress_bar import progress
    from sixfold.data.labelled import open_labelled
    from sixfold.data.tagged import open_tagged
    from sixfold.tasks.understand.classifier import Classifier
    from sixfold.tasks.understand.evaluate import evaluate_classifier, evaluate_tagger
    from sixfold.tasks.understand.tagger import Tagger

    with progress("evaluating", unit="texts") as on_progress:
        if labels_texts(model) == "tag":
            return evaluate_tagger(Tagger.load(model, device), str(model), open_tagged(files), on_progress)
        return evaluate_classifier(Classifier.load(model, device), str(model), open_labelled(files), on_progress)


def show(found: UnderstandEvaluation) -> None:
    """Print metrics, the scores of labels, and the confusion matrix."""
    rows = [(metric.name, f"{metric.value:.2f}", metric.signature) for metric in found.metrics]
    print_table(f"{found.name}, {found.num_examples:,} texts", rows)
    labels = sorted(found.labels, key=lambda label: -label.support)[:MOST_SHOWN]
    if labels:
        width = max(len(label.name) for label in labels)
        print(f"\n{'label':<{width}}  precision  recall     F1   count")
        for each in labels:
            numbers = (100 * each.precision, 100 * each.recall, 100 * each.f1)
            print(
                f"{each.name:<{width}}  {numbers[0]:9.1f}  {numbers[1]:6.1f}  {numbers[2]:5.1f}  {each.support:6,}"
            )
    if found.confusion and len(found.labels) <= MOST_SHOWN:
        show_confusion(found)


def show_confusion(found: UnderstandEvaluation) -> None:
    """Print how often each label (rows) was predicted as each (columns)."""
    names = [label.name[:LONGEST_NAME] for label in found.labels]
    width = max(map(len, names))
    print(f"\n{'is':<{width}}  predicted as")
    print(f"{'':<{width}}  {'  '.join(f'{name:>{max(5, len(name))}}' for name in names)}")
    for name, row in zip(names, found.confusion, strict=True):
        cells = (f"{count:>{max(5, len(each))},}" for count, each in zip(row, names, strict=True))
        print(f"{name:<{width}}  {'  '.join(cells)}")
