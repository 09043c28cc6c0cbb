"""Texts in, translations out: a model with its tokenizer, batched by token budget.

Shapes: S sentences, K hypotheses of each, R = S·K rows, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.data.batches import pad
from sixfold.decode.alignment import align_ids
from sixfold.decode.assemble import Search
from sixfold.decode.config import DecodeConfig, decode_config
from sixfold.decode.engine import Engine, padded_length
from sixfold.decode.ensemble import EnsembleStepper
from sixfold.decode.flags import Flag, find_flags
from sixfold.decode.kernel_engine import KernelEngine, open_engine
from sixfold.decode.matrices import Precision
from sixfold.decode.memory import in_halves
from sixfold.decode.options import SearchOptions
from sixfold.decode.sampling import rollout
from sixfold.decode.scoring import Score, TokenScore, forced_batch, score_ids, token_scores
from sixfold.decode.search import Hypothesis, Stepper, length_penalty
from sixfold.decode.stopping import ShouldStop, stoppable
from sixfold.decode.worker_protocol import Origin
from sixfold.decode.workers import Batch, Workers
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.machine import choose_device, num_cores, prepare_environment
from sixfold.models.encoder_decoder import EncoderDecoder, count_parameters
from sixfold.models.ensemble import Ensemble
from sixfold.models.folder import ModelInfo, load_info, load_members, load_tokenizer
from sixfold.text import Tokenizer
from sixfold.text.protect import protect
from sixfold.text.spelling import UNKNOWN, spelling_of
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID
from sixfold.text.words import Link
from sixfold.ticks import Tick, silent

SMALLEST_SHARE = 16  # texts in a batch, below which workers are not worth their cost
BATCH_TOKENS = 4096  # source tokens times hypotheses in one batch
MANY_BATCHES = 8  # from here on other processes are worth their start
MANY_WEIGHTS = 16_000_000  # below, threads wait for each other longer than they work
FORCED = -1.5  # log-probability of a token on average, below which phrases were not written but forced
LONGEST_SOURCE = 1024  # tokens; the rest of a longer line is not translated, and that is said
DEFAULTS = SearchOptions()


@dataclass(frozen=True)
class Translation:
    """One translation of one text."""

    text: str
    score: float  # log-probability divided by the length penalty: what the search maximised
    log_probability: float
    num_tokens: int  # end mark included
    is_cut: bool = False  # the output reached its length limit
    source_is_cut: bool = False  # the input was longer than a model reads at once
    tokens: tuple[int, ...] = field(default=(), repr=False, compare=False)  # end mark included


class Translator:
    """A model and its tokenizer, ready to translate; with partners of the same tokenizer, their average."""

    def __init__(
        self,
        models: Sequence[EncoderDecoder],
        tokenizer: Tokenizer,
        decode: DecodeConfig,
        info: ModelInfo | None = None,
        partners: Sequence[EncoderDecoder] = (),
        precision: Precision = "float32",
        workers: Workers | None = None,
    ):
        self.num_own = len(models)
        self.models = [model.eval() for model in (*models, *partners)]
        self.model = self.models[0]  # the one to look into, where there are several
        self.tokenizer = tokenizer
        self.decode = decode
        self.info = info
        self.device = next(self.model.parameters()).device
        positions = min(map(num_positions, self.models))
        self.longest_source = min(LONGEST_SOURCE, positions // 2)
        self.longest_target = min(self.longest_source + decode.extra_tokens, positions)  # end mark included
        self.precision = precision
        self.workers = workers  # other processes open the model from its folder, so one made here has none
        self.num_workers = workers.count if workers else 1
        is_large = sum(map(count_parameters, self.models)) >= MANY_WEIGHTS
        self.num_threads = torch.get_num_threads() if is_large else 1
        self.searches: dict[SearchOptions, Search] = {}
        self.should_stop: ShouldStop | None = None  # asked before every step, in this process only

    def translate(
        self, texts: Sequence[str], options: SearchOptions = DEFAULTS, beam: int | None = None
    ) -> list[str]:
        """Return the best translation of each text; `beam` is short for SearchOptions(beam=…)."""
        return [best.text for best, *_ in self.search(texts, options, beam)]

    def search(
        self,
        texts: Sequence[str],
        options: SearchOptions = DEFAULTS,
        beam: int | None = None,
        tick: Tick = silent,
        first_place: int = 0,
    ) -> list[list[Translation]]:
        """Return the n best translations of each text, best first, or n draws. An empty text stays empty.

        Draws depend on a text's place in the input; `first_place` is that of the first of these texts.
        """
        options = options if beam is None else replace(options, beam=beam)
        ids, is_cut = cut(self.tokenizer.encode_batch(texts), self.longest_source)
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0, 0)] for _ in texts]
        done = 0
        batches = list(self.search_batches([len(row) for row in ids], self.prepare(options).width))
        work = [Batch([ids[i] for i in batch], [first_place + i for i in batch], options) for batch in batches]
        for number, found in self.search_all(work):
            batch = batches[number]
            for i, hypotheses in zip(batch, found, strict=True):
                results[i] = [self.finish(hypothesis, is_cut[i]) for hypothesis in hypotheses]
                if not hypotheses:
                    raise ConfigError(
                        f"No translation of {texts[i][:40]!r} has all that is asked for and nothing forbidden.",
                        "Forbid or require less, or allow a greater max-length.",
                    )
            tick(done := done + len(batch))
        return results

    def search_protected(
        self, texts: Sequence[str], options: SearchOptions = DEFAULTS, tick: Tick = silent, first_place: int = 0
    ) -> list[list[Translation]]:
        """Return the best translation of each text, with its addresses, placeholders and tags unchanged."""
        if options.n_best > 1:
            raise ConfigError("Spans are protected in one translation of each text.", "Leave out --n-best.")
        latest: dict[str, Translation] = {}

        def translate(given: Sequence[str], required: Sequence[tuple[str, ...]]) -> list[str]:
            if not any(required):
                found = self.search(given, options, tick=tick, first_place=first_place)
                latest.update(zip(given, (each[0] for each in found), strict=True))
            else:
                for text, phrases in zip(given, required, strict=True):
                    if not latest[text].source_is_cut:  # or else spans are lost in any case
                        latest[text] = self.search_requiring(text, phrases, options) or latest[text]
            return [latest[text].text for text in given]

        return [[replace(latest[each.given], text=each.text)] for each in protect(texts, translate, self.align)]

    def search_requiring(self, text: str, phrases: tuple[str, ...], options: SearchOptions) -> Translation | None:
        """Return a translation that has these phrases as well, or None if no search gives a likely one."""
        try:
            found = self.search([text], replace(options, require=(*options.require, *phrases)))[0][0]
        except ConfigError:  # random draws, or a phrase that is too long
            return None
        return found if found.log_probability / max(1, found.num_tokens) > FORCED else None

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[Link]]:
        """Return which words of each translation belong to which words of its source."""
        source_ids, _ = cut(self.tokenizer.encode_batch(sources), self.longest_source)
        target_ids, _ = cut(self.tokenizer.encode_batch(targets), self.longest_target - 1)
        lengths = [max(len(s), len(t)) if s and t else 0 for s, t in zip(source_ids, target_ids, strict=True)]
        links: list[list[Link]] = [[] for _ in sources]
        for batch in self.batches(lengths, beam=8):
            rows = ([source_ids[i] for i in batch], [target_ids[i] for i in batch])
            for i, found in zip(batch, align_ids(self.models, self.tokenizer, *rows), strict=True):
                links[i] = found
        return links

    def prepare(self, options: SearchOptions) -> Search:
        """Return the search that some options ask for, refusing what cannot be; the latest one is kept."""
        if options not in self.searches:
            search = Search(options, self.decode, self.tokenizer, self.spelling, self.longest_target)
            self.searches = {options: search}
        return self.searches[options]

    @cached_property
    def spelling(self) -> list[bytes]:
        """The bytes that each token writes."""
        return spelling_of(self.tokenizer)

    def batches(self, lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
        """Yield the texts, longest first, in groups of one padded length within the token budget.

        Empty texts are left out.
        """
        order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
        for padded, group in groupby(order, key=lambda i: padded_length(lengths[i] + 1)):
            texts, size = list(group), max(1, BATCH_TOKENS // (padded * beam))
            yield from (texts[begin : begin + size] for begin in range(0, len(texts), size))

    def search_batches(self, lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
        """Yield the texts, longest first, within the token budget; of any length, if no engine pads them."""
        if any(engine.is_padded for engine in self.engines):
            yield from self.batches(lengths, beam)
            return
        order = sorted((i for i, length in enumerate(lengths) if length), key=lambda i: -lengths[i])
        share = -(-len(order) // (MANY_BATCHES * self.num_workers)) if self.num_workers > 1 else len(order)
        while order:
            size = max(1, BATCH_TOKENS // (padded_length(lengths[order[0]] + 1) * beam))
            size = min(size, max(share, SMALLEST_SHARE))
            yield order[:size]
            order = order[size:]

    def search_all(self, batches: Sequence[Batch]) -> Iterator[tuple[int, list[list[Hypothesis]]]]:
        """Yield the number and the result of each batch as it is ready; many batches are shared among workers."""
        workers = self.workers if len(batches) >= MANY_BATCHES else None
        with threads(1 if workers else self.num_threads):
            if workers:
                yield from workers.map(batches, self)
            else:
                yield from ((number, self.search_ids(batch)) for number, batch in enumerate(batches))

    def search_ids(self, batch: Batch) -> list[list[Hypothesis]]:
        """Search one batch, in halves if memory runs out."""

        def search(rows: Sequence[int]) -> list[list[Hypothesis]]:
            ids, places = [batch.ids[row] for row in rows], [batch.places[row] for row in rows]
            return self.search_batch(ids, self.prepare(batch.options), places)

        return in_halves(search, range(len(batch.ids)))

    @torch.inference_mode()
    def search_batch(self, ids: list[list[int]], search: Search, places: Sequence[int]) -> list[list[Hypothesis]]:
        """Search the translations of one batch of token ids, which stand in these places of the input."""
        return search.run(lambda count: self.start(ids, count), self.limits(ids, search), places)

    def start(self, ids: list[list[int]], count: int = 1) -> Stepper:
        """Read the source sentences, each so many times, and return what a search steps through."""
        return self.opened(self.engines, [row for row in ids for _ in range(count)])

    def opened(self, engines: Sequence[Engine | KernelEngine], ids: list[list[int]]) -> Stepper:
        """Let engines read the rows, and return what a search steps through."""
        rows = [[*row, EOS_ID] for row in ids]
        surplus = padded_length(max(map(len, rows))) - max(map(len, rows))
        source = F.pad(torch.from_numpy(pad(rows)), [0, surplus], value=PAD_ID).to(self.device)
        steppers = [engine.start(source) for engine in engines]
        stepper = steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
        return stoppable(stepper, self.should_stop) if self.should_stop else stepper

    @cached_property
    def engines(self) -> list[Engine | KernelEngine]:
        """The models, laid out for decoding."""
        with torch.inference_mode():
            return [open_engine(model, self.precision) for model in self.models]

    def limits(self, ids: list[list[int]], search: Search) -> Tensor:
        """Return the most tokens (S,) that each translation may have."""
        return search.limits(torch.tensor([len(row) for row in ids], device=self.device))

    def finish(self, hypothesis: Hypothesis, source_is_cut: bool) -> Translation:
        """Turn a hypothesis into text."""
        return Translation(
            text=self.text(hypothesis.tokens),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            num_tokens=len(hypothesis.tokens),
            is_cut=hypothesis.is_cut,
            source_is_cut=source_is_cut,
            tokens=hypothesis.tokens,
        )

    def text(self, tokens: Sequence[int]) -> str:
        """Return the text of a translation's tokens."""
        # A model may write a line break only as a byte; one line in stays one line out.
        return self.tokenizer.decode(tokens).replace("\n", " ")

    def stream(self, text: str, options: SearchOptions = DEFAULTS, place: int = 0) -> Iterator[str]:
        """Yield the translation of a text piece by piece, as it is written: greedily, unless draws are asked for.

        The pieces together are what `translate` returns with beam 1 or the same draws. A text that the model does
        not read whole (`reads_whole`) is cut, as there.
        """
        search = self.prepare(replace(options, beam=options.beam or 1))
        if not search.can_stream:
            raise ConfigError(
                "Only one translation that is never revised can be shown as it is written.",
                "Leave out n-best, and use beam 1 or sample.",
            )
        [ids], _ = cut([self.tokenizer.encode(text)], self.longest_source)
        tokens: list[int] = []
        shown = ""
        for token in self.rollout(ids, search, place) if ids else ():
            tokens.append(token)
            whole = self.text(tokens)
            sure = whole if token == EOS_ID else whole.rstrip(UNKNOWN)  # more bytes may complete a character
            if len(sure) > len(shown):
                yield sure[len(shown) :]
                shown = sure

    def reads_whole(self, text: str) -> bool:
        """Say whether a text is no longer than the model reads at once."""
        return len(self.tokenizer.encode(text)) <= self.longest_source

    def rollout(self, ids: list[int], search: Search, place: int) -> Iterator[int]:
        """Yield the tokens of one translation as they are chosen."""
        limits = self.limits([ids], search)
        with torch.inference_mode():
            stepper = self.start([ids])
        chosen = rollout(stepper, limits, BOS_ID, EOS_ID, search.choose([place]), search.rules)
        while True:
            with torch.inference_mode():  # not while the caller is at work
                token = next(chosen, None)
            if token is None:
                return
            yield token.token

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
            found = score_ids(self.scorer, [source_ids[i] for i in batch], [target_ids[i] for i in batch])
            for i, score in zip(batch, found, strict=True):
                scores[i] = replace(score, is_cut=source_is_cut[i] or target_is_cut[i])
            tick(done := done + len(batch))
        return scores

    def flags(self, source: str, translation: Translation) -> list[Flag]:
        """Return what is suspicious about a translation."""
        info = self.info
        return find_flags(
            source,
            translation.text,
            translation.log_probability / max(1, translation.num_tokens),
            translation.is_cut,
            translation.source_is_cut,
            is_other_language=info is None
            or not info.languages.source
            or info.languages.source != info.languages.target,
        )

    def token_scores(
        self, texts: Sequence[str], found: Sequence[Sequence[Translation]], num_alternatives: int = 0
    ) -> list[list[TokenScore]]:
        """Return the scores of the tokens of all translations of these texts, one list for each translation."""
        ids, _ = cut(self.tokenizer.encode_batch(texts), self.longest_source)
        rows = [(ids[i], each.tokens) for i, translations in enumerate(found) for each in translations]
        scores: list[list[TokenScore]] = [[] for _ in rows]
        for batch in self.batches([max(map(len, row)) if row[1] else 0 for row in rows], beam=4):
            sources, targets = [rows[i][0] for i in batch], [list(rows[i][1][:-1]) for i in batch]
            for i, tokens in zip(batch, self.forced_pass(sources, targets, num_alternatives), strict=True):
                scores[i] = tokens[: len(rows[i][1])]
        return scores

    @torch.inference_mode()
    def forced_pass(
        self, sources: list[list[int]], targets: list[list[int]], num_alternatives: int
    ) -> list[list[TokenScore]]:
        """Score the tokens of one batch."""
        source, target_in, target_out = forced_batch(self.scorer, sources, targets)
        return token_scores(self.scorer(source, target_in), target_out, num_alternatives)

    @property
    def scorer(self) -> EncoderDecoder | Ensemble:
        """What gives the log-probabilities of given tokens."""
        return self.model if len(self.models) == 1 else Ensemble(self.models)

    def alone(self) -> Translator:
        """Return the first of the models without the others."""
        return Translator([self.model], self.tokenizer, self.decode, self.info, precision=self.precision)

    def penalised(self, score: Score, alpha: float | None = None) -> float:
        """Return the score that a search with this length penalty would have given."""
        return score.log_probability / length_penalty(
            score.num_tokens, self.decode.length_penalty if alpha is None else alpha
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with so many threads; the results are the same with any number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def num_positions(model: EncoderDecoder) -> int:
    """Return how many positions a model knows."""
    return model.config.max_positions if model.config.positions == "learned" else sys.maxsize


def cut(ids: Sequence[list[int]], longest: int) -> tuple[list[list[int]], list[bool]]:
    """Return the beginning of each row, and which rows were longer than that."""
    return [row[:longest] for row in ids], [len(row) > longest for row in ids]


def load(
    folder: str | Path,
    device: str = "auto",
    partners: Sequence[str | Path] = (),
    precision: Precision = "float32",
    num_workers: int = 1,
) -> Translator:
    """Open a model folder for translating, together with others to average with.

    int8 is smaller and faster on a CPU, and nearly as good. With more workers, long inputs are shared among so
    many processes of one thread each.
    """
    torch.set_num_threads(min(torch.get_num_threads(), num_cores()))  # more than are allowed would only wait
    chosen = choose_device(device)
    check_precision(precision, chosen)
    models, tokenizer, info = read(Path(folder))
    others: list[EncoderDecoder] = []
    for partner in partners:
        other, other_tokenizer, _ = read(Path(partner))
        if other_tokenizer.model != tokenizer.model:
            raise ConfigError(
                f"{partner} has another tokenizer than {folder}, so their probabilities cannot be averaged.",
                "Train it with the same tokenizer: sixfold train … --init MODEL",
            )
        others += [each.to(chosen) for each in other]
    own = [model.to(chosen) for model in models]
    workers = share(folder, chosen, partners, precision, num_workers)
    return Translator(own, tokenizer, decode_config(info), info, others, precision, workers)


def share(
    folder: str | Path, device: str, partners: Sequence[str | Path], precision: Precision, num_workers: int
) -> Workers | None:
    """Return the processes that are to share the work on a CPU, if there are several."""
    if num_workers < 2 or device != "cpu":
        return None
    folders = [str(Path(each).absolute()) for each in (folder, *partners)]
    return Workers(Origin(folders[0], tuple(folders[1:]), device, precision), num_workers)


def check_precision(precision: Precision, device: str) -> None:
    """Refuse a precision that would not work here."""
    if precision == "int8" and device != "cpu":
        raise ConfigError(f"int8 is for the CPU, but the device is {device}.", "Leave it out, or add --device cpu")
    if not prepare_environment(precision):
        raise ConfigError(f"This CPU cannot compute in {precision} safely.", "sixfold doctor says why.")


def read(folder: Path) -> tuple[list[EncoderDecoder], Tokenizer, ModelInfo]:
    """Read the models of a folder, their tokenizer and their description, all of one training."""
    info = load_info(folder)
    try:
        tokenizer, models = load_tokenizer(folder, info), load_members(folder, info)
    except ModelFolderError:
        if load_info(folder) == info:
            raise
        return read(folder)  # a training replaced the model in between
    return cast("list[EncoderDecoder]", models), tokenizer, info
