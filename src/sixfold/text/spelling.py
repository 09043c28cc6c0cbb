"""Words in a text that is being written: where a phrase stands as words of its own, and what each token spells.

A search writes bytes: a token may end inside a word, or inside a character.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Sequence

from sixfold.text.tokenizer import Tokenizer
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

WRITTEN_WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
JOINERS = "_\u200c\u200d"
UNKNOWN = "\ufffd"  # what bytes become that are no text

Spelling = Sequence[bytes]  # what each token of a vocabulary writes


def spelling_of(tokenizer: Tokenizer) -> list[bytes]:
    """Return the bytes that each token adds to a translation."""
    ids = list(range(tokenizer.vocabulary))
    pieces, are_bytes = tokenizer.pieces(ids), tokenizer.processor.is_byte(ids)
    spelling = [
        bytes.fromhex(piece[3:5]) if is_byte else piece.replace("▁", " ").encode()
        for piece, is_byte in zip(pieces, are_bytes, strict=True)
    ]
    for mark in (PAD_ID, BOS_ID, EOS_ID, UNK_ID):
        spelling[mark] = b""
    return spelling


def written(spelling: Spelling, tokens: Sequence[int]) -> str:
    """Return the text of tokens, without the space that every text begins with; a line break is a space."""
    text = b"".join([spelling[token] for token in tokens]).decode(errors="replace")
    return text.removeprefix(" ").replace("\n", " ")


def begun(raw: bytes) -> tuple[str, bytes]:
    """Return the text of bytes and those at their end that are only the beginning of a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw).replace("\n", " ")
    return text, decoder.getstate()[0]


def joins(left: str, right: str) -> bool:
    """Say whether two neighbouring characters belong to one word."""
    return is_of_a_word(left) and is_of_a_word(right)


def is_of_a_word(character: str) -> bool:
    """Say whether a character makes a word longer: letters, digits and marks, where words have spaces between."""
    if character.isascii():
        return character.isalnum() or character == "_"
    if character in JOINERS or unicodedata.category(character).startswith("M"):
        return True
    return character.isalnum() and not unicodedata.name(character, "").startswith(WRITTEN_WITHOUT_SPACES)


def occurs(phrase: str, text: str) -> bool:
    """Say whether a phrase stands in a text as words of its own; capitals matter.

    "dog" stands in "the dog." but not in "dogs" or "hotdog".
    """
    start = text.find(phrase)
    while start >= 0:
        end = start + len(phrase)
        begins_word = start == 0 or not joins(text[start - 1], phrase[0])
        ends_word = end == len(text) or not joins(phrase[-1], text[end])
        if begins_word and ends_word:
            return True
        start = text.find(phrase, start + 1)
    return False
