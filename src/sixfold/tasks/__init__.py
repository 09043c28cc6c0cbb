"""The tasks, and the two functions that most people need: `train` and `load`.

Both prepare the kernels before they import torch, so importing this package loads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sixfold.kernels import prepare

if TYPE_CHECKING:
    from sixfold.decode.matrices import Precision
    from sixfold.decode.translate import Translator
    from sixfold.training.progress import Progress
    from sixfold.training.run import Outcome

FileOrFolder = str | Path


def train(
    inputs: FileOrFolder | Sequence[FileOrFolder] | None = None,
    output: FileOrFolder | None = None,
    task: FileOrFolder | None = None,
    *,
    valid: FileOrFolder | Sequence[FileOrFolder] | None = None,
    recipe: str | None = None,
    settings: Sequence[str] = (),
    minutes: float = 0.0,
    seed: int | None = None,
    resume: bool = False,
    init: FileOrFolder | None = None,
    device: str = "auto",
    progress: Progress | bool = True,
    source: FileOrFolder | None = None,
    target: FileOrFolder | None = None,
    model: FileOrFolder | None = None,
) -> Outcome:
    """Train a model from your data and write it to a folder.

    Everything left open is chosen from the data and the machine, and shown. The folder has the best model so far
    from the first validation on. Ctrl-C in a terminal saves; `resume=True` continues from there.

    Parameters:
        inputs: The data: a file or a folder, or a list of them. Two line-aligned text files are a list of source
            and target; a TSV, JSONL, TMX, Parquet or PO file holds both sides.
        output: The model folder to write; "model" if left out.
        task: What to learn, such as "translate"; chosen by the data if left out.
        valid: Data to validate on, in the same form; if left out, some of the inputs is held out.
        recipe: A YAML file, or the name of a recipe that comes with Sixfold, such as "paper-base".
        settings: Single keys of a recipe, such as ["train.steps=5000", "data.languages=[en, de]"].
        minutes: A time budget that the schedule is fitted to; 0: none.
        seed: The random seed; 1 if left out.
        resume: Continue the run in the folder, bit-identically to one that was never stopped.
        init: A model folder to fine-tune, with its own tokenizer.
        device: "auto", "cpu", "cuda" or "mps".
        progress: True shows a panel in a terminal and plain lines elsewhere, on standard error; False shows
            nothing; an object with the methods of `sixfold.training.progress.Progress` gets all reports.
        source, target, model: The arguments of version 0.1; `train(source, target, model)` works as before.

    Returns the outcome: the folder, steps, seconds, and the score of the best model on held-out data.
    """
    prepare()
    from sixfold.data.streams import keep_pipes
    from sixfold.tasks.arguments import as_list, read_arguments
    from sixfold.tasks.registry import choose_task
    from sixfold.training.progress import progress_for
    from sixfold.training.run import run
    from sixfold.training.setup import Request

    arguments = read_arguments((inputs, output, task), (source, target, model))
    request = Request(
        arguments.output, keep_pipes(arguments.inputs), None if valid is None else as_list(valid),
        recipe, settings, minutes, seed, resume, None if init is None else Path(init), device,
    )  # fmt: skip
    chosen = choose_task(request, arguments.task)
    with progress_for(progress) as shown:
        return run(chosen, request, shown)


def load(
    folder: FileOrFolder,
    device: str = "auto",
    partners: Sequence[FileOrFolder] = (),
    precision: Precision = "float32",
    num_workers: int = 1,
) -> Translator:
    """Open a model folder as an object for its task: a translation model gives a `Translator`, one that continues
    text a `Generator`, one that embeds an `Embedder`.

    Parameters:
        folder: The model folder.
        device: "auto", "cpu", "cuda" or "mps".
        partners: Other models with the same tokenizer, for an ensemble.
        precision: "float32", or "int8", which is smaller and faster on a CPU and nearly as good.
        num_workers: Processes, of one thread each, that long inputs are divided among.
    """
    prepare()
    from sixfold.tasks.registry import open_folder
    from sixfold.training.task import Opening

    opening = Opening(Path(folder), device, [Path(partner) for partner in partners], precision, num_workers)
    return cast("Translator", open_folder(opening))  # or what else the folder is for
