"""`sixfold train`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.set_option import read_settings, refuse_twice

if TYPE_CHECKING:
    from sixfold.training.run import Outcome


def train(
    source: Annotated[
        str | None, typer.Argument(help="Source text, or one file of pairs (TSV, JSONL, TMX, …).")
    ] = None,
    target: Annotated[str | None, typer.Argument(help="Target text, line by line the translation.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.")] = Path("model"),
    valid: Annotated[
        tuple[str, str] | None,
        typer.Option(help="Source and target to validate on; otherwise some pairs are held out."),
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=0, help="A wall-clock budget; the schedule fits itself to it.")
    ] = 0,
    recipe: Annotated[str | None, typer.Option(help="A YAML recipe, or the name of a built-in one.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="See below; for example train.steps=5000; repeatable."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed (default: 1).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the model folder.")] = False,
    init: Annotated[Path | None, typer.Option(help="Fine-tune this model, with its own tokenizer.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the run in a browser while it trains, on this machine only.")
    ] = False,
) -> None:
    """Train a translation model from text pairs.

    Vocabulary, model size, batch size and training length are chosen from the corpus and the machine, and shown.
    The model folder can translate from the first validation on. Ctrl-C saves; --resume continues exactly there.

    Example: sixfold train train.en train.de -o model --minutes 30
    """
    from sixfold.tasks import train as run_training

    refuse_twice("train", {"minutes": minutes or None}, read_settings("train", settings).get("train"))
    with stopped_by_hand(output), shown_live(output) if watch else nullcontext():
        outcome = run_training(
            [each for each in (source, target) if each is not None], output, valid=valid, recipe=recipe,
            settings=settings or [], minutes=minutes, seed=seed, resume=resume, init=init, device=device,
        )  # fmt: skip
    say_end(outcome, output)


@contextmanager
def stopped_by_hand(folder: Path) -> Iterator[None]:
    """Say how to continue when Ctrl-C ends a run before it can save."""
    from sixfold.training.run import say_stopped

    try:
        yield
    except KeyboardInterrupt:
        typer.echo(say_stopped(folder), err=True)
        raise typer.Exit(code=130) from None


def say_end(outcome: Outcome, folder: Path) -> None:
    """Say what to type next."""
    if not outcome.finished:
        raise typer.Exit(code=130)
    typer.echo(f"translate with: sixfold translate {folder}", err=True)


@contextmanager
def shown_live(folder: Path) -> Iterator[None]:
    """Serve the training page while a run goes on; of several processes only the first does."""
    from sixfold.explain.live_page import live_training_page

    if os.environ.get("RANK", "0") != "0":
        yield
        return
    with live_training_page(folder) as address:
        typer.echo(f"live training page: {address}", err=True)
        yield
