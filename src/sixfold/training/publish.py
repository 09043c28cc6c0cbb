"""Publishing: the weights of a validation become the model folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from sixfold.models.encoder_decoder import count_parameters
from sixfold.models.folder import Json
from sixfold.models.weights import Weights
from sixfold.training.checkpoint import refuse_not_finite
from sixfold.training.loop import Publish
from sixfold.training.setup import Setup
from sixfold.training.state import RunState
from sixfold.training.task import Published, Task


def publisher(task: Task, setup: Setup, model: nn.Module, folder: Path) -> Publish:
    """Return the function that writes the model folder."""

    def publish(state: RunState, weights: Weights) -> None:
        refuse_not_finite(state.step, weights)
        cpu = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in weights.items()}
        validated: dict[str, Json] = {"validation": state.best}
        if state.base:
            validated["base"] = state.base
        published = Published(
            recipe=setup.recipe,
            processor=setup.processor,
            facts=setup.facts,
            scores=validated,
            corpus={
                task.examples: len(setup.data.train()),
                "files": [{**file, "path": readable_name(str(file["path"]))} for file in setup.inputs],
            },
            training={
                "seed": setup.seed,
                "torch": torch.__version__,
                "recipe": setup.recipe.model_dump(mode="json"),
                **({"base": setup.base} if setup.base else {}),
            },
            num_parameters=count_parameters(model),
            members=split_members(cpu, setup.recipe.num_members),
        )
        task.publish(folder, published)

    return publish


def split_members(weights: Weights, count: int) -> Sequence[Weights]:
    """Return the weights of each member of an ensemble, under the names they have in a single model."""
    prefixes = [f"models.{number}." for number in range(count)] if count > 1 else [""]
    return [
        {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}
        for prefix in prefixes
    ]


def readable_name(path: str) -> str:
    """Return the last part of a path as text, whatever the encoding of the locale."""
    return os.fsencode(Path(path).name).decode("utf-8", errors="replace")
