"""`sixfold train`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, Examples, Init, Minutes, Recipe, Set, Task
from sixfold.cli.set_option import read_settings, refuse_twice

if TYPE_CHECKING:
    from sixfold.training.run import Outcome


def train(
    inputs: Examples = [],  # noqa: B006  # only read
    output: Annotated[Path, typer.Option("--output", "-o", help="The model folder to write.")] = Path("model"),
    task: Task = None,
    valid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE or SOURCE TARGET", help="Validation data; by default, a part of the data is held out."
        ),
    ] = None,
    minutes: Minutes = 0,
    recipe: Recipe = None,
    settings: Set = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed (default: 1).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the model folder.")] = False,
    init: Init = None,
    device: Device = "auto",
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Show the training curves in a browser during the run, on this machine only."
        ),
    ] = False,
) -> None:
    """Train a model: on pairs of text it learns to translate, on plain text or conversations to generate text.

    Vocabulary, model size, batch size and training time are chosen from the data and the machine, and shown. The
    model folder can be used from the first validation on. Ctrl-C saves; --resume continues exactly there.

    Examples: sixfold train train.en train.de -o model --minutes 30; sixfold train book.txt -o model
    """
    from sixfold.tasks import train as run_training

    refuse_twice("train", {"minutes": minutes or None}, read_settings("train", settings).get("train"))
    with stopped_by_hand(output), shown_live(output) if watch else nullcontext():
        outcome = run_training(
            inputs or [], output, task, valid=valid, recipe=recipe, settings=settings or [], minutes=minutes,
            seed=seed, resume=resume, init=init, device=device,
        )  # fmt: skip
    say_end(outcome, output)


@contextmanager
def stopped_by_hand(folder: Path) -> Iterator[None]:
    """Print how to continue when Ctrl-C ends a run before it can save."""
    from sixfold.training.run import say_stopped

    try:
        yield
    except KeyboardInterrupt:
        typer.echo(say_stopped(folder), err=True)
        raise typer.Exit(code=130) from None


def say_end(outcome: Outcome, folder: Path) -> None:
    """Print what to type next."""
    if not outcome.finished:
        raise typer.Exit(code=130)
    typer.echo(next_command(folder), err=True)


def next_command(folder: Path) -> str:
    """Return the command that uses the model in a folder."""
    from sixfold.models.folder import load_info

    info = load_info(folder)
    if info.task == "generate":
        prompt = '--chat "Hello"' if info.processors["text"].chat else '"Once upon a time"'
        return f"generate text with: sixfold generate {folder} {prompt}"
    if info.task == "answer":
        return f'answer with: sixfold answer {folder} "When was it?" --context text.txt'
    if info.task == "fill":
        return f'fill gaps with: sixfold fill {folder} "The [MASK] sat on the mat."'
    return f"{info.task} with: sixfold {info.task} {folder}"


@contextmanager
def shown_live(folder: Path) -> Iterator[None]:
    """Serve the training page during a run, in the first of several processes."""
    from sixfold.explain.live_page import live_training_page

    if os.environ.get("RANK", "0") != "0":
        yield
        return
    with live_training_page(folder) as address:
        typer.echo(f"live training page: {address}", err=True)
        yield
