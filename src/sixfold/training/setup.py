"""Set up a run: read the data, decide everything, record it; or check that a run can resume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sixfold.errors import ConfigError
from sixfold.files import writing
from sixfold.models.encoder_decoder import count_parameters
from sixfold.models.ensemble import make_ensemble
from sixfold.models.folder import Json
from sixfold.settings import Overrides
from sixfold.training.base import UNKNOWN, Base, copy_validation, read_base
from sixfold.training.calibration import calibrated_speed
from sixfold.training.progress import Progress
from sixfold.training.recipe import Plan, Recipe, gather_overrides, make_recipe, merge
from sixfold.training.run_folder import RunFolder
from sixfold.training.signals import deferred
from sixfold.training.task import Given, Inputs, Learner, Opaque, Prepared, Task


@dataclass(frozen=True)
class Request:
    """A user's request to train."""

    folder: Path
    inputs: Inputs = ()
    valid: Inputs | None = None
    recipe: str | None = None
    settings: Sequence[str] = ()
    minutes: float = 0.0
    seed: int | None = None
    resume: bool = False
    init: Path | None = None
    device: str = "auto"

    def overrides(self, task: Task) -> Overrides:
        """Return the request as overrides of a recipe."""
        return gather_overrides(task.recipe, self.recipe, self.settings, self.minutes)


@dataclass(frozen=True)
class Setup:
    """Everything decided before the first step, and kept for resuming."""

    recipe: Recipe
    seed: int
    facts: dict[str, Any]  # what the task records of its input
    processor: Any
    data: Prepared
    base: dict[str, Json] = field(default_factory=dict)  # the model that training starts from; empty for none
    continues: bool = False  # whether all of the base is kept, so that it can be scored; else its head is replaced
    inputs: list[dict[str, Json]] = field(default_factory=list)


def set_up(task: Task, request: Request, run_folder: RunFolder, device: str, shown: Progress) -> None:
    """Read the data, decide everything, and write it to `training/`."""
    seed, overrides = 1 if request.seed is None else request.seed, request.overrides(task)
    examples = task.read(request.inputs, overrides)
    held_out = task.read(request.valid, overrides) if request.valid else None
    import_ahead()
    base = None if request.init is None else read_base(request.init, task)
    inherited = task.inherit(base, examples, overrides) if base else {}
    survey = task.survey(examples, seed, lambda done: shown.preparation(f"reading {task.read_in}", done))
    plan = propose(task, survey, merge(task.recipe, inherited, overrides), device, base)
    own = [plan.held_out] if plan.held_out and not held_out else []
    for line in (*plan.reasons, *own, *(f"warning: {warning}" for warning in plan.warnings)):
        shown.say(line)
    processor = task.fit(survey, plan.recipe, base)
    given = Given(examples, held_out, survey, plan.recipe, processor)
    with writing(run_folder.data):
        data = task.prepare(
            run_folder.data, given, lambda done: shown.preparation(f"encoding {task.examples}", done)
        )
    for line in data.warnings:
        shown.say(f"warning: {line}")
    describe(shown, task, plan.recipe, processor, data, device)
    files = task.save_processor(run_folder.training, processor)
    continues = base is not None and task.continues(base, processor)
    if base and continues and not copy_validation(base, task.name, run_folder.digests(files), data.base_folder):
        shown.say(f"warning: {UNKNOWN}")
    facts = task.facts(examples, base)
    remembered = base.as_json() if base else {}
    setup = Setup(plan.recipe, seed, facts, processor, data, remembered, continues)
    paths = [*examples.paths, *(held_out.paths if held_out else ())]
    write_setup(task, run_folder, setup, files, paths)


def propose(task: Task, survey: Opaque, overrides: Overrides, device: str, base: Base | None) -> Plan:
    """Choose everything that the user left open, for a new model or for fine-tuning."""
    if base is not None:
        return task.propose_fine_tuning(survey, base, overrides)
    return task.propose(survey, overrides, device, calibrated_speed(overrides, device))


def import_ahead() -> None:
    """Import now what training needs anyway: imported later, it would fragment the memory used for texts."""
    with deferred():
        for module in ("sentencepiece", "torch._dynamo"):
            import_module(module)


def describe(shown: Progress, task: Task, recipe: Recipe, processor: Any, data: Prepared, device: str) -> None:
    """Show what will be trained."""
    with torch.device("meta"):
        parameters = count_parameters(new_model(task.learner(recipe, processor), recipe))
    shown.say(
        f"training {parameters / 1e6:.1f}M parameters on {len(data.train()):,} {task.examples} for "
        f"{recipe.train.length} on {device}, {len(data.valid()):,} {task.examples} held out"
    )


def new_model(learner: Learner, recipe: Recipe) -> nn.Module:
    """Return a new model, or an ensemble of several."""
    return make_ensemble(learner.new_model, recipe.num_members)


def write_setup(
    task: Task, run_folder: RunFolder, setup: Setup, processor_files: Sequence[Path], inputs: Sequence[Path]
) -> None:
    """Write the setup; run.json comes last, so that its presence means that the setup is complete."""
    paths = [
        *processor_files,
        run_folder.write_inputs(inputs),
        *sorted(path for path in run_folder.data.rglob("*") if path.is_file()),
    ]
    run_folder.write(
        {
            "task": task.name,
            "recipe": setup.recipe.model_dump(mode="json"),
            "seed": setup.seed,
            "facts": setup.facts,
            "base": setup.base,
            "continues": setup.continues,
            "files": run_folder.digests(paths),
        }
    )


def read_setup(task: Task, run_folder: RunFolder) -> Setup:
    """Read a setup written by `write_setup`."""
    content = run_folder.read()
    return Setup(
        recipe=make_recipe(task.recipe, content["recipe"]),
        seed=content["seed"],
        facts=content["facts"],
        processor=task.load_processor(run_folder.training),
        data=Prepared(run_folder.data),
        base=content["base"],
        continues=content["continues"],
        inputs=run_folder.inputs(),
    )


def set_up_again(task: Task, request: Request, run_folder: RunFolder) -> None:
    """Check that a run can resume, and apply changes to its recipe, which are allowed in the part `train` only."""
    content = run_folder.read()
    run_folder.refuse_damaged(content["files"])
    run_folder.refuse_changed_input()
    for path in request.inputs[:1]:
        run_folder.refuse_other_input(Path(path))
    overrides = request.overrides(task)
    refuse_changed_parts(overrides)
    recipe = make_recipe(task.recipe, merge(task.recipe, content["recipe"], overrides))
    run_folder.write({**content, "recipe": recipe.model_dump(mode="json")})


def refuse_changed_parts(overrides: Overrides) -> None:
    """Refuse to change settings on resuming that the weights or the prepared data depend on."""
    fixed = sorted(overrides.keys() - {"train"})
    if fixed:
        raise ConfigError(f"A resumed run keeps its {fixed[0]} part; only train.… can be changed.")
    if "batch_tokens" in overrides.get("train", {}):
        raise ConfigError("A resumed run keeps its train.batch_tokens, which determines its position in the data.")


def refuse_new_start(request: Request) -> None:
    """Refuse options on resuming that only a new run can have."""
    given = {"--seed": request.seed, "--valid": request.valid, "--init": request.init}
    for option, value in given.items():
        if value is not None:
            raise ConfigError(
                f"A resumed run keeps the setting it started with, so {option} cannot be given.", "Leave it out."
            )
