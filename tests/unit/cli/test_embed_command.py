"""`sixfold embed` and `sixfold match`: vectors as an array or JSON lines, and the nearest lines of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sixfold.tasks.registry import open_folder
from sixfold.training.task import Opening

pytest.importorskip("tokenizers")

from tests.unit.tasks.embedders import TEXTS, save_embedder, word_pieces

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_embedder(tmp_path_factory.mktemp("embed") / "m", word_pieces())


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    return path


def expected(folder: Path) -> np.ndarray:
    embedder = open_folder(Opening(folder))
    return embedder.embed(TEXTS)  # type: ignore[attr-defined, no-any-return]


def test_an_array_has_a_vector_for_each_line(command: Command, folder: Path, texts: Path, tmp_path: Path) -> None:
    code, out, messages = command("embed", folder, texts, "-o", tmp_path / "v.npy")
    assert (code, out) == (0, "")
    assert "40 vectors of 64 numbers" in messages
    assert np.array_equal(np.load(tmp_path / "v.npy"), expected(folder))


def test_json_lines_go_to_standard_output(command: Command, folder: Path) -> None:
    code, out, _ = command("embed", folder, stdin="".join(f"{text}\n" for text in TEXTS))
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [row["text"] for row in rows] == TEXTS
    assert np.array_equal(np.array([row["vector"] for row in rows], dtype=np.float32), expected(folder))


def test_lines_that_are_not_read_whole_are_named(command: Command, folder: Path) -> None:
    _, _, messages = command("embed", folder, stdin=f"the dog\n{'the ' * 100}\na ☃\n")
    assert "1 line longer than 24 tokens, whose end is not read: 2" in messages
    assert "1 line with words that the tokenizer does not know, all read as the same unknown word: 3" in messages


def test_the_nearest_lines_are_printed_with_cosine_and_number(command: Command, folder: Path, texts: Path) -> None:
    code, out, _ = command("match", folder, TEXTS[7], texts, "--top", "3")
    rows = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 3
    assert rows[0] == ["1.0000", "8", TEXTS[7]]
    assert all(TEXTS[int(number) - 1] == text for _, number, text in rows)


def test_queries_may_come_one_a_line_and_answers_as_json(command: Command, folder: Path, texts: Path) -> None:
    code, out, _ = command("match", folder, "-", texts, "--json", stdin=f"{TEXTS[2]}\n{TEXTS[3]}\n")
    records = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [record["query"] for record in records] == TEXTS[2:4]
    assert [record["matches"][0]["line"] for record in records] == [3, 4]
    assert all(len(record["matches"]) == 10 for record in records)


def test_an_index_is_written_once_and_then_only_added_to(
    command: Command, folder: Path, texts: Path, tmp_path: Path
) -> None:
    index = tmp_path / "texts.index"
    arguments = ("match", folder, "a dog", texts, "--index", index)
    first = command(*arguments)
    assert f"{index}: 40 lines, 40 of them embedded now" in first[2]
    content = index.read_bytes()
    second = command(*arguments)
    assert (second[1], second[2]) == (first[1], "")
    assert index.read_bytes() == content
    texts.write_text(texts.read_text() + "one line more\n")
    assert f"{index}: 41 lines, 1 of them embedded now" in command(*arguments)[2]


def test_what_cannot_be_is_refused(command: Command, folder: Path, texts: Path) -> None:
    code, _, messages = command("embed", folder, texts, "-o", "v.txt")
    assert (code, "should end with .npy" in messages) == (2, True)
    code, _, messages = command("match", folder, "-", "-")
    assert (code, "standard input" in messages) == (2, True)
    code, _, messages = command("translate", folder, stdin="x\n")
    assert code == 2
    assert f"sixfold embed {folder}" in messages
