"""The tokenizers of published models, run by the package `tokenizers`; lossless, like ours, except WordPiece.

The package gets a description rebuilt from what `tokenizer_json` understands, without the special tokens: no user
text can be encoded as one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from sixfold.errors import DataError, MissingExtraError, ModelFolderError
from sixfold.text.chat import PromptPart
from sixfold.text.located import Span, token_spans
from sixfold.text.special import SpecialIds
from sixfold.text.tokenizer_json import (
    FILE_NAME,
    SPACE_MARK,
    Description,
    Form,
    damaged,
    read_description,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Engine

IN_NO_TEXT = {0xC0, 0xC1, *range(0xF5, 0x100)}  # bytes that UTF-8 never uses


@dataclass(frozen=True)
class PublishedTokenizer:
    """A `tokenizer.json` and the ids that a model gives its special tokens."""

    model: bytes = field(repr=False)
    special: SpecialIds
    file_name = FILE_NAME

    def __post_init__(self) -> None:
        ids = [self.special.pad, self.special.bos, self.special.eos, self.special.unk]
        if not all(0 <= token < self.vocabulary for token in ids):
            raise ModelFolderError(f"A special token has an id outside the {self.vocabulary:,} tokens.")
        assert self.engine

    @classmethod
    def load(cls, path: Path, special: SpecialIds) -> PublishedTokenizer:
        """Read a tokenizer from its file."""
        return cls(path.read_bytes(), special)

    @cached_property
    def described(self) -> Description:
        """The parsed file."""
        return read_description(self.model)

    @cached_property
    def engine(self) -> Engine:
        """The tokenizer of the package, without special tokens."""
        return make_engine(self.described)

    @cached_property
    def vocabulary(self) -> int:
        """The size of the vocabulary."""
        return len(self.described.vocabulary) + len(self.described.special)

    @property
    def is_lossless(self) -> bool:
        """Whether every text comes back exactly."""
        return self.described.form.is_lossless

    @property
    def space_before(self) -> bool:
        """Whether a space is prepended to every text, and removed again by `decode`."""
        return self.described.form.space_before

    @cached_property
    def spelled(self) -> list[bytes]:
        """The bytes of each token."""
        spelled = [b""] * self.vocabulary
        for piece, token in self.described.vocabulary.items():
            spelled[token] = self.described.form.spell(piece)
        for token in (self.special.pad, self.special.bos, self.special.eos, self.special.unk):
            spelled[token] = b""
        return spelled

    @cached_property
    def names(self) -> dict[int, str]:
        """The name of each special token."""
        return {token: name for name, token in self.described.special.items()}

    @cached_property
    def unencodable(self) -> list[int]:
        """Bytes of UTF-8 that no token decodes to: some published vocabularies lack rare control characters."""
        if not self.is_lossless:
            return []
        single = {raw[0] for raw in self.spelled if len(raw) == 1}
        return sorted(set(range(256)) - single - IN_NO_TEXT)

    def spelling(self) -> list[bytes]:
        """Return the bytes that each token decodes to; none for special tokens."""
        return list(self.spelled)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text; what looks like a special token is encoded as text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts."""
        return self.encode_stretches(texts, self.described.form)

    def encode_with_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Return the token ids of several texts, and the position of each token in the raw text."""
        if self.is_lossless:
            rows = self.encode_batch(texts)
            return [
                (row, token_spans(text, [self.spelled[token] for token in row], self.space_before))
                for text, row in zip(texts, rows, strict=True)
            ]
        encoded = self.engine.encode_batch(list(texts), add_special_tokens=False)
        return [(each.ids, each.offsets) for each in encoded]

    def encode_continuation(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts that continue others: no space is prepended."""
        return self.encode_stretches(texts, self.described.form.inside())

    def encode_stretches(self, texts: Sequence[str], form: Form) -> list[list[int]]:
        """Return the token ids of texts, cut into stretches as `form` says."""
        for text in texts:
            self.refuse_unencodable(text)
        rows = [form.stretches(text) for text in texts]
        encoded = iter(self.engine.encode_batch_fast(list(chain.from_iterable(rows)), add_special_tokens=False))
        return [self.joined([next(encoded).ids for _ in row]) for row in rows]

    def joined(self, stretches: Sequence[list[int]]) -> list[int]:
        """Return the tokens of the stretches of one text."""
        first, *rest = stretches
        between = self.described.form.between(self.described.vocabulary) if rest else []
        return [*first, *chain.from_iterable((*between, *stretch) for stretch in rest)]

    def refuse_unencodable(self, text: str) -> None:
        """Refuse a text with characters that the vocabulary cannot encode."""
        if not self.unencodable:
            return
        raw = text.encode()
        for byte in self.unencodable:
            if byte in raw:
                sign = next(character for character in text if byte in character.encode())
                raise DataError(
                    f"The tokenizer of this model has no token for U+{ord(sign):04X}, so the text would lose it.",
                    "Remove that character from the text.",
                )

    def encode_parts(self, parts: Sequence[PromptPart]) -> list[int]:
        """Return the token ids of a conversation; special tokens are recognised only in the template's text."""
        ids: list[int] = []
        for text, special in stretches_between(parts, self.described.special):
            ids += self.encode(text)
            if special is not None:
                ids.append(special)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; special tokens decode to nothing."""
        text = b"".join([self.spelled[token] for token in ids]).decode(errors="replace")
        return text.removeprefix(" ") if self.space_before else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as a readable string, with U+2581 for a space and <0xNN> for bytes of no character."""
        return [self.names.get(token) or piece_of(self.spelled[token]) for token in ids]


def stretches_between(parts: Sequence[PromptPart], special: Mapping[str, int]) -> Iterator[tuple[str, int | None]]:
    """Yield the texts between the special tokens of a template, each with the special token that follows it.

    Template text and messages without a special token between them are encoded as one text, as they were in
    training.
    """
    pattern = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))) or r"(?!)")
    text = ""
    for part in parts:
        start = 0
        for found in pattern.finditer(part.text) if part.is_template else ():
            yield text + part.text[start : found.start()], special[found.group()]
            text, start = "", found.end()
        text += part.text[start:]
    yield text, None


def piece_of(raw: bytes) -> str:
    """Return bytes as a readable string; U+2581 as its bytes, because it stands for a space."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = SPACE_MARK
    return as_bytes(raw) if SPACE_MARK in text else text.replace(" ", SPACE_MARK)


def as_bytes(raw: bytes) -> str:
    """Return bytes as <0xNN>."""
    return "".join(f"<0x{byte:02X}>" for byte in raw)


def make_engine(described: Description) -> Engine:
    """Make the package's tokenizer from a description that has been checked."""
    try:
        from tokenizers import Tokenizer as Engine
    except ImportError as error:
        raise MissingExtraError("tokenizers", "published", "The tokenizer of a published model") from error
    content = described.form.description()
    needed = {name: described.special[name] for name in described.form.needed}
    content["model"]["vocab"] = described.vocabulary | needed
    if content["model"]["type"] == "BPE":
        content["model"]["merges"] = described.merges
    try:
        engine: Engine = Engine.from_str(json.dumps(content))
    except Exception as error:  # the package raises nothing more precise
        raise damaged(str(error)) from error
    return engine
