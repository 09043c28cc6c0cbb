"""The interface between training and tasks: three protocols, and the data they exchange.

`Task` sets up a run: from files to a plan, a processor and a prepared corpus.
`Learner` is for the loop: batches, the loss, and the validation.
`Validator` measures a model on held-out examples.
The tasks themselves are in `tasks/`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from sixfold.callbacks import OnProgress
from sixfold.data.batches import Sizes
from sixfold.data.checks.report import CheckRequest, Report
from sixfold.data.shards import Corpus, Ids, Records
from sixfold.data.streams import FileOrInput
from sixfold.models.folder import Json, ModelInfo
from sixfold.models.weights import Weights
from sixfold.settings import Overrides
from sixfold.training.base import Base
from sixfold.training.recipe import Plan, Recipe

Check = Callable[[], None]  # called regularly during long work; raises if a stop was requested
Inputs = Sequence[FileOrInput]
Opaque = Any  # only the task itself uses its content


@dataclass(frozen=True)
class Batch:
    """The examples of one step as tensors, whose first dimension is rows; a row may hold several examples."""

    tensors: Mapping[str, Tensor]
    num_targets: int  # the divisor of the loss
    examples: Ids

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def take(self, rows: Sequence[int] | slice) -> Batch:
        """Return some rows; the divisor of the loss stays that of the whole batch."""
        return Batch(
            {name: tensor[rows] for name, tensor in self.tensors.items()}, self.num_targets, self.examples
        )

    def to(self, device: torch.device) -> Batch:
        """Return the same batch on a device."""
        moved = {name: tensor.to(device, non_blocking=True) for name, tensor in self.tensors.items()}
        return Batch(moved, self.num_targets, self.examples)


Loss = Callable[[nn.Module, Batch], Tensor]  # of one member, summed over targets


@dataclass(frozen=True)
class Sample:
    """One held-out example to look at: the input, the model's answer, and the expected one."""

    given: str
    answer: str
    expected: str


@dataclass(frozen=True)
class Scores:
    """The scores of a validation, besides the loss."""

    name: str  # of the score that decides which model is kept, for people: BLEU
    value: float
    chance: float  # a smaller difference may be chance; then the loss decides
    conditions: str  # how it was measured, briefly: "13a, greedy"
    sample: Sample
    is_higher_better: bool = True
    decimals: int = 1  # shown of it
    details: str = ""  # other measurements, briefly
    facts: Mapping[str, Json] = field(default_factory=dict)  # what else the model folder keeps of it


@dataclass(frozen=True)
class Given:
    """Everything needed to encode examples; without validation examples, some are held out."""

    train: Opaque
    valid: Opaque | None
    survey: Opaque
    recipe: Opaque
    processor: Opaque


class Validator(Protocol):
    """Held-out examples, ready to be measured with any weights."""

    @property
    def trained_share(self) -> float:
        """The time of `measure` with a trained model relative to that with a new one."""

    def loss(self, model: nn.Module, check: Check) -> float:
        """Return the mean loss per target, without label smoothing."""

    def measure(self, model: nn.Module, check: Check) -> Scores:
        """Return the score that decides which model is kept."""


class Learner(Protocol):
    """A task with its recipe and processor, for the loop, the plan's estimate and the calibration."""

    @property
    def most_initialised(self) -> int:
        """The most examples that `initialise` reads."""

    @property
    def num_validated(self) -> int:
        """The number of examples that a validation measures."""

    def new_model(self) -> nn.Module:
        """Return one model with random weights; an ensemble has several."""

    def initialise(self, model: nn.Module, corpus: Corpus) -> None:
        """Initialise the weights of a model, or of all members, from the data if the recipe says so."""

    def sizes(self, corpus: Corpus) -> Sizes:
        """Return the length of each example in each padded column, for the token budget."""

    def collate(self, records: Records, seed: int) -> Batch:
        """Augment and pad records; the seed determines everything random."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss of one member, summed over targets; the trainer divides by the whole batch's number."""

    def validator(self, corpus: Corpus, most: int | None = None) -> Validator:
        """Return the validation of a held-out split, or of at most this many of its examples."""


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus on disk, and what was left out of it."""

    folder: Path
    warnings: tuple[str, ...] = ()

    def train(self) -> Corpus:
        """Open the training split."""
        return Corpus(self.folder / "train")

    def valid(self) -> Corpus:
        """Open the validation split."""
        return Corpus(self.folder / "valid")

    @property
    def base_folder(self) -> Path:
        """The folder of the base's own validation split, if there is one."""
        return self.folder / "base"

    def base_valid(self) -> Corpus | None:
        """Open the base's own validation split, if there is one."""
        return Corpus(self.base_folder) if self.base_folder.is_dir() else None


@dataclass(frozen=True)
class Published:
    """Everything that training knows of a model when it is published; the task adds the rest."""

    recipe: Recipe
    processor: Opaque
    facts: dict[str, Json]
    scores: dict[str, Json]
    corpus: dict[str, Json]
    training: dict[str, Json]
    num_parameters: int
    members: Sequence[Weights]


@dataclass(frozen=True)
class Opening:
    """How to open a model folder."""

    folder: Path
    device: str = "auto"
    partners: Sequence[Path] = ()  # other models of an ensemble
    precision: Literal["float32", "int8"] = "float32"
    num_workers: int = 1  # processes that long inputs are divided among


class Task(Protocol):
    """Something to learn from some kind of data, and how to set up a run of it."""

    name: str
    read_in: str  # what `survey` counts as it reads: "pairs"
    examples: str  # the name of its examples: "pairs"

    @property
    def recipe(self) -> type[Recipe]:
        """The class of its recipes."""

    def detect(self, inputs: Inputs) -> bool:
        """Return whether this data is for this task."""

    def read(self, inputs: Inputs, overrides: Overrides) -> Opaque:
        """Open the examples in files; every `iter()` starts from the beginning, and `paths` lists the files."""

    def check(self, request: CheckRequest, on_progress: OnProgress) -> Report:
        """Report the faults of examples, and write those that have none if there is a place for them."""

    def survey(self, examples: Opaque, seed: int, on_progress: OnProgress) -> Opaque:
        """Read all examples once, count them (`num_examples`), and keep a sample."""

    def propose(self, survey: Opaque, overrides: Overrides, device: str, core_speed: float) -> Plan:
        """Choose everything that the user left open, with reasons."""

    def accepts(self, base: ModelInfo) -> bool:
        """Return whether training can start from such a model."""

    def inherit(self, base: Base, examples: Opaque, overrides: Overrides) -> Overrides:
        """Return the settings that the base decides; refuse examples and overrides that contradict it."""

    def propose_fine_tuning(self, survey: Opaque, base: Base, overrides: Overrides) -> Plan:
        """Choose everything for fine-tuning that neither the user nor the base decides, with reasons."""

    def fit(self, survey: Opaque, recipe: Opaque, base: Base | None) -> Opaque:
        """Return the processor: learned from the sample, or the base's own."""

    def continues(self, base: Base, processor: Opaque) -> bool:
        """Return whether all of the base is kept, so that it can be scored first; else its head is replaced."""

    def save_processor(self, folder: Path, processor: Opaque) -> list[Path]:
        """Write a processor to the folder of a run; return its files."""

    def load_processor(self, folder: Path) -> Opaque:
        """Read a processor written by `save_processor`."""

    def prepare(self, folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
        """Encode training and validation examples into shards."""

    def prepare_sample(self, folder: Path, given: Given, most: int) -> Corpus:
        """Encode at most `most` examples of the sample, for measurements."""

    def facts(self, examples: Opaque, base: Base | None) -> dict[str, Json]:
        """Return what the run records of its input, such as languages, from the examples or the base."""

    def learner(self, recipe: Opaque, processor: Opaque) -> Learner:
        """Return the learner for the loop."""

    def publish(self, folder: Path, published: Published) -> None:
        """Write the model folder."""

    def open(self, opening: Opening) -> Opaque:
        """Open a model folder as an object for people, with a method such as `translate`."""
