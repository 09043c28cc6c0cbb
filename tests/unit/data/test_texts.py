"""Documents from files of text: nothing lost, nothing added, in pieces of bounded size."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.data.content import kind_of
from sixfold.data.streams import Input
from sixfold.data.texts import PIECE_CHARACTERS, Assembler, Piece, Texts, open_texts
from sixfold.errors import DataError

MARK = "<|endoftext|>"


def opened(folder: Path, content: str | bytes, documents: str = "auto", name: str = "text.txt") -> Texts:
    """Write a file and open it."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_texts([path], documents)


def documents_of(texts: Texts) -> list[str]:
    """Return whole documents."""
    found = list[str]()
    for piece in texts:
        if piece.is_first:
            found.append("")
        found[-1] += piece.text
    return found


# What separates documents


def test_a_file_is_a_document(tmp_path: Path) -> None:
    texts = opened(tmp_path, "one\n\ntwo\n")
    assert documents_of(texts) == ["one\n\ntwo\n"]
    assert texts.separation == "one per file"


def test_blank_lines_separate_documents_if_asked(tmp_path: Path) -> None:
    texts = opened(tmp_path, "\n\none\nand\n \n\ntwo\n\n", "blank_lines")
    assert [(piece.text, piece.line) for piece in texts] == [("one\nand\n", 3), ("two\n", 7)]
    assert texts.separation == "separated by blank lines"


@pytest.mark.parametrize("mark", ["<|endoftext|>", "<eos>", "</s>"])
def test_a_known_mark_on_a_line_of_its_own_is_found(tmp_path: Path, mark: str) -> None:
    texts = opened(tmp_path, f"one {mark} and\n{mark}\ntwo\nthree\n {mark} \n{mark}\nfour")
    assert [(piece.text, piece.line) for piece in texts] == [
        (f"one {mark} and\n", 1),
        ("two\nthree\n", 3),
        ("four", 7),
    ]
    assert texts.separation == f"separated by lines that are {mark}"


def test_another_mark_can_be_said_and_then_no_other_counts(tmp_path: Path) -> None:
    assert documents_of(opened(tmp_path, f"one\n***\ntwo\n{MARK}\n", "***")) == ["one\n", f"two\n{MARK}\n"]
    assert documents_of(opened(tmp_path, f"one\n{MARK}\ntwo\n", "files")) == [f"one\n{MARK}\ntwo\n"]


def test_a_record_is_a_document(tmp_path: Path) -> None:
    rows = [{"text": "one\n\ntwo", "id": 1}, {"text": " "}, {"text": "three", "id": 2}]
    texts = opened(tmp_path, "\n".join(map(json.dumps, rows)), name="text.jsonl")
    assert [(piece.text, piece.line) for piece in texts] == [("one\n\ntwo", 1), ("three", 3)]
    assert texts.separation == "one per record"


def test_files_of_text_and_of_records_may_stand_together(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.jsonl").write_text('{"text": "two"}\n{"text": "three"}\n')
    texts = open_texts([tmp_path])
    assert documents_of(texts) == ["one", "two", "three"]
    assert texts.separation == "one per file, in JSON Lines one per record"


# Text as it is


@given(
    parts=st.lists(
        st.sampled_from(["word ", "\n", "\u2028", "é", "\t", "a" * 50_000, "b " * 40_000, "猫" * 70_000])
    ),
)
def test_the_pieces_of_a_document_are_the_document(parts: list[str]) -> None:
    assembler, pieces = Assembler(), list[Piece]()
    for part in parts:
        pieces += assembler.add(part)
    pieces += assembler.end()
    whole = "".join(parts)
    assert "".join(piece.text for piece in pieces) == (whole if whole.strip() else "")
    assert [piece.is_first for piece in pieces[1:]] == [False] * len(pieces[1:])
    assert [piece.is_last for piece in pieces] == [False] * (len(pieces) - 1) + [True] * bool(pieces)
    assert all(len(piece.text) <= 2 * PIECE_CHARACTERS for piece in pieces)
    for piece in pieces:
        assert piece.line == 1 + whole[: whole_place(pieces, piece)].count("\n")


def whole_place(pieces: list[Piece], wanted: Piece) -> int:
    """Return where in the document a piece begins."""
    place = 0
    for piece in pieces:
        if piece is wanted:
            break
        place += len(piece.text)
    return place


def test_odd_line_breaks_stay_as_they_are_and_no_mark_of_a_file_is_text(tmp_path: Path) -> None:
    odd = "a\u2028b\x0bc\x0cd\x85e\u2029f\x1cg\rh"
    assert documents_of(opened(tmp_path, f"\ufeff{odd}\r\nnext\r\n")) == [f"{odd}\nnext\n"]


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_text_is_read_and_a_cut_is_named(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    content = ("one two three\n" * 5000).encode()
    packed = compress(content)
    assert documents_of(opened(tmp_path, packed)) == [content.decode()]
    with pytest.raises(DataError, match=r"text\.txt is cut off"):
        documents_of(opened(tmp_path, packed[:-20]))


def test_a_character_that_straddles_two_blocks_is_whole(tmp_path: Path) -> None:
    for shift in range(4):
        text = "x" * shift + "猫" * 200_000
        assert documents_of(opened(tmp_path, text)) == [text]


def test_the_line_of_a_byte_that_is_no_utf_8_is_named_however_late(tmp_path: Path) -> None:
    content = b"a line of text\n" * 40_000 + b"gr\xf6\xdfer\n"
    with pytest.raises(DataError, match=r"text\.txt, line 40,001: not UTF-8"):
        documents_of(opened(tmp_path, content))


# Folders


def test_what_is_no_text_in_a_folder_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, content in {"b.txt": b"two", "a.txt": b"one", "deep/c.txt": b"three", ".hidden": b"no"}.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    texts = open_texts([tmp_path])
    assert documents_of(texts) == ["one", "two", "three"]
    assert sorted(path.name for path in texts.left_out) == ["empty.txt", "picture.png"]


def test_links_that_lead_in_circles_or_nowhere_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "circle").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to("itself")
    (tmp_path / "nowhere").symlink_to("none")
    assert documents_of(open_texts([tmp_path])) == ["one"]


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    with pytest.raises(DataError, match="There are no text files"):
        open_texts([tmp_path])


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    texts = opened(tmp_path, "one")
    (tmp_path / "text.txt").unlink()
    with pytest.raises(DataError, match=r"There is no file .*text\.txt"):
        documents_of(texts)


# Files that are refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\0\0", "is not text: it contains NUL bytes"),
        ("größe".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        documents_of(opened(tmp_path, content))


@pytest.mark.parametrize("content", ['[{"text": "one"}]', '{\n  "text": "one"\n}', "no JSON"])
def test_json_that_is_no_json_lines_is_not_taken_for_text(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match="named as JSON Lines"):
        opened(tmp_path, content, name="text.json")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": null}', "'text' must be text, found None"),
        ('{"text": 3}', "'text' must be text, found 3"),
        ('{"title": "x"}', "'text' must be text, found None"),
        ('{"text": "\\ud800"}', "half of a surrogate pair"),
        ('["one"]', "expected a JSON object"),
        ('{"text": ', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_record_is_named_with_file_and_line(tmp_path: Path, row: str, message: str) -> None:
    texts = opened(tmp_path, f'{{"text": "one"}}\n\n{row}\n', name="text.jsonl")
    with pytest.raises(DataError, match=rf"text\.jsonl, line 3: .*{message}"):
        documents_of(texts)


# What a file holds

KINDS = {
    "plain": ["one two\n", "one\ttwo\nthree\n", "{one} two\n", "name,label\nx,y\n", bytes(range(256)) * 20],
    "pairs": [
        "one\teins\ntwo\tzwei\n",
        '{"source": "one", "target": "eins"}\n',
        '{"translation": {"en": "one", "de": "eins"}}\n',
        '{"en": "one", "de": "eins"}\n',
    ],
    "texts": [
        '{"text": "one"}\n',
        '{"text": "one", "id": 3}\n',
        '{"text": null}\n',
        '{"text": "a", "b": "c", "d": "e"}\n',
    ],
    "pairs or texts": ['{"text": "one", "german": "eins"}\n'],
    "conversations": [
        '{"prompt": "one", "response": "two"}\n',
        '{"messages": [{"role": "user", "content": "one"}]}\n',
        '{"prompt": null, "response": null}\n',
    ],
}


@pytest.mark.parametrize(
    ("kind", "content"), [(kind, each) for kind, contents in KINDS.items() for each in contents]
)
def test_what_a_file_holds_is_told_by_its_beginning(tmp_path: Path, kind: str, content: str | bytes) -> None:
    (tmp_path / "file").write_bytes(content.encode() if isinstance(content, str) else content)
    assert kind_of(Input(tmp_path / "file")) == kind
