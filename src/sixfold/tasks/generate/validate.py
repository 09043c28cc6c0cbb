"""Validation: loss, perplexity and bits per byte of held-out rows, and a sample of the model's text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn

from sixfold.data.shards import Records
from sixfold.decode.contexts import open_contexts
from sixfold.decode.generate_options import GenerateOptions
from sixfold.decode.generation import Generation
from sixfold.decode.text_scoring import bits_per_byte, perplexity
from sixfold.models.decoder_only import DecoderOnly
from sixfold.models.ensemble import members_of
from sixfold.training.task import Check, Sample, Scores

if TYPE_CHECKING:
    from sixfold.tasks.generate.learner import GenerateLearner

TOKENS_AT_ONCE = 8192
CHANCE = 0.002  # bits per byte: a smaller difference between two validations may be chance
PROMPT_TOKENS, SAMPLE_TOKENS = 32, 40  # of the sample
HOW_TO_DRAW = GenerateOptions(max_tokens=SAMPLE_TOKENS, temperature=0.7, top_p=0.95, seed=1)


class TextValidator:
    """Held-out rows, in memory, ready to be measured with any weights."""

    trained_share = 1.0

    def __init__(self, learner: GenerateLearner, records: Records) -> None:
        self.learner, self.records = learner, records
        self.num_bytes = sum(int(counted_bytes(learner, record)) for record in records.values)

    @torch.no_grad()
    def loss(self, model: nn.Module, check: Check) -> float:
        """Return the mean negative log-probability of a held-out token."""
        total, targets = self.total(model, check)
        return total / targets if math.isfinite(total) else math.inf

    def total(self, model: nn.Module, check: Check) -> tuple[float, int]:
        """Return the negative log-probability of all targets, and their number."""
        was_training = model.training
        model.eval()
        [member] = members_of(model)
        total, targets = 0.0, 0
        rows = max(1, TOKENS_AT_ONCE // self.learner.recipe.data.context)
        for begin in range(0, len(self.records.ids), rows):
            check()
            part = Records(self.records.ids[begin : begin + rows], self.records.values[begin : begin + rows])
            batch = self.learner.collate(part, seed=0).to(next(member.parameters()).device)
            total += float(self.learner.loss(member, batch))
            targets += batch.num_targets
        model.train(was_training)
        return total, targets

    @torch.no_grad()
    def measure(self, model: nn.Module, check: Check) -> Scores:
        """Return the bits per byte, and a continuation of held-out text as a sample."""
        total, targets = self.total(model, check)
        return Scores(
            "bits per byte",
            bits_per_byte(total, self.num_bytes),
            CHANCE,
            f"rows of {self.learner.recipe.data.context:,} tokens",
            self.sample(cast("DecoderOnly", members_of(model)[0])),
            is_higher_better=False,
            decimals=3,
            details=f"perplexity {perplexity(-total, targets):,.1f}",
        )

    def sample(self, model: DecoderOnly) -> Sample:
        """Return the beginning of a held-out text, the model's continuation, and the text's own."""
        record = self.records.values[len(self.records.ids) // 2]
        tokens = record["tokens"].tolist()
        begin, end = min(PROMPT_TOKENS, len(tokens) // 2), len(tokens)
        if "answer" in record:  # the first one
            begin = int(record["answer"].argmax())
            end = begin + int((~record["answer"][begin:].astype(bool)).argmax() or len(tokens))
        prompt, rest = (
            tokens[max(0, begin - PROMPT_TOKENS) : begin],
            tokens[begin : min(end, begin + SAMPLE_TOKENS)],
        )
        processor = self.learner.processor
        generation = Generation(
            open_contexts(model, processor.tokenizer.special),
            processor.tokenizer,
            decoder_start=processor.decoder_start,
        )
        [answer] = generation.add(prompt, HOW_TO_DRAW)
        generation.run()
        return Sample(self.shown(prompt), " ".join(answer.text.split()), self.shown(rest))

    def shown(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens in one line."""
        return " ".join(self.learner.processor.tokenizer.decode(tokens).split())


def counted_bytes(learner: GenerateLearner, record: dict[str, np.ndarray]) -> int:
    """Return the number of bytes of a row's targets."""
    return int(record["sizes"][1:][learner.targets(record) >= 0].sum())
