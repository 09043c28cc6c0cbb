"""Tests of tagged texts: columns, spans, and tags that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.data.tagged import Entity, TaggedText, entities_of, in_bio, open_tagged, with_tags
from sixfold.errors import DataError

LABELS = st.sampled_from(["PER", "LOC"])


def read(path: Path, content: str) -> list[TaggedText]:
    path.write_text(content, encoding="utf-8")
    return list(open_tagged([path]))


def test_columns_are_words_with_their_tags(tmp_path: Path) -> None:
    first, second = read(tmp_path / "a.conll", "-DOCSTART- O\n\nAnn B-PER\nran O\n\n# O\n")
    assert (first.text, first.tags, first.words) == ("Ann ran", ("B-PER", "O"), ((0, 3), (4, 7)))
    assert (second.text, second.line) == ("#", 6)


def test_conll_u_has_comments_and_counts_its_words(tmp_path: Path) -> None:
    rows = ["# text = Dogs ran", "1\tDogs\tdog\tNOUN" + "\t_" * 6, "2\tran\trun\tVERB" + "\t_" * 6, ""]
    [found] = read(tmp_path / "a.conllu", "\n".join(rows))
    assert (found.text, found.tags) == ("Dogs ran", ("NOUN", "VERB"))


def test_spans_are_of_the_raw_text(tmp_path: Path) -> None:
    record = {"text": "Ann  Lee,ran", "spans": [{"start": 0, "end": 8, "label": "PER"}]}
    [found] = read(tmp_path / "a.jsonl", json.dumps(record))
    assert [found.text[start:end] for start, end in found.words] == ["Ann", "Lee", ",", "ran"]
    assert found.tags == ("B-PER", "I-PER", "O", "O")


def test_a_span_that_cuts_a_word_is_widened_and_counted() -> None:
    found = with_tags("Anna ran", [Entity(0, 3, "PER")], 1)
    assert (found.tags, found.num_widened) == (("B-PER", "O"), 1)
    assert with_tags(" Anna ran", [Entity(0, 6, "PER")], 1).num_widened == 0


@pytest.mark.parametrize(
    ("tags", "repaired", "count"),
    [
        (["I-PER", "I-PER", "O"], ["B-PER", "I-PER", "O"], 1),
        (["B-PER", "I-LOC"], ["B-PER", "B-LOC"], 1),
        (["B-PER", "E-PER", "S-LOC", "O"], ["B-PER", "I-PER", "B-LOC", "O"], 0),
        (["S-LOC", "I-LOC"], ["B-LOC", "B-LOC"], 1),
        (["NOUN", "VERB"], ["NOUN", "VERB"], 0),
    ],
)
def test_tags_that_cannot_follow_each_other_are_repaired(tags: list[str], repaired: list[str], count: int) -> None:
    assert in_bio(tags) == (tuple(repaired), count)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), LABELS), max_size=6))
def test_tags_and_entities_say_the_same(gaps: list[tuple[int, int, str]]) -> None:
    tags, entities = list[str](), list[Entity]()
    for gap, length, label in gaps:
        tags += ["O"] * gap
        entities.append(Entity(len(tags), len(tags) + length, label))
        tags += [f"B-{label}", *[f"I-{label}"] * (length - 1)]
    assert entities_of(tags) == entities
    assert in_bio(tags) == (tuple(tags), 0)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conll", "Ann B-PER\nran\n", "line 2: found 1 column, expected 2 columns"),
        ("b.conll", "word\n", "line 1: found 1 column, expected a word and its tag"),
        ("c.jsonl", '{"tokens": ["a"], "tags": []}', "1 tokens, but 0 tags"),
        ("d.jsonl", '{"text": "ab", "spans": [[0, 3, "X"]]}', "is no span of this text"),
        ("e.jsonl", '{"text": "abc", "spans": [[0, 2, "X"], [1, 3, "Y"]]}', "overlap"),
        ("f.jsonl", '{"text": "abc"}', "'spans' must be a list"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / name, content)
