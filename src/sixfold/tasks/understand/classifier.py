"""Texts in, labels with their probabilities out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.errors import RequestError
from sixfold.tasks.understand.predictor import Predictor
from sixfold.text.encoder_row import EncoderRow


@dataclass(frozen=True)
class Label:
    """A label and how probable it is."""

    name: str
    probability: float


@dataclass(frozen=True)
class Classification:
    """What a classifier says of a text."""

    labels: tuple[Label, ...]  # that are chosen: one; where there may be several, any number; none for a number
    probabilities: tuple[Label, ...]  # of all labels, the most probable first; empty for a number
    number: float | None  # where a number is predicted
    is_cut: bool  # whether the end of the text was not read


class Classifier(Predictor):
    """An encoder that labels texts."""

    task = "classify"

    def classify(
        self,
        texts: Sequence[str],
        seconds: Sequence[str] | None = None,
        on_progress: OnProgress = no_progress,
    ) -> list[Classification]:
        """Label texts, or each together with a second one."""
        if isinstance(texts, str):
            raise RequestError("classify takes a list of texts.", f"Write classify([{texts[:20]!r}…])")
        rows = self.rows_of(texts, seconds)
        answers = self.answers(rows, on_progress)
        return [self.classification(logits, row) for logits, row in zip(answers, rows, strict=True)]

    def rows_of(self, texts: Sequence[str], seconds: Sequence[str] | None) -> list[EncoderRow]:
        """Return what the encoder reads."""
        first = self.tokenizer.encode_batch(texts)
        if seconds is None:
            return [self.rows.one(tokens) for tokens in first]
        if len(seconds) != len(texts):
            raise RequestError(f"There are {len(texts):,} texts and {len(seconds):,} second texts.")
        second = self.tokenizer.encode_batch(seconds)
        return [self.rows.two(one, two) for one, two in zip(first, second, strict=True)]

    def classification(self, logits: Tensor, row: EncoderRow) -> Classification:
        """Return what logits say."""
        own = self.labels
        if own.choice == "number":
            return Classification((), (), float(logits[0]) * own.deviation + own.mean, row.is_cut)
        scaled = logits.double() / own.temperature
        found = scaled.sigmoid() if own.choice == "several" else scaled.softmax(dim=-1)
        pairs = [Label(name, chance) for name, chance in zip(own.names, found.tolist(), strict=True)]
        ordered = tuple(sorted(pairs, key=lambda label: -label.probability))
        if own.choice == "one":
            return Classification(ordered[:1], ordered, None, row.is_cut)
        needed = dict(zip(own.names, own.thresholds or (0.5,) * len(own.names), strict=True))
        chosen = tuple(label for label in ordered if label.probability >= needed[label.name])
        return Classification(chosen, ordered, None, row.is_cut)
