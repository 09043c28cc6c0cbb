"""Generation: prompts in, texts out, one token of each at every step.

A `Generation` is a state machine: requests join it at any step and leave it at any other, and what runs shares one
call of the engine a step. A prompt is read in chunks, so that a long one does not keep the others waiting. All
samples of a request share the prompt's cache. A text depends on its prompt, its options and its key alone.

Shapes: R rows, n tokens of one of them, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from sixfold.decode.config import GenerateConfig
from sixfold.decode.contexts import Context, ContextEngine
from sixfold.decode.generate_options import GenerateOptions, GeneratePlan, make_plan
from sixfold.decode.growing_text import GrowingText
from sixfold.decode.memory import in_halves
from sixfold.decode.sampling import Sampling, drawn
from sixfold.decode.scoring import TokenScore
from sixfold.decode.search import NEVER, ShouldStop, Stopped
from sixfold.errors import RequestError
from sixfold.text import AnyTokenizer

CHUNK = 64  # tokens of a prompt read per step
Finished = Literal["", "end", "stop", "length"]
Alternatives = tuple[tuple[int, float], ...]  # the most probable tokens at a position and their log-probabilities


class Continuation:
    """One text that is being generated after a prompt."""

    def __init__(
        self, prompt: Sequence[int], plan: GeneratePlan, key: Sequence[int], most_tokens: int, drops_space: bool
    ) -> None:
        """Begin a text; `key` identifies it and, together with the seed, determines its samples."""
        self.prompt, self.plan, self.most_tokens = tuple(prompt), plan, most_tokens
        self.tokens: list[int] = []  # end token included
        self.log_probabilities: list[float] = []  # the model's, not those of the sampling distribution
        self.alternatives: list[Alternatives] = []  # for each token, as many as the options say
        self.prompt_scores: list[TokenScore] = []  # of the prompt's tokens except the first, if requested
        self.finished: Finished = ""
        self.num_forgotten = 0  # tokens of the prompt and the text that were dropped from the context
        self.growing = GrowingText(plan.stop, drops_space)
        self.numbers = np.random.Generator(np.random.Philox(np.random.SeedSequence([plan.seed, *key])))

    @property
    def text(self) -> str:
        """The final part of the text so far: whole characters, without any part of a stop string."""
        return self.growing.text

    @property
    def token_scores(self) -> list[TokenScore]:
        """The tokens with their log-probabilities and alternatives."""
        return [self.score(place) for place in range(len(self.tokens))]

    def score(self, place: int) -> TokenScore:
        """Return the token at a position with its log-probability and alternatives."""
        return TokenScore(self.tokens[place], self.log_probabilities[place], self.alternatives[place])

    def write(self, token: int, log_probability: float, alternatives: Alternatives, raw: bytes) -> None:
        """Append a token with these bytes; a token without bytes is special, and ends the text."""
        self.tokens.append(token)
        self.log_probabilities.append(log_probability)
        self.alternatives.append(alternatives)
        is_last = not raw or len(self.tokens) == self.most_tokens
        self.growing.add(raw, is_last)
        if self.growing.is_stopped:
            self.finished = "stop"
        elif is_last:
            self.finished = "length" if raw else "end"


@dataclass
class Row:
    """A context, the tokens it has yet to read, and its texts: samples of a request share it until they differ."""

    context: Context
    unread: list[int]
    continuations: list[Continuation]

    def chunk(self) -> list[int]:
        """Return the next tokens to read."""
        return self.unread[:CHUNK]

    def split(self) -> list[Row]:
        """Give each unfinished continuation its own context, with its newest token to read."""
        going_on = [each for each in self.continuations if not each.finished]
        return [
            Row(self.context.fork() if place else self.context, [each.tokens[-1]], [each])
            for place, each in enumerate(going_on)
        ]

    def slide(self, most: int, starts: bool) -> None:
        """Drop the oldest tokens and read at most `most` again; with `starts`, keep the start token."""
        tokens = [*self.context.tokens, *self.unread]
        first = tokens[:1] if starts else []
        kept = first + tokens[len(first) - most :]
        self.context.cut(0)
        self.unread = kept
        for each in self.continuations:
            each.num_forgotten += len(tokens) - len(kept)


class Generation:
    """Texts that are generated at the same time."""

    def __init__(
        self,
        engine: ContextEngine,
        tokenizer: AnyTokenizer,
        defaults: GenerateConfig | None = None,
        decoder_start: int | None = None,
    ) -> None:
        """Generate with a model whose documents begin with the token `decoder_start`, if there is one."""
        self.engine, self.decoder_start = engine, decoder_start
        self.defaults = GenerateConfig() if defaults is None else defaults
        self.spelling = tokenizer.spelling()
        self.space_before = tokenizer.space_before
        self.never_chosen = list(tokenizer.special.never_chosen)
        self.rows: list[Row] = []
        self.most_read = sys.maxsize  # tokens of prompts in one step, rounded up to whole chunks; others wait
        # Gets each context that has read its prompt, and each that is no longer used.
        self.keep: Callable[[Context], None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to generate."""
        return not self.rows

    @property
    def num_texts(self) -> int:
        """The number of texts being generated."""
        return sum(len(row.continuations) for row in self.rows)

    def add(
        self,
        prompt: Sequence[int],
        options: GenerateOptions,
        key: Sequence[int] = (),
        context: Context | None = None,
    ) -> list[Continuation]:
        """Add a prompt; its first token is generated as soon as the prompt has been read.

        Samples depend on the seed and the `key` alone. Tokens of the prompt that a given context already has are
        not read again, and the first continuation uses it.
        """
        plan = make_plan(options, self.defaults)
        room = self.room(prompt, plan)
        starts_text = not self.spelling[prompt[-1]]
        continuations = [
            Continuation(prompt, plan, (*key, sample), room, starts_text and self.space_before)
            for sample in range(plan.samples)
        ]
        self.rows.append(self.new_row(prompt, continuations, context))
        return continuations

    def room(self, prompt: Sequence[int], plan: GeneratePlan) -> int:
        """Return how many tokens may be generated; refuse a prompt that leaves no room."""
        if not prompt:
            raise RequestError("A prompt needs at least one token.")
        if plan.slide:
            return plan.max_tokens
        room = self.engine.max_positions - len(prompt) + 1  # the last token is generated, but not read
        if room < 1:
            raise RequestError(
                f"The prompt has {len(prompt):,} tokens, but the model's context holds "
                f"{self.engine.max_positions:,}.",
                "Shorten it, or let the context slide: --slide",
            )
        return min(plan.max_tokens, room)

    def new_row(self, prompt: Sequence[int], continuations: list[Continuation], context: Context | None) -> Row:
        """Return the row of a new request."""
        if context is None:
            context = self.engine.new_context()
        known = min(
            common_length(context.tokens, prompt), len(prompt) - 1
        )  # the last token must be read for its logits
        if continuations[0].plan.prompt_scores:
            known = 0  # all of them must be read
        context.cut(known)
        row = Row(context, [*prompt[known:]], continuations)
        if len(prompt) > self.engine.max_positions:
            self.slide(row)
        return row

    def slide(self, row: Row) -> None:
        """Make room in a full context."""
        first = row.continuations[0].prompt[0]
        row.slide(max(2, self.engine.max_positions // 2), first == self.decoder_start)

    def remove(self, continuation: Continuation) -> None:
        """Stop generating a text."""
        for row in self.rows:
            row.continuations = [each for each in row.continuations if each is not continuation]
        self.keep_left(row.context for row in self.rows if not row.continuations)
        self.rows = [row for row in self.rows if row.continuations]

    def run(self, should_stop: ShouldStop | None = None) -> None:
        """Generate to the end; raise `Stopped` when `should_stop` says so."""
        while not self.is_idle:
            if should_stop is not None and should_stop():
                raise Stopped
            self.step()

    @torch.inference_mode()
    def step(self) -> list[Continuation]:
        """Read the next tokens of the rows; return the continuations that wrote a token."""
        for row in self.rows:
            if len(row.context.tokens) + len(row.chunk()) > self.engine.max_positions:
                self.slide(row)
        rows = self.rows_in_turn()
        hidden = in_halves(self.read, rows) if rows else []
        for row, states in zip(rows, hidden, strict=True):
            self.score_prompt(row, states)
        ready = [(row, states[-1]) for row, states in zip(rows, hidden, strict=True) if not row.unread]
        if not ready:
            return []
        self.keep_prompts(ready)
        self.write(ready)
        split = [([row] if row.unread else row.split(), row.context) for row in self.rows]
        self.keep_left(context for rows, context in split if not rows)
        self.rows = [row for rows, _ in split for row in rows]
        return [each for row, _ in ready for each in row.continuations]

    def rows_in_turn(self) -> list[Row]:
        """Return the rows that this step reads: all that write, and prompts in the order of their requests."""
        room, chosen = self.most_read, []
        for row in self.rows:
            count = len(row.chunk())
            if count == 1 or room > 0:
                chosen.append(row)
                room -= count if count > 1 else 0
        return chosen

    def keep_prompts(self, ready: Sequence[tuple[Row, Tensor]]) -> None:
        """Keep the contexts of prompts that have just been read, because others may begin like them."""
        if self.keep is not None:
            for row, _ in ready:
                if not row.continuations[0].tokens:
                    self.keep(row.context.fork())

    def keep_left(self, contexts: Iterable[Context]) -> None:
        """Keep contexts that are no longer used, because their conversations may continue."""
        if self.keep is not None:
            for context in contexts:
                self.keep(context)

    def read(self, rows: Sequence[Row]) -> list[Tensor]:
        """Read a chunk of each row; return its hidden states (n, d)."""
        chunks = [row.chunk() for row in rows]
        hidden = self.engine.read([row.context for row in rows], chunks)
        for row in rows:
            del row.unread[:CHUNK]
        return [*hidden.split([len(chunk) for chunk in chunks])]

    def score_prompt(self, row: Row, hidden: Tensor) -> None:
        """Record the log-probabilities of the prompt's tokens after those just read (n, d), if requested."""
        first = row.continuations[0]
        begin = len(row.context.tokens) - len(hidden) + 1
        following = first.prompt[begin : begin + len(hidden)]
        if not first.plan.prompt_scores or not following:
            return
        log_probs = self.engine.log_probabilities(hidden[: len(following)])
        found = log_probs.gather(1, torch.tensor(following, device=log_probs.device)[:, None])[:, 0].tolist()
        alternatives = most_probable(log_probs, [first.plan.alternatives] * len(following))
        scores = [TokenScore(*each) for each in zip(following, found, alternatives, strict=True)]
        for each in row.continuations:
            each.prompt_scores += scores

    def write(self, ready: Sequence[tuple[Row, Tensor]]) -> None:
        """Choose the next token of every continuation of these rows from the row's hidden state (d,)."""
        log_probs = self.engine.log_probabilities(torch.stack([hidden for _, hidden in ready]))
        continuations = [each for row, _ in ready for each in row.continuations]
        if len(continuations) > len(ready):
            counts = torch.tensor([len(row.continuations) for row, _ in ready], device=log_probs.device)
            log_probs = log_probs.repeat_interleave(counts, dim=0)
        alternatives = most_probable(log_probs, [each.plan.alternatives for each in continuations])
        log_probs[:, self.never_chosen] = NEVER
        tokens = choose_tokens(penalised(log_probs, continuations), continuations)
        found = log_probs.gather(1, tokens[:, None])[:, 0].tolist()
        rows = zip(continuations, tokens.tolist(), found, alternatives, strict=True)
        for each, token, log_probability, others in rows:
            each.write(token, log_probability, others, self.spelling[token])


def penalised(log_probs: Tensor, continuations: Sequence[Continuation]) -> Tensor:
    """Return the log-probabilities (R, V) to choose by: those of repetitions multiplied where asked for."""
    if all(each.plan.repetition_penalty == 1 for each in continuations):
        return log_probs
    result = log_probs.clone()
    for row, each in zip(result, continuations, strict=True):
        seen = torch.tensor([*{*each.prompt, *each.tokens}], device=row.device)
        row[seen] *= each.plan.repetition_penalty
    return result


def choose_tokens(log_probs: Tensor, continuations: Sequence[Continuation]) -> Tensor:
    """Return the next token (R,) of each continuation: a sample, or the most probable one."""
    tokens = best_tokens(log_probs)
    by_sampling: dict[Sampling, list[int]] = {}
    for place, each in enumerate(continuations):
        if each.plan.sampling is not None:
            by_sampling.setdefault(each.plan.sampling, []).append(place)
    for sampling, places in by_sampling.items():
        numbers = [continuations[place].numbers.random() for place in places]
        tokens[places] = drawn(sampling.weights(log_probs[places]), numbers)
    return tokens


def best_tokens(log_probs: Tensor) -> Tensor:
    """Return the most probable token (R,) of each row (R, V): on a CPU with NumPy, ten times as fast as torch."""
    if log_probs.is_cpu and log_probs.dtype == torch.float32:
        return torch.from_numpy(log_probs.numpy().argmax(axis=1))
    return log_probs.argmax(dim=1)


def most_probable(log_probs: Tensor, counts: Sequence[int]) -> list[Alternatives]:
    """Return the most probable tokens of each row (R, V), as many as `counts`, with their log-probabilities."""
    best, tokens = log_probs.topk(min(max(counts), log_probs.size(1)), dim=1)
    return [
        tuple(zip(row[:count], values[:count], strict=True))
        for row, values, count in zip(tokens.tolist(), best.tolist(), counts, strict=True)
    ]


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    pairs = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))
