"""Every token has the index of its word."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.decode.translate import Translator
from sixfold.explain.page_tokens import page_tokens, word_indices


def test_tokens_inside_a_word_have_its_index() -> None:
    tokens = [(0, 3), (3, 6), (7, 8), (8, 9)]
    words = [(0, 6), (7, 8), (8, 9)]
    assert word_indices(tokens, words) == [0, 0, 1, 2]


def test_a_token_over_several_words_belongs_to_the_longest_of_them() -> None:
    assert word_indices([(0, 6), (6, 8)], [(0, 1), (1, 5), (5, 6), (6, 8)]) == [1, 3]


def test_a_token_in_no_word_belongs_to_the_word_before() -> None:
    assert word_indices([(0, 2), (3, 3), (4, 6)], [(0, 2), (4, 6)]) == [0, 0, 1]


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\u2581"), max_size=30))
def test_word_indices_never_decrease(phrases: Translator, text: str) -> None:
    found = [token.word for token in page_tokens(phrases.tokenizer, phrases.tokenizer.encode(text))]
    assert found == sorted(found)
    assert all(index >= 0 for index in found)
