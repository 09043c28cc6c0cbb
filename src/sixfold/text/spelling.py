"""The text that tokens decode to together.

A search produces bytes: a token may end inside a word, or inside a character.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

UNKNOWN = "\ufffd"  # what invalid bytes become

Spelling = Sequence[bytes]  # the bytes that each token of a vocabulary decodes to


def written(spelling: Spelling, tokens: Sequence[int]) -> str:
    """Return the text of tokens, without the space prepended to every text; a line break becomes a space."""
    text = b"".join([spelling[token] for token in tokens]).decode(errors="replace")
    return text.removeprefix(" ").replace("\n", " ")


def begun(raw: bytes) -> tuple[str, bytes]:
    """Return the text of bytes, and the bytes at their end that are an incomplete character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw).replace("\n", " ")
    return text, decoder.getstate()[0]
