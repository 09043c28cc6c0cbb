"""The tokenizer: nothing is lost, nothing depends on company or luck, and wrong models are refused."""

from __future__ import annotations

import contextlib
import io
import random

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sixfold.errors import ConfigError, DataError, ModelFolderError
from sixfold.text import Tokenizer
from sixfold.text import tokenizer as module
from sixfold.text.tokenizer import NUM_RESERVED

TEXTS = [
    "A man in a blue shirt is standing on a ladder and cleaning a window.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
    "Two young, white males are outside near many bushes.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "In 2017 about 25,000 tokens; 她在花园里；кошка спит.",
]
TOKENIZERS = {subwords: Tokenizer.learn(TEXTS, 420, subwords) for subwords in ("bpe", "unigram")}
both = pytest.mark.parametrize("subwords", TOKENIZERS)
some_texts = settings(max_examples=60)

ODD_CHARACTERS = "▁▅\0 \r\t\u2028\x85\ufeff\ufffd\ufdd0\U0010ffff\u3000\u0301"
ODD_WORDS = ("  ", "<s>", "</s>", "<unk>", "<pad>", "<0x41>", " ⁇ ", "👩\u200d🚀", "A man", "Büsche")
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))
traps = st.lists(st.sampled_from([*ODD_CHARACTERS, *ODD_WORDS])).map("".join)
lines = anything | traps | st.tuples(traps, anything, traps).map("".join)


# Nothing is lost


@both
@some_texts
@given(text=lines)
@example(text="")
@example(text=" ")
@example(text="▁")
@example(text=" ▁ ▁▁")
@example(text="\0")
@example(text=" A man\r")
@example(text="a\u2028b\u2029c\x85d\x0b\x0c")
def test_any_line_comes_back_exactly(subwords: str, text: str) -> None:
    tokenizer = TOKENIZERS[subwords]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@both
def test_text_that_looks_like_a_reserved_token_is_only_text(subwords: str) -> None:
    tokenizer = TOKENIZERS[subwords]
    ids = tokenizer.encode("<pad><s></s><unk><0x41>")
    assert not set(ids) & set(range(4))
    assert tokenizer.decode(ids) == "<pad><s></s><unk><0x41>"


@both
def test_only_the_empty_text_has_no_tokens(subwords: str) -> None:
    tokenizer = TOKENIZERS[subwords]
    assert tokenizer.encode("") == []
    assert tokenizer.encode(" ") != []
    assert tokenizer.decode([]) == ""


@both
def test_a_word_has_the_same_pieces_at_the_start_of_a_line_as_inside_it(subwords: str) -> None:
    tokenizer = TOKENIZERS[subwords]
    assert tokenizer.encode("blue blue") == 2 * tokenizer.encode("blue")


@both
@some_texts
@given(texts=st.lists(lines, max_size=6))
def test_texts_together_are_encoded_as_one_by_one(subwords: str, texts: list[str]) -> None:
    tokenizer = TOKENIZERS[subwords]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]


@both
@some_texts
@given(numbers=st.lists(st.integers(0, 3) | st.integers(0, 10**6)))
def test_any_tokens_decode_to_text_and_marks_say_nothing(subwords: str, numbers: list[int]) -> None:
    tokenizer = TOKENIZERS[subwords]
    ids = [number % tokenizer.vocabulary for number in numbers]
    text = tokenizer.decode(ids)
    assert text == tokenizer.decode([i for i in ids if i > 3])
    assert text.encode().decode() == text


@both
def test_pieces_show_each_token_with_a_mark_for_the_space(subwords: str) -> None:
    tokenizer = TOKENIZERS[subwords]
    pieces = tokenizer.pieces(tokenizer.encode("blue shirt"))
    assert "".join(pieces) == "▁blue▁shirt"


# Learning


@both
def test_the_same_texts_give_the_same_model(subwords: str) -> None:
    again = Tokenizer.learn(iter(TEXTS), 420, subwords)
    assert again.model == TOKENIZERS[subwords].model


@both
def test_a_larger_text_fills_the_vocabulary_it_was_given(subwords: str) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("aeiourstln", k=draw.randint(2, 7))) for _ in range(300)]
    texts = [" ".join(draw.choices(words, k=12)) for _ in range(200)]
    assert Tokenizer.learn(texts, 450, subwords).vocabulary == 450


@both
@pytest.mark.parametrize("text", ["a", "ab ab", "1", " ", "▁", "▅", "\0", "\t", "a\tb", "x▅y▁z", "\ufdd0"])
def test_a_tiny_text_gives_a_smaller_vocabulary_instead_of_failing(subwords: str, text: str) -> None:
    tokenizer = Tokenizer.learn([text], 8000, subwords)
    assert NUM_RESERVED < tokenizer.vocabulary < NUM_RESERVED + 20
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_line_with_a_character_that_sentencepiece_keeps_for_itself_is_still_learned_from() -> None:
    plain, odd = (Tokenizer.learn([f"{mark}blue shirt blue shirt"], 300) for mark in ("", "▅"))
    assert plain.pieces(plain.encode("blue shirt")) == odd.pieces(odd.encode("blue shirt")) == ["▁blue", "▁shirt"]


@both
@pytest.mark.parametrize("texts", [TEXTS, ["a"], ["一丁七万丈三上下不与"], ["ab" * 2000, "xyz"]])
def test_a_vocabulary_too_small_is_refused_and_the_smallest_is_named_exactly(
    subwords: str, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError) as refused:
        Tokenizer.learn(texts, 10, subwords)
    smallest = int(refused.value.message.split("at least ")[1].split()[0].replace(",", ""))
    assert Tokenizer.learn(texts, smallest, subwords).vocabulary <= smallest
    with pytest.raises(ConfigError, match="too small"):
        Tokenizer.learn(texts, smallest - 1, subwords)
    monkeypatch.setattr(module, "smallest_vocabulary", lambda _: 0)
    with pytest.raises(RuntimeError, match="smaller than required"):  # SentencePiece itself draws the same line
        Tokenizer.learn(texts, smallest - 1, subwords)


def test_only_common_characters_need_a_place_in_the_vocabulary() -> None:
    rare = "".join(chr(0x4E00 + i) for i in range(50))
    tokenizer = Tokenizer.learn([*["ab" * 2000] * 100, rare], 300)
    assert tokenizer.decode(tokenizer.encode(rare)) == rare


def test_a_very_long_line_is_learned_from_without_being_skipped() -> None:
    tokenizer = Tokenizer.learn(["🙂漢" * 50_000], 300)
    assert {"🙂", "漢"} <= set(tokenizer.pieces(range(tokenizer.vocabulary)))


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_at_all_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match="no text"):
        Tokenizer.learn(texts, 8000)


# Models that are none


@pytest.mark.parametrize("model", [b"", b"\0", b"no model", b"\n" * 1000, TOKENIZERS["bpe"].model[:-100]])
def test_what_is_no_sentencepiece_model_is_refused(model: bytes) -> None:
    with pytest.raises(ModelFolderError, match="not a SentencePiece model"):
        Tokenizer(model)


@some_texts
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=20))
def test_a_changed_model_is_refused_or_works_but_never_breaks(flips: list[tuple[int, int]]) -> None:
    model = bytearray(TOKENIZERS["bpe"].model)
    for place, byte in flips:
        model[place % len(model)] = byte
    with contextlib.suppress(ModelFolderError):
        tokenizer = Tokenizer(bytes(model))
        tokenizer.decode(tokenizer.encode("A man ▁ \0 Büsche 漢"))
        tokenizer.decode(range(tokenizer.vocabulary))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [({}, "not 0, 1, 2 and 3"), ({"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}, "single bytes")],
)
def test_a_foreign_model_that_would_lose_text_is_refused(options: dict[str, int], complaint: str) -> None:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=model, vocab_size=90, minloglevel=2, **options
    )
    with pytest.raises(ModelFolderError, match=complaint):
        Tokenizer(model.getvalue())
