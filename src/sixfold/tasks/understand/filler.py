"""Fill the gaps in texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sixfold.errors import RequestError
from sixfold.tasks.understand.predictor import Predictor
from sixfold.text.encoder_row import EncoderRow

GAP = "[MASK]"


@dataclass(frozen=True)
class Filling:
    """A token for a gap, with its probability."""

    text: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text with the most probable token in each gap, and the choices for each."""

    text: str
    gaps: tuple[tuple[Filling, ...], ...]


class Filler(Predictor):
    """An encoder that fills gaps."""

    task = "fill"

    def fill(self, text: str, top: int = 5) -> FilledText:
        """Fill each [MASK] of a text; several are filled independently of each other."""
        stretches = text.split(GAP)
        if len(stretches) == 1:
            raise RequestError(f"There is no {GAP} in {text[:60]!r}.", f'For example: "The {GAP} sat on the mat."')
        row, places = self.row_with_gaps(stretches)
        if places and places[-1] >= len(row.tokens) - 1:
            raise RequestError(f"The text is longer than the {self.rows.max_tokens:,} tokens that are read.")
        [logits] = self.answers([row])
        chances, tokens = logits[places].double().softmax(dim=-1).topk(min(top, logits.size(-1)), dim=-1)
        gaps = tuple(
            tuple(Filling(self.tokenizer.decode([token]), chance) for token, chance in zip(*each, strict=True))
            for each in zip(tokens.tolist(), chances.tolist(), strict=True)
        )
        filled = list(row.tokens[1:-1])
        for place, best in zip(places, tokens[:, 0].tolist(), strict=True):
            filled[place - 1] = best
        return FilledText(self.tokenizer.decode(filled), gaps)

    def row_with_gaps(self, stretches: Sequence[str]) -> tuple[EncoderRow, list[int]]:
        """Return what the encoder reads, and the places of the gaps in it."""
        mask = self.tokenizer.special.mask
        if mask is None:
            raise RequestError("The tokenizer of this model has no mask, so it cannot fill gaps.")
        tokens, places = list[int](), list[int]()
        for number, stretch in enumerate(stretches):
            if number:
                places.append(len(tokens) + 1)
                tokens.append(mask)
            tokens += self.tokenizer.encode(stretch.strip()) if stretch.strip() else []
        return self.rows.one(tokens), places
