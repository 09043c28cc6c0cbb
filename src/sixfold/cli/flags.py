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
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="See below; for example decode.top_k=10; repeatable."),
]
InPrecision = Annotated[
    Precision, typer.Option(help="int8 is faster on a CPU, and nearly as good.", rich_help_panel=ENGINE)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.", rich_help_panel=ENGINE)]
