"""How text becomes the tokens that an encoder reads, and what its labels are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict

from sixfold.files import write_atomically
from sixfold.models.encoder_only import EncoderOnlyConfig
from sixfold.models.folder import Labels, Processor, load_any_tokenizer, open_tokenizer
from sixfold.tasks.understand.recipe import EncodedData
from sixfold.text import AnyTokenizer, Tokenizer
from sixfold.text.encoder_row import RowFormat
from sixfold.text.special import MASK
from sixfold.training.base import Base

DESCRIPTION = "processor.json"


class Description(BaseModel):
    """The file that stands beside the tokenizer while a run goes on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    processor: Processor
    has_segments: bool
    labels: Labels | None
    label_weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class EncoderProcessor:
    """A tokenizer, the rows that an encoder reads, and the labels if there are some."""

    tokenizer: AnyTokenizer
    rows: RowFormat
    labels: Labels | None = None
    label_weights: tuple[float, ...] = ()  # of each label's loss; empty: all count alike

    @property
    def described(self) -> Processor:
        """What a model folder says of it."""
        return Processor(
            tokenizer=self.tokenizer.file_name,
            special=self.tokenizer.special,
            max_tokens=self.rows.max_tokens,
            separators=self.rows.separators,
        )

    def save(self, folder: Path) -> list[Path]:
        """Write the files of a processor; return them."""
        paths = [folder / self.tokenizer.file_name, folder / DESCRIPTION]
        description = Description(
            processor=self.described,
            has_segments=self.rows.has_segments,
            labels=self.labels,
            label_weights=self.label_weights,
        )
        for path, content in zip(
            paths, (self.tokenizer.model, description.model_dump_json().encode()), strict=True
        ):
            write_atomically(path, content)
        return paths

    @classmethod
    def load(cls, folder: Path) -> EncoderProcessor:
        """Read what `save` wrote."""
        found = Description.model_validate_json((folder / DESCRIPTION).read_bytes())
        own = found.processor
        tokenizer = open_tokenizer(folder / own.tokenizer, own.special)
        assert own.max_tokens is not None
        rows = RowFormat(own.special, own.max_tokens, own.separators, found.has_segments)
        return cls(tokenizer, rows, found.labels, found.label_weights)

    @classmethod
    def learn(cls, texts: Iterable[str], data: EncodedData) -> EncoderProcessor:
        """Learn subwords; the mask is among them, so that any model can fill gaps later."""
        tokenizer = Tokenizer.learn(texts, data.vocabulary, data.subwords, (MASK,))
        return cls(tokenizer, RowFormat(tokenizer.special, data.max_tokens))

    @classmethod
    def of_base(cls, base: Base, max_tokens: int) -> EncoderProcessor:
        """Return that of a model to start from."""
        own, shape = base.info.processors["text"], cast("EncoderOnlyConfig", base.info.model)
        tokenizer = load_any_tokenizer(base.folder, base.info)
        rows = RowFormat(own.special, max_tokens, own.separators, has_segments=shape.token_types > 1)
        return cls(tokenizer, rows, base.info.labels)

    def with_labels(self, labels: Labels | None, weights: tuple[float, ...] = ()) -> EncoderProcessor:
        """Return the same with other labels."""
        return replace(self, labels=labels, label_weights=weights)


def encode_words(tokenizer: AnyTokenizer, words: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each word as if a space stood before it; a word without any has the unknown one.

    So a comma has the same tokens in "Ann , Bob", which is how tagged text is written, and in "Ann, Bob".
    """
    space = "" if tokenizer.space_before else " "
    encoded = tokenizer.encode_batch([space + word if place else word for place, word in enumerate(words)])
    return [tokens or [tokenizer.special.unk] for tokens in encoded]
