"""Arguments and flags that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ENGINE = "How it is computed"


class Precision(StrEnum):
    """The precision of the weights when a model runs."""

    float32 = "float32"
    int8 = "int8"


ModelFolder = Annotated[Path, typer.Argument(help="A model folder.")]
Examples = Annotated[
    list[str],
    typer.Argument(help="Source and target file; one file of pairs; or text, conversations or folders of them."),
]
Task = Annotated[str | None, typer.Option(help="What to learn; by default, detected from the data.")]
Minutes = Annotated[
    float, typer.Option(min=0, help="Time budget for training; the schedule is fitted to it. 0: none.")
]
Recipe = Annotated[str | None, typer.Option(help="A YAML recipe, or the name of a built-in one.")]
Init = Annotated[Path | None, typer.Option(help="Fine-tune this model, with its own tokenizer.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One of the settings below; repeatable.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
InPrecision = Annotated[
    Precision, typer.Option(help="int8 is faster on a CPU, with nearly the same quality.", rich_help_panel=ENGINE)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=ENGINE)]
Partners = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="MODEL",
        help="Form an ensemble with another model that has the same tokenizer; repeatable.",
        rich_help_panel=ENGINE,
    ),
]
