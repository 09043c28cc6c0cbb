"""`sixfold answer`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sixfold.cli.flags import AsJson, Device, InPrecision, ModelFolder, Precision


def answer(
    model: ModelFolder,
    question: Annotated[str, typer.Argument(help="A question.")],
    context: Annotated[Path, typer.Option(help="The text that may answer it; - is standard input.")],
    as_json: AsJson = False,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Find the answer to a question in a text: prints a span of the text, or an empty line if it has no answer.

    A long text is read in windows that overlap. With --json also where the answer stands, so that
    `text[start:end]` is it, and how probable it is.

    Example: sixfold answer model "When did it end?" --context war.txt
    """
    from sixfold.data.streams import find_input, text_of
    from sixfold.tasks.understand.answerer import Answerer

    answerer = Answerer.load(model, device, precision.value)
    found = answerer.answer(question, "".join(text_of(find_input(context))))
    if found.is_cut:
        typer.echo("warning: the question is longer than the model reads; its end is not read", err=True)
    print(json.dumps(asdict(found), ensure_ascii=False) if as_json else found.text)
