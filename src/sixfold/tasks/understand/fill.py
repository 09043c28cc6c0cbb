"""Fill: plain text in, an encoder that fills gaps out: masked language modelling (BERT, 2018, section 3.1).

What it learns of the text is where the other tasks can start from: `sixfold train reviews.csv --init MODEL`.

Shapes: B rows, T positions, N masked positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from sixfold.data.checks.labelled import Labelled
from sixfold.data.shards import Columns, Record, Records, Values, token_type
from sixfold.data.texts import Piece, Texts, open_texts, stretches_of
from sixfold.models.encoder_only import EncoderOnly
from sixfold.models.ensemble import members_of
from sixfold.models.folder import Labels
from sixfold.nn.loss import mixed_precision
from sixfold.settings import Overrides
from sixfold.tasks.understand.learner import EncoderLearner, EncoderValidator, evaluating
from sixfold.tasks.understand.processor import EncoderProcessor
from sixfold.tasks.understand.recipe import EncodedData, UnderstandRecipe
from sixfold.tasks.understand.survey import Survey
from sixfold.tasks.understand.task import UnderstandTask
from sixfold.training.task import Batch, Check, Inputs, Opening, Sample, Scores

if TYPE_CHECKING:
    from sixfold.tasks.understand.filler import Filler

STRETCH_CHARACTERS = 900  # some sentences: about a row
NOT_MASKED = -1
IS_MASK, IS_RANDOM = 0.8, 0.9  # of what is to be predicted: up to here the mask, up to there a random token


class FillData(EncodedData):
    """How much is masked."""

    masked: float = Field(0.15, gt=0, lt=1, description="fraction of the tokens that are to be predicted")
    whole_words: bool = Field(False, description="mask all tokens of a word, or none")
    documents: str = Field("auto", min_length=1, description="what separates documents, as for generate")


class FillRecipe(UnderstandRecipe):
    """All the choices of a run."""

    data: FillData = FillData()


@dataclass(frozen=True)
class Stretches:
    """Texts in stretches of some sentences, which are what is held out."""

    texts: Texts

    @property
    def paths(self) -> tuple[Path, ...]:
        """The input files in order."""
        return self.texts.paths

    @property
    def parts(self) -> Sequence[Stretches]:
        """The stretches of each file on their own."""
        return [Stretches(Texts((file,))) for file in self.texts.files]

    @property
    def described(self) -> str:
        """What separates documents."""
        return f"stretches of documents ({self.texts.separation})"

    def __iter__(self) -> Iterator[Piece]:
        for piece in self.texts:
            yield from stretches_of(piece, STRETCH_CHARACTERS)


class Fill(UnderstandTask[Piece, FillRecipe]):
    """The task of filling gaps."""

    name = "fill"
    read_in = examples = "stretches"
    recipe = FillRecipe

    def detect(self, inputs: Inputs) -> bool:
        """Plain text is taken to be for `generate`; this task is chosen by its name."""
        del inputs
        return False

    def read(self, inputs: Inputs, overrides: Overrides) -> Stretches:
        """Open texts."""
        return Stretches(open_texts(inputs, str(overrides.get("data", {}).get("documents", "auto"))))

    def texts_of(self, example: Piece) -> Sequence[str]:
        """Return the text."""
        return (example.text,)

    def labels_of(self, example: Piece) -> Sequence[str]:
        """Return nothing."""
        del example
        return ()

    def checked(self, example: Piece) -> Labelled:
        """Return what the check looks at."""
        return Labelled((example.text,), (), "")

    def labels(self, survey: Survey[Piece], recipe: FillRecipe) -> Labels | None:
        """Return none: the logits stand for tokens."""
        del survey, recipe
        return None

    def columns(self, processor: EncoderProcessor) -> Columns:
        """Return tokens."""
        return {"tokens": token_type(processor.tokenizer.vocabulary)}

    def encode(self, examples: Sequence[Piece], processor: EncoderProcessor) -> Iterator[tuple[Record, bool]]:
        """Yield each stretch in rows that are as long as may be read."""
        room = processor.rows.max_tokens - 2
        encoded = processor.tokenizer.encode_batch([example.text for example in examples])
        for example, tokens in zip(examples, encoded, strict=True):
            for begin in range(0, len(tokens), room):
                row = processor.rows.one(tokens[begin : begin + room])
                yield Record({"tokens": row.tokens}, example.line), False

    def learner(self, recipe: FillRecipe, processor: EncoderProcessor) -> FillLearner:
        """Return what the loop sees."""
        return FillLearner(recipe, processor)

    def open(self, opening: Opening) -> Filler:
        """Return what fills gaps with the model of a folder."""
        from sixfold.tasks.understand.filler import Filler

        return Filler.load(opening.folder, opening.device, opening.precision)


class FillLearner(EncoderLearner):
    """Texts with a recipe and a processor."""

    head = "token"
    recipe: FillRecipe

    @cached_property
    def begins_word(self) -> NDArray[np.bool_]:
        """Which tokens of the vocabulary begin a word."""
        spelled = self.processor.tokenizer.spelling()
        return np.array([raw.startswith(b" ") for raw in spelled])

    def collate(self, records: Records, seed: int) -> Batch:
        """Pad the tokens (B, T) and mask some of them: drawn anew from the seed."""
        batch = super().collate(records, seed)
        tokens = batch.tensors["tokens"].numpy()
        chosen = self.choose(tokens, np.random.default_rng((seed, 1)))
        targets = np.where(chosen, tokens, NOT_MASKED)
        masked = self.masked(tokens, chosen, np.random.default_rng((seed, 2)))
        tensors = {"tokens": torch.from_numpy(masked), "targets": torch.from_numpy(targets)}
        return Batch(tensors, int(chosen.sum()), batch.examples)

    def targets(self, records: Records, seed: int) -> tuple[dict[str, Tensor], int]:
        """Return none yet: they depend on the whole batch."""
        del records, seed
        return {}, 0

    def choose(self, tokens: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.bool_]:
        """Return which tokens are to be predicted: at least one of a batch, and no special ones."""
        special = self.processor.tokenizer.special
        is_text = ~np.isin(tokens, [special.pad, special.bos, special.eos])
        units = np.arange(tokens.size).reshape(tokens.shape)
        if self.recipe.data.whole_words:
            begins = self.begins_word[tokens] | ~is_text
            begins[:, 0] = True
            units = np.cumsum(begins.ravel()).reshape(tokens.shape) - 1
        drawn = draw.random(tokens.size)[units]
        chosen = is_text & (drawn < self.recipe.data.masked)
        if not chosen.any() and is_text.any():
            chosen.flat[np.flatnonzero(is_text)[0]] = True
        return chosen

    def masked(
        self, tokens: NDArray[np.int64], chosen: NDArray[np.bool_], draw: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return the tokens that the model sees: of the chosen ones 80% the mask, 10% another, 10% as they are."""
        tokenizer = self.processor.tokenizer
        assert tokenizer.special.mask is not None
        kind = draw.random(tokens.shape)
        others = draw.integers(0, tokenizer.vocabulary, tokens.shape)
        seen = np.where(chosen & (kind < IS_MASK), tokenizer.special.mask, tokens)
        return np.where(chosen & (kind >= IS_MASK) & (kind < IS_RANDOM), others, seen)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss summed over the masked positions; only their logits are computed."""
        logits, targets = self.predictions(model, batch)
        return F.cross_entropy(logits, targets, reduction="sum")

    def predictions(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the logits (N, V) at the masked positions, and the tokens (N,) that stood there."""
        assert isinstance(model, EncoderOnly)
        targets = batch.tensors["targets"].flatten()
        places = (targets != NOT_MASKED).nonzero()[:, 0]
        with mixed_precision(targets.device):
            hidden = model.hidden(batch.tensors["tokens"]).flatten(0, 1)
            logits = model.head(hidden.index_select(0, places))
        return logits.float(), targets.index_select(0, places)

    def loss_of(self, answers: Tensor, batch: Batch) -> Tensor:
        """Never called: `loss` computes only what is masked."""
        raise NotImplementedError

    def score(self, answers: Sequence[NDArray[Any]], records: Sequence[Values]) -> Scores:
        """Never called: `FillValidator` measures only what is masked."""
        raise NotImplementedError

    def validator(self, corpus: Any, most: int | None = None) -> EncoderValidator:
        """Return the validation of some held-out rows."""
        return FillValidator(self, super().validator(corpus, most).records)


class FillValidator(EncoderValidator):
    """Held-out rows with the same masks at every validation."""

    learner: FillLearner

    @torch.no_grad()
    def measure(self, model: nn.Module, check: Check) -> Scores:
        """Return the perplexity of masked tokens, how many are right, and a row to look at."""
        loss = self.loss(model, check)
        right = total = 0
        with evaluating(model) as member:
            for batch in self.collated(member, check):
                logits, targets = self.learner.predictions(member, batch)
                right += int((logits.argmax(dim=-1) == targets).sum())
                total += len(targets)
            sample = self.sample(member)
        return Scores(
            "perplexity", math.exp(min(loss, 700.0)), 0.01, "masked tokens", sample, is_higher_better=False,
            decimals=2, details=f"{100 * right / max(1, total):.1f}% of them right",
        )  # fmt: skip

    def sample(self, model: nn.Module) -> Sample:
        """Return a held-out row with its gaps, filled by the model and as it was."""
        [member] = members_of(model)
        middle = len(self.records.ids) // 2
        one = Records(self.records.ids[middle : middle + 1], self.records.values[middle : middle + 1])
        batch = self.learner.collate(one, seed=0).to(next(member.parameters()).device)
        logits, targets = self.learner.predictions(member, batch)
        pieces = self.learner.processor.tokenizer.pieces
        shown = [" ".join(pieces(row[:12])) for row in (logits.argmax(dim=-1).tolist(), targets.tolist())]
        text = self.learner.processor.tokenizer.decode(one.values[0]["tokens"].tolist())
        return Sample(" ".join(text.split())[:200], shown[0], shown[1])
