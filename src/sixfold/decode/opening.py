"""Open a model folder: models, tokenizer and description, all of the same training run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from sixfold.decode.matrices import Precision
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.machine import choose_device, num_cores, prepare_environment
from sixfold.models.folder import ModelInfo, load_info, load_members

AnyKind = TypeVar("AnyKind")  # of tokenizer

COMMANDS = {  # the command for each task
    task: f"sixfold {task}" for task in ("translate", "generate", "classify", "tag", "answer", "fill", "embed")
}


def read_folder(
    folder: Path, task: str, load_tokenizer: Callable[[Path, ModelInfo], AnyKind]
) -> tuple[list[nn.Module], AnyKind, ModelInfo]:
    """Read the models of a folder, their tokenizer and their description; refuse a folder of another task."""
    info = load_info(folder)
    refuse_other_task(folder, info, task)
    try:
        tokenizer, models = load_tokenizer(folder, info), load_members(folder, info)
    except ModelFolderError:
        if load_info(folder) == info:
            raise
        return read_folder(folder, task, load_tokenizer)  # a training run replaced the model in between
    return models, tokenizer, info


def refuse_other_task(folder: Path, info: ModelInfo, task: str) -> None:
    """Refuse a folder of another task, and name the command for it."""
    if info.task != task:
        command = COMMANDS.get(info.task)
        raise ModelFolderError(
            f"{folder} has a model for the task {info.task!r}, not for {task!r}.",
            f"{command} {folder}" if command else "It may be from a later version of sixfold.",
        )


def ready_device(name: str, precision: Precision) -> str:
    """Return the device to compute on; refuse a precision that does not work there."""
    torch.set_num_threads(min(torch.get_num_threads(), num_cores()))  # more than the allowed cores would only wait
    device = choose_device(name)
    if precision == "int8" and device != "cpu":
        raise ConfigError(f"int8 is for the CPU, but the device is {device}.", "Leave it out, or add --device cpu")
    if not prepare_environment(precision):
        raise ConfigError(f"This CPU cannot compute in {precision} safely.", "sixfold doctor says why.")
    return device
