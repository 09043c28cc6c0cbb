"""Tables, tagged texts and questions that are damaged at random: they are read, or an error names the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from sixfold.data.content import kind_of
from sixfold.data.labelled import open_labelled
from sixfold.data.questions import open_questions
from sixfold.data.streams import Input
from sixfold.data.tagged import open_tagged
from sixfold.errors import DataError
from sixfold.tasks.registry import choose_task
from sixfold.training.setup import Request

MUTATIONS = 350  # of each file: over 1,000 in all
CONTEXT = "The war began in 1914. It ended in 1918."
QUESTIONS = [
    {"question": f"When {verb}?", "answers": [{"text": year, "answer_start": CONTEXT.index(year)}]}
    for verb, year in (("began", "1914"), ("ended", "1918"))
]
TABLE = 'text,label\n"a good, ""fine"" film",good\n"two\nlines",bad\nÄpfel,good\n'
TAGS = "-DOCSTART- O\n\nAnn B-PER\nLee I-PER\nran O\n\nin O\nParis B-LOC\n"
SPANS = [{"text": "Ann ran", "spans": [[0, 3, "PER"]]}, {"tokens": ["a", "b"], "tags": ["O", "X"]}]
PAIRS = [{"premise": "a", "hypothesis": "b", "label": 1}, {"premise": "c", "hypothesis": "d", "label": "x"}]
SQUAD = {"version": "1.1", "data": [{"paragraphs": [{"context": CONTEXT, "qas": QUESTIONS}]}]}
Read = Callable[[list[Path]], Iterable[object]]
FILES: dict[str, tuple[str, Read, str]] = {  # content, how it is read, and what it is for
    "table.csv": (TABLE, open_labelled, "classify"),
    "pairs.jsonl": ("\n".join(map(json.dumps, PAIRS)), open_labelled, "classify"),
    "tags.conll": (TAGS, open_tagged, "tag"),
    "spans.jsonl": ("\n".join(map(json.dumps, SPANS)), open_tagged, "tag"),
    "squad.json": (json.dumps(SQUAD), open_questions, "answer"),
}
PIECES = [
    b"",
    b"\0",
    b"\n",
    b'"',
    b",",
    b"\t",
    b"{",
    b"]",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"1e999",
    b"null",
]


def damaged(content: bytes, draw: np.random.Generator) -> bytes:
    """Return bytes of which some were cut, doubled, replaced or inserted."""
    for _ in range(draw.integers(1, 5)):
        begin, end = sorted(draw.integers(0, len(content) + 1, 2).tolist())
        end = min(end, begin + int(draw.integers(0, 12)))
        middle = content[begin:end] * 2 if draw.random() < 0.2 else PIECES[draw.integers(len(PIECES))]
        content = content[:begin] + middle + content[end:]
    return content[: draw.integers(len(content) + 1)] if draw.random() < 0.2 else content


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_or_refused_with_its_name(name: str, tmp_path: Path, seed: int) -> None:
    content, read, _ = FILES[name]
    draw, path, messages = np.random.default_rng(seed), tmp_path / name, list[str]()
    for _ in range(MUTATIONS):
        path.write_bytes(damaged(content.encode(), draw))
        try:
            kind_of(Input(path))
            list(read([path]))
        except DataError as error:
            messages.append(error.message)
    assert 0 < len(messages) < MUTATIONS
    assert all(str(path) in message for message in messages)


@pytest.mark.parametrize("name", FILES)
def test_the_data_tells_the_task(name: str, tmp_path: Path) -> None:
    content, _, task = FILES[name]
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert choose_task(Request(tmp_path / "model", [tmp_path / name])).name == task
