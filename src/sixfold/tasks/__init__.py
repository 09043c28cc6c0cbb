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
) -> Outcome:
    """Train a model from pairs of text and write it to the folder `model`."""
    prepare()
    from sixfold.training.run import train as run

    return run(
        source, target, model, valid=valid, recipe=recipe, settings=settings, minutes=minutes, seed=seed,
        resume=resume, init=init, device=device, progress=progress,
    )  # fmt: skip


def load(
    folder: Source,
    device: str = "auto",
    partners: Sequence[Source] = (),
    precision: Precision = "float32",
    num_workers: int = 1,
) -> Translator:
    """Open a model folder for translating, together with others to average with."""
    prepare()
    from sixfold.decode.translate import load as open_translator

    return open_translator(folder, device, partners, precision, num_workers)
