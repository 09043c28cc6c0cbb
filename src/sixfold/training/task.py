"""What training knows of a task: three small protocols, and what passes between them.

`Task` is for setting up a run: from files to a plan, a processor and a prepared corpus.
`Learner` is what the loop sees: batches, the loss, and the validation.
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

Check = Callable[[], None]  # called now and then; raises when the work is to be given up
Inputs = Sequence[FileOrInput]
Opaque = Any  # what only the task itself looks into


@dataclass(frozen=True)
class Batch:
    """The examples of one step as tensors, whose first dimension is rows; a row may hold several examples."""

    tensors: Mapping[str, Tensor]
    num_targets: int  # what the loss is divided by
    examples: Ids

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def take(self, rows: Sequence[int] | slice) -> Batch:
        """Return some rows; what the loss is divided by stays that of the whole."""
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
    """One held-out example, to look at: what the model was given, what it answered, and what was expected."""

    given: str
    answer: str
    expected: str


@dataclass(frozen=True)
class Scores:
    """What a validation measured, besides the loss."""

    name: str  # of the score that decides which model is kept, as people write it: BLEU
    value: float
    chance: float  # a difference this small may be luck; then the loss decides
    conditions: str  # how it was measured, in a few words: "13a, greedy"
    sample: Sample
    is_higher_better: bool = True
    decimals: int = 1  # that are shown of it
    details: str = ""  # what else was measured, in a few words
    facts: Mapping[str, Json] = field(default_factory=dict)  # what else the model folder keeps of it


@dataclass(frozen=True)
class Given:
    """What examples are encoded with; without validation examples, some are held out."""

    train: Opaque
    valid: Opaque | None
    survey: Opaque
    recipe: Opaque
    processor: Opaque


class Validator(Protocol):
    """Held-out examples, ready to be measured with any weights."""

    @property
    def trained_share(self) -> float:
        """The time that `measure` takes with a trained model, of what a new one takes."""

    def loss(self, model: nn.Module, check: Check) -> float:
        """Return the mean loss of a target, without label smoothing."""

    def measure(self, model: nn.Module, check: Check) -> Scores:
        """Return the score that decides which model is kept."""


class Learner(Protocol):
    """A task with its recipe and processor: what the loop, the plan's estimate and the calibration need."""

    @property
    def most_initialised(self) -> int:
        """How many examples `initialise` looks at."""

    @property
    def num_validated(self) -> int:
        """How many examples a validation measures."""

    def new_model(self) -> nn.Module:
        """Return one model with random weights; an ensemble has several."""

    def initialise(self, model: nn.Module, corpus: Corpus) -> None:
        """Change the random weights of a model, or of all members, if the recipe says so."""

    def sizes(self, corpus: Corpus) -> Sizes:
        """Return the positions that each example takes in each padded column, for the token budget."""

    def collate(self, records: Records, seed: int) -> Batch:
        """Augment and pad records; the seed decides everything random."""

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss of one member, summed over targets; the trainer divides by the whole batch's number."""

    def validator(self, corpus: Corpus, most: int | None = None) -> Validator:
        """Return the validation of a held-out split, or of so many of its examples."""


@dataclass(frozen=True)
class Prepared:
    """A corpus on disk that is ready to train on, and what was left out of it."""

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
        """Where the validation split of the model that is fine-tuned is, if it is known."""
        return self.folder / "base"

    def base_valid(self) -> Corpus | None:
        """Open the validation split of the model that is fine-tuned, if it is known."""
        return Corpus(self.base_folder) if self.base_folder.is_dir() else None


@dataclass(frozen=True)
class Published:
    """What is known of a model when it is published; the task adds what only it knows."""

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
    """How a model folder is to be opened."""

    folder: Path
    device: str = "auto"
    partners: Sequence[Path] = ()  # other models to average with
    precision: Literal["float32", "int8"] = "float32"
    num_workers: int = 1  # processes that share long inputs


class Task(Protocol):
    """What can be learned from some kind of data, and how a run of it is set up."""

    name: str
    examples: str  # what its examples are called: "pairs"

    @property
    def recipe(self) -> type[Recipe]:
        """What can be chosen, part by part."""

    def detect(self, inputs: Inputs) -> bool:
        """Return whether this data is of this task."""

    def read(self, inputs: Inputs, overrides: Overrides) -> Opaque:
        """Open the examples in files; every `iter()` starts from the beginning, and `paths` are the files."""

    def check(self, request: CheckRequest, on_progress: OnProgress) -> Report:
        """Report the faults of examples, and write those that have none if there is a place for them."""

    def survey(self, examples: Opaque, seed: int, on_progress: OnProgress) -> Opaque:
        """Look at all examples once, count them (`num_examples`), and keep a sample."""

    def propose(self, survey: Opaque, overrides: Overrides, device: str, core_speed: float) -> Plan:
        """Choose everything that the user did not, with reasons."""

    def accepts(self, base: ModelInfo) -> bool:
        """Return whether training can start from such a model."""

    def inherit(self, base: Base, examples: Opaque, overrides: Overrides) -> Overrides:
        """Return what a model to fine-tune decides, refusing examples and overrides that contradict it."""

    def propose_fine_tuning(self, survey: Opaque, base: Base, overrides: Overrides) -> Plan:
        """Choose everything for fine-tuning that neither the user nor the base decided, with reasons."""

    def fit(self, survey: Opaque, recipe: Opaque, base: Base | None) -> Opaque:
        """Return the processor: learned from the sample, or that of the model to fine-tune."""

    def continues(self, base: Base, processor: Opaque) -> bool:
        """Return whether all of the base is kept, so that it can be scored first; else its head is replaced."""

    def save_processor(self, folder: Path, processor: Opaque) -> list[Path]:
        """Write a processor into the folder of a run; return its files."""

    def load_processor(self, folder: Path) -> Opaque:
        """Read what `save_processor` wrote."""

    def prepare(self, folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
        """Encode training and validation examples into shards."""

    def prepare_sample(self, folder: Path, given: Given, most: int) -> Corpus:
        """Encode at most so many examples of the sample, to measure with."""

    def facts(self, examples: Opaque, base: Base | None) -> dict[str, Json]:
        """Return what the run remembers of its input, such as languages; a base may know them too."""

    def learner(self, recipe: Opaque, processor: Opaque) -> Learner:
        """Return what the loop sees."""

    def publish(self, folder: Path, published: Published) -> None:
        """Write the model folder."""

    def open(self, opening: Opening) -> Opaque:
        """Return what a person gets of a model folder: an object with a method such as `translate`."""
