"""The prepared corpus: what was written is read, from where it lies on the disk."""

from __future__ import annotations

import gc
import json
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.shards import COLUMNS, Columns, Corpus, Record, ShardWriter, token_type
from sixfold.errors import DataError

NARROW, WIDE = 2**16, 2**16 + 1  # vocabularies of 16-bit and of 32-bit tokens


def pair(source: list[int], target: list[int], line: int) -> Record:
    """Return a record of two columns."""
    return Record({"source": source, "target": target}, line)


PAIRS = [
    pair([5, 6, 7], [8, 9], line=1),
    pair([NARROW - 1], [4], line=2),
    pair([10, 11], [12, 13, 14, 15], line=5),
    pair([16], [17], line=10**12),
    pair([18, 19, 20, 21], [22], line=7),
]
TWO_COLUMNS = {"source": "<u2", "target": "<u2"}
THREE_COLUMNS = {"tokens": "u2", "samples": "i2", "pixels": "u1"}


def write(folder: Path, records: list[Record], columns: Columns = TWO_COLUMNS, records_a_shard: int = 2) -> Corpus:
    """Write records and open what was written."""
    writer = ShardWriter(folder, columns, records_a_shard)
    writer.write(records)
    writer.close()
    return Corpus(folder)


def read(corpus: Corpus) -> list[Record]:
    """Return all records of a corpus."""
    found = corpus.read(np.arange(len(corpus), dtype=np.uint32))
    lines = corpus.lines(found.ids)
    return [
        Record({name: column.tolist() for name, column in values.items()}, line)
        for values, line in zip(found.values, lines, strict=True)
    ]


def numbers(lowest: int, highest: int) -> st.SearchStrategy[list[int]]:
    """Return values of a column."""
    return st.lists(st.integers(lowest, highest), max_size=6)


tokens, lines = numbers(0, NARROW - 1), st.integers(1, 2**62)
pairs_of_tokens = st.builds(pair, tokens, tokens, lines)
three_columns = st.fixed_dictionaries(
    {"tokens": tokens, "samples": numbers(-(2**15), 2**15 - 1), "pixels": numbers(0, 255)}
)


@settings(max_examples=60, deadline=None)
@given(records=st.lists(pairs_of_tokens, min_size=1, max_size=12), records_a_shard=st.integers(1, 5))
def test_records_come_back_as_they_were_whatever_the_size_of_a_shard(
    records: list[Record], records_a_shard: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = write(Path(folder), records, records_a_shard=records_a_shard)
        assert read(corpus) == records
        assert corpus.lengths.tolist() == [list(map(len, record.columns.values())) for record in records]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.builds(Record, three_columns, lines), min_size=1, max_size=12), st.integers(1, 5))
def test_columns_of_different_types_come_back_as_they_were(records: list[Record], records_a_shard: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = write(Path(folder), records, THREE_COLUMNS, records_a_shard)
        assert corpus.columns == {"tokens": "<u2", "samples": "<i2", "pixels": "|u1"}
        assert read(corpus) == records
        types = [column.dtype.str for column in corpus.record(0).values()]
        assert types == ["<u2", "<i2", "|u1"]
        sizes = (2, 2, 1)  # bytes of a value; with the index: where it begins, three lengths and the line
        assert corpus.num_bytes == 28 * len(records) + int((corpus.lengths * sizes).sum())


def test_a_shard_holds_no_more_records_than_it_may(tmp_path: Path) -> None:
    write(tmp_path, PAIRS, records_a_shard=2)
    sizes = [np.fromfile(path, dtype="V24").size for path in sorted(tmp_path.glob("*.index"))]
    assert sizes == [2, 2, 1]


def test_records_that_come_in_several_parts_are_one_corpus(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, TWO_COLUMNS, records_a_shard=2)
    for record in PAIRS:
        writer.write([record])
    writer.close()
    assert writer.num_records == len(PAIRS)
    assert read(Corpus(tmp_path)) == PAIRS


def test_lines_are_those_of_the_records_asked_for(tmp_path: Path) -> None:
    assert write(tmp_path, PAIRS).lines(np.array([3, 0, 4], dtype=np.uint32)) == [10**12, 1, 7]


@pytest.mark.parametrize(("vocabulary", "size"), [(NARROW, 2), (WIDE, 4)])
def test_tokens_take_two_bytes_until_a_vocabulary_needs_four(tmp_path: Path, vocabulary: int, size: int) -> None:
    records = [pair([vocabulary - 1, 0], [vocabulary - 1], line=1)]
    columns = dict.fromkeys(("source", "target"), token_type(vocabulary))
    assert read(write(tmp_path, records, columns)) == records
    assert np.dtype(token_type(vocabulary)).itemsize == size
    assert (tmp_path / "shard-00000.values").stat().st_size == 3 * size


def test_reading_a_corpus_takes_no_memory_but_for_its_lengths(tmp_path: Path) -> None:
    records = [pair([*range(200)], [*range(200)], line) for line in range(5000)]
    write(tmp_path, records, records_a_shard=1000)
    tracemalloc.start()
    corpus = Corpus(tmp_path)
    assert sum(len(corpus.record(number)["target"]) for number in range(len(corpus))) == 200 * len(records)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20 * len(records) + 20_000  # of 824 bytes a pair
    assert not any(str(tmp_path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_writing_again_leaves_nothing_of_the_corpus_before(tmp_path: Path) -> None:
    write(tmp_path, PAIRS, records_a_shard=1)
    assert read(write(tmp_path, PAIRS[:1], records_a_shard=1)) == PAIRS[:1]


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_a_corpus_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no prepared corpus"):
        Corpus(tmp_path / name)


@pytest.mark.parametrize("suffix", ["values", "index"])
@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_file_cut_short_is_refused_instead_of_read_as_shorter_sentences(
    tmp_path: Path, suffix: str, left: int
) -> None:
    write(tmp_path, PAIRS)
    path = tmp_path / f"shard-00001.{suffix}"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataError, match=r"shard-00001\.values is damaged"):
        Corpus(tmp_path)


def test_a_file_cut_short_while_it_is_read_is_named(tmp_path: Path) -> None:
    corpus = write(tmp_path, PAIRS, records_a_shard=9)
    (tmp_path / "shard-00000.values").write_bytes(bytes(12))
    assert [column.tolist() for column in corpus.record(0).values()] == [[0, 0, 0], [0, 0]]
    with pytest.raises(DataError, match=r"shard-00000\.values is damaged: it ends too early"):
        corpus.record(1)


def test_a_corpus_closes_its_files(tmp_path: Path) -> None:
    gc.collect()  # or what other tests left is closed meanwhile
    open_before = len([*Path("/proc/self/fd").iterdir()])
    corpus = write(tmp_path, PAIRS)
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before + 6
    del corpus
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before


def test_a_missing_file_of_values_is_named(tmp_path: Path) -> None:
    write(tmp_path, PAIRS)
    (tmp_path / "shard-00002.values").unlink()
    with pytest.raises(DataError, match=r"shard-00002\.values"):
        Corpus(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b"7", b"null", b"{}", b'{"source": 5}', b'{"source": "<u3"}', b'{"source": "O"}',
     b'{"source": "<u2", "line": "<u2"}', b'{"offset": "<u2"}', b'{"": "<u2"}', b'{"source": "2<u2"}',
     b'{"source": "<u2,<u2"}', b'{"source": "S0"}', b'{"a": ' + b'[' * 100_000],
)  # fmt: skip
def test_damaged_columns_are_named(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, PAIRS)
    (tmp_path / COLUMNS).write_bytes(content)
    with pytest.raises(DataError, match=r"columns\.json is damaged"):
        Corpus(tmp_path)


def test_columns_of_another_corpus_are_noticed(tmp_path: Path) -> None:
    write(tmp_path, PAIRS)
    (tmp_path / COLUMNS).write_bytes(json.dumps({"source": "<u2", "target": "<u4"}).encode())
    with pytest.raises(DataError, match=r"shard-00000\.\w+ is damaged"):
        Corpus(tmp_path)


def test_a_value_that_its_column_cannot_hold_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(OverflowError):
        write(tmp_path, [pair([NARROW], [1], line=1)])
