"""The arguments of `train`: (inputs, output, task), or (source, target, model) as in version 0.1."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sixfold.errors import ConfigError
from sixfold.tasks.registry import TASKS

FileOrFolder = str | Path
Inputs = FileOrFolder | Sequence[FileOrFolder]
DEFAULT_OUTPUT = "model"


@dataclass(frozen=True)
class Arguments:
    """The inputs, the model folder to write, and the task if it is named."""

    inputs: list[FileOrFolder]
    output: Path
    task: str | None


ByPlace = tuple[Inputs | None, FileOrFolder | None, FileOrFolder | None]
ByFormerName = tuple[FileOrFolder | None, FileOrFolder | None, FileOrFolder | None]  # source, target, model


def read_arguments(by_place: ByPlace, by_former_name: ByFormerName) -> Arguments:
    """Return what the arguments mean in either version."""
    if by_former_name == (None, None, None):
        return read_by_place(*by_place)
    return read_by_former_name(by_place, *by_former_name)


def read_by_place(inputs: Inputs | None, output: FileOrFolder | None, task: FileOrFolder | None) -> Arguments:
    """Interpret three positional arguments of either version."""
    if is_pair(inputs, output, task):
        return Arguments([*as_list(inputs), *as_list(output)], Path(task or DEFAULT_OUTPUT), None)
    return Arguments(as_list(inputs), Path(output or DEFAULT_OUTPUT), None if task is None else str(task))


def read_by_former_name(
    given: ByPlace,
    source: FileOrFolder | None,
    target: FileOrFolder | None,
    model: FileOrFolder | None,
) -> Arguments:
    """Interpret a call with some of `source`, `target` and `model` given by name, the others by position."""
    inputs, output, task = given
    if None not in (inputs, source) or None not in (output, target):
        raise ConfigError(
            "The source or the target is given twice.", "Write train([source, target], output), without names."
        )
    files = [*as_list(inputs), *as_list(source), *as_list(output), *as_list(target)]
    return Arguments(files, Path(model or DEFAULT_OUTPUT), None if task is None else str(task))


def is_pair(inputs: Inputs | None, output: FileOrFolder | None, task: FileOrFolder | None) -> bool:
    """Return whether the first two arguments are a source and a target; both may be left out to resume a run."""
    if inputs is output is None:
        return task is not None and str(task) not in TASKS
    if output is None or not isinstance(inputs, str | Path):
        return False
    if task is None:
        return Path(output).is_file()  # a model is a folder
    is_misspelled = bool(difflib.get_close_matches(str(task), TASKS, n=1)) and not Path(output).exists()
    return str(task) not in TASKS and not is_misspelled


def as_list(inputs: Inputs | None) -> list[FileOrFolder]:
    """Return one path, several or none as a list."""
    if inputs is None:
        return []
    return [inputs] if isinstance(inputs, str | Path) else list(inputs)
