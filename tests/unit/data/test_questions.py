"""Tests of questions with their answers in a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sixfold.data.questions import Answer, open_questions
from sixfold.errors import DataError

CONTEXT = "The war began in 1914. It ended in 1918."


def squad(**question: Any) -> str:
    asked = {"id": "q", "question": "When?", **question}
    return json.dumps({"version": "2.0", "data": [{"paragraphs": [{"context": CONTEXT, "qas": [asked]}]}]})


def read(path: Path, content: str) -> Any:
    path.write_text(content, encoding="utf-8")
    return list(open_questions([path]))


def test_squad_and_json_lines_say_the_same(tmp_path: Path) -> None:
    answers = [{"text": "1914", "answer_start": 17}]
    [first] = read(tmp_path / "a.json", squad(answers=answers))
    [second] = read(
        tmp_path / "b.jsonl", json.dumps({"question": "When?", "context": CONTEXT, "answers": answers})
    )
    of_lists = {"text": ["1914"], "answer_start": [17]}
    [third] = read(
        tmp_path / "c.jsonl", json.dumps({"question": "When?", "context": CONTEXT, "answers": of_lists})
    )
    assert first.answers == second.answers == third.answers == (Answer("1914", 17),)


def test_a_question_may_have_no_answer(tmp_path: Path) -> None:
    [found] = read(tmp_path / "a.json", squad(answers=[], is_impossible=True))
    assert found.answers == ()


def test_an_answer_is_found_where_it_really_stands(tmp_path: Path) -> None:
    [found] = read(tmp_path / "a.json", squad(answers=[{"text": "1918", "answer_start": 30}]))
    assert (found.answers, found.num_moved) == ((Answer("1918", 35),), 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (squad(answers=[{"text": "1939", "answer_start": 3}]), "question 1: the answer '1939' does not occur"),
        (squad(answers=[{"text": "", "answer_start": 3}]), "an answer must have a text"),
        (squad(answers="1914"), "'answers' must be a list"),
        ('{"data": 3}', "'data' must be a list of objects"),
        ('{"data": [', "not JSON"),
        ('{"question": "When?"}', "'context' must be text"),
        ("", "is empty"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.json", content)
