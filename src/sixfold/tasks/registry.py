"""All tasks, and the choice of the one that data is for."""

from __future__ import annotations

from collections.abc import Callable

from sixfold.errors import ConfigError, ModelFolderError, TrainingError
from sixfold.models.folder import load_info
from sixfold.settings import suggestion
from sixfold.tasks.embed import open_embedder
from sixfold.tasks.generate import Generate
from sixfold.tasks.translate import Translate
from sixfold.tasks.understand.answer import Answer
from sixfold.tasks.understand.classify import Classify
from sixfold.tasks.understand.fill import Fill
from sixfold.tasks.understand.tag import Tag
from sixfold.training.run_folder import RunFolder
from sixfold.training.setup import Request
from sixfold.training.task import Inputs, Opening, Task

TASKS: dict[str, Task] = {
    task.name: task for task in (Translate(), Generate(), Classify(), Tag(), Answer(), Fill())
}
RUN_ONLY: dict[str, Callable[[Opening], object]] = {"embed": open_embedder}  # they cannot be trained yet


def choose_task(request: Request, name: str | None = None) -> Task:
    """Return the requested task, that of the resumed run, or the one that the data is for."""
    if name is None and request.resume:
        return resumed_task(RunFolder(request.folder))
    return task_for(request.inputs, name)


def task_for(inputs: Inputs, name: str | None = None, command: str = "train") -> Task:
    """Return the task that is asked for, or that the data is for."""
    if name is not None:
        return task_named(name)
    fitting = [task for task in TASKS.values() if not inputs or task.detect(inputs)]
    if len(fitting) == 1 or not inputs:  # any task refuses to learn from nothing
        return fitting[0]
    shown = " ".join(map(str, inputs))
    commands = "\n".join(f"sixfold {command} {shown} --task {task.name}" for task in fitting or TASKS.values())
    what = "Several tasks can learn from this data" if fitting else "No task can learn from this data"
    raise ConfigError(f"{what}: {shown}.", commands)


def task_named(name: str) -> Task:
    """Return the task of that name."""
    if name in RUN_ONLY:
        raise ConfigError(
            f"Models for the task {name!r} cannot be trained yet.", "sixfold import gets published ones."
        )
    if name not in TASKS:
        raise ConfigError(f"There is no task {name!r}.", suggestion(name, TASKS))
    return TASKS[name]


def open_folder(opening: Opening) -> object:
    """Return what a person gets of a model folder: an object with a method such as `translate`."""
    name = load_info(opening.folder).task
    if name in RUN_ONLY:
        return RUN_ONLY[name](opening)
    if name not in TASKS:
        raise ModelFolderError(
            f"{opening.folder} has a model for the task {name!r}, which this version does not know."
        )
    return TASKS[name].open(opening)


def resumed_task(run_folder: RunFolder) -> Task:
    """Return the task of a run to resume."""
    run_folder.refuse_unresumable()
    run_folder.refuse_links()  # before anything is read through one
    name = run_folder.read()["task"]
    if name not in TASKS:
        raise TrainingError(f"{run_folder.model} is a run of the task {name!r}, which this version does not know.")
    return TASKS[name]
