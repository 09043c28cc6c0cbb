"""`sixfold import`: published weights become a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.export import print_comparisons

if TYPE_CHECKING:
    from sixfold.convert.import_model import Imported
    from sixfold.models.folder import ModelInfo


def import_(
    source: Annotated[
        str | None,
        typer.Argument(help="A Hugging Face folder, a GGUF file or a known name; if left out, these are listed."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The model folder to write.")] = None,
    chat: Annotated[
        str, typer.Option(help="Chat template: the model's own (auto), none, chatml, llama-3 or zephyr.")
    ] = "auto",
) -> None:
    """Import a published model: GPT-2, Llama, BERT, RoBERTa, DistilBERT or MiniLM, from a Hugging Face folder,
    or GPT-2 or Llama from a GGUF file.

    No code in it is executed. Before the model folder is written, its outputs are compared with those of
    transformers, or of llama.cpp for a GGUF file, if these are installed.

    Example: sixfold import smollm2 -o smol
    """
    if source is None:
        list_known()
        return
    from sixfold.cli.progress_bar import progress
    from sixfold.convert.import_model import import_model

    folder = output or Path(Path(source).stem)
    with progress(f"importing {source}", unit="tensors") as on_progress:
        imported = import_model(source, folder, chat, on_progress)
    show(imported, folder)


def list_known() -> None:
    """Print the known models, one per line."""
    from sixfold.convert.known_models import KNOWN_MODELS

    for name, model in KNOWN_MODELS.items():
        typer.echo(f"{name:<10} {model.summary}. {model.licence}; {model.origin}")
    typer.echo("\nGet one: sixfold import smollm2 -o smol")


def show(imported: Imported, folder: Path) -> None:
    """Print a summary of the model, the comparisons, and what to type next."""
    info = imported.info
    origin = info.training["imported"]
    assert isinstance(origin, dict)
    for name, value in origin.items():
        typer.echo(f"  {name:<9} {value}")
    typer.echo(f"  weights   stored as {info.dtype}, the same values as published")
    print_comparisons(imported.comparisons)
    if not imported.comparisons:
        typer.echo("  compared  with nothing; to compare with transformers: pip install 'sixfold[export]'")
    if command := next_command(info, folder):
        typer.echo(f"\nNext: {command}")


def next_command(info: ModelInfo, folder: Path) -> str:
    """Return the command to type next, if there is one for the model."""
    if info.task == "generate":
        prompt = '--chat "Hello"' if info.processors["text"].chat else '"Once upon a time"'
        return f"sixfold generate {folder} {prompt}"
    if info.task == "embed":
        return f'sixfold match {folder} "what to look for" texts.txt'
    return ""
