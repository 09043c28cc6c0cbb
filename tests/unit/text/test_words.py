"""Where words and tokens stand: every character is accounted for, in any script."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.text import Tokenizer
from sixfold.text.tokenizer import NUM_RESERVED
from sixfold.text.words import occurs, token_spans, words

LINES = ["The old man sees 21 dogs.", "Der alte Mann sieht 21 Hunde.", "two trees and a house"] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.learn(LINES, 320)


def spans_of(tokenizer: Tokenizer, ids: list[int]) -> list[tuple[int, int]]:
    """Return where tokens stand in their text."""
    spelling = tokenizer.spelling()
    return token_spans([spelling[token] for token in ids], tokenizer.space_before)


def cut_out(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """Return the stretches of a text."""
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A man, sleeping.", ["A", "man", ",", "sleeping", "."]),
        ("don't  stop", ["don", "'", "t", "stop"]),
        ("e\u0301te\u0301 हिन्दी में", ["e\u0301te\u0301", "हिन्दी", "में"]),
        ("猫が好き OK", ["猫", "が", "好", "き", "OK"]),
        ("人々はﾈｺだ", ["人", "々", "は", "ﾈ", "ｺ", "だ"]),
        ("ที่ ดีOK", ["ที่", "ดี", "OK"]),
        ("བོད་སྐད", ["བོ", "ད", "་", "སྐ", "ད"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("3.14", ["3", ".", "14"]),
        (" \t ", []),
        ("", []),
    ],
)
def test_words_are_what_people_call_words(text: str, expected: list[str]) -> None:
    assert cut_out(text, words(text)) == expected


@given(st.text())
def test_words_cover_everything_but_spaces_in_order(text: str) -> None:
    assert "".join(cut_out(text, words(text))) == "".join(sign for sign in text if not sign.isspace())


@pytest.mark.parametrize(
    ("phrase", "place", "is_there"),
    [
        ("dog", "the dog.", True), ("dog", "dogs", False), ("dog", "hotdog", False), ("dog", "dogs dog", True),
        ("a b", "a b", True), ("a b", "a bc", False), ("%", "50%x", True), ("犬", "白犬と", True),
        ("e", "e\u0301", False), ("Hund", "Hund-Katze", True), ("x_", "x_y", False), ("Dog", "dog", False),
        ("ที", "ที่", False), ("ท", "ที่", False), ("ที่", "ที่นี่", True), ("OK", "ดีOK", True),
        ("ﾈ", "ﾈｺ", True), ("人", "人々", True),
    ],
)  # fmt: skip
def test_a_phrase_stands_in_a_text_as_words_of_its_own(phrase: str, place: str, is_there: bool) -> None:
    assert occurs(phrase, place) == is_there


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=30))
def test_the_spans_of_tokens_cover_every_character_of_the_text_but_leading_spaces(
    tokenizer: Tokenizer, text: str
) -> None:
    spans = spans_of(tokenizer, tokenizer.encode(text))
    covered = {place for start, end in spans for place in range(start, end)}
    assert covered <= set(range(len(text)))
    assert all(text[place] == " " for place in set(range(len(text))) - covered)
    assert spans == sorted(spans)


@given(st.data())
def test_spans_are_those_of_the_decoded_text_even_if_a_model_writes_broken_bytes(
    tokenizer: Tokenizer, data: st.DataObject
) -> None:
    tokens = st.one_of(st.integers(4, NUM_RESERVED - 1), st.integers(4, tokenizer.vocabulary - 1))
    ids = data.draw(st.lists(tokens, max_size=12))
    pieces, text = tokenizer.pieces(ids), tokenizer.decode(ids)
    spans = spans_of(tokenizer, ids)
    assert len(spans) == len(ids)
    assert max([0, *(end for _, end in spans)]) == len(text)
    for piece, (start, end) in zip(pieces, spans, strict=True):
        if not piece.startswith("<0x"):
            assert text[start:end] == piece.replace("\u2581", " ").removeprefix(" ")


def test_all_bytes_of_a_character_share_its_span(tokenizer: Tokenizer) -> None:
    assert spans_of(tokenizer, tokenizer.encode("a 😀"))[-4:] == [(2, 3)] * 4


def test_a_token_may_begin_inside_a_character_and_end_inside_another() -> None:
    spelled = [b" a\xe2\x80", b"\x99\xf0", b"\x9f\x98\x80", b"", b" b", b""]
    assert token_spans(spelled, drops_space=True) == [(0, 2), (1, 3), (2, 3), (3, 3), (4, 5), (5, 5)]
    assert token_spans(spelled, drops_space=False) == [(1, 3), (2, 4), (3, 4), (4, 4), (5, 6), (6, 6)]
