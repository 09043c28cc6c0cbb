"""`sixfold export`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from sixfold.convert.compare import ExportComparison


def export(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    to: Annotated[str, typer.Option(help="ctranslate2 or huggingface.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new folder to write.")],
) -> None:
    """Export a model to another engine, and verify that it translates the same there.

    Both engines translate a sample: unless their texts and scores agree, nothing is written. A README.md in the
    new folder shows how to use it.

    Example: sixfold export model --to ctranslate2 -o model-ct2
    """
    comparison = written(model, to, output)
    print_table(comparison, str(model), to)
    typer.echo(f"Exported to {output}; {output / 'README.md'} shows how to use it.")
    for difference in differences(model):
        typer.echo(difference)


def written(model: Path, to: str, output: Path) -> ExportComparison:
    """Write the model for another engine and return how it compared."""
    # Hugging Face reads these when it is imported: it has nothing to fetch, and what it says is for developers.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    if to == "ctranslate2":
        from sixfold.convert import ctranslate2

        return ctranslate2.export(model, output)
    if to == "huggingface":
        from sixfold.convert import huggingface

        return huggingface.export(model, output)
    raise ConfigError(f"There is no export to {to!r}.", "Use --to ctranslate2 or --to huggingface.")


def differences(model: Path) -> Iterator[str]:
    """Yield what the exported model does differently, a sentence each."""
    from sixfold.models.folder import load_info

    info = load_info(model)
    if len(info.weights) > 1:
        yield f"{model} is an ensemble of {len(info.weights)} models; only the first was exported."


def print_table(comparison: ExportComparison, model: str, engine: str) -> None:
    """Print what agreed."""
    from rich.console import Console
    from rich.table import Table

    from sixfold.convert.compare import TOLERANCE

    num_equal = comparison.num_sentences - comparison.num_ties
    table = Table(title=f"{model} here and in {engine}", title_justify="left")
    table.add_column("compared")
    table.add_column("result", justify="right")
    table.add_row("sentences, tokens", f"{comparison.num_sentences:,}, {comparison.num_tokens:,}")
    table.add_row("equal greedy translations", f"{num_equal:,} of {comparison.num_sentences:,}")
    if comparison.num_ties:
        table.add_row("differ where two tokens tie", f"{comparison.num_ties:,}")
    table.add_row("largest difference of log-probability a token", f"{comparison.largest_difference:.1e}")
    table.add_row("allowed", f"{TOLERANCE:.1e}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)
