"""One pass over examples: how many, how long, with which labels; an even sample; and what is held out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sixfold.callbacks import OnProgress
from sixfold.data.checks.report import normalised
from sixfold.data.even_sample import EvenSample
from sixfold.data.hash_sets import Hashes, hash_texts
from sixfold.errors import DataError

SAMPLE = 20_000
FEWEST_EXAMPLES = 10
CHUNK = 1024

Example = TypeVar("Example")
ExampleIn = TypeVar("ExampleIn", contravariant=True)


class Reading(Protocol[ExampleIn]):
    """What a survey asks of an example."""

    def texts_of(self, example: ExampleIn) -> Sequence[str]:
        """Return its texts."""

    def labels_of(self, example: ExampleIn) -> Sequence[str]:
        """Return its labels, or the tags of its words."""

    def stratum_of(self, example: ExampleIn) -> str:
        """Return which kind of example it is: of each kind as large a part is held out."""

    def together_of(self, example: ExampleIn) -> str:
        """Return the text whose examples stay on one side when some are held out."""


@dataclass(frozen=True)
class Survey(Generic[Example]):
    """What one pass found: enough to plan with."""

    num_examples: int
    num_characters: int
    num_targets: int  # labels, or tags
    labels: Counter[str]
    sample: Sequence[Example]
    texts: Sequence[str]  # of the sample
    hashes: Hashes  # of the text that stays on one side, one for each example
    strata: NDArray[np.int32]  # which kind each example is of
    described: str  # where the examples come from, in words

    @property
    def mean_characters(self) -> float:
        """How long an example is."""
        return self.num_characters / self.num_examples


def survey(
    examples: Iterable[Example], reading: Reading[Example], described: str, on_progress: OnProgress
) -> Survey[Example]:
    """Look at all examples once."""
    sample, labels, strata = EvenSample[Example](SAMPLE // 2), Counter[str](), dict[str, int]()
    hashes, kinds, waiting = list[Hashes](), list[int](), list[str]()
    characters = targets = 0
    for example in examples:
        sample.offer(example)
        characters += sum(map(len, reading.texts_of(example)))
        found = reading.labels_of(example)
        labels.update(found)
        targets += max(1, len(found))
        kinds.append(strata.setdefault(reading.stratum_of(example), len(strata)))
        waiting.append(normalised(reading.together_of(example)))
        if len(waiting) == CHUNK:
            hashes.append(hash_texts(waiting))
            waiting.clear()
            on_progress(sample.num_offered)
    hashes.append(hash_texts(waiting))
    if sample.num_offered < FEWEST_EXAMPLES:
        raise DataError(
            f"There are {sample.num_offered} examples: too few to train on; at least {FEWEST_EXAMPLES} are needed."
        )
    texts = [text for example in sample.items for text in reading.texts_of(example)]
    return Survey(
        sample.num_offered, characters, targets, labels, sample.items, texts, np.concatenate(hashes),
        np.array(kinds, dtype=np.int32), described,
    )  # fmt: skip


def choose_held_out(surveyed: Survey[Example], share: float, most: int) -> Hashes:
    """Return, sorted, the hashes of what is held out: the same share of each kind, and no text on both sides."""
    distinct, first = np.unique(surveyed.hashes, return_index=True)
    kinds = surveyed.strata[first]
    share = min(share, most / len(distinct))
    chosen = [
        distinct[kinds == kind][: max(1, round(share * count))]  # hashes are in a random order of texts
        for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True)
        if count > 1
    ]
    if not chosen or sum(map(len, chosen)) == len(distinct):
        raise DataError(
            "All texts are the same, or none of them shares its label with another, so none can be held out.",
            "Give --valid with examples to validate on.",
        )
    return np.sort(np.concatenate(chosen))
