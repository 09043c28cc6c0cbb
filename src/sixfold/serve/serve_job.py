"""Choose the job of a server's worker by the task of its model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sixfold.errors import ModelFolderError
from sixfold.serve.generate_job import GenerateJob
from sixfold.serve.translate_job import TranslateJob

if TYPE_CHECKING:
    from sixfold.decode.worker_process import Job
    from sixfold.decode.worker_protocol import Start


def open_job(start: Start) -> Job:
    """Open a model folder of any task that can be served."""
    from sixfold.decode import generate, translate
    from sixfold.models.folder import load_info

    origin = start.origin
    task = load_info(Path(origin.folder)).task
    if task == "translate":
        return TranslateJob(translate.load(origin.folder, origin.device, precision=origin.precision))
    if task == "generate":
        return GenerateJob(generate.load(origin.folder, origin.device, origin.precision), **start.limits)
    raise ModelFolderError(
        f"{origin.folder} has a model for the task {task!r}, which cannot be served.",
        f"sixfold {task} {origin.folder}",
    )
