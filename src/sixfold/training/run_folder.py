"""The folder `training/` of a run: its lock, what the run was set up with, and what is refused."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sixfold.errors import DataError, RequestError, TrainingError
from sixfold.files import BLANK, is_sealed, make_folder, seal, sha256, write_atomically
from sixfold.models.folder import Json
from sixfold.training.ranks import Ranks

LOCK = "lock"  # held while a run goes on
RUN, INPUTS = "run.json", "inputs.json"
KEYS = {"task", "recipe", "seed", "facts", "base", "continues", "files"}


@dataclass(frozen=True)
class RunFolder:
    """The folder of a model, seen as that of a run."""

    model: Path

    @property
    def training(self) -> Path:
        """Where everything is that only training needs."""
        return self.model / "training"

    @property
    def data(self) -> Path:
        """Where the prepared corpus is."""
        return self.training / "data"

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.training / "checkpoints"

    def has_checkpoint(self) -> bool:
        """Whether there is something to resume."""
        return any(self.checkpoints.glob("step-*"))

    # What the run was set up with

    def write(self, content: dict[str, Any]) -> None:
        """Write run.json, which holds the digest of itself."""
        write_atomically(self.training / RUN, seal(json.dumps({**content, "sha256": BLANK}, indent=1)))

    def read(self) -> dict[str, Any]:
        """Read run.json and verify it."""
        path = self.training / RUN
        try:
            raw = path.read_bytes()
            content = json.loads(raw)
            is_whole = is_sealed(raw, content.pop("sha256")) and content.keys() == KEYS
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            is_whole = False
        if not is_whole:
            raise TrainingError(f"{path} is damaged.", "Train again from the data, in another folder.")
        return content

    def digests(self, paths: Iterable[Path]) -> dict[str, str]:
        """Return the digests of files of the run."""
        return {str(path.relative_to(self.training)): sha256(path) for path in paths}

    def refuse_damaged(self, files: dict[str, str]) -> None:
        """Raise if a file that the run was set up with is not what it was."""
        for name, digest in files.items():
            path = self.training / name
            if not path.is_file() or sha256(path) != digest:
                raise TrainingError(
                    f"{path} is damaged: it is not what was written.",
                    "Train again from the data, in another folder.",
                )

    # Its input

    def write_inputs(self, paths: Iterable[Path]) -> Path:
        """Remember what identifies the input files."""
        files = [
            {"path": str(path.resolve()), "bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in paths
            if path.is_file()
        ]
        write_atomically(self.training / INPUTS, json.dumps(files, indent=1).encode())
        return self.training / INPUTS

    def inputs(self) -> list[dict[str, Json]]:
        """Return what identifies the input files."""
        found: list[dict[str, Json]] = json.loads((self.training / INPUTS).read_bytes())
        return found

    def refuse_changed_input(self) -> None:
        """Raise if an input file's content changed since it was prepared; one that is gone is not needed."""
        for known in self.inputs():
            file = Path(str(known["path"]))
            is_there = file.is_file()
            if is_there and (file.stat().st_size != known["bytes"] or sha256(file) != known["sha256"]):
                raise DataError(
                    f"{file} has changed since this training began.",
                    "Put the old file back to go on, or train the new one in another folder.",
                )

    def refuse_other_input(self, path: str | Path) -> None:
        """Raise if the run was begun with other files than this one."""
        known = [Path(str(file["path"])) for file in self.inputs()]
        if not any(Path(path).resolve() in (each, *each.parents) for each in known):
            raise RequestError(
                f"The training in {self.model} was begun with other files than {path}.", "Leave them out."
            )

    # Whether a run may begin, or go on

    def refuse_used(self) -> None:
        """Refuse to write over a model or a run."""
        if self.has_checkpoint():
            raise RequestError(
                f"{self.model} already holds a training run.",
                f"Go on with: sixfold train --resume -o {self.model}   (or choose another folder)",
            )
        if (self.model / "sixfold.json").exists():
            raise RequestError(
                f"{self.model} already holds a model.", "Choose another folder, or delete this one."
            )
        if self.model.exists() and not self.model.is_dir():
            raise RequestError(f"{self.model} is a file.", "Give a folder for the model.")

    def refuse_unresumable(self) -> None:
        """Refuse to resume where there is no run."""
        if not (self.training / RUN).is_file():
            raise RequestError(
                f"There is no training to resume in {self.model}.", "Leave out --resume to begin one."
            )

    def remove_unfinished(self) -> None:
        """Delete what a run left that was killed before its first checkpoint; the lock on it is ours by now."""
        for leftover in self.training.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
            elif leftover.name != LOCK:
                leftover.unlink()

    @contextmanager
    def locked(self, ranks: Ranks) -> Iterator[None]:
        """Hold the folder against a second run; the system frees the lock of a process that dies."""
        if not ranks.is_first:
            yield
            return
        is_new = not self.model.exists()
        path = self.training / LOCK
        try:
            make_folder(self.training)
            self.refuse_links()
            lock = path.open("a")
        except OSError as error:
            raise RequestError(
                f"Cannot write to {self.model}: {error.strerror}.", "Choose another folder."
            ) from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                    raise OSError  # another run deleted this file meanwhile, and a third could lock a new one
            except OSError as error:
                raise RequestError(
                    f"Another training is running in {self.model}.", "Wait for it, or choose another folder."
                ) from error
            try:
                yield
            finally:
                self.remove_if_never_begun(is_new)

    def refuse_links(self) -> None:
        """Refuse files that lie elsewhere: what is written here must not end up there."""
        for path in self.training.iterdir():
            if path.is_symlink() and not path.is_dir():
                raise RequestError(
                    f"{path} is a link, and a plain file was expected.", "Copy the file itself here."
                )

    def remove_if_never_begun(self, is_new: bool) -> None:
        """Leave nothing behind of a run that ended before it was set up."""
        if not (self.training / RUN).exists():
            shutil.rmtree(self.training, ignore_errors=True)
            if is_new:
                self.model.rmdir()
