"""`sixfold classify`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, InPrecision, ModelFolder, Precision
from sixfold.cli.output import reader_may_leave

if TYPE_CHECKING:
    from sixfold.callbacks import OnProgress
    from sixfold.tasks.understand.classifier import Classification, Classifier


def classify(
    model: ModelFolder,
    file: Annotated[
        str, typer.Argument(help="Texts, one per line (two texts with a tab between them); - is standard input.")
    ] = "-",
    top: Annotated[int, typer.Option(min=0, help="Show this many labels, the most probable first.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, with all probabilities.")
    ] = False,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Label texts: print for each input line the label and its probability, separated by a tab.

    If a text may have several labels, those above their thresholds are shown, separated by commas. A model trained
    on numbers prints a number.

    Example: echo "What a film!" | sixfold classify model
    """
    from sixfold.cli.lines import answer_lines
    from sixfold.tasks.understand.classifier import Classifier

    classifier = Classifier.load(model, device, precision.value)

    def write(number: int, line: str, found: Classification) -> Iterator[str]:
        if found.is_cut:
            typer.echo(f"warning: line {number:,} is longer than the model reads; its end is not read", err=True)
        yield as_record(line, found) if as_json else as_text(found, top)

    with reader_may_leave():
        answer_lines(file, "classifying", lambda lines, seen: answers(classifier, lines, seen), write)


def answers(classifier: Classifier, lines: Sequence[str], on_progress: OnProgress) -> list[Classification]:
    """Label lines; a tab separates two texts."""
    pairs = [line.split("\t", 1) for line in lines]
    if all(len(pair) == 2 for pair in pairs):
        return classifier.classify([pair[0] for pair in pairs], [pair[1] for pair in pairs], on_progress)
    return classifier.classify(lines, None, on_progress)


def as_text(found: Classification, top: int) -> str:
    """Return a line: labels with their probabilities."""
    if found.number is not None:
        return f"{found.number:.6g}"
    if top:
        return "\t".join(f"{label.name}\t{label.probability:.4f}" for label in found.probabilities[:top])
    if not found.labels:
        return "\t"
    return (
        f"{','.join(label.name for label in found.labels)}\t{min(label.probability for label in found.labels):.4f}"
    )


def as_record(line: str, found: Classification) -> str:
    """Return a line of JSON."""
    return json.dumps({"text": line, **asdict(found)}, ensure_ascii=False)
