"""`sixfold evaluate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.set_option import read_languages

if TYPE_CHECKING:
    from sixfold.data.formats import Pair
    from sixfold.evaluate.paired_bootstrap import Comparison
    from sixfold.evaluate.system import Evaluation, System


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
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="See below: 'data.languages=[en, de]'."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Score translations against a reference: BLEU, chrF, TER, exact match and perplexity, with signatures.

    --against answers "is it better?" with a paired bootstrap test.

    Example: sixfold evaluate model test.en test.de --against older-model
    """
    from sixfold.data.readers import open_pairs
    from sixfold.evaluate.system import evaluate_system

    pairs = list(open_pairs(source, reference, languages=read_languages("evaluate", settings)))
    first = translations(model, pairs, beam, device, protect, "translating")
    evaluation = evaluate_system(first, [pair.target for pair in pairs], lowercase)
    comparison = None
    if against is not None:
        second = translations(against, pairs, beam, device, protect, f"translating with {against}")
        comparison = compared(second, first, (str(against), str(model)), pairs, lowercase)
    if as_json:
        content = {**asdict(evaluation), "comparison": asdict(comparison) if comparison else None}
        sys.stdout.write(json.dumps(content, ensure_ascii=False) + "\n")
        return
    print_table(evaluation)
    if comparison is not None:
        typer.echo(comparison.sentence)


def translations(
    system: Path, pairs: Sequence[Pair], beam: int | None, device: str, is_protected: bool, doing: str
) -> System:
    """Return what a model folder or a file of translations makes of the source text."""
    from sixfold.cli.progress_bar import progress
    from sixfold.evaluate.system import translations_of

    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    with progress(doing, len(pairs)) as tick:
        return translations_of(system, sources, references, beam, device, tick, is_protected)


def compared(
    baseline: System, system: System, names: tuple[str, str], pairs: Sequence[Pair], lowercase: bool
) -> Comparison:
    """Return whether a system is better than the baseline."""
    from sixfold.cli.progress_bar import progress
    from sixfold.evaluate.paired_bootstrap import compare

    with progress("comparing", unit="samples") as tick:
        return compare(
            baseline.texts,
            system.texts,
            [pair.target for pair in pairs],
            names=names,
            target_language=system.target_language,
            lowercase=lowercase,
            tick=tick,
        )


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
