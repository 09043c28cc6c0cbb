"""The check of labelled examples: texts with labels, words with tags, questions with answers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.checks.characters import CONTROL, DAMAGE, has_control_characters, has_encoding_damage
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
from sixfold.data.hash_sets import Hashes, SeenHashes, contains, hash_texts

EMPTY = FaultKind("empty text", "There is nothing to learn from: remove it.", is_final=True)
DUPLICATE = FaultKind("duplicate", "The same text with the same label occurs earlier; a repeat only adds weight.")
CONTRADICTION = FaultKind(
    "same text, another label",
    "An earlier example gives the same text another label: a mistake, or a text that has both?",
    is_removed=False,
)
LEAK = FaultKind("text of the test set", "The test set has this text, which would improve its score: remove it.")
REPAIRED = FaultKind(
    "impossible tags", "A tag cannot follow the one before it (I-X after O): it is read as B-X.", is_removed=False
)
WIDENED = FaultKind(
    "span cuts a word", "A span begins or ends inside a word: it is widened to whole words.", is_removed=False
)
MOVED = FaultKind(
    "answer elsewhere", "The answer is not at the stated position: the nearest occurrence is used.",
    is_removed=False,
)  # fmt: skip
RARE = 5  # examples of a label
MOST_LABELS_COMPARED = 200
ALIKE = 0.8  # how similar two labels are that may be one
SHOWN = 5


@dataclass(frozen=True)
class Labelled:
    """What a check looks at in an example."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]  # of the whole, or the kinds of what is marked in it
    answer: str  # everything that was labelled, so that two examples can be compared
    faults: tuple[FaultKind, ...] = ()  # that reading it found


def check_labelled(
    located: Iterable[tuple[Place, Labelled]],
    test: Iterable[tuple[Place, Labelled]],
    unit: str,
    num_files: int,
    on_progress: OnProgress = no_progress,
) -> Report:
    """Check every example; `test` are those of a test set."""
    tally, lengths, labels = Tally[Labelled](unit), LengthTally(), Counter[str]()
    seen, seen_texts = SeenHashes(), SeenHashes()
    held_out = hashes_of(test)
    for batch in batches_of(located, lambda example: sum(map(len, example.texts))):
        for number, example in enumerate(batch.examples):
            if kinds := [*faults_of(example)]:
                batch.faults[number] = kinds
        texts = text_hashes(batch.examples)
        came = seen.add(hash_texts(f"{plain(each)}\0{each.answer}" for each in batch.examples))
        batch.mark(DUPLICATE, came)
        batch.mark(CONTRADICTION, seen_texts.add(texts) & ~came)
        batch.mark(LEAK, contains(held_out, texts))
        tally.add(batch)
        lengths.add([" ".join(each.texts) for each in batch.examples])
        labels.update(label for each in batch.examples for label in each.labels)
        on_progress(tally.total)
    return Report(
        counts=(tally.count(),),
        lengths={"text": lengths.lengths()},
        findings=sorted_findings(tally.findings()),
        num_files=num_files,
        facts=tuple(facts_of(labels)),
    )


def faults_of(example: Labelled) -> Iterator[FaultKind]:
    """Yield the faults that an example has by itself."""
    if not all(map(str.strip, example.texts)):
        yield EMPTY
        return
    yield from example.faults
    if any(map(has_control_characters, (text.replace("\n", " ") for text in example.texts))):
        yield CONTROL
    if any(map(has_encoding_damage, example.texts)):
        yield DAMAGE


def plain(example: Labelled) -> str:
    """Return the texts of an example without differences of case and spacing."""
    return "\0".join(map(normalised, example.texts))


def text_hashes(examples: Sequence[Labelled]) -> Hashes:
    """Return the hash of each example's texts."""
    return hash_texts(map(plain, examples))


def hashes_of(located: Iterable[tuple[Place, Labelled]]) -> Hashes:
    """Return the hashes of all texts of a test set, sorted."""
    batches: Iterator[Batch[Labelled]] = batches_of(located, lambda example: sum(map(len, example.texts)))
    found = [text_hashes(batch.examples) for batch in batches]
    return np.unique(np.concatenate([*found, np.zeros(0, dtype=np.uint64)]))


def facts_of(labels: Counter[str]) -> Iterator[str]:
    """Yield what there is to know about the labels."""
    if not labels:
        return
    shown = ", ".join(f"{label} {count:,}" for label, count in labels.most_common(SHOWN))
    yield f"{len(labels):,} labels: {shown}{' …' if len(labels) > SHOWN else ''}"
    if rare := [label for label, count in labels.items() if count < RARE]:
        yield f"{len(rare):,} labels occur fewer than {RARE} times: {', '.join(rare[:SHOWN])}"
    for one, other in look_alike(labels):
        yield f"are these one label? {one!r} ({labels[one]:,}) and {other!r} ({labels[other]:,})"


def look_alike(labels: Counter[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of labels that may be one: they differ in case, or one is much rarer and nearly the same."""
    names = [name for name, _ in labels.most_common(MOST_LABELS_COMPARED)]
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            is_same = normalised(one) == normalised(other)
            is_near = len(one) > 3 and difflib.SequenceMatcher(None, one, other).ratio() >= ALIKE
            if is_same or (is_near and labels[other] * 20 < labels[one]):
                yield one, other
