"""Arguments and flags that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

ENGINE = "How it is computed"


class Precision(StrEnum):
    """How weights are kept while a model runs."""

    float32 = "float32"
    int8 = "int8"


ModelFolder = Annotated[Path, typer.Argument(help="A model folder.")]
Examples = Annotated[
    list[str],
    typer.Argument(help="Source and target; one file of pairs; or text, conversations or folders of them."),
]
Task = Annotated[str | None, typer.Option(help="What to learn; otherwise the data tells it.")]
Minutes = Annotated[float, typer.Option(min=0, help="A wall-clock budget; the schedule fits itself to it.")]
Recipe = Annotated[str | None, typer.Option(help="A YAML recipe, or the name of a built-in one.")]
Init = Annotated[Path | None, typer.Option(help="Fine-tune this model, with its own tokenizer.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One of the settings below; repeatable.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
InPrecision = Annotated[
    Precision, typer.Option(help="int8 is faster on a CPU, and nearly as good.", rich_help_panel=ENGINE)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=ENGINE)]
Partners = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="MODEL",
        help="Ensemble with another model of the same tokenizer; repeatable.",
        rich_help_panel=ENGINE,
    ),
]
