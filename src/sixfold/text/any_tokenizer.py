"""The interface of every tokenizer: those trained here, and those of published models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from sixfold.text.chat import PromptPart
from sixfold.text.located import Span
from sixfold.text.special import SpecialIds

TokenizerFile = Literal["tokenizer.model", "tokenizer.json"]


class AnyTokenizer(Protocol):
    """Raw text to token ids and back, without loss unless it says so."""

    @property
    def file_name(self) -> TokenizerFile:
        """The name of its file in a model folder."""

    @property
    def model(self) -> bytes:
        """The content of that file."""

    @property
    def special(self) -> SpecialIds:
        """The ids of the special tokens."""

    @property
    def is_lossless(self) -> bool:
        """Whether decoding gives back every text exactly."""

    @property
    def space_before(self) -> bool:
        """Whether a space is prepended to every text, so that its first word is tokenized like any other."""

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary."""

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; what looks like a special token is encoded as text."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts."""

    def encode_with_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Return the token ids of several texts, and which characters of the raw text each token covers."""

    def encode_continuation(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts that continue others: no space is prepended."""

    def encode_parts(self, parts: Sequence[PromptPart]) -> list[int]:
        """Return the token ids of a conversation; special tokens are recognised only in the template's text."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; special tokens decode to nothing."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as a readable string, with U+2581 for a space."""

    def spelling(self) -> list[bytes]:
        """Return the bytes that each token of the vocabulary decodes to; none for special tokens."""
