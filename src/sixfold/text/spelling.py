"""The text that tokens spell together.

A search writes bytes: a token may end inside a word, or inside a character.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

UNKNOWN = "\ufffd"  # what bytes become that are no text

Spelling = Sequence[bytes]  # what each token of a vocabulary writes


def written(spelling: Spelling, tokens: Sequence[int]) -> str:
    """Return the text of tokens, without the space that every text begins with; a line break is a space."""
    text = b"".join([spelling[token] for token in tokens]).decode(errors="replace")
    return text.removeprefix(" ").replace("\n", " ")


def begun(raw: bytes) -> tuple[str, bytes]:
    """Return the text of bytes and those at their end that are only the beginning of a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw).replace("\n", " ")
    return text, decoder.getstate()[0]
