"""The generator: from prompts to texts with a decoder-only model and its tokenizer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast, overload

import torch

from sixfold.callbacks import OnProgress, no_progress
from sixfold.decode.batch_decoder import MANY_WEIGHTS, threads
from sixfold.decode.config import GenerateConfig, generate_config
from sixfold.decode.contexts import Context, open_contexts
from sixfold.decode.generate_options import GenerateOptions, make_plan
from sixfold.decode.generation import Continuation, Generation
from sixfold.decode.matrices import Precision
from sixfold.decode.opening import read_folder, ready_device
from sixfold.decode.scoring import TokenScore
from sixfold.decode.search import ShouldStop, Stopped
from sixfold.decode.text_scoring import TextScore, text_token_scores, token_log_probabilities
from sixfold.decode.translate import Texts, as_texts, refuse_one
from sixfold.errors import ConfigError, ModelFolderError, RequestError
from sixfold.models.decoder_only import DecoderOnly
from sixfold.models.encoder_decoder import count_parameters
from sixfold.models.folder import ModelInfo, Processor, load_any_tokenizer
from sixfold.text import AnyTokenizer
from sixfold.text.chat import Message, Role, prompt_tokens

MOST_TEXTS = 64  # generated at the same time
DEFAULTS = GenerateOptions()
Conversation = Sequence[Message | Mapping[str, str]]


class Stream(Iterator[str]):
    """The pieces of a text as they are generated; its `continuation` has the details."""

    def __init__(self, generator: Generator, generation: Generation, continuation: Continuation) -> None:
        self.generator, self.generation, self.continuation = generator, generation, continuation
        self.num_shown = 0

    def __next__(self) -> str:
        while True:
            if piece := self.continuation.text[self.num_shown :]:
                self.num_shown += len(piece)
                return piece
            if self.continuation.finished:
                raise StopIteration
            self.generator.step(self.generation)


class Generator:
    """A decoder-only model and its tokenizer."""

    def __init__(
        self,
        model: DecoderOnly,
        tokenizer: AnyTokenizer,
        processor: Processor,
        defaults: GenerateConfig,
        info: ModelInfo | None = None,
        precision: Precision = "float32",
    ) -> None:
        self.model, self.tokenizer, self.processor = model.eval(), tokenizer, processor
        self.defaults, self.info, self.precision = defaults, info, precision
        with torch.inference_mode():
            self.engine = open_contexts(model, tokenizer.special, precision)
        self.num_threads = torch.get_num_threads() if count_parameters(model) >= MANY_WEIGHTS else 1
        self.conversation: Context | None = None  # the latest one, so that its next turn reads only new tokens

    @overload
    def generate(self, prompts: str, options: GenerateOptions = DEFAULTS) -> str: ...

    @overload
    def generate(self, prompts: Texts, options: GenerateOptions = DEFAULTS) -> list[str]: ...

    def generate(self, prompts: str | Texts, options: GenerateOptions = DEFAULTS) -> str | list[str]:
        """Continue a prompt, or each of several; an empty prompt begins a text."""
        if options.samples > 1:
            raise ConfigError(
                "generate returns one text for each prompt.", "Use continuations for several samples."
            )
        found = [each.text for [each] in self.continuations(as_texts(prompts), options)]
        return found[0] if isinstance(prompts, str) else found

    def continuations(
        self,
        prompts: Sequence[str],
        options: GenerateOptions = DEFAULTS,
        on_progress: OnProgress = no_progress,
        should_stop: ShouldStop | None = None,
    ) -> list[list[Continuation]]:
        """Return the samples of each prompt, with the log-probabilities of their tokens."""
        refuse_one(prompts)
        return [*self.written([self.encode(prompt) for prompt in prompts], options, on_progress, should_stop)]

    def written(
        self,
        prompts: Sequence[Sequence[int]],
        options: GenerateOptions,
        on_progress: OnProgress = no_progress,
        should_stop: ShouldStop | None = None,
        first_place: int = 0,
    ) -> Iterator[list[Continuation]]:
        """Yield the samples of each prompt of tokens, in order and as soon as they are ready.

        Samples depend on a prompt's position in the input; `first_place` is that of the first of these.
        """
        generation = self.new_generation()
        waiting, running, done = deque(enumerate(prompts, start=first_place)), deque[list[Continuation]](), 0
        while waiting or running:
            while waiting and generation.num_texts < MOST_TEXTS:
                place, prompt = waiting.popleft()
                running.append(generation.add(prompt, options, (place,)))
            if should_stop is not None and should_stop():
                raise Stopped
            self.step(generation)
            while running and all(each.finished for each in running[0]):
                yield running.popleft()
                on_progress(done := done + 1)

    def stream(self, prompt: str, options: GenerateOptions = DEFAULTS) -> Stream:
        """Return the pieces of a text as it is generated, each of whole characters."""
        return self.begin(self.encode(prompt), options)

    def chat(self, messages: str | Conversation, options: GenerateOptions = DEFAULTS) -> str:
        """Return the answer to a message or a conversation.

        A message has a role (system, user or assistant) and a content. The earlier turns of a conversation are not
        read again.
        """
        return "".join(self.stream_chat(messages, options))

    def stream_chat(self, messages: str | Conversation, options: GenerateOptions = DEFAULTS) -> Stream:
        """Return the pieces of an answer as it is generated."""
        prompt = self.encode_chat(as_messages(messages))
        if self.conversation is None:
            self.conversation = self.engine.new_context()
        return self.begin(prompt, options, self.conversation)

    def begin(self, prompt: Sequence[int], options: GenerateOptions, context: Context | None = None) -> Stream:
        """Return the text after a prompt of tokens, before its first token is generated."""
        if options.samples > 1:
            raise ConfigError("Only a single text can be streamed.", "Leave samples out.")
        generation = self.new_generation()
        [continuation] = generation.add(prompt, options, (0,), context)
        return Stream(self, generation, continuation)

    @overload
    def score(self, texts: str, on_progress: OnProgress = no_progress) -> TextScore: ...

    @overload
    def score(self, texts: Texts, on_progress: OnProgress = no_progress) -> list[TextScore]: ...

    def score(self, texts: str | Texts, on_progress: OnProgress = no_progress) -> TextScore | list[TextScore]:
        """Return the log-probability of a text of any length, or of each of several, end token included.

        A text longer than the context is read in windows that overlap by half.
        """
        given = as_texts(texts)
        start, end = self.start_token, self.tokenizer.special.eos
        rows = [[start, *ids, end] for ids in self.tokenizer.encode_batch(given)]
        found = self.token_log_probabilities(rows, on_progress)
        scores = [
            TextScore(len(text.encode()), tuple(row[1:]), tuple(numbers))
            for text, row, numbers in zip(given, rows, found, strict=True)
        ]
        return scores[0] if isinstance(texts, str) else scores

    def token_log_probabilities(
        self, rows: Sequence[Sequence[int]], on_progress: OnProgress = no_progress
    ) -> list[list[float]]:
        """Return the log-probability of every token of each row but its first, given those before it."""
        with threads(self.num_threads):
            return token_log_probabilities(self.engine, rows, on_progress)

    def token_scores(self, ids: Sequence[int], num_alternatives: int) -> list[TokenScore]:
        """Return the score of each token but the first of a text that fits the context, and its alternatives."""
        with threads(self.num_threads):
            return text_token_scores(self.engine, ids, num_alternatives)

    @property
    def start_token(self) -> int:
        """The token before the first one of a text, used if there is no prompt."""
        start = self.processor.decoder_start
        return self.tokenizer.special.bos if start is None else start

    @property
    def can_chat(self) -> bool:
        """Whether the model was trained on conversations."""
        return self.processor.chat is not None

    def encode(self, prompt: str) -> list[int]:
        """Return the tokens of a prompt; an empty one is the beginning of a text."""
        refuse_broken(prompt)
        ids = self.tokenizer.encode(prompt)
        return [self.start_token, *ids] if not ids or self.processor.decoder_start is not None else ids

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens of a conversation and of the opening of an answer."""
        if self.processor.chat is None:
            raise ConfigError(
                "This model has no chat template: it was not trained on conversations.",
                'Let it continue a text instead: sixfold generate MODEL "Once upon a time"',
            )
        for each in messages:
            refuse_broken(each.content)
        ids, start = prompt_tokens(self.tokenizer, self.processor.chat, messages), self.processor.decoder_start
        return ids if start is None or ids[:1] == [start] else [start, *ids]

    def refuse_too_long(self, prompt: Sequence[int], options: GenerateOptions) -> None:
        """Refuse a prompt that is too long for the context."""
        self.new_generation().room(prompt, make_plan(options, self.defaults))

    def new_generation(self) -> Generation:
        """Return a generation without requests."""
        return Generation(self.engine, self.tokenizer, self.defaults, self.processor.decoder_start)

    def step(self, generation: Generation) -> None:
        """Generate one token of every running text, with as many threads as are worthwhile."""
        with threads(self.num_threads):
            generation.step()


def refuse_broken(text: str) -> None:
    """Refuse a text that is no Unicode: where a terminal is not UTF-8, bytes come as halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"The prompt is not valid Unicode at character {error.start + 1:,}.", "Write it in UTF-8."
        ) from error


def as_messages(messages: str | Conversation) -> list[Message]:
    """Return messages; a plain text is one message of the user."""
    if isinstance(messages, str):
        return [Message("user", messages)]
    if not messages:
        raise ConfigError("A conversation needs at least one message.")
    return [each if isinstance(each, Message) else as_message(each) for each in messages]


def as_message(given: Mapping[str, str]) -> Message:
    """Return a message from its role and content."""
    roles = ("system", "user", "assistant")
    if set(given) != {"role", "content"} or given["role"] not in roles or not isinstance(given["content"], str):
        raise ConfigError(f'A message has a "role" ({", ".join(roles)}) and a "content", but got {given!r}.')
    return Message(cast("Role", given["role"]), given["content"])


def load(folder: str | Path, device: str = "auto", precision: Precision = "float32") -> Generator:
    """Open a model folder for generation. int8 is smaller and faster on a CPU, with nearly the same quality."""
    chosen = ready_device(device, precision)
    models, tokenizer, info = read_folder(Path(folder), "generate", load_any_tokenizer)
    if len(models) > 1:
        raise ModelFolderError(
            f"{folder} has an ensemble of {len(models)} models, which only translation supports."
        )
    model = cast("DecoderOnly", models[0].to(chosen))
    return Generator(model, tokenizer, info.processors["text"], generate_config(info), info, precision)
