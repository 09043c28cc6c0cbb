"""What every tokenizer can do: those that we learn, and those that come with published models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from sixfold.text.chat import Part
from sixfold.text.located import Span
from sixfold.text.special import SpecialIds

TokenizerFile = Literal["tokenizer.model", "tokenizer.json"]


class AnyTokenizer(Protocol):
    """Raw text to token ids and back, without loss unless it says so."""

    @property
    def file_name(self) -> TokenizerFile:
        """What its file is called in a model folder."""

    @property
    def model(self) -> bytes:
        """The content of that file."""

    @property
    def special(self) -> SpecialIds:
        """The tokens that are no text."""

    @property
    def is_lossless(self) -> bool:
        """Whether every text comes back exactly."""

    @property
    def space_before(self) -> bool:
        """Whether a space is put before every text, so that a first word has the tokens of any other."""

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text; what looks like a special token in it is text like any other."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of several texts."""

    def encode_with_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Return the tokens of several texts, and which characters of the raw text each token is."""

    def encode_on(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of texts that go on where others ended: no space is put before them."""

    def encode_parts(self, parts: Sequence[Part]) -> list[int]:
        """Return the tokens of a conversation; special tokens are read in the marks of its template only."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; special ones say nothing."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as people write it, with U+2581 for a space."""

    def spelling(self) -> list[bytes]:
        """Return the bytes that each token of the vocabulary writes; special ones write none."""
