"""`sixfold tag`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, InPrecision, ModelFolder, Precision
from sixfold.cli.output import reader_may_leave

if TYPE_CHECKING:
    from sixfold.tasks.understand.tagger import Tagging


def tag(
    model: ModelFolder,
    file: Annotated[str, typer.Argument(help="Texts, one per line; - is standard input.")] = "-",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per line, with character positions and probabilities.")
    ] = False,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Tag the words of texts, or find entities in them.

    Prints for each input line every word with its tag (word/TAG), or the entities as label: text, separated by
    tabs. With --json, `text[start:end]` of the input is exactly the word or the entity.

    Example: echo "Ann Lee lives in Paris." | sixfold tag model
    """
    from sixfold.cli.lines import answer_lines
    from sixfold.data.tagged import are_entities
    from sixfold.tasks.understand.tagger import Tagger

    tagger = Tagger.load(model, device, precision.value)
    finds_entities = are_entities(tagger.labels.names)

    def write(number: int, line: str, found: Tagging) -> Iterator[str]:
        if found.is_cut:
            typer.echo(f"warning: line {number:,} is longer than the model reads; its end is not tagged", err=True)
        if as_json:
            yield json.dumps({"text": line, **asdict(found)}, ensure_ascii=False)
        elif finds_entities:
            yield "\t".join(f"{each.label}: {each.text}" for each in found.entities)
        else:
            yield " ".join(f"{word.text}/{word.tag}" for word in found.words)

    with reader_may_leave():
        answer_lines(file, "tagging", tagger.tag, write)
