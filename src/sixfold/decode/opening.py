"""What a command reads of a model folder: models, tokenizer and description, all of one training."""

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

COMMANDS = {  # of each task: what runs its models
    task: f"sixfold {task}" for task in ("translate", "generate", "classify", "tag", "answer", "fill", "embed")
}


def read_folder(
    folder: Path, task: str, load_tokenizer: Callable[[Path, ModelInfo], AnyKind]
) -> tuple[list[nn.Module], AnyKind, ModelInfo]:
    """Read the models of a folder, their tokenizer and their description; the folder must be of this task."""
    info = load_info(folder)
    refuse_other_task(folder, info, task)
    try:
        tokenizer, models = load_tokenizer(folder, info), load_members(folder, info)
    except ModelFolderError:
        if load_info(folder) == info:
            raise
        return read_folder(folder, task, load_tokenizer)  # a training replaced the model in between
    return models, tokenizer, info


def refuse_other_task(folder: Path, info: ModelInfo, task: str) -> None:
    """Refuse a folder of another task, and say which command runs it."""
    if info.task != task:
        command = COMMANDS.get(info.task)
        raise ModelFolderError(
            f"{folder} holds a model for the task {info.task!r}, not for {task!r}.",
            f"{command} {folder}" if command else "It may be of a later version of sixfold.",
        )


def ready_device(name: str, precision: Precision) -> str:
    """Return the device to compute on, or refuse a precision that would not work there."""
    torch.set_num_threads(min(torch.get_num_threads(), num_cores()))  # more than are allowed would only wait
    device = choose_device(name)
    if precision == "int8" and device != "cpu":
        raise ConfigError(f"int8 is for the CPU, but the device is {device}.", "Leave it out, or add --device cpu")
    if not prepare_environment(precision):
        raise ConfigError(f"This CPU cannot compute in {precision} safely.", "sixfold doctor says why.")
    return device
