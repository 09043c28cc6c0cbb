"""The prepared corpus: what was written is read, from where it lies on the disk."""

from __future__ import annotations

import gc
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.shards import Corpus, EncodedPair, ShardWriter, token_type
from sixfold.errors import DataError

NARROW, WIDE = 2**16, 2**16 + 1  # vocabularies of 16-bit and of 32-bit tokens
PAIRS = [
    EncodedPair([5, 6, 7], [8, 9], line=1),
    EncodedPair([NARROW - 1], [4], line=2),
    EncodedPair([10, 11], [12, 13, 14, 15], line=5),
    EncodedPair([16], [17], line=10**12),
    EncodedPair([18, 19, 20, 21], [22], line=7),
]


def write(folder: Path, pairs: list[EncodedPair], vocabulary: int = NARROW, pairs_a_shard: int = 2) -> Corpus:
    """Write pairs and open what was written."""
    writer = ShardWriter(folder, vocabulary, pairs_a_shard)
    writer.write(pairs)
    writer.close()
    return Corpus(folder, vocabulary)


def read(corpus: Corpus) -> list[EncodedPair]:
    """Return all pairs of a corpus."""
    lines = corpus.lines(np.arange(len(corpus)))
    return [EncodedPair(*ids, line) for ids, line in zip(corpus, lines, strict=True)]


tokens = st.lists(st.integers(0, NARROW - 1), max_size=6)
encoded = st.builds(EncodedPair, tokens, tokens, st.integers(1, 2**62))


@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(encoded, min_size=1, max_size=12), pairs_a_shard=st.integers(1, 5))
def test_pairs_come_back_as_they_were_whatever_the_size_of_a_shard(
    pairs: list[EncodedPair], pairs_a_shard: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = write(Path(folder), pairs, pairs_a_shard=pairs_a_shard)
        assert read(corpus) == pairs
        assert corpus.source_lengths.tolist() == [len(pair.source) for pair in pairs]
        assert corpus.target_lengths.tolist() == [len(pair.target) for pair in pairs]


def test_a_shard_holds_no_more_pairs_than_it_may(tmp_path: Path) -> None:
    write(tmp_path, PAIRS, pairs_a_shard=2)
    sizes = [np.fromfile(path, dtype="V24").size for path in sorted(tmp_path.glob("*.index"))]
    assert sizes == [2, 2, 1]


def test_pairs_that_come_in_several_parts_are_one_corpus(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, NARROW, pairs_a_shard=2)
    for pair in PAIRS:
        writer.write([pair])
    writer.close()
    assert writer.num_pairs == len(PAIRS)
    assert read(Corpus(tmp_path, NARROW)) == PAIRS


def test_lines_are_those_of_the_pairs_asked_for(tmp_path: Path) -> None:
    assert write(tmp_path, PAIRS).lines(np.array([3, 0, 4])) == [10**12, 1, 7]


@pytest.mark.parametrize(("vocabulary", "size"), [(NARROW, 2), (WIDE, 4)])
def test_tokens_take_two_bytes_until_a_vocabulary_needs_four(tmp_path: Path, vocabulary: int, size: int) -> None:
    pairs = [EncodedPair([vocabulary - 1, 0], [vocabulary - 1], line=1)]
    assert read(write(tmp_path, pairs, vocabulary)) == pairs
    assert token_type(vocabulary).itemsize == size
    assert (tmp_path / "shard-00000.tokens").stat().st_size == 3 * size


def test_reading_a_corpus_takes_no_memory_but_for_its_lengths(tmp_path: Path) -> None:
    pairs = [EncodedPair([*range(200)], [*range(200)], line) for line in range(5000)]
    write(tmp_path, pairs, pairs_a_shard=1000)
    tracemalloc.start()
    corpus = Corpus(tmp_path, NARROW)
    assert sum(1 for _ in corpus) == len(pairs)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20 * len(pairs) + 20_000  # of 824 bytes a pair
    assert not any(str(tmp_path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_writing_again_leaves_nothing_of_the_corpus_before(tmp_path: Path) -> None:
    write(tmp_path, PAIRS, pairs_a_shard=1)
    assert read(write(tmp_path, PAIRS[:1], pairs_a_shard=1)) == PAIRS[:1]


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_folder_without_a_corpus_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no prepared corpus"):
        Corpus(tmp_path / name, NARROW)


@pytest.mark.parametrize("suffix", ["tokens", "index"])
@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_file_cut_short_is_refused_instead_of_read_as_shorter_sentences(
    tmp_path: Path, suffix: str, left: int
) -> None:
    write(tmp_path, PAIRS)
    path = tmp_path / f"shard-00001.{suffix}"
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(DataError, match=r"shard-00001\.tokens is damaged"):
        Corpus(tmp_path, NARROW)


def test_a_file_cut_short_while_it_is_read_is_named(tmp_path: Path) -> None:
    corpus = write(tmp_path, PAIRS, pairs_a_shard=9)
    (tmp_path / "shard-00000.tokens").write_bytes(bytes(12))
    assert corpus.ids(0) == ([0, 0, 0], [0, 0])
    with pytest.raises(DataError, match=r"shard-00000\.tokens is damaged: it ends too early"):
        corpus.ids(1)


def test_a_corpus_closes_its_files(tmp_path: Path) -> None:
    gc.collect()  # or what other tests left is closed meanwhile
    open_before = len([*Path("/proc/self/fd").iterdir()])
    corpus = write(tmp_path, PAIRS)
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before + 6
    del corpus
    assert len([*Path("/proc/self/fd").iterdir()]) == open_before


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, PAIRS)
    (tmp_path / "shard-00002.tokens").unlink()
    with pytest.raises(DataError, match=r"shard-00002\.tokens"):
        Corpus(tmp_path, NARROW)
