"""Checkpoints: everything needed to resume, written atomically, each file verified by its digest.

checkpoints/step-00001000/weights.safetensors    the model
                          optimizer.safetensors  Adam's moments (and the moving average, if there is one)
                          state.json             the state of the run, and the digests of all three
"""

from __future__ import annotations

import contextlib
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
from sixfold.files import BLANK, disk_hint, is_sealed, make_durable, make_folder, seal, sha256, sync
from sixfold.models.folder import Json

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint."""

    weights: Tensors
    optimizer: Tensors
    state: dict[str, Json]


class CheckpointStore:
    """The checkpoints of one run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        make_folder(folder)

    def path(self, step: int) -> Path:
        """Return the folder of a step's checkpoint."""
        return self.folder / f"step-{step:08d}"

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, oldest first."""
        numbers = (path.name.removeprefix("step-") for path in self.folder.glob("step-*") if path.is_dir())
        return sorted(int(number) for number in numbers if number.isdecimal())

    def save(self, step: int, checkpoint: Checkpoint) -> None:
        """Write a checkpoint under a temporary name, and rename it when all of it is on disk."""
        refuse_not_finite(step, {**checkpoint.weights, **checkpoint.optimizer})
        self.remove_unfinished()
        temporary = self.folder / f".saving-{step:08d}"
        try:
            temporary.mkdir()
            save_file(checkpoint.weights, temporary / WEIGHTS)
            save_file(checkpoint.optimizer, temporary / OPTIMIZER)
            content = {**checkpoint.state, "sha256": {**digests(temporary), STATE: BLANK}}
            (temporary / STATE).write_bytes(seal(json.dumps(content)))
            for name in (WEIGHTS, OPTIMIZER, STATE):
                make_durable(temporary / name)
            sync(temporary)
            self.put_in_place(temporary, step)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(temporary, ignore_errors=True)
            cause = error if isinstance(error, OSError) else OSError(28, str(error))
            raise WorkError(f"Cannot save the checkpoint of step {step}: {error}.", disk_hint(cause)) from error

    def put_in_place(self, temporary: Path, step: int) -> None:
        """Rename a complete checkpoint into place; an older one of the same step is set aside until then."""
        aside = self.folder / f".replaced-{step:08d}"
        if self.path(step).exists():
            self.path(step).rename(aside)
        temporary.rename(self.path(step))
        sync(self.folder)
        shutil.rmtree(aside, ignore_errors=True)

    def remove_unfinished(self) -> None:
        """Delete what a killed process left half written, and restore what it had set aside."""
        for leftover in self.folder.glob(".saving-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for aside in self.folder.glob(".replaced-*"):
            place = self.path(int(aside.name.removeprefix(".replaced-")))
            if place.exists():
                shutil.rmtree(aside, ignore_errors=True)
            else:
                with contextlib.suppress(FileNotFoundError):  # another rank has deleted it
                    aside.rename(place)

    def load(self, step: int) -> Checkpoint:
        """Read a checkpoint and verify it; raises ValueError, with the file's name, if it is damaged."""
        folder = self.path(step)
        state, expected = self.load_state(step)
        try:
            for name, digest in digests(folder).items():
                if digest != expected.get(name):
                    raise ValueError(f"the SHA-256 of {name} differs")
            return Checkpoint(load_file(folder / WEIGHTS), load_file(folder / OPTIMIZER), state)
        except (OSError, ValueError, SafetensorError) as error:  # the system's message names the file
            raise ValueError(f"{folder} is damaged: {error}") from error

    def load_state(self, step: int) -> tuple[dict[str, Json], dict[str, str]]:
        """Read the state of a checkpoint and the digests in it."""
        path = self.path(step) / STATE
        try:
            raw = path.read_bytes()
            state = json.loads(raw)
            expected = state.pop("sha256")
            if is_sealed(raw, expected[STATE]):
                return state, expected
        except (OSError, LookupError, AttributeError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{path.parent} is damaged: {STATE} cannot be read ({error})") from error
        raise ValueError(f"{path.parent} is damaged: the SHA-256 of {STATE} differs")

    def newest(self) -> tuple[Checkpoint, list[str]]:
        """Return the newest undamaged checkpoint, and the problems of any newer ones."""
        self.remove_unfinished()
        problems: list[str] = []
        for step in reversed(self.steps()):
            try:
                return self.load(step), problems
            except ValueError as error:
                problems.append(str(error))
        raise TrainingError(
            f"There is no undamaged checkpoint in {self.folder}. {' '.join(problems)}".strip(),
            f"Start the training again without --resume{', in another folder' if problems else ''}.",
        )

    def has_weights(self, step: int) -> bool:
        """Return whether there is a checkpoint of this step with undamaged weights."""
        folder = self.path(step)
        try:
            return sha256(folder / WEIGHTS) == json.loads((folder / STATE).read_bytes())["sha256"][WEIGHTS]
        except (OSError, LookupError, TypeError, ValueError):
            return False

    def weights(self, step: int) -> Tensors:
        """Read only the weights of a checkpoint."""
        return load_file(self.path(step) / WEIGHTS)

    def rotate(self, step: int, keep_last: int, keep: set[int]) -> None:
        """Delete all checkpoints up to a step but the last few and those in `keep`.

        Later ones are damaged, because the run resumed from before them: they must not count as the last.
        """
        saved = [each for each in self.steps() if each <= step]
        for old in saved[:-keep_last]:
            if old not in keep:
                shutil.rmtree(self.path(old), ignore_errors=True)


def digests(folder: Path) -> dict[str, str]:
    """Return the digests of a checkpoint's tensors."""
    return {name: sha256(folder / name) for name in (WEIGHTS, OPTIMIZER)}


def refuse_not_finite(step: int, tensors: Tensors) -> None:
    """Refuse to save numbers that are not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise TrainingError(
                f"After step {step}, {name} contains numbers that are not finite, so it was not saved.",
                "The previous checkpoint is intact: continue with --resume and a lower train.learning_rate.",
            )


def average(weights: Sequence[Tensors]) -> Tensors:
    """Return the mean of several models' weights (section 6.1)."""
    return {name: torch.stack([each[name] for each in weights]).mean(dim=0) for name in weights[0]}
