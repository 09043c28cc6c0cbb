"""The tokens that are no text: each tokenizer has its own."""

from __future__ import annotations

from dataclasses import dataclass

MASK = "<mask>"  # of the tokenizers that we learn for models that fill in words


@dataclass(frozen=True)
class SpecialIds:
    """The ids of special tokens; the defaults are those of the tokenizers that we learn.

    A published tokenizer may have one token for several of these. An encoder reads `bos` before a text and `eos`
    behind it: [CLS] and [SEP] of BERT.
    """

    pad: int = 0  # fills up a batch; never attended to
    bos: int = 1  # the decoder's first input
    eos: int = 2  # ends every text
    unk: int = 3  # demanded by SentencePiece; byte fallback leaves it unused
    mask: int | None = None  # stands for a word to be filled in, where a model knows how

    @property
    def never_chosen(self) -> tuple[int, ...]:
        """What no output may hold; some published models use one token as end and for something else too."""
        return tuple(token for token in (self.pad, self.bos, self.unk) if token != self.eos)
