"""Texts that come again and again: each is a 64-bit hash, and the most frequent are remembered in their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sixfold.data.checks.report import FaultKind, FaultTally, Finding, Place
from sixfold.data.hash_sets import Mask, SeenHashes, hash_texts

MOST_REMEMBERED = 50_000  # texts that came twice; the less frequent half is forgotten when there are more
SHORTEST = 20  # characters: what is shorter is said often
OFTEN = 20
SHOWN_TEXTS = 3
SHOWN_CHARACTERS = 50


@dataclass(slots=True)
class Repeated:
    """A text that came more than once."""

    text: str
    place: Place  # of its second time
    count: int = 1


class Repeats:
    """The texts that came before, and how often."""

    def __init__(self) -> None:
        self.seen = SeenHashes()
        self.repeated: dict[int, Repeated] = {}

    def add(self, texts: Sequence[str], places: Sequence[Place]) -> Mask:
        """Take more texts, and say of each whether it came before; short ones do not count."""
        numbers = [number for number, text in enumerate(texts) if len(text) >= SHORTEST]
        hashes = hash_texts(texts[number] for number in numbers)
        came = np.zeros(len(texts), dtype=bool)
        came[numbers] = self.seen.add(hashes)
        for number, known in zip(numbers, hashes.tolist(), strict=True):
            if came[number]:
                self.count(known, texts[number], places[number])
        return came

    def count(self, known: int, text: str, place: Place) -> None:
        """Count a text that came before."""
        found = self.repeated.setdefault(known, Repeated(text[: SHOWN_CHARACTERS + 1], place))
        found.count += 1
        if len(self.repeated) > MOST_REMEMBERED:
            kept = sorted(self.repeated.items(), key=lambda item: -item[1].count)
            self.repeated = dict(kept[: MOST_REMEMBERED // 2])

    def finding(self, name: str, meaning: str, unit: str) -> list[Finding]:
        """Return what came often, if anything did; the meaning ends with the most frequent texts."""
        often = [each for each in self.repeated.values() if each.count >= OFTEN]
        often.sort(key=lambda each: -each.count)
        tally = FaultTally()
        for each in often:
            tally.add(each.place, each.count)
        shown = ", ".join(f"“{shortened(each.text)}” ({each.count:,} times)" for each in often[:SHOWN_TEXTS])
        kind = FaultKind(name, f"{meaning} Most often: {shown}", is_removed=False)
        return [tally.finding(kind, unit)] if often else []


def shortened(text: str) -> str:
    """Return a text that fits into a sentence."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[:SHOWN_CHARACTERS].rstrip()}…"
