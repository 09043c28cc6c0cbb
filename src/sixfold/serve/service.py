"""What the server does whatever the API: split texts into sentences, have them translated, join the results."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal

from sixfold.errors import ConfigError, WorkError
from sixfold.serve.batching import QueuedSentence, SentenceQueue
from sixfold.serve.http_errors import HttpError
from sixfold.serve.job_messages import JobOptions, ModelDescription, SentenceTranslation
from sixfold.serve.languages import DetectedLanguage, LanguageDetector
from sixfold.serve.logs import log
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.server_settings import ModelSpec, ServerSettings
from sixfold.serve.worker_pool import RejectedError, WorkerSlot
from sixfold.text import Tokenizer
from sixfold.text.documents import Part, plain_parts
from sixfold.text.markup import html_parts

MAX_PART_TOKENS = 200  # a longer sentence is translated in parts
MAX_EXPLAINED_TOKENS = 512
MAX_ALTERNATIVES = 8

Format = Literal["text", "html"]


@dataclass(frozen=True)
class TranslatedPart:
    """A part of a text with its translations, best first; without any if the part is not translated."""

    part: Part
    translations: tuple[SentenceTranslation, ...] = ()

    def text(self, rank: int = 0) -> str:
        """Return this part of the translated text: the translation of this rank, or the best of fewer."""
        if not self.translations:
            return self.part.text
        return self.part.finish(self.translations[rank if rank < len(self.translations) else 0].text)


def join_parts(parts: Sequence[TranslatedPart], rank: int = 0) -> str:
    """Return the whole translated text, made of the translations of this rank."""
    return "".join(part.text(rank) for part in parts)


class ServedModel:
    """A model with its queue and its workers."""

    def __init__(self, spec: ModelSpec, settings: ServerSettings, metrics: ServerMetrics) -> None:
        self.spec, self.settings = spec, settings
        self.queue = SentenceQueue(settings.batch_tokens, settings.wait_seconds)
        self.slots = [WorkerSlot(spec, self.queue, settings, metrics) for _ in range(settings.workers)]
        self.tasks: list[asyncio.Task[None]] = []

    description: ModelDescription
    tokenizer: Tokenizer

    async def start(self) -> None:
        """Start the workers and wait until they have loaded the model."""
        try:
            first, *_ = await asyncio.gather(*(slot.start() for slot in self.slots))
        except BaseException:
            self.end()
            raise
        self.description = replace(
            first, source=self.spec.source or first.source, target=self.spec.target or first.target
        )
        if not self.description.source or not self.description.target:
            raise ConfigError(
                f"{self.spec.folder} does not name its languages.", f"sixfold serve {self.spec.folder}=en-de"
            )
        self.tokenizer = Tokenizer(base64.b64decode(self.description.tokenizer))
        self.tasks = [asyncio.create_task(slot.run()) for slot in self.slots]

    def end(self) -> None:
        """End the workers."""
        for task in self.tasks:
            task.cancel()
        for slot in self.slots:
            slot.end()

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker is ready."""
        return any(slot.is_ready for slot in self.slots)

    def num_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, including the end-of-sentence token."""
        return len(self.tokenizer.encode(text)) + 1

    def parts(self, text: str, format: Format) -> list[Part]:
        """Return the sentences of a text and what stands between them."""
        longest = min(MAX_PART_TOKENS, self.description.longest_source)
        read = html_parts if format == "html" else plain_parts
        return read(text, self.description.source, lambda part: self.num_tokens(part) <= longest)

    async def run(self, texts: Sequence[str], options: JobOptions) -> list[list[SentenceTranslation]]:
        """Queue sentences and return their translations; if the caller is cancelled, the sentences are too."""
        loop = asyncio.get_running_loop()
        sentences = [
            QueuedSentence(text, self.cost(text, options), options, loop.create_future()) for text in texts
        ]
        queued = self.queue.put(sentences)
        try:
            return await asyncio.gather(*(sentence.result for sentence in sentences))
        finally:
            self.queue.remove(queued)
            for sentence in sentences:
                sentence.result.cancel()

    def cost(self, text: str, options: JobOptions) -> int:
        """Return how many tokens of a batch a sentence takes; an explanation takes a whole batch."""
        return self.settings.batch_tokens if options.is_explanation else self.num_tokens(text)


class Service(AbstractAsyncContextManager["Service"]):
    """All models of a server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.metrics = settings, ServerMetrics()
        self.models: dict[tuple[str, str], ServedModel] = {}
        self.num_requests = self.num_characters = 0
        self.is_draining = False
        self.ending = AsyncExitStack()

    detector: LanguageDetector

    async def __aenter__(self) -> Service:
        models = [ServedModel(spec, self.settings, self.metrics) for spec in self.settings.models]
        for model in models:
            self.ending.callback(model.end)
        try:
            await asyncio.gather(*(model.start() for model in models))
            for model in models:
                self.add(model)
        except BaseException:
            await self.ending.aclose()
            raise
        self.detector = LanguageDetector([source for source, _ in self.models])
        self.add_gauges()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.ending.aclose()

    def add(self, model: ServedModel) -> None:
        """Register a model under its languages."""
        pair = model.description.source, model.description.target
        if pair in self.models:
            raise ConfigError(
                f"Both {self.models[pair].spec.folder} and {model.spec.folder} translate {' to '.join(pair)}.",
                "Serve only one of them, or give one its languages: MODEL=en-de",
            )
        self.models[pair] = model

    def add_gauges(self) -> None:
        """Register the metrics that describe the current state."""
        gauge = self.metrics.add_gauge
        gauge("sixfold_waiting_sentences", "Sentences in the queues.", lambda: self.num_waiting)
        gauge("sixfold_open_requests", "Translation requests in progress.", lambda: self.num_requests)
        gauge("sixfold_ready", "1 if every model has a responsive worker, else 0.", lambda: float(self.is_ready))

    @property
    def num_waiting(self) -> int:
        """The number of queued sentences."""
        return sum(model.queue.num_waiting for model in self.models.values())

    @property
    def is_ready(self) -> bool:
        """Whether the server should get traffic."""
        return not self.is_draining and all(model.is_ready for model in self.models.values())

    def start_draining(self) -> None:
        """Report "not ready" from now on, but keep responding."""
        self.is_draining = True
        log("draining")

    def detect(self, text: str, target: str = "") -> DetectedLanguage:
        """Return the language of a text, among those that can be translated into the target."""
        sources = {source for source, other in self.models if not target or other == target}
        ranked = [each for each in self.detector.rank(text) if each.language in sources]
        if not ranked:
            raise HttpError(400, f"No model here translates into {target!r}.")
        return ranked[0]

    def model(self, source: str, target: str) -> ServedModel:
        """Return the model for a language pair."""
        if (source, target) not in self.models:
            pairs = ", ".join(f"{source} to {target}" for source, target in self.models)
            raise HttpError(400, f"No model here translates {source[:20]!r} to {target[:20]!r}; served: {pairs}.")
        return self.models[source, target]

    async def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        format: Format = "text",
        alternatives: int = 0,
        has_details: bool = False,
    ) -> list[list[TranslatedPart]]:
        """Translate texts; each is returned as its parts."""
        model = self.model(source, target)
        self.check_texts(texts)
        documents = [model.parts(text, format) for text in texts]
        options = JobOptions(n_best=1 + alternatives, has_details=has_details)
        given = [part.given for parts in documents for part in parts if part.given]
        self.count_characters(texts)
        rows = iter(await self.run(model, given, options))
        return [
            [TranslatedPart(part, tuple(next(rows)) if part.given else ()) for part in parts]
            for parts in documents
        ]

    async def explain(self, text: str, source: str, target: str) -> str:
        """Return the explain page of a sentence."""
        model = self.model(source, target)
        self.check_texts([text])
        longest = min(MAX_EXPLAINED_TOKENS, model.description.longest_source)
        if not is_one_line(text) or (length := model.num_tokens(text)) > longest:
            came = f"this has {length} tokens" if is_one_line(text) else "this is empty or has several lines"
            raise HttpError(400, f"Only one line of at most {longest} tokens can be explained; {came}.")
        [[page]] = await self.run(model, [text.strip()], JobOptions(is_explanation=True))
        return page.text

    async def run(
        self, model: ServedModel, texts: Sequence[str], options: JobOptions
    ) -> list[list[SentenceTranslation]]:
        """Have a model translate sentences, unless it is not ready or the server is overloaded."""
        if not model.is_ready:
            raise HttpError(503, "The model is not ready.", retry_after=5)
        if self.num_requests >= self.settings.most_waiting:
            raise HttpError(503, "Too many requests in progress.", retry_after=1)
        self.num_requests += 1
        try:
            return await model.run(texts, options) if texts else []
        except RejectedError as error:
            raise HttpError(400, str(error)) from error
        except WorkError as error:
            raise HttpError(503, "The translation failed.", retry_after=5) from error
        finally:
            self.num_requests -= 1

    def count_characters(self, texts: Sequence[str]) -> None:
        """Add the characters of texts to the usage and the metrics."""
        characters = sum(map(len, texts))
        self.num_characters += characters
        self.metrics.characters.inc(characters)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that are too long or not valid Unicode."""
        count = sum(map(len, texts))
        if count > self.settings.most_characters:
            most = self.settings.most_characters
            raise HttpError(413, f"A request may have at most {most:,} characters, but this has {count:,}.")
        for text in texts:
            check_unicode(text)


def check_unicode(text: str) -> None:
    """Refuse unpaired surrogates, which JSON can express and valid text cannot contain."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise HttpError(400, "The text contains an unpaired surrogate, which is not valid Unicode.") from error


def is_one_line(text: str) -> bool:
    """Whether a text is a single line that is not blank."""
    return bool(text.strip()) and "\n" not in text.strip()
