"""Reservoir sampling: a uniform random sample of a stream of pairs, in one buffer that can be freed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sixfold.data.formats import Pair

ENCODING = ("utf-8", "surrogatepass")  # lossless for any string


class Reservoir:
    """At most `most` of the pairs offered, each with the same probability.

    The texts are stored in one buffer: hundreds of thousands of small objects would fragment the heap, and freeing
    them would not return its memory.
    """

    def __init__(self, most: int, seed: int) -> None:
        self.draw = np.random.default_rng((seed, 0))
        self.num_offered = 0
        self.texts = bytearray()
        self.places = np.zeros((most, 4), dtype=np.int64)  # offsets of source, target and end; line
        self.num_bytes = 0  # bytes of `texts` that belong to pairs still in the sample

    def __len__(self) -> int:
        return min(self.num_offered, len(self.places))

    def __iter__(self) -> Iterator[Pair]:
        for source, target, end, line in self.places[: len(self)].tolist():
            yield Pair(self.texts[source:target].decode(*ENCODING), self.texts[target:end].decode(*ENCODING), line)

    def offer(self, pair: Pair) -> None:
        """Keep the pair if there is room; otherwise let it replace a random one with the right probability."""
        self.num_offered += 1
        place = self.num_offered - 1
        if self.num_offered > len(self.places):
            place = int(self.draw.integers(self.num_offered))
        if place < len(self.places):
            self.put(place, pair)

    def put(self, place: int, pair: Pair) -> None:
        """Store a pair; texts that were replaced are removed once they fill half the buffer."""
        source, target = pair.source.encode(*ENCODING), pair.target.encode(*ENCODING)
        self.num_bytes += len(source) + len(target) - int(self.places[place, 2] - self.places[place, 0])
        begin = len(self.texts)
        self.texts += source + target
        self.places[place] = begin, begin + len(source), len(self.texts), pair.line
        if len(self.texts) > 2 * self.num_bytes + 2**20:
            self.compact()

    def compact(self) -> None:
        """Keep only the texts that are in the sample."""
        texts = bytearray()
        for place in self.places[: len(self)]:
            begin, _, end, _ = place.tolist()
            place[:3] += len(texts) - begin
            texts += self.texts[begin:end]
        self.texts = texts
