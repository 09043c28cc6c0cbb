"""The ids of a tokenizer's special tokens."""

from __future__ import annotations

from dataclasses import dataclass

MASK = "<mask>"  # of the tokenizers that we learn for models that fill in words


@dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens; the defaults are those of the tokenizers that we learn.

    A published tokenizer may have one token for several of these. An encoder reads `bos` before a text and `eos`
    after it: [CLS] and [SEP] of BERT.
    """

    pad: int = 0  # padding; never attended to
    bos: int = 1  # the decoder's first input
    eos: int = 2  # ends every text
    unk: int = 3  # SentencePiece requires it; with byte fallback it is never used
    mask: int | None = None  # replaces a word to be filled in, in models that can do that

    @property
    def never_chosen(self) -> tuple[int, ...]:
        """Tokens that no output may contain; some published models use EOS for another purpose too."""
        return tuple(token for token in (self.pad, self.bos, self.unk) if token != self.eos)
