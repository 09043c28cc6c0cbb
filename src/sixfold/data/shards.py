"""A prepared corpus on disk: records of named columns, in shards that are read in place, not loaded into memory.

A split (train, valid) is a folder of shards and `columns.json`, which names the columns and the type of their
values: token ids, samples, pixels, labels. A shard is two files: `*.values` has the columns of all records one
after the other; `*.index` says where each record begins, how many values each of its columns has, and its input
line.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sixfold.errors import DataError
from sixfold.files import make_folder, sync, write_atomically

RECORDS_A_SHARD = 1_000_000
COLUMNS = "columns.json"
TYPES = ("|u1", "|i1", *(f"<{kind}{size}" for kind in "uif" for size in (2, 4, 8)))  # as NumPy writes them

Ids = NDArray[np.uint32]  # indices of records
Columns = Mapping[str, str]  # the type of each column's values, as NumPy writes it
Values = dict[str, NDArray[Any]]  # of one record, by column


@dataclass(frozen=True, slots=True)
class Record:
    """One encoded example, and the line of the input it came from."""

    columns: Mapping[str, Sequence[int]]
    line: int


@dataclass(frozen=True)
class Records:
    """Some records of a corpus, with their indices."""

    ids: Ids
    values: list[Values]


def token_type(vocabulary: int) -> str:
    """Return the narrowest type that holds every id."""
    return "<u2" if vocabulary <= 2**16 else "<u4"


def index_type(columns: Columns) -> np.dtype[Any]:
    """Return the type of an entry of the index."""
    return np.dtype([("offset", "<i8"), *((name, "<i4") for name in columns), ("line", "<i8")])


class ShardWriter:
    """Writes one split, shard by shard; memory does not grow with the corpus."""

    def __init__(self, folder: Path, columns: Columns, records_a_shard: int = RECORDS_A_SHARD) -> None:
        make_folder(folder)
        for old in folder.glob("shard-*"):
            old.unlink()
        self.folder, self.records_a_shard = folder, records_a_shard
        self.types = {name: np.dtype(kind) for name, kind in columns.items()}
        written = {name: kind.str for name, kind in self.types.items()}
        assert all(map(is_column, written, written.values())), written
        write_atomically(folder / COLUMNS, json.dumps(written).encode())
        self.index_type = index_type(columns)
        self.num_records = 0
        self.offset = 0  # bytes
        self.files = ExitStack()
        self.open_paths: tuple[Path, ...] = ()

    def write(self, records: Iterable[Record]) -> None:
        """Append records."""
        for record in records:
            if self.num_records % self.records_a_shard == 0:
                self.open_shard()
            lengths = [len(record.columns[name]) for name in self.types]
            entry = np.array((self.offset, *lengths, record.line), dtype=self.index_type)
            self.index.write(entry.tobytes())
            for name, kind in self.types.items():
                content = np.asarray(record.columns[name], dtype=kind).tobytes()
                self.values.write(content)
                self.offset += len(content)
            self.num_records += 1

    def open_shard(self) -> None:
        """Begin the next two files."""
        self.close()
        stem = self.folder / f"shard-{self.num_records // self.records_a_shard:05d}"
        self.open_paths = stem.with_suffix(".values"), stem.with_suffix(".index")
        self.values, self.index = (self.files.enter_context(path.open("wb")) for path in self.open_paths)
        self.offset = 0

    def close(self) -> None:
        """Finish the current shard, and wait until it has reached the disk."""
        self.files.close()
        for path in (*self.open_paths, self.folder):
            sync(path)
        self.open_paths = ()


class Corpus:
    """One split of a prepared corpus, open for reading: only the lengths of its records are in memory."""

    def __init__(self, folder: Path) -> None:
        self.columns = read_columns(folder)
        stems = [path.with_suffix("") for path in sorted(folder.glob("shard-*.index"))]
        if not stems:
            raise no_corpus(folder)
        self.shards = [Shard(stem, self.columns) for stem in stems]
        lengths = [shard.lengths() for shard in self.shards]
        self.shard_starts = np.cumsum([0] + [len(each) for each in lengths])
        self.lengths = np.concatenate(lengths)  # (records, columns)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def num_bytes(self) -> int:
        """The size of the corpus on disk."""
        return sum(shard.values.num_bytes + shard.index.num_bytes for shard in self.shards)

    def find(self, record: int) -> tuple[Shard, int]:
        """Return the shard that a record is in, and its index there."""
        shard = int(np.searchsorted(self.shard_starts, record, side="right")) - 1
        return self.shards[shard], record - int(self.shard_starts[shard])

    def lines(self, ids: Ids) -> list[int]:
        """Return the input lines of these records."""
        return [shard.entry(place)[-1] for shard, place in map(self.find, ids.tolist())]

    def record(self, record: int) -> Values:
        """Return the columns of one record."""
        shard, place = self.find(record)
        return shard.record(place)

    def read(self, ids: Ids) -> Records:
        """Return some records."""
        return Records(ids, [self.record(record) for record in ids.tolist()])


def read_columns(folder: Path) -> dict[str, str]:
    """Return the columns of a split."""
    try:
        content = json.loads((folder / COLUMNS).read_bytes())
    except OSError as error:
        raise no_corpus(folder) from error
    except (ValueError, RecursionError) as error:
        raise damaged(folder / COLUMNS, "it is not JSON") from error
    if not isinstance(content, dict) or not content or not all(map(is_column, content, content.values())):
        raise damaged(folder / COLUMNS, "it does not name columns and their types")
    return content


def is_column(name: str, kind: object) -> bool:
    """Return whether a name and a type are valid for a column."""
    return bool(name) and name not in ("offset", "line") and kind in TYPES


class Shard:
    """Some records of a corpus: two files."""

    def __init__(self, stem: Path, columns: Columns) -> None:
        self.types = {name: np.dtype(kind) for name, kind in columns.items()}
        self.values = FlatFile(stem.with_suffix(".values"), np.dtype(np.uint8))
        self.index = FlatFile(stem.with_suffix(".index"), index_type(columns))

    def lengths(self) -> NDArray[np.int32]:
        """Return how many values each column of each record has, after checking that all are there."""
        index = self.index.read(0, self.index.num_bytes // self.index.dtype.itemsize)
        lengths = np.stack([index[name] for name in self.types], axis=1)
        sizes = [kind.itemsize for kind in self.types.values()]
        num_bytes = int((lengths.sum(axis=0, dtype=np.int64) * sizes).sum())
        if self.values.num_bytes != num_bytes:
            raise damaged(self.values.path, f"it should hold {num_bytes:,} bytes")
        return lengths

    def entry(self, place: int) -> tuple[int, ...]:
        """Return the offset of a record's values, how many each column has, and its line."""
        return self.index.read(place, 1)[0].item()

    def record(self, place: int) -> Values:
        """Return the columns of one record."""
        offset, *lengths, _ = self.entry(place)
        sizes = [length * kind.itemsize for length, kind in zip(lengths, self.types.values(), strict=True)]
        content = self.values.read(offset, sum(sizes))
        found, start = {}, 0
        for (name, kind), size in zip(self.types.items(), sizes, strict=True):
            found[name] = content[start : start + size].view(kind)
            start += size
        return found


class FlatFile:
    """A file of numbers, any part of which can be read by any thread; nothing stays in memory."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        try:
            self.file = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise damaged(path, error.strerror or "it cannot be read") from error
        weakref.finalize(self, os.close, self.file)
        self.path, self.dtype = path, dtype
        self.num_bytes = os.fstat(self.file).st_size

    def read(self, start: int, count: int) -> NDArray[Any]:
        """Return `count` numbers beginning with the one at `start`."""
        size = self.dtype.itemsize
        content = os.pread(self.file, count * size, start * size)
        if len(content) != count * size:
            raise damaged(self.path, "it ends too early")
        return np.frombuffer(content, dtype=self.dtype)


def no_corpus(folder: Path) -> DataError:
    """Return the error for a folder that holds no prepared corpus."""
    return DataError(f"There is no prepared corpus in {folder}.", "Start the training again without --resume.")


def damaged(path: Path, why: str) -> DataError:
    """Return the error for a damaged file of a prepared corpus."""
    return DataError(f"{path} is damaged: {why}.", "Train again from the text, in another folder.")
