"""The learner of text: rows of tokens, the loss of the next token, and bits per byte.

Shapes: B rows, T positions, N targets.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sixfold.data.batches import Sizes, pad
from sixfold.data.shards import Corpus, Records, Values
from sixfold.models.decoder_only import DecoderOnly
from sixfold.models.ensemble import members_of
from sixfold.nn.loss import mixed_precision, projected_loss
from sixfold.nn.masks import Mask, causal_mask
from sixfold.tasks.generate.initialise import MOST_TOKENS, initialise_from_bigrams
from sixfold.tasks.generate.processor import TextProcessor
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.tasks.generate.validate import TextValidator
from sixfold.training.task import Batch

NO_TARGET = -1

Ids = NDArray[np.int64]


class GenerateLearner:
    """Text with a recipe and a processor."""

    def __init__(self, recipe: GenerateRecipe, processor: TextProcessor) -> None:
        self.recipe, self.processor = recipe, processor
        self.most_initialised = MOST_TOKENS // recipe.data.context
        self.num_validated = -(-recipe.train.valid_tokens // recipe.data.context)

    def new_model(self) -> nn.Module:
        """Return one model with random weights."""
        return DecoderOnly(self.recipe.model.config(self.processor.tokenizer.vocabulary))

    def initialise(self, model: nn.Module, corpus: Corpus) -> None:
        """Begin as the bigrams of the corpus, if the recipe says so."""
        if self.recipe.train.initialise == "bigrams":
            [member] = members_of(model)
            initialise_from_bigrams(cast("DecoderOnly", member), corpus)

    def sizes(self, corpus: Corpus) -> Sizes:
        """Return the number of tokens of each row that the model reads."""
        return corpus.lengths[:, [list(corpus.columns).index("tokens")]] - 1

    def collate(self, records: Records, seed: int) -> Batch:  # noqa: ARG002  # nothing is random
        """Return the tokens, their targets and, if a token sees only its own document, the document of each."""
        columns = {
            "tokens": ([record["tokens"][:-1] for record in records.values], self.processor.tokenizer.special.pad),
            "targets": ([self.targets(record) for record in records.values], NO_TARGET),
        }
        if not self.recipe.data.crosses_documents:
            columns["documents"] = ([documents(record) for record in records.values], NO_TARGET)
        tensors = {name: torch.from_numpy(pad(rows, filler)) for name, (rows, filler) in columns.items()}
        return Batch(tensors, int((tensors["targets"] != NO_TARGET).sum()), records.ids)

    def targets(self, record: Values) -> Ids:
        """Return the target at each position; the first token of a document and users' messages are none."""
        targets = record["tokens"][1:].astype(np.int64)
        if self.processor.decoder_start is not None:
            begins = np.zeros(len(targets) + 1, dtype=bool)
            begins[record["starts"]] = True
            targets[begins[1:] & (targets == self.processor.decoder_start)] = NO_TARGET
        if "answer" in record:
            targets[record["answer"][1:] == 0] = NO_TARGET
        return targets

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss summed over the targets."""
        assert isinstance(model, DecoderOnly)
        targets = batch.tensors["targets"].flatten()
        with mixed_precision(targets.device):
            hidden = model.hidden(batch.tensors["tokens"], document_mask(batch)).flatten(0, 1)  # (B·T, d_model)
            real = (targets != NO_TARGET).nonzero()[:, 0]
            if len(real) < len(targets):
                hidden, targets = hidden.index_select(0, real), targets.index_select(0, real)
            return projected_loss(hidden, model.head.weight, targets, 0.0)

    def validator(self, corpus: Corpus, most: int | None = None) -> TextValidator:
        """Return the validation of evenly spaced held-out rows."""
        count = min(len(corpus), most or self.num_validated)
        chosen = np.linspace(0, len(corpus) - 1, count).round().astype(np.uint32)
        return TextValidator(self, corpus.read(np.unique(chosen)))


def documents(record: Values) -> Ids:
    """Return the index, within the row, of the document that each position belongs to."""
    numbers = np.zeros(len(record["tokens"]), dtype=np.int64)
    numbers[record["starts"]] = 1
    return numbers.cumsum()[:-1]


def document_mask(batch: Batch) -> Mask:
    """Let each position see the positions before it in its own document (B, 1, T, T), or in the whole row."""
    if "documents" not in batch.tensors:
        return "causal"
    numbers = batch.tensors["documents"]
    is_same = numbers[:, None, :, None] == numbers[:, None, None, :]
    return is_same & causal_mask(numbers.size(1), numbers.device)
