"""`sixfold score`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def score(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    source: Annotated[str, typer.Argument(help="Source text.")],
    target: Annotated[str | None, typer.Argument(help="Its translations, line by line.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Print how probable the model finds given translations: one log-probability a line.

    The numbers are those that `sixfold translate --json` reports for the same text.

    Example: sixfold score model test.en test.de
    """
    from sixfold.cli.progress import progress
    from sixfold.data.readers import open_pairs
    from sixfold.decode.translate import load

    translator = load(model, device)
    pairs = list(open_pairs(source, target))
    with progress("scoring", len(pairs)) as tick:
        scores = translator.score([pair.source for pair in pairs], [pair.target for pair in pairs], tick)
    for number, each in enumerate(scores, start=1):
        if each.is_cut:
            typer.echo(
                f"warning: line {number} is longer than the model reads at once; its end is not scored", err=True
            )
        if as_json:
            typer.echo(json.dumps({**asdict(each), "score": translator.penalised(each)}))
        else:
            typer.echo(f"{each.log_probability:.4f}")
