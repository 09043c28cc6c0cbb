"""From token ids to hypotheses: in batches within a token budget, halved if memory runs out, on all cores."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain

import torch

from sixfold.callbacks import OnProgress, no_progress
from sixfold.decode.assemble import SearchPlan
from sixfold.decode.config import DecodeConfig
from sixfold.decode.engine import Engine, open_engine
from sixfold.decode.matrices import Precision
from sixfold.decode.memory import in_halves
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Hypothesis, Search, ShouldStop, Watch
from sixfold.decode.token_budget import MANY_BATCHES, of_any_length, of_one_length
from sixfold.decode.workers import SearchBatch, Workers
from sixfold.models.encoder_decoder import EncoderDecoder, count_parameters
from sixfold.text import Tokenizer

MANY_WEIGHTS = 16_000_000  # with fewer, threads synchronise longer than they work
LONGEST_SOURCE = 1024  # tokens; longer text is truncated, with a warning


class BatchDecoder:
    """Models laid out for decoding, whose probabilities are averaged, and the plans of requested searches."""

    def __init__(
        self,
        models: Sequence[EncoderDecoder],
        tokenizer: Tokenizer,
        defaults: DecodeConfig,
        precision: Precision = "float32",
        workers: Workers | None = None,
    ) -> None:
        self.models, self.tokenizer, self.defaults = models, tokenizer, defaults
        self.precision, self.workers = precision, workers
        positions = min(map(num_positions, models))
        self.longest_source = min(LONGEST_SOURCE, positions // 2)
        self.longest_target = min(self.longest_source + defaults.extra_tokens, positions)  # end token included
        is_large = sum(map(count_parameters, models)) >= MANY_WEIGHTS
        self.num_threads = torch.get_num_threads() if is_large else 1
        self.plans: dict[SearchOptions, SearchPlan] = {}
        self.should_stop: ShouldStop | None = None  # called before every step, in this process only

    @cached_property
    def engine(self) -> Engine:
        """The models, laid out."""
        with torch.inference_mode():
            return open_engine(self.models, self.tokenizer.special, self.precision)

    @cached_property
    def spelling(self) -> list[bytes]:
        """The bytes that each token decodes to."""
        return self.tokenizer.spelling()

    def plan(self, options: SearchOptions) -> SearchPlan:
        """Return the search plan for options, or refuse them; the latest plan is cached."""
        if options not in self.plans:
            plan = SearchPlan(options, self.defaults, self.tokenizer, self.spelling, self.longest_target)
            self.plans = {options: plan}
        return self.plans[options]

    def decode(
        self,
        ids: Sequence[list[int]],
        options: SearchOptions,
        on_progress: OnProgress = no_progress,
        first_place: int = 0,
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield the index of each non-empty source as it is ready, with its hypotheses, best first.

        Samples depend on a source's position in the input; `first_place` is that of the first of these.
        """
        batches = list(self.batches([len(row) for row in ids], self.plan(options).width))
        work = [
            SearchBatch([ids[i] for i in batch], [first_place + i for i in batch], options) for batch in batches
        ]
        done = 0
        for number, found in self.decode_all(work):
            yield from zip(batches[number], found, strict=True)
            on_progress(done := done + len(found))

    def batches(self, lengths: Sequence[int], width: int) -> Iterator[list[int]]:
        """Yield the indices of sources to search together, with `width` hypotheses of each."""
        if self.engine.is_padded:
            return of_one_length(lengths, width)
        return of_any_length(lengths, width, self.workers.count if self.workers else 1)

    def decode_all(self, batches: Sequence[SearchBatch]) -> Iterator[tuple[int, list[list[Hypothesis]]]]:
        """Yield the index and the result of each batch as it is ready; many batches are divided among workers."""
        workers = self.workers if len(batches) >= MANY_BATCHES else None
        with threads(1 if workers else self.num_threads):
            if workers:
                yield from workers.map(batches, self)
            else:
                yield from ((number, self.decode_batch(batch)) for number, batch in enumerate(batches))

    def decode_batch(self, batch: SearchBatch) -> list[list[Hypothesis]]:
        """Search one batch, halving it if memory runs out."""

        def search(rows: Sequence[int]) -> list[list[Hypothesis]]:
            ids, places = [batch.ids[row] for row in rows], [batch.places[row] for row in rows]
            found = self.search(ids, batch.options, places).run(self.should_stop)
            count = self.plan(batch.options).num_draws
            return [[*chain(*found[begin : begin + count])] for begin in range(0, len(found), count)]

        return in_halves(search, range(len(batch.ids)))

    def search(
        self, ids: Sequence[list[int]], options: SearchOptions, places: Sequence[int], watch: Watch | None = None
    ) -> Search:
        """Return the search of sources, before its first step."""
        return self.plan(options).search(self.engine, ids, places, watch)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with `count` threads; the results do not depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def num_positions(model: EncoderDecoder) -> int:
    """Return the number of positions that a model has."""
    return model.config.max_positions if model.config.positions == "learned" else sys.maxsize


def cut(ids: Sequence[list[int]], longest: int) -> tuple[list[list[int]], list[bool]]:
    """Truncate each row to `longest`, and return which rows were longer."""
    return [row[:longest] for row in ids], [len(row) > longest for row in ids]
