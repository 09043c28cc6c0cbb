"""`sixfold translate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sixfold.decode.translate import Translation

LINES_AT_ONCE = 2000


def translate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[
        str, typer.Argument(help="Text to translate, one sentence a line; - is standard input.")
    ] = "-",
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at a time; 1 is greedy.")] = None,
    n_best: Annotated[int, typer.Option(help="Translations of each line, best first.")] = 1,
    length_penalty: Annotated[float | None, typer.Option(help="α of the GNMT length penalty.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with scores and flags.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Translate text, line by line.

    One line comes out for each line that goes in, in the same order (with --n-best N: N lines). Text longer than a
    model reads at once is cut, and that is said.

    Example: echo "A man is sleeping." | sixfold translate model
    """
    from sixfold.cli.progress import progress
    from sixfold.data.readers import read_lines
    from sixfold.decode.translate import load

    translator = load(model, device)
    lines = read_lines(file)
    done = 0
    with progress("translating") as tick:
        while chunk := list(islice(lines, LINES_AT_ONCE if not is_interactive(file) else 1)):
            found = translator.search(
                chunk,
                beam,
                n_best,
                length_penalty,
                lambda count, before=done: tick(before + count),  # type: ignore[misc]
            )
            for number, (line, translations) in enumerate(zip(chunk, found, strict=True), start=done + 1):
                warn_of_cuts(number, translations[0])
                for row in as_rows(line, translations, n_best, as_json):
                    sys.stdout.write(row + "\n")
            sys.stdout.flush()
            done += len(chunk)


def is_interactive(file: str) -> bool:
    """Whether a person types the lines and waits for each."""
    return file == "-" and sys.stdin.isatty()


def warn_of_cuts(number: int, translation: Translation) -> None:
    """Say which line was not translated whole."""
    if translation.source_is_cut:
        typer.echo(
            f"warning: line {number} is longer than the model reads at once; its end is not translated",
            err=True,
        )
    if translation.is_cut:
        typer.echo(f"warning: the translation of line {number} reached its length limit", err=True)


def as_rows(line: str, translations: list[Translation], n_best: int, as_json: bool) -> Iterator[str]:
    """Yield the output lines for one input line."""
    if not as_json:
        # An empty line has one empty translation; it still gives as many lines as any other.
        texts = [translation.text for translation in translations]
        yield from texts + [""] * (n_best - len(texts))
        return
    from dataclasses import asdict

    yield json.dumps({"source": line, "translations": [asdict(each) for each in translations]}, ensure_ascii=False)
