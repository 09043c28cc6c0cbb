"""Checkpoints: everything needed to go on, whole or not at all, each file known by its digest.

checkpoints/step-00001000/weights.safetensors    the model
                          optimizer.safetensors  Adam's moments (and the moving average, if there is one)
                          state.json             where the run stands, and the digests of all three
"""

from __future__ import annotations

import contextlib
import hashlib
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
            content = {**checkpoint.state, "sha256": digests(temporary, checkpoint.state)}
            (temporary / STATE).write_text(json.dumps(content))
            for name in (WEIGHTS, OPTIMIZER, STATE, "."):
                sync(temporary / name)
            self.put_in_place(temporary, step)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            cause = error if isinstance(error, OSError) else OSError(28, str(error))
            raise WorkError(f"Cannot save the checkpoint of step {step}: {error}.", disk_hint(cause)) from error

    def put_in_place(self, temporary: Path, step: int) -> None:
        """Rename a whole checkpoint into place; one of the same step is set aside until then."""
        aside = self.folder / f".replaced-{step:08d}"
        if self.path(step).exists():
            self.path(step).rename(aside)
        temporary.rename(self.path(step))
        sync(self.folder)
        shutil.rmtree(aside, ignore_errors=True)

    def remove_unfinished(self) -> None:
        """Delete what a killed process left half written, and put back what it had only set aside."""
        for leftover in self.folder.glob(".saving-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for aside in self.folder.glob(".replaced-*"):
            place = self.path(int(aside.name.removeprefix(".replaced-")))
            if place.exists():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):  # another rank was faster
                    aside.rename(place)

    def load(self, step: int) -> Checkpoint:
        """Read a checkpoint and verify it; raises ValueError, with the file's name, if it is damaged."""
        folder = self.path(step)
        try:
            state = json.loads((folder / STATE).read_bytes())
            expected = state.pop("sha256")
            for name, digest in digests(folder, state).items():
                if digest != expected[name]:
                    raise ValueError(f"{name} is not what was saved")
            return Checkpoint(load_file(folder / WEIGHTS), load_file(folder / OPTIMIZER), state)
        except (OSError, LookupError, AttributeError, TypeError, ValueError, SafetensorError) as error:
            raise ValueError(f"{folder} is damaged: {error}") from error

    def newest(self) -> tuple[Checkpoint, list[str]]:
        """Return the newest checkpoint that is whole, and what is wrong with any newer ones."""
        self.remove_unfinished()
        problems: list[str] = []
        for step in reversed(self.steps()):
            try:
                return self.load(step), problems
            except ValueError as error:
                problems.append(str(error))
        raise TrainingError(
            f"There is no whole checkpoint in {self.folder}. {' '.join(problems)}".strip(),
            f"Start the training again without --resume{', in another folder' if problems else ''}.",
        )

    def has_weights(self, step: int) -> bool:
        """Return whether there is a checkpoint of this step and its weights are whole."""
        folder = self.path(step)
        try:
            return sha256(folder / WEIGHTS) == json.loads((folder / STATE).read_bytes())["sha256"][WEIGHTS]
        except (OSError, LookupError, TypeError, ValueError):
            return False

    def weights(self, step: int) -> Tensors:
        """Read only the weights of a checkpoint."""
        return load_file(self.path(step) / WEIGHTS)

    def rotate(self, keep_last: int, keep: set[int]) -> None:
        """Delete all but the last few checkpoints and those named."""
        for step in self.steps()[:-keep_last]:
            if step not in keep:
                shutil.rmtree(self.path(step), ignore_errors=True)


def digests(folder: Path, state: dict[str, Json]) -> dict[str, Json]:
    """Return the digests of a checkpoint's tensors and of its state, which stands in one file with them."""
    tensors: dict[str, Json] = {name: sha256(folder / name) for name in (WEIGHTS, OPTIMIZER)}
    return {**tensors, STATE: hashlib.sha256(json.dumps(state).encode()).hexdigest()}


def average(weights: Sequence[Tensors]) -> Tensors:
    """Return the mean of several models' weights (section 6.1)."""
    return {name: torch.stack([each[name] for each in weights]).mean(dim=0) for name in weights[0]}
