"""Tests of answering: windows over a text, the best stretch of it, and SQuAD's rules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sixfold
from sixfold.data.questions import Question
from sixfold.evaluate.answers import exact_match, word_f1
from sixfold.tasks.understand.answer import columns_of
from sixfold.tasks.understand.answerer import Answerer
from sixfold.tasks.understand.windows import best_candidate, bounds_of, windows_of
from sixfold.text import Tokenizer
from sixfold.text.encoder_row import RowFormat
from sixfold.text.located import trimmed

TEXT = "The war began in 1914, and after long years it ended in 1918. Nobody had won it. " * 3
TOKENIZER = Tokenizer.learn([TEXT], 320)
ROWS = RowFormat(TOKENIZER.special, 40)


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 25))
def test_an_answer_that_stands_in_a_window_is_marked_there_word_for_word(start: int, length: int) -> None:
    start, end = trimmed(TEXT, start, min(len(TEXT), start + length))
    windows = list(windows_of(TOKENIZER, ROWS, "When did it end?", TEXT))
    assert all(len(window.row.tokens) == len(window.spans) <= 40 for window in windows)
    found = [(window, bounds_of(window, (start, end))) for window in windows]
    marked = [(window.spans[first][0], window.spans[last][1]) for window, (first, last) in found if last]
    assert marked or not TEXT[start:end].strip()
    for begin, stop in marked:
        assert begin <= start
        assert stop >= end


def test_the_best_stretch_begins_before_it_ends_and_stands_in_the_text() -> None:
    spans = [(0, 0), (0, 0), (0, 3), (4, 8), (9, 12), (0, 0)]
    logits = np.zeros((6, 2))
    logits[4, 0], logits[3, 1], logits[0] = 9, 9, 8  # the best start stands after the best end
    found = best_candidate(logits, spans)
    assert found is not None
    assert (found.start, found.end, found.score, found.no_answer) == (9, 12, 9, 16) or found.end == 8
    assert best_candidate(logits, [(0, 0)] * 6) is None


def test_the_windows_of_a_question_belong_together_and_to_no_question_of_another_file() -> None:
    asked = [
        {
            int(columns_of(Question("", question, TEXT, (), line=1), window, {})["asked"][0])
            for window in windows_of(TOKENIZER, ROWS, question, TEXT)
        }
        for question in ("When did it end?", "Who won it?")
    ]
    assert [len(each) for each in asked] == [1, 1]
    assert asked[0] != asked[1]


@pytest.mark.parametrize(
    ("said", "expected", "exact", "f1"),
    [
        ("The Normans", ["Normans"], True, 1),
        ("in 1914.", ["1914"], False, 2 / 3),
        ("", [], True, 1),
        ("1914", [], False, 0),
        ("", ["1914"], False, 0),
        ("red dog", ["a cat", "the red cat"], False, 0.5),
    ],
)
def test_answers_are_compared_by_squads_rules(said: str, expected: list[str], exact: bool, f1: float) -> None:
    assert exact_match(said, expected) == exact
    assert word_f1(said, expected) == pytest.approx(f1)


def test_a_model_is_trained_and_its_answers_stand_in_the_raw_text(tmp_path: Path) -> None:
    rows = []
    for number in range(40):
        context = f"The house of number {number} is old. Its owner is called Ann {number}."
        place = context.index("Ann")
        answer = {"text": context[place:-1], "answer_start": place}
        rows.append({"question": "Who is the owner?", "context": context, "answers": [answer]})
    (tmp_path / "asked.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = ["model.layers=1", "model.preset=encoder-tiny", "data.vocabulary=400", "train.steps=6"]
    sixfold.train(
        tmp_path / "asked.jsonl",
        tmp_path / "model",
        settings=[*settings, "train.checkpoint_every=3"],
        progress=False,
    )
    answerer = Answerer.load(tmp_path / "model")
    assert answerer.info.decode == {"no_answer": False}
    context = "  Much text 🙂 stands here. " * 30
    found = answerer.answer("Who is the owner?", context)
    assert found.text
    assert context[found.start : found.end] == found.text
    assert answerer.answer("Who is the owner?", context) == found
