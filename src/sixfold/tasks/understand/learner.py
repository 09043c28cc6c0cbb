"""What the training loop sees of an encoder with a head: padded batches, and the validation on held-out examples.

Shapes: B rows, T positions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sixfold.data.batches import Sizes, pad
from sixfold.data.shards import Corpus, Records, Values
from sixfold.models.encoder_only import EncoderOnly, HeadName
from sixfold.models.ensemble import members_of
from sixfold.nn.loss import mixed_precision
from sixfold.tasks.understand.processor import EncoderProcessor
from sixfold.tasks.understand.recipe import UnderstandRecipe
from sixfold.training.task import Batch, Check, Scores

TOKENS_AT_ONCE = 8192
NO_TARGET = -1

Array = NDArray[Any]


class EncoderLearner(ABC):
    """Examples with a recipe and a processor; a task says what its targets and its loss are."""

    head: HeadName
    most_initialised = 0

    def __init__(self, recipe: UnderstandRecipe, processor: EncoderProcessor) -> None:
        self.recipe, self.processor = recipe, processor
        self.num_validated = recipe.data.valid_examples

    @property
    def num_labels(self) -> int:
        """How many logits the head has for labels."""
        return len(self.processor.labels.names) if self.processor.labels else 0

    def new_model(self) -> nn.Module:
        """Return one model with random weights."""
        tokenizer = self.processor.tokenizer
        return EncoderOnly(
            self.recipe.model.config(tokenizer.vocabulary, tokenizer.special.pad, self.head, self.num_labels)
        )

    def initialise(self, model: nn.Module, corpus: Corpus) -> None:  # noqa: B027  # most tasks have nothing to do
        """Keep the random weights."""

    def sizes(self, corpus: Corpus) -> Sizes:
        """Return how many tokens each example has."""
        return corpus.lengths[:, [list(corpus.columns).index("tokens")]]

    def collate(self, records: Records, seed: int) -> Batch:
        """Pad the tokens (B, T) and their types, and add what the task wants for them."""
        rows = [record["tokens"] for record in records.values]
        tensors = {"tokens": torch.from_numpy(pad(rows, self.processor.tokenizer.special.pad))}
        if any(len(record.get("types", ())) for record in records.values):
            tensors["types"] = torch.from_numpy(pad([record["types"] for record in records.values]))
        targets, count = self.targets(records, seed)
        return Batch({**tensors, **targets}, count, records.ids)

    @abstractmethod
    def targets(self, records: Records, seed: int) -> tuple[dict[str, Tensor], int]:
        """Return the targets as tensors whose first dimension is rows, and how many there are."""

    def answers(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return what the head says."""
        assert isinstance(model, EncoderOnly)
        return model(batch.tensors["tokens"], batch.tensors.get("types"))

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss summed over the targets."""
        with mixed_precision(batch.tensors["tokens"].device):
            answers = self.answers(model, batch)
        return self.loss_of(answers.float(), batch)

    @abstractmethod
    def loss_of(self, answers: Tensor, batch: Batch) -> Tensor:
        """Return the loss of the head's answers, summed over the targets."""

    def validator(self, corpus: Corpus, most: int | None = None) -> EncoderValidator:
        """Return the validation of evenly spaced held-out examples."""
        count = min(len(corpus), most or self.num_validated)
        chosen = np.unique(np.linspace(0, len(corpus) - 1, count).round().astype(np.uint32))
        return EncoderValidator(self, corpus.read(chosen))

    @abstractmethod
    def score(self, answers: Sequence[Array], records: Sequence[Values]) -> Scores:
        """Return the scores of the head's answers to held-out examples, without padding."""


class EncoderValidator:
    """Held-out examples, in memory, ready to be measured with any weights."""

    trained_share = 1.0

    def __init__(self, learner: EncoderLearner, records: Records) -> None:
        self.learner = learner
        by_length = sorted(range(len(records.ids)), key=lambda place: len(records.values[place]["tokens"]))
        self.records = Records(records.ids[by_length], [records.values[place] for place in by_length])

    def batches(self, check: Check) -> Iterator[Records]:
        """Yield the examples in batches of similar length."""
        begin = 0
        while begin < len(self.records.ids):
            check()
            end = begin + 1
            while end < len(self.records.ids) and self.num_tokens(begin, end + 1) <= TOKENS_AT_ONCE:
                end += 1
            yield Records(self.records.ids[begin:end], self.records.values[begin:end])
            begin = end

    def num_tokens(self, begin: int, end: int) -> int:
        """Return how many positions a batch takes, padding included; the last example is the longest."""
        return (end - begin) * len(self.records.values[end - 1]["tokens"])

    def collated(self, model: nn.Module, check: Check) -> Iterator[Batch]:
        """Yield the examples as batches where the model is; the same at every validation."""
        device = next(model.parameters()).device
        for records in self.batches(check):
            yield self.learner.collate(records, seed=0).to(device)

    @torch.no_grad()
    def loss(self, model: nn.Module, check: Check) -> float:
        """Return the mean loss of a target."""
        total, targets = 0.0, 0
        with evaluating(model) as member:
            for batch in self.collated(member, check):
                total += float(self.learner.loss(member, batch))
                targets += batch.num_targets
        return total / max(1, targets)

    @torch.no_grad()
    def measure(self, model: nn.Module, check: Check) -> Scores:
        """Return the score that decides which model is kept."""
        answers = list[Array]()
        with evaluating(model) as member:
            for batch in self.collated(member, check):
                found = self.learner.answers(member, batch).float().cpu().numpy()
                answers += unpadded(found, self.records.values[len(answers) :])
        return self.learner.score(answers, self.records.values)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Yield a model that stands alone in evaluation mode."""
    was_training = model.training
    [member] = members_of(model.eval())
    yield member
    model.train(was_training)


def unpadded(answers: Array, records: Sequence[Values]) -> list[Array]:
    """Return the answers to the first records, one by one; those for each position without the padding."""
    if answers.ndim < 3:
        return list(answers)
    return [row[: len(record["tokens"])] for row, record in zip(answers, records, strict=False)]
