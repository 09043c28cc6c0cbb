"""Checkpoints: everything needed to go on, whole or not at all, each file known by its digest.

checkpoints/step-00001000/weights.safetensors    the model
                          optimizer.safetensors  Adam's moments (and the moving average, if there is one)
                          state.json             where the run stands, and the digests of the other two
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sixfold.errors import TrainingError, WorkError
from sixfold.files import disk_hint, sha256, sync
from sixfold.models.folder import Json

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """What was saved at a step."""

    weights: Tensors
    optimizer: Tensors
    state: dict[str, Json]


class CheckpointStore:
    """The checkpoints of one run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)

    def path(self, step: int) -> Path:
        """Return the folder of a step's checkpoint."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, oldest first."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.folder.glob("step-*") if path.is_dir())

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint beside the others and rename it into place when all of it is on disk."""
        self.remove_unfinished()
        temporary = self.folder / f".saving-{step:08d}"
        try:
            temporary.mkdir()
            save_file(checkpoint.weights, temporary / WEIGHTS)
            save_file(checkpoint.optimizer, temporary / OPTIMIZER)
            digests = {name: sha256(temporary / name) for name in (WEIGHTS, OPTIMIZER)}
            (temporary / STATE).write_text(json.dumps({**checkpoint.state, "sha256": digests}))
            for name in (WEIGHTS, OPTIMIZER, STATE, "."):
                sync(temporary / name)
            shutil.rmtree(self.path(step), ignore_errors=True)
            temporary.rename(self.path(step))
            sync(self.folder)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            cause = error if isinstance(error, OSError) else OSError(28, str(error))
            raise WorkError(f"Cannot save the checkpoint of step {step}: {error}.", disk_hint(cause)) from error

    def remove_unfinished(self) -> None:
        """Delete what a killed process left half written."""
        for leftover in self.folder.glob(".saving-*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def load(self, step: int) -> Checkpoint:
        """Read a checkpoint and verify it; raises ValueError, with the file's name, if it is damaged."""
        folder = self.path(step)
        try:
            state = json.loads((folder / STATE).read_bytes())
            for name in (WEIGHTS, OPTIMIZER):
                if sha256(folder / name) != state["sha256"][name]:
                    raise ValueError(f"{folder / name} is damaged")
            return Checkpoint(load_file(folder / WEIGHTS), load_file(folder / OPTIMIZER), state)
        except (OSError, KeyError, TypeError, SafetensorError, json.JSONDecodeError) as error:
            raise ValueError(f"{folder} is damaged: {error}") from error

    def newest(self) -> tuple[Checkpoint, list[str]]:
        """Return the newest checkpoint that is whole, and what is wrong with any newer ones."""
        problems: list[str] = []
        for step in reversed(self.steps()):
            try:
                return self.load(step), problems
            except ValueError as error:
                problems.append(str(error))
        raise TrainingError(
            f"There is no whole checkpoint in {self.folder}. {' '.join(problems)}".strip(),
            "Start the training again without --resume, in another folder.",
        )

    def weights(self, step: int) -> Tensors:
        """Read only the weights of a checkpoint."""
        return load_file(self.path(step) / WEIGHTS)

    def rotate(self, keep_last: int, keep: set[int]) -> None:
        """Delete all but the last few checkpoints and those named."""
        for step in self.steps()[:-keep_last]:
            if step not in keep:
                shutil.rmtree(self.path(step), ignore_errors=True)


def average(weights: Sequence[Tensors]) -> Tensors:
    """Return the mean of several models' weights (section 6.1)."""
    return {name: torch.stack([each[name] for each in weights]).mean(dim=0) for name in weights[0]}
