"""`sixfold fill`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from sixfold.cli.flags import Device, InPrecision, ModelFolder, Precision


def fill(
    model: ModelFolder,
    text: Annotated[str, typer.Argument(help="A text with one or more [MASK].")],
    top: Annotated[int, typer.Option(min=1, max=1000, help="Number of choices for each gap.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    precision: InPrecision = Precision.float32,
    device: Device = "auto",
) -> None:
    """Fill the gaps in a text: print it with the most probable token in each gap, then the choices for each.

    Example: sixfold fill model "The [MASK] sat on the mat."
    """
    from sixfold.tasks.understand.filler import Filler

    found = Filler.load(model, device, precision.value).fill(text, top)
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False))
        return
    print(found.text)
    for number, choices in enumerate(found.gaps, start=1):
        shown = ", ".join(f"{choice.text} {choice.probability:.3f}" for choice in choices)
        print(f"  gap {number}: {shown}")
