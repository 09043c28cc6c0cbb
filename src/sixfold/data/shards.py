"""A prepared corpus on disk: token ids in memory-mapped shards, so that its size never needs memory.

A split (train, valid) is a folder of shards. A shard is two files: `*.tokens`, the ids of all pairs one
after the other (source then target, without end marks), and `*.index`, one record a pair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sixfold.errors import DataError
from sixfold.files import make_folder, sync

PAIRS_A_SHARD = 1_000_000
RECORD = np.dtype([("offset", "<i8"), ("source", "<i4"), ("target", "<i4"), ("line", "<i8")])

Ids = NDArray[np.int64]


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
    """One split of a prepared corpus, open for reading: the ids stay on disk until a batch wants them."""

    def __init__(self, folder: Path, vocabulary: int) -> None:
        stems = [path.with_suffix("") for path in sorted(folder.glob("shard-*.index"))]
        if not stems:
            raise DataError(
                f"There is no prepared corpus in {folder}.", "Start the training again without --resume."
            )
        indexes = [np.fromfile(stem.with_suffix(".index"), dtype=RECORD) for stem in stems]
        self.tokens = [
            map_tokens(stem.with_suffix(".tokens"), token_type(vocabulary), num_tokens(index))
            for stem, index in zip(stems, indexes, strict=True)
        ]
        self.index = np.concatenate(indexes)
        self.shard_starts = np.cumsum([0] + [len(index) for index in indexes])

    def __len__(self) -> int:
        return len(self.index)

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """Tokens of each source, without its end mark."""
        return self.index["source"]

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """Tokens of each target, without its end mark."""
        return self.index["target"]

    def lines(self, pairs: Ids) -> list[int]:
        """Return the input lines that these pairs came from."""
        return self.index["line"][pairs].tolist()

    def ids(self, pair: int) -> tuple[list[int], list[int]]:
        """Return the source and target ids of one pair."""
        shard = int(np.searchsorted(self.shard_starts, pair, side="right")) - 1
        offset, source, target, _ = self.index[pair].tolist()
        both = self.tokens[shard][offset : offset + source + target].tolist()
        return both[:source], both[source:]

    def __iter__(self) -> Iterator[tuple[list[int], list[int]]]:
        return (self.ids(pair) for pair in range(len(self)))


def num_tokens(index: NDArray[np.void]) -> int:
    """Return how many tokens the pairs of one shard have."""
    return int(index["source"].sum(dtype=np.int64) + index["target"].sum(dtype=np.int64))


def map_tokens(
    path: Path, dtype: np.dtype[np.uint16] | np.dtype[np.uint32], length: int
) -> NDArray[np.unsignedinteger]:
    """Map a token file into memory; an empty file cannot be mapped and needs no mapping."""
    if not path.is_file() or path.stat().st_size != length * dtype.itemsize:
        raise DataError(
            f"{path} is damaged: it should hold {length:,} tokens.",
            "Train again from the text, in another folder.",
        )
    return np.memmap(path, dtype=dtype, mode="r") if length else np.zeros(0, dtype=dtype)
