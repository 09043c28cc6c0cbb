"""`sixfold match`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.embed import open_model, say_what_is_missing
from sixfold.cli.flags import Device, InPrecision, ModelFolder, Precision
from sixfold.cli.output import reader_may_leave, write_lines
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from sixfold.tasks.embed import Embedder
    from sixfold.tasks.match import Index


def match(
    model: ModelFolder,
    query: Annotated[
        str, typer.Argument(help="What to search for; - reads queries from standard input, one per line.")
    ],
    file: Annotated[str, typer.Argument(help="The texts to search, one per line.")],
    top: Annotated[int, typer.Option(help="Lines to show for each query.", min=1)] = 10,
    index: Annotated[
        Path | None,
        typer.Option(help="Keeps the vectors of FILE: written once, then only lines that are new are embedded."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each query.")] = False,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Find the lines of a file that are nearest to a text by meaning.

    Each line of output has the cosine, the number of the line and the line itself.

    Example: sixfold match minilm "How do I get my money back?" questions.txt --index questions.index
    """
    if query == file == "-":
        raise ConfigError("Queries and texts cannot both come from standard input.")
    from sixfold.data.readers import read_lines

    embedder, lines = open_model(model, device, precision), list(read_lines(file))
    finder = Finder(embedder, lines, indexed(embedder, lines, index, precision.value), top, as_json)
    with reader_may_leave():
        for text in read_lines("-") if query == "-" else [query]:
            write_lines(finder.found(text))


def indexed(embedder: Embedder, lines: Sequence[str], path: Path | None, precision: str) -> Index:
    """Return the index of lines, from a file as far as it has them."""
    from sixfold.cli.progress_bar import progress
    from sixfold.tasks.match import build_index, load_index, maker, save_index

    made_by = maker(embedder, precision)
    known = load_index(path, made_by, embedder.width) if path else None
    with progress("embedding", len(lines)) as on_progress:
        index, num_new = build_index(embedder, lines, known, on_progress)
    if path and (num_new or known is None or len(known.digests) != len(lines)):
        save_index(path, index, made_by)
        typer.echo(f"{path}: {len(lines):,} lines, {num_new:,} of them embedded now", err=True)
    return index


@dataclass(frozen=True)
class Finder:
    """Lines with their index, and how to show those that are found."""

    embedder: Embedder
    lines: Sequence[str]
    index: Index
    top: int
    as_json: bool

    def found(self, query: str) -> Iterator[str]:
        """Yield the lines of output for a query."""
        rows = self.embedder.read([query])
        say_what_is_missing(self.embedder, rows, 1)
        matches = self.index.nearest(self.embedder.vectors(rows)[0], self.top)
        if not self.as_json:
            yield from (f"{each.score:.4f}\t{each.line}\t{self.lines[each.line - 1]}" for each in matches)
            return
        records = [{"line": m.line, "score": m.score, "text": self.lines[m.line - 1]} for m in matches]
        yield json.dumps({"query": query, "matches": records}, ensure_ascii=False)
