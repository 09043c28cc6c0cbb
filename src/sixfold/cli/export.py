"""`sixfold export`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import ModelFolder
from sixfold.errors import ConfigError

TO_PAIRS = "Use --to ctranslate2 or --to huggingface."

if TYPE_CHECKING:
    from sixfold.convert.compare import ExportComparison
    from sixfold.convert.compare_logits import Comparison


def export(
    model: ModelFolder,
    to: Annotated[
        str, typer.Option(help="huggingface, ctranslate2 (models that translate) or gguf (models that generate).")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The new folder, or the GGUF file, to write.")],
    precision: Annotated[
        str | None,
        typer.Option(help="Precision of the weights in a GGUF file: float32 (default), float16 or q8_0."),
    ] = None,
) -> None:
    """Export a model to another engine, and verify that it gives the same results there.

    Nothing is written unless translations and scores, or logits and tokens, agree in both engines. A README.md in
    a new folder shows how to use it. llama.cpp, Ollama and similar programs run a GGUF file.

    Example: sixfold export model --to ctranslate2 -o model-ct2
    """
    from sixfold.models.folder import load_info

    refuse_precision(to, precision)
    if load_info(model).kind == "decoder_only":
        print_comparisons(written_decoder_only(model, to, output, precision or "float32"))
        typer.echo(f"Exported to {output}.")
        for difference in differences(model):
            typer.echo(difference)
        return
    comparison = written(model, to, output)
    print_table(comparison, str(model), to)
    typer.echo(f"Exported to {output}; {output / 'README.md'} shows how to use it.")
    for difference in differences(model):
        typer.echo(difference)


def written(model: Path, to: str, output: Path) -> ExportComparison:
    """Write the model for another engine and return the comparison."""
    from sixfold.convert.quiet import be_quiet

    be_quiet()
    if to == "ctranslate2":
        from sixfold.convert import ctranslate2

        return ctranslate2.export(model, output)
    if to == "huggingface":
        from sixfold.convert import huggingface

        return huggingface.export(model, output)
    raise ConfigError(f"A model that translates cannot be exported to {to!r}.", TO_PAIRS)


def written_decoder_only(model: Path, to: str, output: Path, precision: str) -> tuple[Comparison, ...]:
    """Write a model that generates for another engine and return the comparison."""
    from sixfold.convert import export_decoder_only

    if to == "huggingface":
        return export_decoder_only.to_huggingface(model, output)
    if to == "gguf":
        return export_decoder_only.to_gguf(model, output, export_decoder_only.known_precision(precision))
    raise ConfigError(
        f"A model that generates cannot be exported to {to!r}.", "Use --to huggingface or --to gguf."
    )


def refuse_precision(to: str, precision: str | None) -> None:
    """Refuse a precision for formats that keep that of the weights."""
    if precision is not None and to != "gguf":
        raise ConfigError(f"--precision is for --to gguf; --to {to} keeps the precision of the weights.")


def differences(model: Path) -> Iterator[str]:
    """Yield how the exported model differs, a sentence each."""
    from sixfold.models.folder import load_info

    info = load_info(model)
    if len(info.weights) > 1:
        yield f"{model} is an ensemble of {len(info.weights)} models; only the first was exported."


def print_table(comparison: ExportComparison, model: str, engine: str) -> None:
    """Print the comparison."""
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
    table.add_row("largest difference of log-probability per token", f"{comparison.largest_difference:.1e}")
    table.add_row("allowed", f"{TOLERANCE:.1e}")
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def print_comparisons(comparisons: Sequence[Comparison]) -> None:
    """Print the comparisons, one per line."""
    for each in comparisons:
        result = f"{each.measure} {each.difference:.1e} (allowed {each.allowed:.1e})" if each.allowed else "equal"
        typer.echo(f"  compared  {each.num_tokens:,} {each.what} with {each.reference}: {result}")
