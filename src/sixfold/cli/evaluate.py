"""`sixfold evaluate`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sixfold.evaluate.system import Evaluation


def evaluate(
    model: Annotated[Path, typer.Argument(help="A model folder, or a file of translations.")],
    source: Annotated[str, typer.Argument(help="Source text.")],
    reference: Annotated[str | None, typer.Argument(help="Its translations by people.")] = None,
    against: Annotated[Path | None, typer.Option(help="A second model folder or file of translations.")] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at a time; 1 is greedy.")] = None,
    protect: Annotated[
        bool, typer.Option("--protect", help="Translate as `translate --protect`: placeholders and tags stay.")
    ] = False,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Ignore case in BLEU, chrF and TER.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Score translations against a reference: BLEU, chrF, TER, exact match and perplexity, with signatures.

    --against answers "is it better?" with a paired bootstrap test.

    Example: sixfold evaluate model test.en test.de --against older-model
    """
    from sixfold.cli.progress import progress
    from sixfold.data.readers import open_pairs
    from sixfold.evaluate.compare import compare
    from sixfold.evaluate.system import evaluate_system, translations_of

    pairs = list(open_pairs(source, reference))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with progress("translating", len(pairs)) as tick:
        first = translations_of(model, sources, references, beam, device, tick, protect)
    evaluation = evaluate_system(first, references, lowercase)
    comparison = None
    if against is not None:
        with progress(f"translating with {against}", len(pairs)) as tick:
            second = translations_of(against, sources, references, beam, device, tick, protect)
        with progress("comparing", unit="samples") as tick:
            comparison = compare(
                second.texts,
                first.texts,
                references,
                names=(str(against), str(model)),
                target_language=first.target_language,
                lowercase=lowercase,
                tick=tick,
            )
    if as_json:
        content = {**asdict(evaluation), "comparison": asdict(comparison) if comparison else None}
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    print_table(evaluation)
    if comparison is not None:
        typer.echo(comparison.sentence)


def print_table(evaluation: Evaluation) -> None:
    """Print the metrics as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{evaluation.name}, {evaluation.num_sentences:,} sentences", title_justify="left")
    table.add_column("metric")
    table.add_column("value", justify="right")
    table.add_column("signature", style="dim", overflow="fold")
    for metric in evaluation.metrics:
        table.add_row(metric.name, f"{metric.value:.2f}", metric.signature)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
