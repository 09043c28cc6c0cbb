"""Texts in, translations out: a model with its tokenizer, batched by token budget.

Shapes: S sentences, K hypotheses of each, R = S·K rows, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from sixfold.data.batches import pad
from sixfold.decode.scoring import Score, score_ids
from sixfold.decode.search import NEVER, BeamOptions, Hypothesis, beam_search, greedy_search, length_penalty
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.machine import choose_device, num_cores
from sixfold.models.folder import DecodeConfig, ModelInfo, load_info, load_tokenizer, load_weights
from sixfold.models.transformer import Transformer
from sixfold.nn import DecoderCache
from sixfold.text import Tokenizer
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from sixfold.ticks import Tick, silent

BATCH_TOKENS = 8192  # source tokens times hypotheses in one batch
LONGEST_SOURCE = 1024  # tokens; the rest of a longer line is not translated, and that is said


@dataclass(frozen=True)
class Translation:
    """One translation of one text."""

    text: str
    score: float  # log-probability divided by the length penalty: what the search maximised
    log_probability: float
    num_tokens: int  # end mark included
    is_cut: bool = False  # the output reached its length limit
    source_is_cut: bool = False  # the input was longer than a model reads at once


class Translator:
    """A model and its tokenizer, ready to translate."""

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, decode: DecodeConfig, info: ModelInfo | None = None
    ):
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.decode = decode
        self.info = info
        self.device = next(model.parameters()).device
        positions = model.config.max_positions if model.config.positions == "learned" else sys.maxsize
        self.longest_source = min(LONGEST_SOURCE, positions // 2)
        self.longest_target = min(self.longest_source + decode.extra_tokens, positions)  # end mark included

    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[str]:
        """Return the best translation of each text."""
        return [best.text for best, *_ in self.search(texts, beam=beam)]

    def search(
        self,
        texts: Sequence[str],
        beam: int | None = None,
        n_best: int = 1,
        length_penalty: float | None = None,
        tick: Tick = silent,
    ) -> list[list[Translation]]:
        """Return the n best translations of each text, best first. An empty text stays empty."""
        options = self.options(beam, n_best, length_penalty)
        ids, is_cut = cut(self.tokenizer.encode_batch(texts), self.longest_source)
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0, 0)] for _ in texts]
        done = 0
        for batch in self.batches([len(row) for row in ids], options.beam):
            found = self.search_batch([ids[i] for i in batch], options)
            for i, hypotheses in zip(batch, found, strict=True):
                results[i] = [self.finish(hypothesis, is_cut[i]) for hypothesis in hypotheses]
            tick(done := done + len(batch))
        return results

    def options(self, beam: int | None, n_best: int, alpha: float | None) -> BeamOptions:
        """Return the search options, refusing what cannot be."""
        beam = self.decode.beam if beam is None else beam
        alpha = self.decode.length_penalty if alpha is None else alpha
        if not 1 <= beam <= 128:
            raise ConfigError(f"The beam must be from 1 to 128, but is {beam}.")
        if not 1 <= n_best <= beam:
            raise ConfigError(
                f"n-best must be from 1 to the beam ({beam}), but is {n_best}.", "Widen the beam or ask for fewer."
            )
        if not 0 <= alpha <= 10:
            raise ConfigError(f"The length penalty must be from 0 to 10, but is {alpha}.")
        return BeamOptions(beam, alpha, n_best)

    def batches(self, lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
        """Yield the texts, longest first, in groups within the token budget; empty texts are left out."""
        order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
        begin = 0
        while begin < len(order):
            size = max(1, BATCH_TOKENS // ((lengths[order[begin]] + 1) * beam))
            yield order[begin : begin + size]
            begin += size

    @torch.inference_mode()
    def search_batch(self, ids: list[list[int]], options: BeamOptions) -> list[list[Hypothesis]]:
        """Search the translations of one batch of token ids."""
        source = torch.from_numpy(pad([[*row, EOS_ID] for row in ids])).to(self.device)
        lengths = torch.tensor([len(row) for row in ids], device=self.device)
        limits = (lengths + self.decode.extra_tokens).clamp(max=self.longest_target)
        stepper = ModelStepper(self.model, source, options.beam)
        if options.beam == 1:
            return [[best] for best in greedy_search(stepper, limits, BOS_ID, EOS_ID, options.alpha)]
        return beam_search(stepper, limits, BOS_ID, EOS_ID, options)

    def finish(self, hypothesis: Hypothesis, source_is_cut: bool) -> Translation:
        """Turn a hypothesis into text."""
        return Translation(
            # A model may write a line break only as a byte; one line in stays one line out.
            text=self.tokenizer.decode(hypothesis.tokens).replace("\n", " "),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            num_tokens=len(hypothesis.tokens),
            is_cut=hypothesis.is_cut,
            source_is_cut=source_is_cut,
        )

    def score(self, sources: Sequence[str], targets: Sequence[str], tick: Tick = silent) -> list[Score]:
        """Return the log-probability of each given translation."""
        if len(sources) != len(targets):
            raise ConfigError(f"There are {len(sources):,} sources but {len(targets):,} translations.")
        source_ids, source_is_cut = cut(self.tokenizer.encode_batch(sources), self.longest_source)
        target_ids, target_is_cut = cut(self.tokenizer.encode_batch(targets), self.longest_target - 1)
        lengths = [max(1, len(s), len(t)) for s, t in zip(source_ids, target_ids, strict=True)]
        scores: list[Score] = [Score(0.0, 0)] * len(sources)
        done = 0
        for batch in self.batches(lengths, beam=4):
            found = score_ids(self.model, [source_ids[i] for i in batch], [target_ids[i] for i in batch])
            for i, score in zip(batch, found, strict=True):
                scores[i] = replace(score, is_cut=source_is_cut[i] or target_is_cut[i])
            tick(done := done + len(batch))
        return scores

    def penalised(self, score: Score) -> float:
        """Return the score that a search would have given."""
        return score.log_probability / float(length_penalty(score.num_tokens, self.decode.length_penalty))


class ModelStepper:
    """A Transformer as a search sees it."""

    def __init__(self, model: Transformer, source: Tensor, beam: int) -> None:
        self.model = model
        self.cache: DecoderCache = model.start_cache(source, beam)
        self.not_text = torch.tensor([PAD_ID, BOS_ID, UNK_ID], device=source.device)

    def step(self, tokens: Tensor) -> Tensor:
        """Return the log-probabilities (R, V) of the next token; marks that are no text are never chosen."""
        return self.model.step(tokens, self.cache).log_softmax(dim=-1).index_fill_(1, self.not_text, NEVER)

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Keep these sentences and rows of the cache."""
        self.cache.select(sentences, rows)


def cut(ids: Sequence[list[int]], longest: int) -> tuple[list[list[int]], list[bool]]:
    """Return the beginning of each row, and which rows were longer than that."""
    return [row[:longest] for row in ids], [len(row) > longest for row in ids]


def load(folder: str | Path, device: str = "auto") -> Translator:
    """Open a model folder for translating."""
    torch.set_num_threads(min(torch.get_num_threads(), num_cores()))  # more than are allowed would only wait
    folder, chosen = Path(folder), choose_device(device)
    info = load_info(folder)
    try:
        tokenizer, model = load_tokenizer(folder, info), load_weights(folder, info)
    except ModelFolderError:
        if load_info(folder) == info:
            raise
        return load(folder, device)  # a training replaced the model in between
    return Translator(model.to(chosen), tokenizer, info.decode, info)
