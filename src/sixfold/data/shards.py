"""A prepared corpus on disk: token ids in shards that are read in place, so that they never need memory.

A split (train, valid) is a folder of shards. A shard is two files: `*.tokens`, the ids of all pairs one
after the other (source then target, without end marks), and `*.index`, one record a pair.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sixfold.errors import DataError
from sixfold.files import make_folder, sync

PAIRS_A_SHARD = 1_000_000
RECORD = np.dtype([("offset", "<i8"), ("source", "<i4"), ("target", "<i4"), ("line", "<i8")])

Ids = NDArray[np.uint32]  # which pairs of a corpus


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """A pair as token ids, and the line of the input it came from."""

    source: list[int]
    target: list[int]
    line: int


def token_type(vocabulary: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the narrowest type that holds every id."""
    return np.dtype("<u2") if vocabulary <= 2**16 else np.dtype("<u4")


class ShardWriter:
    """Writes one split, shard by shard; memory does not grow with the corpus."""

    def __init__(self, folder: Path, vocabulary: int, pairs_a_shard: int = PAIRS_A_SHARD) -> None:
        make_folder(folder)
        for old in folder.glob("shard-*"):
            old.unlink()
        self.folder = folder
        self.dtype = token_type(vocabulary)
        self.pairs_a_shard = pairs_a_shard
        self.num_pairs = 0
        self.offset = 0
        self.files = ExitStack()
        self.open_paths: tuple[Path, ...] = ()

    def write(self, pairs: Iterable[EncodedPair]) -> None:
        """Append pairs."""
        for pair in pairs:
            if self.num_pairs % self.pairs_a_shard == 0:
                self.open_shard()
            record = np.array((self.offset, len(pair.source), len(pair.target), pair.line), dtype=RECORD)
            self.index.write(record.tobytes())
            self.tokens.write(np.array(pair.source + pair.target, dtype=self.dtype).tobytes())
            self.offset += len(pair.source) + len(pair.target)
            self.num_pairs += 1

    def open_shard(self) -> None:
        """Begin the next two files."""
        self.close()
        stem = self.folder / f"shard-{self.num_pairs // self.pairs_a_shard:05d}"
        self.open_paths = stem.with_suffix(".tokens"), stem.with_suffix(".index")
        self.tokens, self.index = (self.files.enter_context(path.open("wb")) for path in self.open_paths)
        self.offset = 0

    def close(self) -> None:
        """Finish the open shard, and wait until it has reached the disk."""
        self.files.close()
        for path in (*self.open_paths, self.folder):
            sync(path)
        self.open_paths = ()


class Corpus:
    """One split of a prepared corpus, open for reading: in memory are only the lengths of its pairs."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        stems = [path.with_suffix("") for path in sorted(folder.glob("shard-*.index"))]
        if not stems:
            raise DataError(
                f"There is no prepared corpus in {folder}.", "Start the training again without --resume."
            )
        shards = [Shard(stem, token_type(vocabulary)) for stem in stems]
        lengths = [shard.lengths() for shard in shards]
        self.shards = shards
        self.shard_starts = np.cumsum([0] + [len(source) for source, _ in lengths])
        self.source_lengths = np.concatenate([source for source, _ in lengths])  # without the end mark
        self.target_lengths = np.concatenate([target for _, target in lengths])

    def __len__(self) -> int:
        return len(self.source_lengths)

    @property
    def num_bytes(self) -> int:
        """What the corpus takes on disk."""
        return sum(shard.tokens.num_bytes + shard.index.num_bytes for shard in self.shards)

    def find(self, pair: int) -> tuple[Shard, int]:
        """Return the shard that a pair is in, and its place there."""
        shard = int(np.searchsorted(self.shard_starts, pair, side="right")) - 1
        return self.shards[shard], pair - int(self.shard_starts[shard])

    def lines(self, pairs: Ids) -> list[int]:
        """Return the input lines that these pairs came from."""
        return [shard.record(place)[-1] for shard, place in map(self.find, pairs.tolist())]

    def ids(self, pair: int) -> tuple[list[int], list[int]]:
        """Return the source and target ids of one pair."""
        shard, place = self.find(pair)
        return shard.ids(place)

    def __iter__(self) -> Iterator[tuple[list[int], list[int]]]:
        return (self.ids(pair) for pair in range(len(self)))


class Shard:
    """Some pairs of a corpus: two files."""

    def __init__(self, stem: Path, dtype: np.dtype[Any]) -> None:
        self.tokens = FlatFile(stem.with_suffix(".tokens"), dtype)
        self.index = FlatFile(stem.with_suffix(".index"), RECORD)

    def lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the lengths of all sources and of all targets, and see that their tokens are there."""
        index = self.index.read(0, self.index.num_bytes // RECORD.itemsize)
        source, target = index["source"].copy(), index["target"].copy()
        length = int(source.sum(dtype=np.int64) + target.sum(dtype=np.int64))
        if self.tokens.num_bytes != length * self.tokens.dtype.itemsize:
            raise damaged(self.tokens.path, f"it should hold {length:,} tokens")
        return source, target

    def record(self, place: int) -> tuple[int, int, int, int]:
        """Return where the tokens of a pair begin, how many its source and its target have, and its line."""
        return self.index.read(place, 1)[0].item()

    def ids(self, place: int) -> tuple[list[int], list[int]]:
        """Return the source and target ids of one pair."""
        offset, source, target, _ = self.record(place)
        both = self.tokens.read(offset, source + target).tolist()
        return both[:source], both[source:]


class FlatFile:
    """A file of numbers, of which any part can be read at any time, by any thread; none of it stays in memory."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        try:
            self.file = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise damaged(path, error.strerror or "it cannot be read") from error
        weakref.finalize(self, os.close, self.file)
        self.path, self.dtype = path, dtype
        self.num_bytes = os.fstat(self.file).st_size

    def read(self, start: int, count: int) -> NDArray[Any]:
        """Return `count` numbers from the one at `start` on."""
        size = self.dtype.itemsize
        content = os.pread(self.file, count * size, start * size)
        if len(content) != count * size:
            raise damaged(self.path, "it ends too early")
        return np.frombuffer(content, dtype=self.dtype)


def damaged(path: Path, why: str) -> DataError:
    """Return the error for a file that cannot be trained from."""
    return DataError(f"{path} is damaged: {why}.", "Train again from the text, in another folder.")
