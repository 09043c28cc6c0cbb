"""Sentences with every space kept."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.text.sentences import cut_to_fit, split_sentences

TEXTS = st.text(
    st.one_of(st.sampled_from(" \n\t.!?,;:\u2028\u3000。Aab“”()1"), st.characters(exclude_categories=["Cs"])),
    max_size=80,
)
LANGUAGES = st.sampled_from(["en", "de", "ja", "xx", ""])


def sentences(text: str, language: str = "en") -> list[str]:
    return [segment.text for segment in split_sentences(text, language) if segment.is_sentence]


@settings(max_examples=200, deadline=None)
@given(TEXTS, LANGUAGES)
def test_the_pieces_of_any_text_together_are_the_text(text: str, language: str) -> None:
    assert "".join(segment.text for segment in split_sentences(text, language)) == text


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_no_sentence_begins_or_ends_with_a_space_or_has_a_line_break(text: str) -> None:
    for sentence in sentences(text):
        assert sentence == sentence.strip()
        assert "\n" not in sentence


def test_sentences_are_found_and_abbreviations_end_none() -> None:
    text = "Mr. Smith is here.  Is he?\n\nYes! He came at 3.15 from St. Ives."
    assert sentences(text) == ["Mr. Smith is here.", "Is he?", "Yes!", "He came at 3.15 from St. Ives."]


def test_a_sentence_across_the_edge_of_a_window_stays_whole() -> None:
    text = "This is a sentence of some words. " * 200
    assert set(sentences(text)) == {"This is a sentence of some words."}


def test_languages_without_spaces_have_sentences_too() -> None:
    assert sentences("これは本です。あれはペンです。", "ja") == ["これは本です。", "あれはペンです。"]


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 12))
def test_the_parts_of_a_long_sentence_fit_and_together_are_the_sentence(text: str, longest: int) -> None:
    parts = cut_to_fit(text, lambda part: len(part) <= longest)
    assert "".join(part.text for part in parts) == text
    assert all(len(part.text) <= longest for part in parts if part.is_sentence)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one two three, four five six", ["one two three,", "four five six"]),
        ("one two three four", ["one two", "three four"]),
        ("abcdefghijklmnopqrst", ["abcdefghij", "klmnopqrst"]),
        ("a price of 1,234,567 pounds", ["a price of", "1,234,567 pounds"]),
    ],
)
def test_a_long_sentence_is_cut_at_a_clause_or_a_space_or_anywhere(text: str, parts: list[str]) -> None:
    found = cut_to_fit(text, lambda part: len(part) <= 16)
    assert [part.text for part in found if part.is_sentence] == parts


@pytest.mark.parametrize("unit", ["a. ", "a", "\n", ", ", "“( ", "„"])
def test_twice_the_text_takes_about_twice_the_time(unit: str) -> None:
    def seconds(count: int) -> float:
        began = time.process_time()
        for sentence in sentences(unit * count):
            cut_to_fit(sentence, lambda part: len(part) <= 200)
        return time.process_time() - began

    seconds(100)
    small, large = min(seconds(4_000) for _ in range(3)), min(seconds(16_000) for _ in range(2))
    assert large < 8 * small + 0.05  # quadratic would be 16 times
