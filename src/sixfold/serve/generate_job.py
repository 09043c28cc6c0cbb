"""The job of a worker with a decoder-only model: it generates the texts of all requests together, step by step.

A new request joins the running batch before the next step, and a cancelled one leaves it then. If the batch is
full, prompts wait. The next prompt is one of the request with the fewest running texts, and among those the one
that came first, so that a request with many prompts does not delay the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from sixfold.decode.worker_protocol import Message, error_message, message_of
from sixfold.errors import RequestError, SixfoldError, WorkError
from sixfold.serve.job_messages import (
    TOO_LONG,
    Accepted,
    GeneratorDescription,
    TextRequest,
    TokenRecord,
    Written,
    WrittenToken,
)
from sixfold.serve.logs import log_error

if TYPE_CHECKING:
    from sixfold.decode.generate import Generator
    from sixfold.decode.generate_options import GenerateOptions
    from sixfold.decode.generation import Continuation
    from sixfold.decode.scoring import TokenScore
    from sixfold.decode.worker_process import Parent


# Weights times tokens of the prompts that one step reads. They take about a second, in which no text grows and the
# worker does not say that it is alive.
MOST_WORK = 75 * 10**9


@dataclass(eq=False)
class WaitingPrompt:
    """A prompt that waits to join the batch."""

    request: int
    number: int  # index of the prompt in its request
    prompt: list[int]
    options: GenerateOptions
    room: int  # maximum length of each of its texts, in tokens

    @property
    def most_tokens(self) -> int:
        """The most tokens that its texts may have in memory; those of the prompt are shared."""
        return len(self.prompt) + self.options.samples * self.room


@dataclass(eq=False)
class RunningText:
    """A text that is being generated, and how much of it has been sent."""

    request: int
    index: int  # among the texts of its request
    continuation: Continuation
    most_tokens: int  # that it may have in memory; those of the prompt count for its first text
    cached_tokens: int  # of the prompt; sent with the first token
    num_tokens: int = 0
    num_characters: int = 0


class GenerateJob:
    """Generates texts for the server."""

    def __init__(self, generator: Generator, texts: int, cache_bytes: int, context_bytes: int) -> None:
        from sixfold.decode.kept_contexts import KeptContexts, token_bytes
        from sixfold.models.encoder_decoder import count_parameters

        self.generator, self.most_texts = generator, texts
        self.most_tokens = context_bytes // token_bytes(generator.model.config)
        self.spelling = [each.decode("latin-1") for each in generator.tokenizer.spelling()]
        self.contexts = KeptContexts(generator.engine, cache_bytes // token_bytes(generator.model.config))
        self.generation = generator.new_generation()
        self.generation.keep = self.contexts.keep
        self.generation.most_read = max(1, MOST_WORK // count_parameters(generator.model))
        self.waiting: list[WaitingPrompt] = []  # in order of arrival
        self.running: list[RunningText] = []
        self.events: list[Message] = []

    def describe(self) -> Message:
        """Return what the server needs to know about the model."""
        description = GeneratorDescription(self.generator.engine.max_positions, self.generator.can_chat)
        return {"task": "generate", "model": asdict(description)}

    def work(self, parent: Parent) -> None:
        """Generate as long as there is work, and wait for requests otherwise."""
        while True:
            if not self.waiting and not self.running:
                self.hear(parent.wait())
            for message in parent.messages():
                self.hear(message)
            self.begin_waiting()
            self.step()
            parent.tell({"events": self.events, "running": len(self.running)})
            self.events = []

    def hear(self, message: Message) -> None:
        """Accept a request, or drop those whose clients have disconnected."""
        if "add" in message:
            self.add(cast("int", message["add"]), TextRequest(**cast("dict[str, Any]", message["request"])))
        else:
            self.drop(set(cast("list[int]", message["cancel"])))

    def add(self, request: int, asked: TextRequest) -> None:
        """Queue the prompts of a request, or report why they are refused."""
        from sixfold.decode.generate_options import GenerateOptions, make_plan

        try:
            options = GenerateOptions(**{**asked.options, "stop": tuple(asked.options["stop"])})
            prompts = [*self.read_prompts(asked)]
            self.refuse_too_long(prompts)
            plan = make_plan(options, self.generation.defaults)
            rooms = [self.generation.room(prompt, plan) for prompt in prompts]
        except Exception as error:
            self.refuse(request, error)
            return
        texts = [self.generator.tokenizer.decode(prompt) for prompt in prompts]
        self.tell(request, accepted=Accepted(texts, prompts))
        for number, (prompt, room) in enumerate(zip(prompts, rooms, strict=True)):
            self.waiting.append(WaitingPrompt(request, number, prompt, options, room))

    def refuse(self, request: int, error: Exception) -> None:
        """Say why a request is refused; a bug must not end the worker, and with it the texts of others."""
        if not isinstance(error, SixfoldError):
            log_error("worker_error", error)
            error = WorkError("The generation failed.")
        self.events.append({"id": request, **error_message(error)})

    def read_prompts(self, asked: TextRequest) -> Iterator[list[int]]:
        """Yield the tokens of each prompt."""
        from sixfold.decode.generate import as_message

        if asked.messages:
            yield self.generator.encode_chat([as_message(each) for each in asked.messages])
        for prompt in asked.prompts:
            yield self.generator.encode(prompt) if isinstance(prompt, str) else self.known_tokens(prompt)

    def known_tokens(self, prompt: Sequence[int]) -> list[int]:
        """Return the tokens that a client sent; refuse any outside the vocabulary."""
        vocabulary = self.generator.engine.vocabulary
        if odd := [token for token in prompt if not 0 <= token < vocabulary]:
            raise RequestError(f"There is no token {odd[0]}: token ids are from 0 to {vocabulary - 1:,}.")
        return [*prompt]

    def refuse_too_long(self, prompts: Sequence[Sequence[int]]) -> None:
        """Refuse a prompt that the context cannot hold."""
        longest, most = max(map(len, prompts)), self.generator.engine.max_positions
        if longest > most:
            raise RequestError(f"{TOO_LONG}: the prompt has {longest:,} tokens, but the context holds {most:,}.")

    def drop(self, requests: set[int]) -> None:
        """Stop generating for these requests."""
        self.waiting = [each for each in self.waiting if each.request not in requests]
        for text in self.running:
            if text.request in requests:
                self.generation.remove(text.continuation)
        self.running = [text for text in self.running if text.request not in requests]

    def begin_waiting(self) -> None:
        """Let as many prompts join the batch as fit; all texts of a prompt start together."""
        while self.waiting:
            num_running = Counter(text.request for text in self.running)
            chosen = min(self.waiting, key=lambda each: num_running[each.request])
            if self.running and not self.has_room(chosen):
                return
            self.waiting.remove(chosen)
            try:
                self.begin(chosen)
            except Exception as error:
                self.refuse(chosen.request, error)
                self.drop({chosen.request})

    def has_room(self, prompt: WaitingPrompt) -> bool:
        """Return whether the texts of a prompt fit in the batch and in memory."""
        num_tokens = sum(text.most_tokens for text in self.running) + prompt.most_tokens
        return len(self.running) + prompt.options.samples <= self.most_texts and num_tokens <= self.most_tokens

    def begin(self, waiting: WaitingPrompt) -> None:
        """Let a prompt join the batch, reusing its cached beginning."""
        prompt, options = waiting.prompt, waiting.options
        context = self.generator.engine.new_context() if options.prompt_scores else self.contexts.begin(prompt)
        known = min(len(context.tokens), len(prompt) - 1)
        first, *others = self.generation.add(prompt, options, (waiting.number,), context)
        index, room = waiting.number * options.samples, waiting.room
        self.running.append(RunningText(waiting.request, index, first, len(prompt) + room, known))
        for each in others:
            self.running.append(RunningText(waiting.request, index := index + 1, each, room, 0))

    def step(self) -> None:
        """Generate one token of every text whose prompt has been read; a bug must not end the worker."""
        try:
            self.generator.step(self.generation)
            for text in self.running:
                self.tell_progress(text)
        except Exception as error:
            log_error("worker_error", error)
            self.give_up()
        self.running = [text for text in self.running if not text.continuation.finished]

    def give_up(self) -> None:
        """Fail all running texts, and start again with the waiting prompts."""
        failed = error_message(WorkError("The generation failed."))
        self.events += [{"id": request, **failed} for request in {text.request for text in self.running}]
        self.drop({text.request for text in self.running})

    def tell_progress(self, text: RunningText) -> None:
        """Send the new part of a text."""
        written = text.continuation
        new = range(text.num_tokens, len(written.tokens))
        if not new:
            return
        text.num_tokens, begin, text.num_characters = len(written.tokens), text.num_characters, len(written.text)
        tokens = [self.token(written.score(place)) for place in new if not self.is_end(written, place)]
        news = Written(text.index, written.text[begin:], tokens, written.finished)
        if new.start == 0:
            news = replace(news, cached_tokens=text.cached_tokens, prompt=self.scored_prompt(written))
        self.tell(text.request, written=news)

    def tell(self, request: int, **news: Accepted | Written) -> None:
        """Add an event of a request to the next message."""
        self.events.append({"id": request, **{name: asdict(each) for name, each in news.items()}})

    def is_end(self, written: Continuation, place: int) -> bool:
        """Return whether a token is the end token, which is not part of the text."""
        return written.finished == "end" and place == len(written.tokens) - 1

    def scored_prompt(self, written: Continuation) -> list[WrittenToken]:
        """Return the tokens of a prompt, if their log-probabilities are requested; the first has none."""
        if not written.plan.prompt_scores:
            return []
        first = WrittenToken(written.prompt[0], self.spelling[written.prompt[0]], None)
        return [first, *map(self.token, written.prompt_scores)]

    def token(self, score: TokenScore) -> WrittenToken:
        """Return a token with its alternatives."""
        chosen = self.record(score.token, score.log_probability)
        return WrittenToken(
            **message_of(chosen),  # type: ignore[arg-type]
            alternatives=[self.record(*each) for each in score.alternatives],
        )

    def record(self, token: int, log_probability: float) -> TokenRecord:
        """Return the record of a token with its bytes."""
        return TokenRecord(token, self.spelling[token], log_probability)
