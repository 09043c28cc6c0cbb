"""The corpus check: reads all pairs once, in bounded memory, and reports their faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.hash_sets import Mask, SeenHashes, contains, hash_texts
from sixfold.data.misalignment import AlignmentMonitor, MisalignedRun
from sixfold.data.pair_checks import (
    DUPLICATE,
    EMPTY,
    MISALIGNED,
    TEST_PAIR,
    TEST_SOURCE,
    FaultKind,
    Limits,
    faults_of,
    learn_profile,
    pair_tests,
)
from sixfold.data.readers import Pair, Pairs

__all__ = ["Finding", "LengthStatistics", "Limits", "Report", "check_pairs"]

BATCH_PAIRS = 8192  # the first batch is also the sample from which the corpus is learned
BATCH_CHARACTERS = 1 << 22  # so that very long lines do not make a batch large
SHOWN_LINES = 5
LONGEST_COUNTED = 10_000  # characters or words: longer sides count as this long in percentiles


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of fault, how many pairs have it and where the first ones are."""

    kind: str
    count: int
    lines: tuple[int, ...]  # counted from 1 in the file of the same place in `files`
    files: tuple[str, ...]
    meaning: str
    is_removed: bool  # whether a clean corpus is without these pairs


@dataclass(frozen=True, slots=True)
class LengthStatistics:
    """How long one side of the corpus is."""

    mean_words: float
    p99_words: int
    mean_characters: float
    p99_characters: int


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a corpus."""

    num_pairs: int
    num_clean: int  # pairs without a fault that is removed
    source: LengthStatistics
    target: LengthStatistics
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Pairs that are checked together, with the file of each and the faults of those that have some."""

    pairs: list[Pair] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    faults: defaultdict[int, list[FaultKind]] = field(default_factory=lambda: defaultdict(list))

    def place_of(self, place: int) -> tuple[Path, int]:
        """Return the file and the line of a pair."""
        return self.files[place], self.pairs[place].line

    def mark(self, kind: FaultKind, has_fault: Mask) -> None:
        """Note a fault of some pairs; blank pairs have theirs already."""
        for place in np.flatnonzero(has_fault).tolist():
            if EMPTY not in self.faults[place]:
                self.faults[place].append(kind)

    def clean(self) -> Iterator[Pair]:
        """Yield the pairs without a fault that should be removed."""
        dirty = {place for place, kinds in self.faults.items() if any(kind.is_removed for kind in kinds)}
        return (pair for place, pair in enumerate(self.pairs) if place not in dirty)


def check_pairs(
    pairs: Pairs,
    test: Pairs | None = None,
    on_progress: OnProgress = no_progress,
    limits: Limits | None = None,
    keep: Callable[[Pair], object] = lambda _: None,
) -> Report:
    """Check every pair and report; `on_progress` gets the count so far, `keep` each clean pair in its order."""
    tally = Tally()
    for batch in checked_batches(pairs, test, limits or Limits()):
        for pair in batch.clean():
            keep(pair)
            tally.num_clean += 1
        tally.add(batch)
        on_progress(tally.num_pairs)
    return tally.report()


def checked_batches(pairs: Pairs, test: Pairs | None, limits: Limits) -> Iterator[PairBatch]:
    """Yield all pairs with their faults."""
    seen = SeenHashes()
    held_out = HeldOut(test) if test is not None else None
    tests = None
    for batch in batches_of(pairs):
        tests = tests or pair_tests(learn_profile(batch.pairs), limits)
        for place, pair in enumerate(batch.pairs):
            if kinds := faults_of(pair.source, pair.target, tests):
                batch.faults[place] = kinds
        batch.mark(DUPLICATE, seen.add(hash_texts(f"{pair.source}\n{pair.target}" for pair in batch.pairs)))
        if held_out is not None:
            held_out.mark_leaks(batch)
        yield batch


def batches_of(pairs: Pairs) -> Iterator[PairBatch]:
    """Yield all pairs in batches bounded by their number and by their characters."""
    batch, num_characters = PairBatch(), 0
    for part in pairs.parts:
        file = part.paths[0]
        for pair in part:
            batch.pairs.append(pair)
            batch.files.append(file)
            num_characters += len(pair.source) + len(pair.target)
            if len(batch.pairs) >= BATCH_PAIRS or num_characters >= BATCH_CHARACTERS:
                yield batch
                batch, num_characters = PairBatch(), 0
    if batch.pairs:
        yield batch


class HeldOut:
    """The pairs of a test set, and its sources, regardless of case and spacing."""

    def __init__(self, test: Pairs) -> None:
        pairs, sources = zip(*(self.hashes(batch) for batch in batches_of(test)), strict=True)
        self.pairs = np.unique(np.concatenate(pairs))
        self.sources = np.unique(np.concatenate(sources))

    def hashes(self, batch: PairBatch) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the hashes of the pairs and of their sources."""
        sources = [normalised(pair.source) for pair in batch.pairs]
        targets = (normalised(pair.target) for pair in batch.pairs)
        both = (f"{source}\n{target}" for source, target in zip(sources, targets, strict=True))
        return hash_texts(both), hash_texts(sources)

    def mark_leaks(self, batch: PairBatch) -> None:
        """Mark the pairs that the test set has, and those that share only their source with it."""
        pairs, sources = self.hashes(batch)
        has_pair = contains(self.pairs, pairs)
        batch.mark(TEST_PAIR, has_pair)
        batch.mark(TEST_SOURCE, contains(self.sources, sources) & ~has_pair)


def normalised(text: str) -> str:
    """Return the text without differences of case and spacing."""
    return " ".join(text.casefold().split())


class LengthTally:
    """Counts of one measure of length, enough for its mean and percentiles."""

    def __init__(self) -> None:
        self.counts = np.zeros(LONGEST_COUNTED + 1, dtype=np.int64)
        self.sum = 0

    def add(self, lengths: NDArray[np.int64]) -> None:
        """Count more lengths."""
        self.counts += np.bincount(lengths.clip(max=LONGEST_COUNTED), minlength=LONGEST_COUNTED + 1)
        self.sum += int(lengths.sum())

    def mean(self) -> float:
        """Return the mean, rounded to a tenth."""
        return round(self.sum / max(1, int(self.counts.sum())), 1)

    def percentile_99(self) -> int:
        """Return the length that 99 of 100 sides do not exceed."""
        return int(np.searchsorted(self.counts.cumsum(), 0.99 * self.counts.sum()))


class SideTally:
    """The lengths of one side, in words and in characters."""

    def __init__(self) -> None:
        self.words = LengthTally()
        self.characters = LengthTally()

    def add(self, texts: list[str]) -> NDArray[np.int64]:
        """Count more texts and return their lengths in characters."""
        characters = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        self.characters.add(characters)
        self.words.add(np.fromiter((len(text.split()) for text in texts), dtype=np.int64, count=len(texts)))
        return characters

    def statistics(self) -> LengthStatistics:
        """Return the summary."""
        words, characters = self.words, self.characters
        return LengthStatistics(words.mean(), words.percentile_99(), characters.mean(), characters.percentile_99())


class FaultTally:
    """How many pairs have a kind of fault, and where the first ones are."""

    def __init__(self) -> None:
        self.count = 0
        self.places: list[tuple[Path, int]] = []

    def add(self, place: tuple[Path, int], count: int = 1) -> None:
        """Count a fault, and remember its place if it is one of the first."""
        self.count += count
        if len(self.places) < SHOWN_LINES:
            self.places.append(place)

    def finding(self, kind: FaultKind) -> Finding:
        """Return the finding."""
        files = tuple(str(file) for file, _ in self.places)
        lines = tuple(line for _, line in self.places)
        return Finding(kind.name, self.count, lines, files, kind.meaning, kind.is_removed)


class Tally:
    """The running counts of a check."""

    def __init__(self) -> None:
        self.num_pairs = self.num_clean = 0
        self.source, self.target = SideTally(), SideTally()
        self.faults: defaultdict[FaultKind, FaultTally] = defaultdict(FaultTally)
        self.alignment = AlignmentMonitor()

    def add(self, batch: PairBatch) -> None:
        """Count a checked batch."""
        self.num_pairs += len(batch.pairs)
        for place, kinds in sorted(batch.faults.items()):
            for kind in kinds:
                self.faults[kind].add(batch.place_of(place))
        source_lengths = self.source.add([pair.source for pair in batch.pairs])
        target_lengths = self.target.add([pair.target for pair in batch.pairs])
        self.add_runs(self.alignment.add(source_lengths, target_lengths, batch.place_of))

    def add_runs(self, runs: Iterable[MisalignedRun]) -> None:
        """Count runs of misaligned pairs, those of each cause on their own."""
        for run in runs:
            self.faults[replace(MISALIGNED, meaning=run.meaning)].add(run.place, run.num_pairs)

    def report(self) -> Report:
        """Return what was found, the most frequent first."""
        self.add_runs(self.alignment.end())
        findings = [tally.finding(kind) for kind, tally in self.faults.items()]
        return Report(
            num_pairs=self.num_pairs,
            num_clean=self.num_clean,
            source=self.source.statistics(),
            target=self.target.statistics(),
            findings=tuple(sorted(findings, key=lambda finding: (-finding.count, finding.kind))),
        )
