"""The tasks of the family, and the two functions that most people need: `train` and `load`.

Both prepare the kernels before they import what needs torch, so importing this room loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sixfold.kernels import prepare

if TYPE_CHECKING:
    from sixfold.decode.matrices import Precision
    from sixfold.decode.translate import Translator
    from sixfold.training.progress import Progress
    from sixfold.training.run import Outcome

Source = str | Path


def train(
    source: Source | None,
    target: Source | None = None,
    model: Source = "model",
    *,
    valid: tuple[Source, Source] | None = None,
    recipe: str | None = None,
    settings: Sequence[str] = (),
    minutes: float = 0.0,
    seed: int | None = None,
    resume: bool = False,
    init: Source | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    task: str | None = None,
) -> Outcome:
    """Train a model from pairs of text and write it to the folder `model`.

    Whatever is not asked for is chosen from the corpus and the machine. The folder holds the best model so far
    from the first validation on. With `resume`, an interrupted run goes on, bit for bit as if never stopped.
    """
    prepare()
    from sixfold.tasks.registry import choose_task
    from sixfold.training.progress import Silence
    from sixfold.training.run import run
    from sixfold.training.setup import Request

    request = Request(
        folder=Path(model),
        inputs=[each for each in (source, target) if each is not None],
        valid=valid,
        recipe=recipe,
        settings=settings,
        minutes=minutes,
        seed=seed,
        resume=resume,
        init=None if init is None else Path(init),
        device=device,
    )
    return run(choose_task(request, task), request, progress or Silence())


def load(
    folder: Source,
    device: str = "auto",
    partners: Sequence[Source] = (),
    precision: Precision = "float32",
    num_workers: int = 1,
) -> Translator:
    """Open a model folder for what it was trained for: a translation model gives a `Translator`.

    `partners` are other models to average with. int8 is smaller and faster on a CPU, and nearly as good. With more
    workers, long inputs are shared among so many processes of one thread each.
    """
    prepare()
    from sixfold.tasks.registry import task_of_folder
    from sixfold.training.task import Opening

    opening = Opening(Path(folder), device, [Path(partner) for partner in partners], precision, num_workers)
    return task_of_folder(opening.folder).open(opening)
