"""The check of parallel text.

What is normal (scripts, the ratio of lengths) is learned from the beginning of the corpus, so that no check
depends on the language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.checks.characters import (
    CONTROL,
    DAMAGE,
    ScriptWeights,
    common_scripts,
    has_control_characters,
    has_encoding_damage,
)
from sixfold.data.checks.misalignment import AlignmentMonitor, MisalignedRun
from sixfold.data.checks.report import (
    Batch,
    FaultKind,
    LengthTally,
    Place,
    Report,
    Tally,
    batches_of,
    normalised,
    sorted_findings,
)
from sixfold.data.formats import Pair
from sixfold.data.hash_sets import SeenHashes, contains, hash_texts
from sixfold.data.readers import Pairs

PairTest = Callable[[str, str], bool]
PairBatch = Batch[Pair]

RATIO_SLACK = 10  # characters: a difference that is always allowed, so that one word does not condemn a short pair

EMPTY = FaultKind(
    "empty side", "One side is blank, so there is nothing to learn: remove these pairs.", is_final=True
)
LENGTH_RATIO = FaultKind(
    "length ratio", "One side is much longer than the other, so it is probably not a translation: remove it."
)
IDENTICAL = FaultKind("identical sides", "Source and target are the same text, which teaches copying: remove it.")
WRONG_SCRIPT = FaultKind(
    "wrong script", "A side is in another script than the rest of the corpus, so in another language: remove it."
)
DUPLICATE = FaultKind("duplicate pair", "The same pair occurs earlier; a repeat only gives it more weight.")
TEST_PAIR = FaultKind(
    "pair of the test set", "This pair is also in the test set, which would inflate the score: remove it."
)
TEST_SOURCE = FaultKind(
    "source of the test set", "This source is also in the test set, which would inflate the score: remove it."
)
MISALIGNED = FaultKind("misaligned", "The lines of the two sides do not belong together.", is_removed=False)


def check_pairs(
    pairs: Pairs,
    test: Pairs | None = None,
    on_progress: OnProgress = no_progress,
    limits: Limits | None = None,
    keep: Callable[[Pair], object] = lambda _: None,
) -> Report:
    """Check every pair and report; `on_progress` gets the count so far, `keep` gets each clean pair, in order."""
    check = PairCheck()
    for batch in checked_batches(pairs, test, limits or Limits()):
        for pair in batch.clean():
            keep(pair)
        check.add(batch)
        on_progress(check.pairs.total)
    return check.report(pairs)


def checked_batches(pairs: Pairs, test: Pairs | None, limits: Limits) -> Iterator[PairBatch]:
    """Yield all pairs with their faults."""
    seen = SeenHashes()
    held_out = HeldOut(test) if test is not None else None
    tests = None
    for batch in batches_of(located(pairs), num_characters):
        tests = tests or pair_tests(learn_profile(batch.examples), limits)
        for number, pair in enumerate(batch.examples):
            if kinds := faults_of(pair.source, pair.target, tests):
                batch.faults[number] = kinds
        batch.mark(DUPLICATE, seen.add(hash_texts(f"{pair.source}\n{pair.target}" for pair in batch.examples)))
        if held_out is not None:
            held_out.mark_leaks(batch)
        yield batch


def located(pairs: Pairs) -> Iterator[tuple[Place, Pair]]:
    """Yield all pairs with their places."""
    return ((Place(part.paths[0], pair.line), pair) for part in pairs.parts for pair in part)


def num_characters(pair: Pair) -> int:
    """Return the length of both sides."""
    return len(pair.source) + len(pair.target)


class HeldOut:
    """The pairs and the sources of a test set, compared without case and spacing."""

    def __init__(self, test: Pairs) -> None:
        batches = batches_of(located(test), num_characters)
        pairs, sources = zip(*(self.hashes(batch) for batch in batches), strict=True)
        self.pairs = np.unique(np.concatenate(pairs))
        self.sources = np.unique(np.concatenate(sources))

    def hashes(self, batch: PairBatch) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the hashes of the pairs and of their sources."""
        sources = [normalised(pair.source) for pair in batch.examples]
        targets = (normalised(pair.target) for pair in batch.examples)
        both = (f"{source}\n{target}" for source, target in zip(sources, targets, strict=True))
        return hash_texts(both), hash_texts(sources)

    def mark_leaks(self, batch: PairBatch) -> None:
        """Mark the pairs that are in the test set, and those whose source alone is."""
        pairs, sources = self.hashes(batch)
        has_pair = contains(self.pairs, pairs)
        batch.mark(TEST_PAIR, has_pair)
        batch.mark(TEST_SOURCE, contains(self.sources, sources) & ~has_pair)


class PairCheck:
    """What has been found so far."""

    def __init__(self) -> None:
        self.pairs = Tally[Pair]("pairs")
        self.source, self.target = LengthTally(), LengthTally()
        self.alignment = AlignmentMonitor()

    def add(self, batch: PairBatch) -> None:
        """Count a batch."""
        self.pairs.add(batch)
        source_lengths = self.source.add([pair.source for pair in batch.examples])
        target_lengths = self.target.add([pair.target for pair in batch.examples])
        self.add_runs(self.alignment.add(source_lengths, target_lengths, batch.places.__getitem__))

    def add_runs(self, runs: Iterable[MisalignedRun]) -> None:
        """Count runs of misaligned pairs, each cause separately."""
        for run in runs:
            self.pairs.faults[replace(MISALIGNED, meaning=run.meaning)].add(run.place, run.num_pairs)

    def report(self, pairs: Pairs) -> Report:
        """Return what was found."""
        self.add_runs(self.alignment.end())
        has_runs = any(kind.name == MISALIGNED.name for kind in self.pairs.faults)
        return Report(
            counts=(self.pairs.count(),),
            lengths={"source": self.source.lengths(), "target": self.target.lengths()},
            names=dict(zip(("source", "target"), pairs.sides or (), strict=False)),
            findings=sorted_findings(self.pairs.findings()),
            num_files=len(pairs.parts),
            urgent="source and target are misaligned: fix that first." if has_runs else "",
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a pair to count as good."""

    max_words: int = 250
    max_characters: int = 2000  # for languages without spaces between words
    max_ratio: float = 3.0  # of the lengths in characters, relative to the corpus's usual ratio


@dataclass(frozen=True, slots=True)
class Profile:
    """What is normal in a corpus."""

    source_scripts: frozenset[str]
    target_scripts: frozenset[str]
    ratio: float  # target characters to source characters


def learn_profile(pairs: Sequence[Pair]) -> Profile:
    """Learn what is normal from a sample."""
    full = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
    ratio = median(len(pair.target) / len(pair.source) for pair in full) if full else 1.0
    return Profile(
        source_scripts=common_scripts("".join(pair.source for pair in full)),
        target_scripts=common_scripts("".join(pair.target for pair in full)),
        ratio=min(max(ratio, 0.1), 10.0),
    )


def pair_tests(profile: Profile, limits: Limits) -> list[tuple[FaultKind, PairTest]]:
    """Return the tests of a corpus, in the order in which they are reported."""
    source_weights = ScriptWeights(profile.source_scripts)
    target_weights = ScriptWeights(profile.target_scripts)
    return [
        (too_long(limits), partial(either, partial(is_too_long, limits))),
        (LENGTH_RATIO, partial(has_bad_ratio, limits.max_ratio, profile.ratio)),
        (IDENTICAL, is_identical),
        (WRONG_SCRIPT, lambda source, target: source_weights.refuse(source) or target_weights.refuse(target)),
        (CONTROL, partial(either, has_control_characters)),
        (DAMAGE, partial(either, has_encoding_damage)),
    ]


def faults_of(source: str, target: str, tests: Sequence[tuple[FaultKind, PairTest]]) -> list[FaultKind]:
    """Return the faults of a pair; a pair with an empty side has no other fault."""
    if not source.strip() or not target.strip():
        return [EMPTY]
    return [kind for kind, is_faulty in tests if is_faulty(source, target)]


def too_long(limits: Limits) -> FaultKind:
    """Return the fault of a side that is too long; its meaning states the limits."""
    cap = f"{limits.max_words:,} words or {limits.max_characters:,} characters"
    return FaultKind("too long", f"A side has more than {cap}: split it into sentences, or remove it.")


def either(test: Callable[[str], bool], source: str, target: str) -> bool:
    """Return whether either side fails a test."""
    return test(source) or test(target)


def is_too_long(limits: Limits, text: str) -> bool:
    """Return whether a side has too many characters, or too many words."""
    length = len(text)
    if length > limits.max_characters:
        return True
    return length > 2 * limits.max_words and len(text.split()) > limits.max_words


def has_bad_ratio(max_ratio: float, usual_ratio: float, source: str, target: str) -> bool:
    """Return whether one side is far longer than the other, relative to the corpus's usual ratio."""
    source_length = len(source) * max(1.0, usual_ratio) + RATIO_SLACK
    target_length = len(target) * max(1.0, 1.0 / usual_ratio) + RATIO_SLACK
    return source_length > max_ratio * target_length or target_length > max_ratio * source_length


def is_identical(source: str, target: str) -> bool:
    """Return whether both sides are the same words; numbers are excepted, because they translate to themselves."""
    return source == target and any(map(str.isalpha, source))
