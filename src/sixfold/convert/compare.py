"""Proof of an export: both engines translate the same sample, and their texts and scores must agree.

Shapes: T target positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

import torch

from sixfold.data.corpora.phrasebook import sentences
from sixfold.decode.translate import Translation, Translator
from sixfold.errors import WorkError
from sixfold.tasks.translate.held_out import held_out
from sixfold.text import Tokenizer
from sixfold.text.tokenizer import SPACE_MARK

TOLERANCE = 1e-4  # of a token's log-probability: float32 sums in another order round differently
WRITTEN = 50  # sentences of the sample that our own grammar writes
UNUSUAL = (
    "1,234.50 € on 2024-02-29?",
    "naïve café – “ÀÉÎÕÜ” 日本語 🙂",  # characters that are spelled as bytes
    "  spaces  in front,  between and behind  ",
    "<s> and </s> & <pad> are text",
    "X",
    "word " * 100,
)


@dataclass(frozen=True)
class Output:
    """A translation by another engine: token ids without the end token, and what they spell there."""

    ids: list[int]
    text: str


class ForeignEngine(Protocol):
    """What a comparison sees of another engine."""

    def translate(self, texts: Sequence[str], limits: Sequence[int]) -> list[Output]:
        """Return the greedy translation of each text, of at most so many tokens before the end token."""

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return the log-probability of each given translation, its end token included."""


@dataclass(frozen=True)
class ExportComparison:
    """What agreed."""

    num_sentences: int
    num_tokens: int  # of the translations, end tokens included
    num_ties: int  # translations that differ where two tokens were equally probable; all others are equal
    largest_difference: float  # of a translation's log-probability, divided by its tokens


def compare(ours: Translator, theirs: ForeignEngine, texts: Sequence[str]) -> ExportComparison:
    """Translate and score the texts with both engines; any disagreement is an error."""
    found = [best for best, *_ in ours.search(texts, beam=1)]
    pairs = [(text, each) for text, each in zip(texts, found, strict=True) if is_comparable(text, each)]
    if not pairs:
        raise WorkError("No sentence of the sample could be compared, so the exported model was removed.")
    texts, found = [text for text, _ in pairs], [each for _, each in pairs]
    num_ties = compare_texts(ours, theirs, texts, found)
    difference = compare_scores(ours, theirs, texts, [each.text for each in found])
    return ExportComparison(len(texts), sum(each.num_tokens for each in found), num_ties, difference)


def is_comparable(text: str, translation: Translation) -> bool:
    """Whether every engine reads the same here: others do not cut what is too long for a model, read U+2581 as a
    space, and Hugging Face takes >>this<< at the beginning for a language.
    """
    is_plain = SPACE_MARK not in text + translation.text and not text.startswith(">>")
    return is_plain and not translation.source_is_cut and not translation.text.startswith(">>")


def compare_texts(
    ours: Translator, theirs: ForeignEngine, texts: Sequence[str], found: Sequence[Translation]
) -> int:
    """Refuse another greedy translation than ours; return how many differ by nothing but a tie."""
    # What our limit cut is cut there too; what ended by itself gets room to fail to.
    limits = [min(each.num_tokens + 10 * (not each.is_cut), ours.decoder.longest_target) - 1 for each in found]
    outputs, num_ties = theirs.translate(texts, limits), 0
    for text, our, their, limit in zip(texts, found, outputs, limits, strict=True):
        if our.text.strip() == their.text.replace("\n", " ").strip():
            continue
        ids = their.ids if len(their.ids) == limit else [*their.ids, ours.tokenizer.special.eos]
        is_same = ours.tokenizer.decode(their.ids).strip() == their.text.strip()
        if not is_same or shortfall(ours, text, ids) > TOLERANCE:
            raise WorkError(
                f"The exported model translates differently, so it was removed.\n"
                f"  source: {text}\n  here:   {our.text}\n  there:  {their.text}"
            )
        num_ties += 1
    return num_ties


@torch.inference_mode()
def shortfall(ours: Translator, source: str, target: list[int]) -> float:
    """Return how much less probable than the best choice any token of a translation is, in log-probability."""
    special = ours.tokenizer.special
    given = torch.tensor([[*ours.tokenizer.encode(source), special.eos]])
    logits = ours.model(given, torch.tensor([[special.bos, *target[:-1]]]))[0]  # (T, V)
    logits[:, special.never_chosen] = float("-inf")
    chosen = logits.gather(1, torch.tensor(target)[:, None])[:, 0]
    return float((logits.max(dim=1).values - chosen).max())


def compare_scores(
    ours: Translator, theirs: ForeignEngine, sources: Sequence[str], targets: Sequence[str]
) -> float:
    """Refuse other log-probabilities than ours; return the largest difference a token."""
    rows = [
        row for row in zip(sources, targets, ours.score_pairs(sources, targets), strict=True) if not row[2].is_cut
    ]
    their_scores, largest = theirs.score([row[0] for row in rows], [row[1] for row in rows]), 0.0
    for (source, target, our), their in zip(rows, their_scores, strict=True):
        difference = abs(our.log_probability - their) / our.num_tokens
        if not difference <= TOLERANCE:  # NaN too
            raise WorkError(
                f"The exported model scores differently, so it was removed: the log-probability is "
                f"{our.log_probability:.4f} here and {their:.4f} there.\n  source: {source}\n  target: {target}"
            )
        largest = max(largest, difference)
    return largest


def sample(folder: Path, tokenizer: Tokenizer) -> list[str]:
    """Return texts to compare with: sentences held out from training, if they are still there, and others."""
    written = [english for english, _ in islice(sentences(), WRITTEN)]
    return [*held_out(folder / "training", tokenizer), *written, *UNUSUAL]
