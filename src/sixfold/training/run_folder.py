"""The folder `training/` of a run: its lock, its setup, and the checks before a run starts or resumes."""

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

LOCK = "lock"  # held during a run
RUN, INPUTS = "run.json", "inputs.json"
KEYS = {"task", "recipe", "seed", "facts", "base", "continues", "files"}


@dataclass(frozen=True)
class RunFolder:
    """The training files in a model folder."""

    model: Path

    @property
    def training(self) -> Path:
        """The folder with everything that only training needs."""
        return self.model / "training"

    @property
    def data(self) -> Path:
        """The folder of the prepared corpus."""
        return self.training / "data"

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.training / "checkpoints"

    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint to resume from."""
        return any(self.checkpoints.glob("step-*"))

    # The setup of the run

    def write(self, content: dict[str, Any]) -> None:
        """Write run.json, which contains its own digest."""
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
        """Return the digests of the run's files."""
        return {str(path.relative_to(self.training)): sha256(path) for path in paths}

    def refuse_damaged(self, files: dict[str, str]) -> None:
        """Raise if a file of the run's setup has changed."""
        for name, digest in files.items():
            path = self.training / name
            if not path.is_file() or sha256(path) != digest:
                raise TrainingError(
                    f"{path} is damaged: its SHA-256 differs.",
                    "Train again from the data, in another folder.",
                )

    # Its input

    def write_inputs(self, paths: Iterable[Path]) -> Path:
        """Record what identifies the input files."""
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
        """Raise if an input file has changed since it was prepared; a missing one is not needed any more."""
        for known in self.inputs():
            file = Path(str(known["path"]))
            is_there = file.is_file()
            if is_there and (file.stat().st_size != known["bytes"] or sha256(file) != known["sha256"]):
                raise DataError(
                    f"{file} has changed since this training began.",
                    "Restore the old file to continue, or train on the new one in another folder.",
                )

    def refuse_other_input(self, path: str | Path) -> None:
        """Raise if the run was started with other files."""
        known = [Path(str(file["path"])) for file in self.inputs()]
        if not any(Path(path).resolve() in (each, *each.parents) for each in known):
            raise RequestError(
                f"The training in {self.model} was started with other files than {path}.",
                "Leave out the files: --resume uses those of the run.",
            )

    # Whether a run may start, or resume

    def refuse_used(self) -> None:
        """Refuse to overwrite a model or a run."""
        if self.has_checkpoint():
            raise RequestError(
                f"{self.model} already holds a training run.",
                f"Continue it with: sixfold train --resume -o {self.model}   (or choose another folder)",
            )
        if (self.model / "sixfold.json").exists():
            raise RequestError(
                f"{self.model} already holds a model.", "Choose another folder, or delete this one."
            )
        if self.model.exists() and not self.model.is_dir():
            raise RequestError(
                f"{self.model} is a file, and a folder was expected.", "Give a folder for the model."
            )

    def refuse_unresumable(self) -> None:
        """Refuse to resume if there is no run."""
        if not (self.training / RUN).is_file():
            raise RequestError(
                f"There is no training to resume in {self.model}.", "Leave out --resume to start one."
            )

    def remove_unfinished(self) -> None:
        """Delete the files of a run that was killed before its first checkpoint; we hold the lock."""
        for leftover in self.training.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
            elif leftover.name != LOCK:
                leftover.unlink()

    @contextmanager
    def locked(self, ranks: Ranks) -> Iterator[None]:
        """Lock the folder against a second run; the system frees the lock of a process that dies."""
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
                    raise OSError  # another run has deleted this file, and a third could lock a new one
            except OSError as error:
                raise RequestError(
                    f"Another training is running in {self.model}.", "Wait for it, or choose another folder."
                ) from error
            try:
                yield
            finally:
                self.remove_if_never_begun(is_new)

    def refuse_links(self) -> None:
        """Refuse symbolic links: nothing must be written outside this folder."""
        for path in self.training.iterdir():
            if path.is_symlink() and not path.is_dir():
                raise RequestError(f"{path} is a link, but must be a regular file.", "Copy the file itself here.")

    def remove_if_never_begun(self, is_new: bool) -> None:
        """Delete the files of a run that ended before it was set up."""
        if not (self.training / RUN).exists():
            shutil.rmtree(self.training, ignore_errors=True)
            if is_new:
                self.model.rmdir()
