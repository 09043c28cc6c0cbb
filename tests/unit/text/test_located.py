"""Where tokens stand in the raw text, for tokenizers that lose nothing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.text import Tokenizer
from sixfold.text.located import token_spans

TEXTS = ["The old man is sleeping in the house.", "Der alte Mann schläft im Haus."] * 3


@pytest.fixture(scope="module", params=["bpe", "bytes"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.learn(TEXTS, 330, request.param)


@given(st.text())
def test_the_spans_of_all_tokens_are_the_text_but_its_space(tokenizer: Tokenizer, text: str) -> None:
    [(ids, spans)] = tokenizer.encode_with_spans([text])
    assert ids == tokenizer.encode(text)
    assert len(ids) == len(spans)
    assert all(first[0] <= second[0] and first[1] <= second[1] for first, second in pairwise(sorted(spans)))
    covered = {index for start, end in spans for index in range(start, end)}
    assert all(index in covered or sign.isspace() for index, sign in enumerate(text))


def test_a_word_is_its_characters_without_the_space_before_it(tokenizer: Tokenizer) -> None:
    text = "The  old\nman schläft"
    [(ids, spans)] = tokenizer.encode_with_spans([text])
    for token, (start, end) in zip(ids, spans, strict=True):
        spelled = tokenizer.spelled[token].decode(errors="ignore").strip()
        assert spelled in ("", text[start:end])


def test_a_token_that_spells_part_of_a_character_is_that_character() -> None:
    assert token_spans("aä🙂", [b" a", b"\xc3", b"\xa4", b"\xf0\x9f", b"\x99\x82"], True) == [
        (0, 1), (1, 2), (1, 2), (2, 3), (2, 3)
    ]  # fmt: skip


def test_a_token_of_nothing_but_the_space_that_is_put_before_a_text_is_nowhere() -> None:
    assert token_spans("x", [b" ", b"x"], True) == [(0, 0), (0, 1)]
    assert token_spans("  x", [b"  ", b"x"], False) == [(0, 2), (2, 3)]
