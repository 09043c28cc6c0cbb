"""The learner of translation: batches of pairs, the loss of the target tokens, and BLEU.

Shapes: B rows, M source positions, T target positions, N target tokens that are not padding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sixfold.data.batches import Sizes, pad
from sixfold.data.shards import Corpus, Records
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.models.ensemble import members_of
from sixfold.nn.loss import mixed_precision, projected_loss
from sixfold.tasks.translate.augment import IdPair, augment
from sixfold.tasks.translate.initialise import MOST_PAIRS, initialise_from_cooccurrence
from sixfold.tasks.translate.recipe import NUM_SPECIAL, TranslateRecipe
from sixfold.tasks.translate.validate import TranslationValidator
from sixfold.text import Tokenizer
from sixfold.training.task import Batch


class TranslateLearner:
    """Translation with a recipe and a tokenizer."""

    most_initialised = MOST_PAIRS

    def __init__(self, recipe: TranslateRecipe, tokenizer: Tokenizer) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.num_validated = min(recipe.train.valid_sentences, recipe.data.valid_pairs)

    def new_model(self) -> nn.Module:
        """Return one model with random weights."""
        return EncoderDecoder(self.recipe.model.config(self.tokenizer.vocabulary, self.tokenizer.special.pad))

    def initialise(self, model: nn.Module, corpus: Corpus) -> None:
        """Initialise embeddings from word co-occurrence, if the recipe says so."""
        if self.recipe.train.initialise == "cooccurrence":
            members = [member for member in members_of(model) if isinstance(member, EncoderDecoder)]
            initialise_from_cooccurrence(members, corpus)

    def sizes(self, corpus: Corpus) -> Sizes:
        """Return the lengths of source and target, with their end tokens."""
        return corpus.lengths + NUM_SPECIAL

    def collate(self, records: Records, seed: int) -> Batch:
        """Augment and pad pairs: source (B, M), the decoder's input and its targets (B, T)."""
        special = self.tokenizer.special
        ids = [IdPair(record["source"].tolist(), record["target"].tolist()) for record in records.values]
        ids = augment(ids, self.recipe.data, seed)
        rows = {
            "source": [[*pair.source, special.eos] for pair in ids],
            "target_in": [[special.bos, *pair.target] for pair in ids],
            "target_out": [[*pair.target, special.eos] for pair in ids],
        }
        tensors = {name: torch.from_numpy(pad(each, special.pad)) for name, each in rows.items()}
        return Batch(tensors, int((tensors["target_out"] != special.pad).sum()), records.ids)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the loss summed over the target tokens; padding is removed before the projection."""
        assert isinstance(model, EncoderDecoder)
        source, target_in, target_out = (batch.tensors[name] for name in ("source", "target_in", "target_out"))
        targets = target_out.flatten()
        real = (targets != self.tokenizer.special.pad).nonzero()[:, 0]
        with mixed_precision(source.device):
            hidden = model.hidden(source, target_in).flatten(0, 1)  # (B·T, d_model)
            return projected_loss(
                hidden.index_select(0, real),
                model.head.weight,
                targets.index_select(0, real),
                self.recipe.train.label_smoothing,
            )

    def validator(self, corpus: Corpus, most: int | None = None) -> TranslationValidator:
        """Return the validation on the first held-out pairs."""
        return TranslationValidator(corpus, self.tokenizer, most or self.recipe.train.valid_sentences)
