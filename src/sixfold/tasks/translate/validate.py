"""Validation: loss and BLEU on a bounded number of held-out pairs."""

from __future__ import annotations

import math
from functools import cached_property
from typing import cast

from torch import nn

from sixfold.data.shards import Corpus
from sixfold.decode.config import DecodeConfig
from sixfold.decode.scoring import score_ids
from sixfold.decode.translate import Translator
from sixfold.evaluate.metrics import bleu
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.models.ensemble import members_of
from sixfold.text import Tokenizer
from sixfold.training.task import Check, Sample, Scores

PAIRS_AT_ONCE = 64
CHANCE = 0.5  # BLEU: a smaller difference over a few hundred greedy translations may be chance
EXTRA_TOKENS = 20  # more than the source has: bounds the output of a model that has learned little


class TranslationValidator:
    """The first held-out pairs, in memory, ready to be measured with any weights."""

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, num_sentences: int) -> None:
        self.tokenizer = tokenizer
        records = (corpus.record(pair) for pair in range(min(num_sentences, len(corpus))))
        self.ids = sorted(
            ((record["source"].tolist(), record["target"].tolist()) for record in records),
            key=lambda pair: len(pair[1]),
        )

    @property
    def trained_share(self) -> float:
        """An untrained model decodes up to the length limit; a trained one ends with the sentence."""
        source, target = (sum(map(len, side)) / len(self.ids) for side in zip(*self.ids, strict=True))
        return (target + 1) / (source + EXTRA_TOKENS)

    @cached_property
    def texts(self) -> tuple[list[str], list[str]]:
        """The sources and references as text."""
        return (
            [self.tokenizer.decode(source) for source, _ in self.ids],
            [self.tokenizer.decode(target) for _, target in self.ids],
        )

    def loss(self, model: nn.Module, check: Check) -> float:
        """Return the mean negative log-probability of a held-out target token, without label smoothing."""
        was_training = model.training
        model.eval()
        log_probability, tokens = 0.0, 0
        for begin in range(0, len(self.ids), PAIRS_AT_ONCE):
            check()
            sources, targets = zip(*self.ids[begin : begin + PAIRS_AT_ONCE], strict=True)
            scores = score_ids(model, self.tokenizer.special, sources, targets)
            log_probability += sum(score.log_probability for score in scores)
            tokens += sum(score.num_tokens for score in scores)
        model.train(was_training)
        return -log_probability / tokens if math.isfinite(log_probability) else math.inf

    def measure(self, model: nn.Module, check: Check) -> Scores:
        """Return the BLEU of greedy translations, with one of them as a sample."""
        was_training = model.training
        translator = Translator(
            cast("list[EncoderDecoder]", members_of(model)),
            self.tokenizer,
            DecodeConfig(beam=1, length_penalty=0.0, extra_tokens=EXTRA_TOKENS),
        )
        sources, references = self.texts
        translations: list[str] = []
        for begin in range(0, len(sources), PAIRS_AT_ONCE):
            check()
            translations += translator.translate(sources[begin : begin + PAIRS_AT_ONCE])
        model.train(was_training)
        shown = 3 * len(sources) // 4  # sorted by length: a longer one is more informative
        sample = Sample(sources[shown], translations[shown], references[shown])
        return Scores("BLEU", bleu(translations, references).value, CHANCE, "13a, greedy", sample)
