"""Packing: token streams are cut into rows of equal length, and conversations are put whole into rows.

A row has one token more than the model reads: each token but the last is an input, and the next is its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sixfold.data.shards import Record

OPEN_ROWS = 64  # rows that may still get a conversation

Columns = Mapping[str, Sequence[int]]  # one number per token, by name


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens, with columns of the same length, and the line where they begin."""

    columns: Columns
    line: int
    is_new: bool = True  # whether a new document begins here

    def __len__(self) -> int:
        return len(self.columns["tokens"])


@dataclass
class Row:
    """Tokens that become a record, and the positions where documents begin."""

    line: int
    columns: dict[str, list[int]] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns.get("tokens", ()))

    def add(self, stretch: Stretch) -> None:
        """Append tokens."""
        if stretch.is_new:
            self.starts.append(len(self))
        for name, values in stretch.columns.items():
            self.columns.setdefault(name, []).extend(values)

    def part(self, begin: int, end: int) -> Row:
        """Return some of the tokens."""
        columns = {name: values[begin:end] for name, values in self.columns.items()}
        return Row(self.line, columns, [start - begin for start in self.starts if begin <= start < end])

    def record(self) -> Record:
        """Return the record for a shard."""
        return Record({**self.columns, "starts": self.starts}, self.line)


class Packer:
    """Cuts a stream of tokens into rows that overlap by one: each token but the first is a target once."""

    def __init__(self, context: int) -> None:
        self.context = context
        self.open, self.last = Row(1), Row(1)

    def add(self, stretches: Iterable[Stretch]) -> Iterator[Record]:
        """Add to the stream, and yield the rows that are full."""
        for stretch in stretches:
            self.open.line = stretch.line if len(self.open) <= 1 else self.open.line
            self.open.add(stretch)
            begin = 0
            while len(self.open) - begin > self.context:
                self.last = self.open.part(begin, begin + self.context + 1)
                yield self.last.record()
                begin += self.context
            self.open = self.open.part(begin, len(self.open))
            if begin:
                self.open.line = stretch.line

    def rest(self) -> Iterator[Record]:
        """Yield the remaining tokens as a shorter row."""
        if len(self.open) > 1:
            yield self.open.record()

    def full_rest(self) -> Iterator[Record]:
        """Yield the remaining tokens after the end of the previous row, as a row of full length."""
        if len(self.open) > 1 and len(self.last):
            both = self.last.part(0, len(self.last))
            both.add(Stretch({name: values[1:] for name, values in self.open.columns.items()}, 0, is_new=False))
            both.starts += [len(self.last) - 1 + start for start in self.open.starts if start]
            yield both.part(len(both) - self.context - 1, len(both)).record()
        else:
            yield from self.rest()


class WholePacker:
    """Packs whole conversations, each into the fullest open row that has room for it (best fit)."""

    def __init__(self, context: int) -> None:
        self.context = context
        self.open: list[Row] = []

    def add(self, stretches: Iterable[Stretch]) -> Iterator[Record]:
        """Add conversations no longer than a row, and yield the fullest rows once too many are open."""
        for stretch in stretches:
            fitting = [row for row in self.open if len(row) + len(stretch) <= self.context + 1]
            if fitting:
                max(fitting, key=len).add(stretch)
                continue
            self.open.append(Row(stretch.line))
            self.open[-1].add(stretch)
            if len(self.open) > OPEN_ROWS:
                fullest = max(range(len(self.open)), key=lambda place: len(self.open[place]))
                yield self.open.pop(fullest).record()

    def rest(self) -> Iterator[Record]:
        """Yield the rows that are still open."""
        for row in self.open:
            yield row.record()
        self.open = []
