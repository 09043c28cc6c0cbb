"""Readers: every format gives back exactly what was written, and every damage is named."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import polib
import pyarrow
import pyarrow.parquet
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data import streams
from sixfold.data.languages import asked_languages
from sixfold.data.readers import Pair, join_pairs, open_pairs, read_lines
from sixfold.errors import ConfigError, DataError, MissingExtraError

Sides = tuple[str, str]

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


def sides_of(pairs: object) -> list[Sides]:
    assert hasattr(pairs, "__iter__")
    return [(pair.source, pair.target) for pair in pairs]


def lists_of_pairs(without: str = "", min_size: int = 0, xml: bool = False) -> st.SearchStrategy[list[Sides]]:
    """Any text that has no line break, does not end in a carriage return and is no byte-order mark."""
    letters = st.characters(
        exclude_categories=("Cs", "Cc", "Cn", "Co") if xml else ("Cs",),
        exclude_characters="\n\ufeff" + without,
    )
    sides = st.text(letters, min_size=min_size).filter(lambda text: not text.endswith("\r"))
    return st.lists(st.tuples(sides, sides), min_size=1)


def write_aligned(folder: Path, pairs: list[Sides], end: str = "\n") -> tuple[Path, Path]:
    for name, side in (("a.en", 0), ("a.de", 1)):
        (folder / name).write_bytes("".join(pair[side] + end for pair in pairs).encode())
    return folder / "a.en", folder / "a.de"


def failure_of(read: Callable[[], object]) -> DataError:
    with pytest.raises(DataError) as caught:
        read()
    return caught.value


# Lines


@settings(max_examples=100, deadline=None)
@given(pairs=lists_of_pairs(), end=st.sampled_from(["\n", "\r\n"]))
def test_two_files_come_back_exactly(
    pairs: list[Sides], end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    paths = write_aligned(tmp_path_factory.mktemp("aligned"), pairs, end)
    assert list(open_pairs(*paths)) == [Pair(*sides, line) for line, sides in enumerate(pairs, start=1)]


NOISE = st.binary(max_size=60) | st.sampled_from(
    [b"msgid", b"msgstr", b'msgstr[1] "x"', b'"', b"#~ ", b"#| ", b"\n", b"<tmx>", b"<tu>", b"<tuv>", b"<seg>",
     b"</tu>", b"PAR1\x15", b'{"source":', b'"target":', b"\x1f\x8b\x08\0", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0"]
)  # fmt: skip


@pytest.mark.parametrize("name", ["a.txt", "a.tsv", "a.jsonl", "a.tmx", "a.po", "a.parquet"])
@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(NOISE, min_size=1, max_size=12))
def test_noise_gives_pairs_or_an_error_of_ours(
    name: str, pieces: list[bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("noise") / name
    path.write_bytes(b"".join(pieces))
    for read in (lambda: list(read_lines(path)), lambda: list(open_pairs(path))):
        with suppress(DataError):
            read()


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x0b", "\x0c", "\x85", "\x1c", "\x00", "\r", " \t "])
def test_only_a_newline_ends_a_line(inside: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(f"one{inside}two\nthree".encode())
    assert list(read_lines(tmp_path / "a")) == [f"one{inside}two", "three"]


def test_a_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one\n\ntwo")
    assert list(read_lines(tmp_path / "a")) == ["one", "", "two"]


def test_a_byte_order_mark_and_carriage_returns_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\r\n\xef\xbb\xbfthree\r\n")
    assert list(read_lines(tmp_path / "a")) == ["one", "two\r", "\ufeffthree"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compression_is_told_by_the_content_and_not_by_the_name(compression: str, tmp_path: Path) -> None:
    text = "".join(f"Zeile {number} ä\n" for number in range(50_000))
    (tmp_path / "a.txt").write_bytes(COMPRESSIONS[compression](text.encode()))
    assert list(read_lines(tmp_path / "a.txt")) == text.split("\n")[:-1]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_files_compressed_one_after_the_other_are_read_whole(compression: str, tmp_path: Path) -> None:
    compress = COMPRESSIONS[compression]
    (tmp_path / "a").write_bytes(compress(b"one\ntw") + compress(b"o\n"))
    assert list(read_lines(tmp_path / "a")) == ["one", "two"]


@pytest.mark.parametrize("compression", ["gzip", "xz", "zstd"])
def test_a_truncated_file_is_named(compression: str, tmp_path: Path) -> None:
    data = COMPRESSIONS[compression](os.urandom(50_000).hex().encode() + b"\n")
    (tmp_path / "a").write_bytes(data[: len(data) // 2])
    error = failure_of(lambda: list(read_lines(tmp_path / "a")))
    assert error.message == f"{tmp_path / 'a'} is cut off: its compressed data ends early."


@pytest.mark.parametrize("compression", ["gzip", "xz", "zstd"])
def test_a_damaged_file_is_named(compression: str, tmp_path: Path) -> None:
    data = bytearray(COMPRESSIONS[compression](os.urandom(5_000).hex().encode() + b"\n"))
    data[20:2000] = bytes(1980)
    (tmp_path / "a").write_bytes(data)
    assert str(tmp_path / "a") in failure_of(lambda: list(read_lines(tmp_path / "a"))).message


def test_bad_utf8_is_told_by_file_line_and_offset(tmp_path: Path) -> None:
    before = "größer\n" * 100_000
    (tmp_path / "a").write_bytes(before.encode() + b"gr\xf6\xdfer\nmore\n")
    error = failure_of(lambda: list(read_lines(tmp_path / "a")))
    offset = len(before.encode()) + 2
    assert error.message == f"{tmp_path / 'a'}, line 100,001: not UTF-8 (byte 0xf6 at offset {offset:,})."
    assert "iconv" in error.hint


@pytest.mark.parametrize(
    "mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE]
)
def test_wide_characters_are_refused_with_the_way_to_convert_them(mark: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(mark + "eins\n".encode("utf-16-le"))
    error = failure_of(lambda: list(read_lines(tmp_path / "a")))
    assert "is UTF-16 or UTF-32" in error.message
    assert "iconv -f UTF-16 -t UTF-8" in error.hint


def test_a_missing_file_and_a_folder_are_refused_at_once(tmp_path: Path) -> None:
    assert "There is no file" in failure_of(lambda: read_lines(tmp_path / "none")).message
    assert "is a folder" in failure_of(lambda: read_lines(tmp_path)).message


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "a").chmod(0)
    assert "may not be read" in failure_of(lambda: list(read_lines(tmp_path / "a"))).message


def test_a_line_of_a_megabyte_is_a_line(tmp_path: Path) -> None:
    lines = ["short", "ü" * 500_000 + "x" * 100_000, "short again"]
    (tmp_path / "a").write_bytes("\n".join(lines).encode())
    assert list(read_lines(tmp_path / "a")) == lines


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "a").write_bytes(gzip.compress(bytes(50_000_000)))
    tracemalloc.start()
    try:
        assert "longer than 1 MiB" in failure_of(lambda: list(read_lines(tmp_path / "a"))).message
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_zstd_without_its_package_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(COMPRESSIONS["zstd"](b"one\n"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError) as caught:
        list(read_lines(tmp_path / "a"))
    assert caught.value.hint == "pip install 'sixfold[formats]'"


# Standard input and pipes


@pytest.fixture
def type_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_standard_input_can_be_read_twice(compression: str, type_in: Callable[[bytes], None]) -> None:
    type_in(COMPRESSIONS[compression](b"one\teins\ntwo\tzwei\n"))
    pairs = open_pairs("-")
    assert pairs.paths == (Path("-"),)
    assert sides_of(pairs) == sides_of(pairs) == [("one", "eins"), ("two", "zwei")]


def test_two_readers_of_standard_input_do_not_disturb_each_other(type_in: Callable[[bytes], None]) -> None:
    type_in(b"".join(b"%d\t%d\n" % (number, number) for number in range(100_000)))
    pairs = open_pairs("-")
    assert all(left == right for left, right in zip(pairs, pairs, strict=True))


def test_parquet_comes_through_standard_input(type_in: Callable[[bytes], None]) -> None:
    stream = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"source": ["one"], "target": ["eins"]}), stream)
    type_in(stream.getvalue())
    assert sides_of(open_pairs("-")) == [("one", "eins")]


def test_read_lines_hands_on_each_line_of_standard_input_as_it_comes() -> None:
    loop = "for line in read_lines('-'): print(line.upper(), flush=True)"
    code = f"from sixfold.data.readers import read_lines\n{loop}"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"one\n")
        assert process.stdout.readline() == b"ONE\n"
        process.stdin.write(b"two")
        process.stdin.close()
        assert process.stdout.readline() == b"TWO\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_can_be_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"one\teins\n",))
    writer.start()
    pairs = open_pairs(tmp_path / "pipe")
    writer.join()
    assert sides_of(pairs) == sides_of(pairs) == [("one", "eins")]


# Two files and folders


@pytest.mark.parametrize(("num_source", "num_target"), [(3, 2), (2, 3), (1, 70_000), (70_000, 1)])
def test_unequal_counts_are_refused_with_both_counts(num_source: int, num_target: int, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("x\n" * num_source)
    (tmp_path / "a.de").write_text("x\n" * num_target)
    error = failure_of(lambda: list(open_pairs(tmp_path / "a.en", tmp_path / "a.de")))
    assert f"a.en has {num_source:,}, " in error.message
    assert f"a.de has {num_target:,}." in error.message


def test_an_empty_file_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "a.de").write_bytes(gzip.compress(b""))
    assert "a.de is empty" in failure_of(lambda: open_pairs(tmp_path / "a.en", tmp_path / "a.de")).message
    (tmp_path / "mark.tsv").write_bytes(b"\xef\xbb\xbf")
    assert "There are no pairs" in failure_of(lambda: list(open_pairs(tmp_path / "mark.tsv"))).message


def test_a_file_cannot_be_both_sides(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "link").symlink_to(tmp_path / "a.en")
    for target in (tmp_path / "a.en", tmp_path / "link", tmp_path / "." / "a.en"):
        assert (
            "as source and as target"
            in failure_of(lambda path=target: open_pairs(tmp_path / "a.en", path)).message
        )
    assert "as source and as target" in failure_of(lambda: open_pairs("-", "-")).message


def test_a_file_that_holds_both_sides_is_not_taken_for_one(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"source": ["one"], "target": ["eins"]}), tmp_path / "a")
    (tmp_path / "b").write_text("x\n")
    assert "already holds both sides" in failure_of(lambda: open_pairs(tmp_path / "a", tmp_path / "b")).message


def test_folders_pair_their_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "2.txt").write_text(f"two {side}\n")
        (tmp_path / side / "1.txt.gz").write_bytes(gzip.compress(f"one {side}\nand {side}\n".encode()))
        (tmp_path / side / ".hidden").write_text("not this\n")
    pairs = open_pairs(tmp_path / "en", tmp_path / "de")
    assert list(pairs) == [
        Pair("one en", "one de", 1),
        Pair("and en", "and de", 2),
        Pair("two en", "two de", 1),
    ]
    assert [path.name for path in pairs.paths] == ["1.txt.gz", "1.txt.gz", "2.txt", "2.txt"]
    assert [len(list(part)) for part in pairs.parts] == [2, 1]


def test_folders_with_different_numbers_of_files_are_refused(tmp_path: Path) -> None:
    for name in ("en/1", "en/2", "de/1"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    error = failure_of(lambda: open_pairs(tmp_path / "en", tmp_path / "de"))
    assert f"{tmp_path / 'en'} has 2, {tmp_path / 'de'} has 1." in error.message
    (tmp_path / "none").mkdir()
    assert "has no files" in failure_of(lambda: open_pairs(tmp_path / "en", tmp_path / "none")).message


def test_a_folder_may_hold_files_of_several_formats(tmp_path: Path) -> None:
    (tmp_path / "1.tsv").write_text("one\teins\n")
    (tmp_path / "2.jsonl").write_text('{"source": "two", "target": "zwei"}\n')
    assert sides_of(open_pairs(tmp_path)) == [("one", "eins"), ("two", "zwei")]
    joined = join_pairs([open_pairs(tmp_path), open_pairs(tmp_path / "1.tsv")])
    assert sides_of(joined) == [("one", "eins"), ("two", "zwei"), ("one", "eins")]


def test_aligned_files_are_read_fast(tmp_path: Path) -> None:
    line = "A sentence of usual length, with some words in it.\n"
    (tmp_path / "a.en").write_text(line * 100_000)
    (tmp_path / "a.de").write_text(line * 100_000)
    began = time.process_time()
    assert sum(1 for _ in open_pairs(tmp_path / "a.en", tmp_path / "a.de")) == 100_000
    assert time.process_time() - began < 2  # a tenth of it is usual


# One file with both sides


@settings(max_examples=50, deadline=None)
@given(pairs=lists_of_pairs(without="\t"))
def test_tsv_comes_back_exactly(pairs: list[Sides], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    assert sides_of(open_pairs(path)) == pairs


@settings(max_examples=50, deadline=None)
@given(pairs=lists_of_pairs(), ascii_only=st.booleans(), shape=st.sampled_from(["flat", "translation"]))
def test_jsonl_comes_back_exactly(
    pairs: list[Sides], ascii_only: bool, shape: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    flat = [{"source": source, "target": target} for source, target in pairs]
    nested = [{"id": 1, "translation": {"en": source, "de": target}} for source, target in pairs]
    records = flat if shape == "flat" else nested
    lines = [json.dumps(record, ensure_ascii=ascii_only) + "\n" for record in records]
    path.write_bytes("".join(lines).encode())
    assert sides_of(open_pairs(path)) == pairs


@settings(max_examples=50, deadline=None)
@given(pairs=lists_of_pairs(xml=True))
def test_tmx_comes_back_exactly(pairs: list[Sides], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("tmx") / "a.tmx"
    path.write_bytes(tmx(pairs).encode())
    assert sides_of(open_pairs(path)) == pairs


@settings(max_examples=50, deadline=None)
@given(pairs=lists_of_pairs(), shape=st.sampled_from(["flat", "translation"]))
def test_parquet_comes_back_exactly(
    pairs: list[Sides], shape: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "a.parquet"
    nested = {"translation": [{"en": source, "de": target} for source, target in pairs]}
    sources, targets = zip(*pairs, strict=True)
    table = {"id": list(sources), "source": list(sources), "target": list(targets)} if shape == "flat" else nested
    pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=3)
    assert sides_of(open_pairs(path)) == pairs


@settings(max_examples=50, deadline=None)
@given(pairs=lists_of_pairs(min_size=1))
def test_po_comes_back_exactly(pairs: list[Sides], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("po") / "a.po"
    entries = [f'msgid "{polib.escape(left)}"\nmsgstr "{polib.escape(right)}"\n' for left, right in pairs]
    path.write_bytes("\n".join([PO_HEADER, *entries]).encode())
    assert sides_of(open_pairs(path)) == pairs


PO_HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'


def tmx(pairs: list[Sides], before: str = "") -> str:
    units = "".join(
        f'<tu>\n<tuv xml:lang="en"><seg>{escape(source)}</seg></tuv>'
        f'<tuv xml:lang="de"><seg>{escape(target)}</seg></tuv>\n</tu>\n'
        for source, target in pairs
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{before}<tmx version="1.4"><body>\n{units}</body></tmx>\n'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{0} items\t{0} Elemente\n", ("{0} items", "{0} Elemente")),
        ('{"source": "one", "target": "eins"}\n', ("one", "eins")),
        ('\ufeff{"translation": {"de": "eins", "en": "one"}}\n', ("eins", "one")),
        (tmx([("one", "eins")]), ("one", "eins")),
        (PO_HEADER + '\nmsgid "one"\nmsgstr "eins"\n', ("one", "eins")),
    ],
)
def test_the_format_is_told_by_the_content(content: str, expected: Sides, tmp_path: Path) -> None:
    (tmp_path / "corpus").write_bytes(gzip.compress(content.encode()))
    assert sides_of(open_pairs(tmp_path / "corpus")) == [expected]


def test_one_plain_file_alone_is_refused_with_the_way_to_give_two(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\n")
    assert "Give two files" in failure_of(lambda: open_pairs(tmp_path / "a.en")).hint


@pytest.mark.parametrize("line", ["no tab", "two\ttabs\there", ""])
def test_a_tsv_line_has_exactly_one_tab(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"one\teins\n{line}\n")
    error = failure_of(lambda: list(open_pairs(tmp_path / "a.tsv")))
    assert error.message.endswith(f"a.tsv, line 2: expected exactly one tab, found {line.count(chr(9))}.")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        "[" * 100_000,
        '{"source": "one"}',
        '{"source": 1, "target": "x"}',
        r'{"source": "\ud800", "target": "x"}',
    ],
)
def test_a_bad_json_line_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "one", "target": "eins"}\n\n' + line + "\n")
    assert "a.jsonl, line 3: " in failure_of(lambda: list(open_pairs(tmp_path / "a.jsonl"))).message


def test_line_breaks_inside_a_record_become_spaces(tmp_path: Path) -> None:
    record = {"source": "one\n  two\n", "target": "eins\r\n\r\nzwei"}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    assert sides_of(open_pairs(tmp_path / "a.jsonl")) == [("one two", "eins zwei")]


def test_three_languages_need_a_choice(tmp_path: Path) -> None:
    record = {"translation": {"en": "one", "fr": "un", "de": "eins"}}
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    failure = failure_of(lambda: list(open_pairs(tmp_path / "a.jsonl")))
    assert "en, fr, de" in failure.message
    assert failure.hint == "Name two of them, source first: --set 'data.languages=[en, fr]'"
    assert sides_of(open_pairs(tmp_path / "a.jsonl", languages=("de", "en"))) == [("eins", "one")]


def test_the_two_keys_that_are_read_of_a_record_are_known_and_those_of_others_listed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "one", "answer": "eins"}\n')
    assert open_pairs(tmp_path / "a.jsonl").sides == ("question", "answer")
    swapped = open_pairs(tmp_path / "a.jsonl", languages=("answer", "question"))
    assert (sides_of(swapped), swapped.sides) == ([("eins", "one")], ("answer", "question"))
    failure = failure_of(lambda: open_pairs(tmp_path / "a.jsonl", languages=("en", "de")))
    assert "expected en and de, found question, answer" in failure.message


def test_languages_say_what_source_and_target_are_where_the_file_does_not(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "one", "target": "eins", "id": 1}\n')
    (tmp_path / "a.tsv").write_text("one\teins\n")
    write_aligned(tmp_path, [("one", "eins")])
    for paths in (("a.jsonl",), ("a.tsv",), ("a.en", "a.de")):
        pairs = open_pairs(*(tmp_path / path for path in paths), languages=("en", "de"))
        assert (sides_of(pairs), pairs.sides) == ([("one", "eins")], ("en", "de"))


@pytest.mark.parametrize("value", ["en-de", ["en"], ["en", "en"], ["en", "de", "fr"], ["en", ""], [1, 2], {}])
def test_languages_are_none_or_two(value: object) -> None:
    with pytest.raises(ConfigError, match=r"data\.languages names two different languages"):
        asked_languages(value)


def test_the_first_language_of_a_tmx_file_is_the_source_in_every_unit(tmp_path: Path) -> None:
    swapped = '<tu><tuv xml:lang="DE"><seg>zwei</seg></tuv><tuv xml:lang="EN"><seg>two</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(tmx([("one", "eins")]).replace("</body>", swapped + "</body>"))
    assert sides_of(open_pairs(tmp_path / "a.tmx")) == [("one", "eins"), ("two", "zwei")]
    assert sides_of(open_pairs(tmp_path / "a.tmx", languages=("de", "en"))) == [
        ("eins", "one"),
        ("zwei", "two"),
    ]


def test_inline_codes_of_a_tmx_segment_are_no_text(tmp_path: Path) -> None:
    coded = "press <bpt i='1'>&lt;b></bpt><hi>the</hi> key<ept i='1'>&lt;/b></ept><ph>{0}</ph>!"
    (tmp_path / "a.tmx").write_text(tmx([("SEGMENT", "Taste")]).replace("SEGMENT", coded))
    assert sides_of(open_pairs(tmp_path / "a.tmx")) == [("press the key!", "Taste")]


def test_a_tmx_unit_without_a_translation_has_an_empty_target(tmp_path: Path) -> None:
    lonely = '<tu><tuv xml:lang="en"><seg>alone</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(tmx([("one", "eins")]).replace("</body>", lonely + "</body>"))
    assert sides_of(open_pairs(tmp_path / "a.tmx"))[1] == ("alone", "")


def test_a_tmx_file_may_be_utf16(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_bytes(tmx([("größer", "größer")]).replace("UTF-8", "UTF-16").encode("utf-16"))
    assert sides_of(open_pairs(tmp_path / "a.tmx")) == [("größer", "größer")]


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE tmx [<!ENTITY secret SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE tmx SYSTEM "tmx14.dtd" [<!ENTITY a "a">]>',
        "<!DOCTYPE tmx []>",
    ],
)
def test_a_doctype_that_declares_anything_itself_is_refused(doctype: str, tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(tmx([("one", "eins")], before=doctype))
    message = failure_of(lambda: list(open_pairs(tmp_path / "a.tmx"))).message
    assert "line 2: a DOCTYPE with declarations of its own is refused" in message


DTDS = [
    '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n',
    '<!DOCTYPE tmx PUBLIC "-//LISA OSCAR:1998//DTD for Translation Memory eXchange//EN" "tmx14.dtd">\n',
]


@pytest.mark.parametrize("doctype", DTDS)
def test_a_dtd_that_is_only_referred_to_is_allowed_and_never_read(doctype: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tmx14.dtd")  # opening it would wait for ever
    (tmp_path / "a.tmx").write_text(tmx([("one", "eins")], before=doctype))
    assert sides_of(open_pairs(tmp_path / "a.tmx")) == [("one", "eins")]


def test_an_entity_that_only_a_dtd_could_explain_is_refused_instead_of_left_out(tmp_path: Path) -> None:
    content = tmx([("one", "eins")], before=DTDS[0]).replace("eins", "ein&nbsp;s")
    (tmp_path / "a.tmx").write_text(content)
    failure = failure_of(lambda: list(open_pairs(tmp_path / "a.tmx")))
    assert "line 5: the entity &nbsp; is not part of XML" in failure.message


@pytest.mark.parametrize(
    "damage", [("</seg>", "<seg>"), ("</tmx>", ""), ("UTF-8", "no-such-code"), ("one", "&no;")]
)
def test_broken_xml_is_named(damage: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(tmx([("one", "eins")]).replace(*damage))
    assert "a.tmx: not well-formed XML" in failure_of(lambda: list(open_pairs(tmp_path / "a.tmx"))).message


Texts = dict[str, str]


def tmx_of(units: list[Texts], srclang: str = "", own: str = "") -> str:
    """Return a TMX file whose header, and each of whose units, may say a source language."""
    header = f'<header srclang="{srclang}"/>' if srclang else "<header/>"
    start = f'<tu srclang="{own}">' if own else "<tu>"
    body = "".join(
        start + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in unit.items()) + "</tu>"
        for unit in units
    )
    return f'<?xml version="1.0"?><tmx version="1.4">{header}<body>{body}</body></tmx>'


GERMAN_FIRST: list[Texts] = [{"de": "eins", "en-US": "one"}, {"en-US": "two", "de": "zwei"}]


@pytest.mark.parametrize("srclang", ["en-US", "EN-us", "en", "en_US"])
def test_srclang_says_which_side_of_a_tmx_file_is_the_source(srclang: str, tmp_path: Path) -> None:
    for number, content in enumerate(
        (tmx_of(GERMAN_FIRST, srclang), tmx_of(GERMAN_FIRST, own=srclang), tmx_of(GERMAN_FIRST, "*all*", srclang))
    ):
        (tmp_path / f"{number}.tmx").write_text(content)
        pairs = open_pairs(tmp_path / f"{number}.tmx")
        assert sides_of(pairs) == [("one", "eins"), ("two", "zwei")]
        assert pairs.sides == ("en-US", "de")


@pytest.mark.parametrize("srclang", ["", "*all*", "*ALL*", "fr"])
def test_a_srclang_that_tells_nothing_leaves_the_first_language_as_the_source(
    srclang: str, tmp_path: Path
) -> None:
    (tmp_path / "a.tmx").write_text(tmx_of(GERMAN_FIRST, srclang))
    pairs = open_pairs(tmp_path / "a.tmx")
    assert (sides_of(pairs), pairs.sides) == ([("eins", "one"), ("zwei", "two")], ("de", "en-US"))


def test_two_of_several_languages_of_a_tmx_file_are_read_when_they_are_named(tmp_path: Path) -> None:
    units = [{"fr": "un", "de-AT": "eins", "EN-us": "one"}, {"de": "zwei", "en-GB": "two"}, {"fr": "t", "de": "d"}]
    (tmp_path / "a.tmx").write_text(tmx_of(units, "fr"))
    assert sides_of(open_pairs(tmp_path / "a.tmx", languages=("en", "de"))) == [
        ("one", "eins"), ("two", "zwei"), ("", "d"),
    ]  # fmt: skip


def test_a_language_that_is_asked_for_is_read_from_its_nearest_variety(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(tmx_of([{"en": "e", "en-US": "us", "en-GB": "gb", "pt": "p"}]))
    for asked, expected in (("en-us", "us"), ("en-gb", "gb"), ("en", "e"), ("en-AU", "e")):
        assert sides_of(open_pairs(tmp_path / "a.tmx", languages=(asked, "pt-BR"))) == [(expected, "p")]


@pytest.mark.parametrize("asked", [None, ("en", "it")])
def test_a_choice_of_languages_that_a_tmx_file_leaves_open_or_cannot_meet_lists_what_it_has(
    asked: tuple[str, str] | None, tmp_path: Path
) -> None:
    (tmp_path / "a.tmx").write_text(tmx_of([{"de": "eins", "en": "one"}, {"en": "two", "fr": "deux"}], "en"))
    failure = failure_of(lambda: open_pairs(tmp_path / "a.tmx", languages=asked))
    assert "de (1), en (2), fr (1)" in failure.message
    assert failure.hint == "Name two of them, source first: --set 'data.languages=[en, de]'"


def test_a_third_language_in_a_tmx_file_is_named(tmp_path: Path) -> None:
    third = '<tu><tuv xml:lang="en"><seg>two</seg></tuv><tuv xml:lang="fr"><seg>deux</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(tmx([("one", "eins")]).replace("</body>", third + "</body>"))
    assert (
        "more than two languages: en (2), de (1), fr (1)"
        in failure_of(lambda: list(open_pairs(tmp_path / "a.tmx"))).message
    )


@pytest.mark.parametrize(
    "table",
    [
        {"left": ["a"], "right": ["b"], "more": ["c"]},
        {"source": ["a", None], "target": ["b", "c"]},
        {"source": [1], "target": [2]},
    ],
)
def test_a_parquet_table_of_another_shape_is_named(table: dict[str, list[object]], tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "a.parquet")
    assert "a.parquet" in failure_of(lambda: list(open_pairs(tmp_path / "a.parquet"))).message


def test_a_cut_parquet_file_is_named(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"source": ["a"], "target": ["b"]}), tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
    assert "damaged Parquet" in failure_of(lambda: list(open_pairs(tmp_path / "a.parquet"))).message


def test_po_leaves_out_what_is_not_a_finished_translation(tmp_path: Path) -> None:
    entries = [
        'msgid "one"\nmsgstr "eins"\n',
        '#, fuzzy\nmsgid "two"\nmsgstr "drei?"\n',
        'msgid "three"\nmsgstr ""\n',
        'msgid "%d day"\nmsgid_plural "%d days"\nmsgstr[0] "%d Tag"\nmsgstr[1] "%d Tage"\n',
        '#~ msgid "old"\n#~ msgstr "alt"\n',
    ]
    (tmp_path / "a.po").write_text("\n".join([PO_HEADER, *entries]))
    assert sides_of(open_pairs(tmp_path / "a.po")) == [
        ("one", "eins"),
        ("%d day", "%d Tag"),
        ("%d days", "%d Tage"),
    ]


def test_a_broken_po_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.po").write_text('msgid "one"\nmsgstr "ei"ns"\n')
    assert "a.po: not a PO file" in failure_of(lambda: list(open_pairs(tmp_path / "a.po"))).message


@pytest.mark.parametrize(("name", "package"), [("a.parquet", "pyarrow"), ("a.po", "polib")])
def test_a_format_without_its_package_says_how_to_install_it(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text("anything")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=package):
        list(open_pairs(tmp_path / name))
