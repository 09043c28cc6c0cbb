"""`sixfold embed`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, InPrecision, ModelFolder, Precision
from sixfold.cli.output import reader_may_leave, write_lines
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from sixfold.tasks.embed import Embedder, Vectors
    from sixfold.text.encoder_row import EncoderRow

LINES_AT_ONCE = 4096


def embed(
    model: ModelFolder,
    file: Annotated[str, typer.Argument(help="Texts, one per line; - is standard input.")] = "-",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="A .npy file to write; if left out, JSON lines go to standard output."
        ),
    ] = None,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Turn each line of text into a vector of length 1: like meanings, like vectors.

    The product of two vectors is the cosine between them. A line has the same vector alone and among any others.

    Example: sixfold embed minilm texts.txt -o vectors.npy
    """
    if output is not None and output.suffix != ".npy":
        raise ConfigError(f"{output} should end with .npy: vectors are written as NumPy has them.")
    embedder = open_model(model, device, precision)
    if output is None:
        print_vectors(embedder, file)
    else:
        save_vectors(embedder, file, output)


def open_model(model: Path, device: str, precision: Precision) -> Embedder:
    """Open a model folder for embedding."""
    from sixfold.machine import prepare_environment

    prepare_environment(precision.value)  # before torch is loaded
    from sixfold.tasks.embed import open_embedder
    from sixfold.training.task import Opening

    return open_embedder(Opening(model, device, precision=precision.value))


def print_vectors(embedder: Embedder, file: str) -> None:
    """Print a JSON object for each line."""
    from sixfold.data.readers import read_lines

    lines, first = read_lines(file), 1
    with reader_may_leave():
        while chunk := [*islice(lines, LINES_AT_ONCE)]:
            vectors = vectors_of(embedder, chunk, first)
            rows = zip(chunk, vectors.tolist(), strict=True)
            write_lines(json.dumps({"text": text, "vector": row}, ensure_ascii=False) for text, row in rows)
            first += len(chunk)


def save_vectors(embedder: Embedder, file: str, output: Path) -> None:
    """Write the vectors of all lines as one array."""
    import numpy as np

    from sixfold.cli.progress_bar import progress
    from sixfold.data.readers import read_lines
    from sixfold.files import replacing

    lines, found = read_lines(file), [np.empty((0, embedder.width), dtype=np.float32)]
    count = 0
    with progress("embedding") as on_progress:
        while chunk := [*islice(lines, LINES_AT_ONCE)]:
            found.append(vectors_of(embedder, chunk, count + 1))
            on_progress(count := count + len(chunk))
    with replacing(output) as temporary, temporary.open("wb") as opened:
        np.save(opened, np.concatenate(found))
    typer.echo(f"{count:,} vectors of {embedder.width} numbers in {output}", err=True)


def vectors_of(embedder: Embedder, lines: Sequence[str], first: int) -> Vectors:
    """Return the vectors of lines, of which the first has this number; say what of them was not read."""
    rows = embedder.read(lines)
    say_what_is_missing(embedder, rows, first)
    return embedder.vectors(rows)


def say_what_is_missing(embedder: Embedder, rows: Sequence[EncoderRow], first: int) -> None:
    """Say which lines were cut, and which have words that the tokenizer cannot spell."""
    cut = [first + place for place, row in enumerate(rows) if row.is_cut]
    unknown = [first + place for place, row in enumerate(rows) if embedder.num_unknown(row)]
    most = embedder.encoder.format.max_tokens
    for numbers, what in (
        (cut, f"longer than {most:,} tokens, whose end is not read"),
        (unknown, "with words that the tokenizer does not know, all read as the same unknown word"),
    ):
        if numbers:
            plural = "line" if len(numbers) == 1 else "lines"
            typer.echo(f"warning: {len(numbers):,} {plural} {what}: {shown(numbers)}", err=True)


def shown(numbers: Sequence[int]) -> str:
    """Return the first numbers."""
    return ", ".join(f"{number:,}" for number in numbers[:5]) + (" …" if len(numbers) > 5 else "")
