"""What every check is made of: batches whose examples are marked with faults, tallies of these, and the report.

Examples without a fault that is removed are clean: `--write-clean` keeps them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sixfold.data.hash_sets import Mask
from sixfold.data.streams import FileOrInput
from sixfold.errors import DataError
from sixfold.settings import Overrides

Example = TypeVar("Example")

BATCH_EXAMPLES = 8192
BATCH_CHARACTERS = 1 << 22  # so that very long examples do not make a batch large
SHOWN_PLACES = 5
EXACT = 10_000  # characters or words: longer lengths are rounded up to three digits in percentiles


@dataclass(frozen=True)
class CheckRequest:
    """What is to be checked."""

    inputs: Sequence[FileOrInput]
    test: Sequence[FileOrInput]  # what must not be in the inputs; nothing if empty
    overrides: Overrides
    prefix: Path | None  # of the names of the clean files, if they are wanted


@dataclass(frozen=True, slots=True)
class Place:
    """Where an example stands."""

    file: Path
    line: int  # counted from 1


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault: its name, what it means and what to do, and whether clean data is without it."""

    name: str
    meaning: str
    is_removed: bool = True
    is_final: bool = False  # leaves nothing else to judge


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of fault, how many examples have it and where the first ones are."""

    kind: str
    count: int
    unit: str  # what is counted: "pairs"
    lines: tuple[int, ...]  # counted from 1, in the file at the same index of `files`
    files: tuple[str, ...]
    meaning: str
    is_removed: bool


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long texts are."""

    mean_words: float
    p99_words: int
    mean_characters: float
    p99_characters: int


@dataclass(frozen=True, slots=True)
class Count:
    """How many examples of a kind there are, and how many of them have no fault that is removed."""

    unit: str  # "pairs"
    total: int
    clean: int


@dataclass(frozen=True)
class Report:
    """What was found."""

    counts: tuple[Count, ...]
    lengths: Mapping[str, Lengths]  # of each part of an example: "source"
    findings: tuple[Finding, ...]  # the most frequent first
    names: Mapping[str, str] = field(default_factory=dict)  # what the data calls a part, where it says so
    facts: tuple[str, ...] = ()  # what else there is to know, in words
    num_files: int = 1  # or pairs of files
    urgent: str = ""  # what makes everything else unimportant
    written: tuple[Path, ...] = ()  # the clean files

    def record(self) -> dict[str, Any]:
        """Return the report as plain data."""
        first, *others = self.counts
        numbers = {f"num_{first.unit}": first.total, "num_clean": first.clean}
        for count in others:
            numbers |= {f"num_{count.unit}": count.total, f"num_clean_{count.unit}": count.clean}
        return {
            **numbers,
            **{part: asdict(lengths) for part, lengths in self.lengths.items()},
            "facts": list(self.facts),
            "findings": [asdict(finding) for finding in self.findings],
        }


@dataclass(frozen=True)
class Batch(Generic[Example]):
    """Examples that are checked together, with the place of each and the faults of those that have some."""

    examples: list[Example] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    faults: defaultdict[int, list[FaultKind]] = field(default_factory=lambda: defaultdict(list))

    def add(self, place: Place, example: Example) -> None:
        """Append an example."""
        self.examples.append(example)
        self.places.append(place)

    def mark(self, kind: FaultKind, has_fault: Mask) -> None:
        """Note a fault of some examples, unless there is nothing else to judge of them."""
        for number in np.flatnonzero(has_fault).tolist():
            if not any(known.is_final for known in self.faults[number]):
                self.faults[number].append(kind)

    def clean(self) -> Iterator[Example]:
        """Yield the examples without a fault that is removed."""
        return (each for number, each in enumerate(self.examples) if not self.is_dirty(number))

    def is_dirty(self, number: int) -> bool:
        """Return whether an example has a fault that is removed."""
        return any(kind.is_removed for kind in self.faults.get(number, ()))


def batches_of(
    located: Iterable[tuple[Place, Example]], characters: Callable[[Example], int]
) -> Iterator[Batch[Example]]:
    """Yield examples in batches bounded by their number and by their characters."""
    batch: Batch[Example] = Batch()
    num_characters = 0
    for place, example in located:
        batch.add(place, example)
        num_characters += characters(example)
        if len(batch.examples) >= BATCH_EXAMPLES or num_characters >= BATCH_CHARACTERS:
            yield batch
            batch, num_characters = Batch(), 0
    if batch.examples:
        yield batch


class Tally(Generic[Example]):
    """The running counts of examples of one kind, and of their faults."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.total = self.clean = 0
        self.unreadable: FaultKind | None = None
        self.faults: defaultdict[FaultKind, FaultTally] = defaultdict(FaultTally)

    def add(self, batch: Batch[Example], parts: Collection[int] = ()) -> None:
        """Count a batch; `parts` are the numbers of what belongs to the example before and is none of its own."""
        dirty = {number for number in batch.faults if batch.is_dirty(number)}
        self.total += len(batch.examples) - len(parts)
        self.clean += len(batch.examples) - len(dirty.union(parts))
        for number, kinds in sorted(batch.faults.items()):
            for kind in kinds:
                self.faults[kind].add(batch.places[number])

    def add_unreadable(self, place: Place, error: DataError) -> None:
        """Count an example that cannot be read; the report quotes the first error."""
        self.unreadable = self.unreadable or unreadable(error)
        self.total += 1
        self.faults[self.unreadable].add(place)

    def count(self) -> Count:
        """Return how many there are."""
        return Count(self.unit, self.total, self.clean)

    def findings(self) -> list[Finding]:
        """Return what was found."""
        return [tally.finding(kind, self.unit) for kind, tally in self.faults.items()]


def unreadable(error: DataError) -> FaultKind:
    """Return the fault of what cannot be read."""
    return FaultKind(
        "unreadable", f"`sixfold train` refuses the file for it. The first: {error.message} {error.hint}"
    )


def refuse(_: Place, error: DataError) -> None:
    """Refuse a record that cannot be read, as in a test set."""
    raise error


class FaultTally:
    """How many examples have a kind of fault, and where the first ones are."""

    def __init__(self) -> None:
        self.count = 0
        self.places: list[Place] = []

    def add(self, place: Place, count: int = 1) -> None:
        """Count a fault, and remember its location if it is one of the first."""
        self.count += count
        if len(self.places) < SHOWN_PLACES:
            self.places.append(place)

    def finding(self, kind: FaultKind, unit: str) -> Finding:
        """Return the finding."""
        files = tuple(str(place.file) for place in self.places)
        lines = tuple(place.line for place in self.places)
        return Finding(kind.name, self.count, unit, lines, files, kind.meaning, kind.is_removed)


def sorted_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with the most frequent first."""
    return tuple(sorted(findings, key=lambda finding: (-finding.count, finding.kind)))


class Measure:
    """A histogram of lengths, for their mean and percentiles."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.sum = 0

    def add(self, lengths: NDArray[np.int64]) -> None:
        """Count more lengths."""
        step = 10.0 ** np.floor(np.log10(lengths.clip(min=EXACT) / 100)) * (lengths > EXACT)
        rounded = np.where(step > 0, np.ceil(lengths / step.clip(min=1)) * step, lengths).astype(np.int64)
        different, counts = np.unique(rounded, return_counts=True)
        self.counts.update(dict(zip(different.tolist(), counts.tolist(), strict=True)))
        self.sum += int(lengths.sum())

    def mean(self) -> float:
        """Return the mean, rounded to a tenth."""
        return round(self.sum / max(1, self.counts.total()), 1)

    def percentile_99(self) -> int:
        """Return the length that 99 of 100 do not exceed."""
        lengths = sorted(self.counts)
        below = np.cumsum([self.counts[length] for length in lengths])
        return lengths[int(np.searchsorted(below, 0.99 * self.counts.total()))] if lengths else 0


class LengthTally:
    """The lengths of texts, in words and in characters."""

    def __init__(self) -> None:
        self.words = Measure()
        self.characters = Measure()

    def add(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Count more texts and return their lengths in characters."""
        return self.add_counts([len(text.split()) for text in texts], [len(text) for text in texts])

    def add_counts(self, words: Sequence[int], characters: Sequence[int]) -> NDArray[np.int64]:
        """Count more texts that have so many words and characters, and return the latter."""
        self.words.add(np.array(words, dtype=np.int64))
        lengths = np.array(characters, dtype=np.int64)
        self.characters.add(lengths)
        return lengths

    def lengths(self) -> Lengths:
        """Return the summary."""
        words, characters = self.words, self.characters
        return Lengths(words.mean(), words.percentile_99(), characters.mean(), characters.percentile_99())


def normalised(text: str) -> str:
    """Return the text in normal case and spacing."""
    return " ".join(text.casefold().split())
