"""`sixfold plan`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sixfold.cli.flags import AsJson, Device, Examples, Init, Minutes, Recipe, Set, Task
from sixfold.cli.set_option import read_settings, refuse_twice

if TYPE_CHECKING:
    from sixfold.training.estimate import Estimate


def plan(
    inputs: Examples,
    task: Task = None,
    minutes: Minutes = 0,
    recipe: Recipe = None,
    settings: Set = None,
    init: Init = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Show a training run's recipe and its cost in time, memory and disk, measured on this machine.

    Nothing is written.

    Example: sixfold plan train.en train.de
    """
    from sixfold.cli.progress_bar import progress
    from sixfold.data.streams import keep_pipes
    from sixfold.tasks.registry import choose_task
    from sixfold.training.estimate import estimate
    from sixfold.training.setup import Request

    refuse_twice("train", {"minutes": minutes or None}, read_settings("plan", settings).get("train"))
    with progress("reading", unit="examples") as on_progress:
        request = Request(
            folder=Path("model"),
            inputs=keep_pipes(inputs),
            recipe=recipe,
            settings=settings or [],
            minutes=minutes,
            init=init,
            device=device,
        )
        found = estimate(choose_task(request, task), request, on_progress)
    if as_json:
        content = {**asdict(found), "plan": {**asdict(found.plan), "recipe": found.plan.recipe.model_dump()}}
        typer.echo(json.dumps(content, ensure_ascii=False))
    else:
        for line in plan_lines(found):
            typer.echo(line)


def plan_lines(found: Estimate) -> Iterator[str]:
    """Yield a plan and its costs in words, one per line."""
    from sixfold.training.progress import duration

    yield from found.plan.reasons
    yield from filter(None, [found.plan.held_out])
    yield from (f"warning: {line}" for line in found.plan.warnings)
    speed, train = found.speed, found.plan.recipe.train
    steps = "as many steps as fit" if train.minutes else f"{found.steps:,} steps"
    yield (
        f"{found.parameters / 1e6:.1f}M parameters, {steps} at {speed.seconds_a_step:.2f} s "
        f"({speed.targets_a_second:,.0f} target tokens/s, {speed.padding_share:.1%} padding)"
    )
    each = (
        f", {duration(speed.validation_seconds)} for each validation, one every {train.checkpoint_every:,} steps"
    )
    yield f"{duration(speed.preparation_seconds)} to prepare{'' if train.minutes else each}"
    yield (
        f"at most {duration(found.seconds)}, about {found.memory_bytes / 2**30:.1f} GiB of memory "
        f"and {found.disk_bytes / 2**20:,.0f} MiB of disk on {found.device}"
    )
