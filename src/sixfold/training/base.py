"""The base of fine-tuning: the model it starts from, its validation examples, and the comparison at the end.

A base is read from its model folder once. From then on the run folder has everything that fine-tuning needs of it:
its weights are the checkpoint of step 0, and its own validation examples are copied.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from sixfold.data.shards import Corpus
from sixfold.errors import ConfigError, ModelFolderError, SixfoldError
from sixfold.files import sha256
from sixfold.models.folder import Json, ModelInfo, load_info, load_members
from sixfold.settings import Overrides
from sixfold.training.run_folder import RunFolder
from sixfold.training.state import RunState

if TYPE_CHECKING:
    from sixfold.training.task import Task


@dataclass(frozen=True)
class Base:
    """A model to fine-tune."""

    folder: Path
    info: ModelInfo
    sha256: tuple[str, ...]  # of each of its weight files

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    def as_json(self) -> dict[str, Json]:
        """Return what a fine-tuned model's folder states about its base."""
        return {"name": self.name, "sha256": list(self.sha256)}


def read_base(folder: Path, task: Task) -> Base:
    """Read what the model in a folder is; refuse one that the task cannot start from."""
    info = load_info(folder)
    if not task.accepts(info):
        raise ConfigError(
            f"The model in {folder} was trained for the task {info.task!r}, and this data is for {task.name!r}.",
            f"Fine-tune a model of the task {task.name!r}, or leave out --init to train a new one.",
        )
    return Base(folder, info, digests_of(folder, info))


def digests_of(folder: Path, info: ModelInfo) -> tuple[str, ...]:
    """Return the SHA-256 of each weight file; in format 1 all members are in one file."""
    names = dict.fromkeys(name for member in info.weights for name in member)
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ModelFolderError(f"{folder} has no file {missing[0]}.", "The folder is incomplete: copy it again.")
    return tuple(sha256(folder / name) for name in names)


def load_base(base: Base, remembered: Mapping[str, Json]) -> list[nn.Module]:
    """Load the models of a base; refuse a base that changed since the run was set up."""
    members = load_members(base.folder, base.info)
    if base.as_json() != remembered or digests_of(base.folder, base.info) != base.sha256:
        raise ModelFolderError(
            f"The model in {base.folder} changed while it was read.", "Wait until its own training has ended."
        )
    return members


def copy_validation(base: Base, task: str, processor: Mapping[str, str], to: Path) -> bool:
    """Copy the base's own validation examples into the run folder; return whether there are usable ones.

    They are usable if the same task prepared them with the same processor: the files that both have are equal.
    """
    run_folder = RunFolder(base.folder)
    try:
        content = run_folder.read()
        files: dict[str, str] = content["files"]
        valid = {name: digest for name, digest in files.items() if name.startswith("data/valid/")}
        run_folder.refuse_damaged(valid)
        is_same = all(files.get(name, digest) == digest for name, digest in processor.items())
        if content["task"] != task or not is_same or not valid:
            return False
        shutil.copytree(run_folder.data / "valid", to)
        return len(Corpus(to)) > 0
    except (SixfoldError, OSError):
        shutil.rmtree(to, ignore_errors=True)
        return False


def refuse_changed_base(overrides: Overrides, data_keys: Iterable[str]) -> None:
    """Refuse to change what a base's weights were made with, its shape and its tokenizer, or the weights."""
    changed = sorted(overrides.get("model", {}).keys() - {"dropout"})
    if changed:
        raise ConfigError(f"Fine-tuning keeps the model's own shape, so model.{changed[0]} cannot be set.")
    for key in sorted(overrides.get("data", {}).keys() & set(data_keys)):
        raise ConfigError(f"Fine-tuning keeps the model's own tokenizer, so data.{key} cannot be set.")
    initialise = overrides.get("train", {}).get("initialise", "random")
    if initialise != "random":
        raise ConfigError(
            f"Fine-tuning starts from the model's own weights, so train.initialise={initialise} cannot be set."
        )


@dataclass(frozen=True)
class BaseComparison:
    """The scores of a fine-tuned model and of its base."""

    score_name: str
    score: float  # of the published model on the new validation examples
    base_score: float
    own_score: float | None  # on the base's own validation examples; None if these are missing
    base_own_score: float | None
    decimals: int  # shown of a score
    is_base: bool  # no model was better, so the base's weights are published


def compare_with_base(state: RunState) -> BaseComparison | None:
    """Return how the published model compares with its base; None for a model trained from scratch."""
    best, base = state.best, state.base
    if not best or not base:
        return None
    own, base_own = best.get("own_score"), base.get("own_score")
    return BaseComparison(
        best["name"], best["score"], base["score"], own, base_own, best.get("decimals", 1), best["step"] == 0
    )


def say_comparison(found: BaseComparison) -> str:
    """Return a sentence on what fine-tuning gained on the new text and lost on the base's own."""
    name, own, base_own = found.score_name, found.own_score, found.base_own_score
    digits = f".{found.decimals}f"
    if found.is_base:
        return (
            f"No model was better than the base ({name} {found.base_score:{digits}}), so the folder "
            "holds the base's weights, unchanged."
        )
    gained = f"The base model has {name} {found.base_score:{digits}} on the same held-out text."
    if own is None or base_own is None:
        return f"{gained} {UNKNOWN}"
    return f"{gained} On the base's own validation text: {own:{digits}}; the base: {base_own:{digits}}."


UNKNOWN = (
    "Forgetting of the base's own text cannot be measured: the base's training folder, with its validation text, "
    "is missing."
)
