"""Verify an import or an export: logits, or other outputs, and tokens must equal those of another program.

Shapes: T positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from sixfold.data.corpora.phrasebook import sentences
from sixfold.errors import WorkError
from sixfold.text import AnyTokenizer

TOLERANCE = (
    1e-4  # of a logit, or relative to the largest if logits are large: float32 sums in another order differ
)
TEXTS = (
    *(english for english, _ in islice(sentences(), 20)),
    "1,234.50 € on 2024-02-29?\n\n\tdef f(x):\n        return x  # naïve café – “ÀÉ” 日本語 🙂\n",
    "  spaces  in front,  between and behind  ",
    "I'll say we've 12345 CamelCase words; isn't THAT'S nice?!... Straße,\r\nДа, привет мир\n",
)
LONGEST = 256  # positions of a row
ROWS = 8

Logits = Callable[[Tensor], Tensor]  # from tokens (1, T) to logits (T, V)
Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison with another program."""

    reference: str
    num_tokens: int
    what: str  # what was compared
    measure: str  # of the difference
    difference: float
    allowed: float


@torch.inference_mode()
def compare_logits(
    ours: nn.Module,
    theirs: Logits,
    rows: Sequence[list[int]],
    reference: str,
    tolerance: float = TOLERANCE,
    what: str = "logits",
) -> Comparison:
    """Return the largest difference between the logits, or other outputs, of two programs; refuse a large one."""
    largest, scale = 0.0, 1.0
    for row in rows:
        tokens = torch.tensor([row])
        our, their = ours(tokens)[0], theirs(tokens)
        difference = float((our - their).abs().max())
        largest = difference if not difference <= largest else largest  # NaN too
        scale = max(scale, float(our.abs().max()))
    if not largest <= tolerance * scale:
        raise WorkError(
            f"The {what} differ from those of {reference} by {largest:.1e}; at most {tolerance * scale:.1e} "
            "was expected. Nothing was written."
        )
    count = sum(map(len, rows))
    return Comparison(reference, count, f"tokens' {what}", "largest difference", largest, tolerance * scale)


def sample_rows(tokenizer: AnyTokenizer, start: int | None, max_positions: int) -> list[list[int]]:
    """Return rows of tokens of texts, and of random tokens from the whole vocabulary."""
    longest = min(LONGEST, max_positions)
    begin = [] if start is None else [start]
    drawn = torch.randint(tokenizer.vocabulary, (2, longest), generator=torch.Generator().manual_seed(1))
    texts = [[*begin, *tokenizer.encode(text)][:longest] for text in TEXTS]
    return [*islice((row for row in texts[::-1] if row), ROWS), *drawn.tolist()]


def compare_tokens(ours: Encode, theirs: Encode, reference: str) -> Comparison:
    """Compare the tokens of texts; raise if one differs."""
    count = 0
    for text in TEXTS:
        our, their = ours(text), theirs(text)
        if our != their:
            raise WorkError(
                f"The tokens of a text differ from those of {reference}. Nothing was written.\n"
                f"  text:  {text!r}\n  here:  {shown(our)}\n  there: {shown(their)}"
            )
        count += len(our)
    return Comparison(reference, count, "token ids", "", 0.0, 0.0)


def shown(ids: Sequence[int]) -> str:
    """Return the first tokens."""
    return " ".join(map(str, ids[:30])) + (" …" if len(ids) > 30 else "")
