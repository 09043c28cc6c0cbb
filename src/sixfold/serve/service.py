"""What the server does, whatever the interface: texts in, translations out, with the models it has."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal

from sixfold.errors import ConfigError, WorkError
from sixfold.serve.batching import Queue, Sentence
from sixfold.serve.http_errors import Refusal
from sixfold.serve.job_messages import Description, Found, Kind
from sixfold.serve.languages import Detected, Detector
from sixfold.serve.logs import log
from sixfold.serve.prometheus import Metrics
from sixfold.serve.server_settings import ModelPlace, Settings
from sixfold.serve.worker_pool import Member, RefusedError
from sixfold.text import Tokenizer
from sixfold.text.documents import Part, plain_parts
from sixfold.text.markup import html_parts

LONGEST_PART = 200  # tokens; a longer sentence is translated in parts
LONGEST_EXPLAINED = 512  # tokens
MOST_ALTERNATIVES = 8

Format = Literal["text", "html"]


@dataclass(frozen=True)
class Translated:
    """A part of a text with its translations, best first; none if it stays as it is."""

    part: Part
    found: tuple[Found, ...] = ()

    def text(self, choice: int = 0) -> str:
        """Return what stands in the translated text: the chosen translation, or the best if there are fewer."""
        if not self.found:
            return self.part.text
        return self.part.finish(self.found[choice if choice < len(self.found) else 0].text)


def joined(parts: Sequence[Translated], choice: int = 0) -> str:
    """Return the whole text, of every sentence the translation of this rank."""
    return "".join(part.text(choice) for part in parts)


class Model:
    """A model that is served: its queue and its workers."""

    def __init__(self, place: ModelPlace, settings: Settings, metrics: Metrics) -> None:
        self.place, self.settings = place, settings
        self.queue = Queue(settings.batch_tokens, settings.wait_seconds)
        self.members = [Member(place, self.queue, settings, metrics) for _ in range(settings.workers)]
        self.tasks: list[asyncio.Task[None]] = []

    description: Description
    tokenizer: Tokenizer

    async def start(self) -> None:
        """Start the workers and wait until they are ready."""
        try:
            found = await asyncio.gather(*(member.start() for member in self.members))
        except BaseException:
            self.end()
            raise
        self.description = replace(
            found[0], source=self.place.source or found[0].source, target=self.place.target or found[0].target
        )
        if not self.description.source or not self.description.target:
            raise ConfigError(
                f"{self.place.folder} does not say its languages.", f"sixfold serve {self.place.folder}=en-de"
            )
        self.tokenizer = Tokenizer(base64.b64decode(self.description.tokenizer))
        self.tasks = [asyncio.create_task(member.run()) for member in self.members]

    def end(self) -> None:
        """End the workers."""
        for task in self.tasks:
            task.cancel()
        for member in self.members:
            member.end()

    @property
    def is_ready(self) -> bool:
        """Whether somebody works."""
        return any(member.is_ready for member in self.members)

    def num_tokens(self, text: str) -> int:
        """Return how many tokens a text has."""
        return len(self.tokenizer.encode(text)) + 1

    def parts(self, text: str, format: Format) -> list[Part]:
        """Return the sentences of a text and what stands between them."""
        longest = min(LONGEST_PART, self.description.longest_source)
        read = html_parts if format == "html" else plain_parts
        return read(text, self.description.source, lambda part: self.num_tokens(part) <= longest)

    async def translate(self, texts: Sequence[str], kind: Kind) -> list[list[Found]]:
        """Translate sentences, or explain them; whoever gives up waiting is forgotten."""
        loop = asyncio.get_running_loop()
        sentences = [Sentence(text, self.cost(text, kind), kind, loop.create_future()) for text in texts]
        turn = self.queue.put(sentences)
        try:
            return await asyncio.gather(*(sentence.result for sentence in sentences))
        finally:
            self.queue.remove(turn)
            for sentence in sentences:
                sentence.result.cancel()

    def cost(self, text: str, kind: Kind) -> int:
        """Return the tokens of a sentence; an explanation fills a batch."""
        return self.settings.batch_tokens if kind.is_explained else self.num_tokens(text)


class Service(AbstractAsyncContextManager["Service"]):
    """All models of a server."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.models: dict[tuple[str, str], Model] = {}
        self.num_requests = self.num_characters = 0
        self.is_draining = False
        self.ending = AsyncExitStack()

    detector: Detector

    async def __aenter__(self) -> Service:
        models = [Model(place, self.settings, self.metrics) for place in self.settings.models]
        for model in models:
            self.ending.callback(model.end)
        try:
            await asyncio.gather(*(model.start() for model in models))
            for model in models:
                self.add(model)
        except BaseException:
            await self.ending.aclose()
            raise
        self.detector = Detector([source for source, _ in self.models])
        self.metrics.watch("sixfold_waiting_sentences", "Sentences that wait.", lambda: self.waiting)
        self.metrics.watch("sixfold_open_requests", "Requests under way.", lambda: self.num_requests)
        self.metrics.watch("sixfold_ready", "1 if every model has a worker.", lambda: float(self.is_ready))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.ending.aclose()

    def add(self, model: Model) -> None:
        """Add a model for its languages."""
        pair = model.description.source, model.description.target
        if pair in self.models:
            raise ConfigError(
                f"Both {self.models[pair].place.folder} and {model.place.folder} translate {' to '.join(pair)}.",
                "Serve one of them, or name the languages of one: MODEL=en-de",
            )
        self.models[pair] = model

    @property
    def waiting(self) -> int:
        """How many sentences wait."""
        return sum(model.queue.waiting for model in self.models.values())

    @property
    def is_ready(self) -> bool:
        """Whether requests should be sent here."""
        return not self.is_draining and all(model.is_ready for model in self.models.values())

    def start_draining(self) -> None:
        """Say "not ready" from now on, and still answer."""
        self.is_draining = True
        log("draining")

    def detect(self, text: str, target: str = "") -> Detected:
        """Return the language of a text, of those that can be translated into the target."""
        usable = {source for source, other in self.models if not target or other == target}
        found = [each for each in self.detector.rank(text) if each.language in usable]
        if not found:
            raise Refusal(400, f"No model here translates into {target!r}.")
        return found[0]

    def model(self, source: str, target: str) -> Model:
        """Return the model for a pair of languages."""
        if (source, target) not in self.models:
            pairs = ", ".join(f"{source} to {target}" for source, target in self.models)
            raise Refusal(400, f"No model here translates {source[:20]!r} to {target[:20]!r}; served: {pairs}.")
        return self.models[source, target]

    async def translate(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        format: Format = "text",
        alternatives: int = 0,
        has_evidence: bool = False,
    ) -> list[list[Translated]]:
        """Translate texts, each in its parts."""
        model = self.model(source, target)
        self.check(texts)
        documents = [model.parts(text, format) for text in texts]
        kind = Kind(n_best=1 + alternatives, has_evidence=has_evidence)
        given = [part.given for parts in documents for part in parts if part.given]
        self.count(texts)
        found = iter(await self.ask(model, given, kind))
        return [
            [Translated(part, tuple(next(found)) if part.given else ()) for part in parts] for parts in documents
        ]

    async def explain(self, text: str, source: str, target: str) -> str:
        """Return the page that explains what a model did with a text."""
        model = self.model(source, target)
        self.check([text])
        longest = min(LONGEST_EXPLAINED, model.description.longest_source)
        if not has_line(text) or model.num_tokens(text) > longest:
            raise Refusal(400, f"One line of at most {longest} tokens can be explained at a time.")
        found = await self.ask(model, [text.strip()], Kind(is_explained=True))
        return found[0][0].text

    async def ask(self, model: Model, texts: Sequence[str], kind: Kind) -> list[list[Found]]:
        """Let a model translate, unless too many wait or nobody works."""
        if not model.is_ready:
            raise Refusal(503, "The model is not ready.", retry_after=5)
        if self.num_requests >= self.settings.most_waiting:
            raise Refusal(503, "Too many requests wait already.", retry_after=1)
        self.num_requests += 1
        try:
            return await model.translate(texts, kind) if texts else []
        except RefusedError as error:
            raise Refusal(400, str(error)) from error
        except WorkError as error:
            raise Refusal(503, "The translation failed.", retry_after=5) from error
        finally:
            self.num_requests -= 1

    def count(self, texts: Sequence[str]) -> None:
        """Add up the characters of all requests."""
        characters = sum(map(len, texts))
        self.num_characters += characters
        self.metrics.characters.inc(characters)

    def check(self, texts: Sequence[str]) -> None:
        """Refuse more than one request may ask for."""
        count = sum(map(len, texts))
        if count > self.settings.most_characters:
            most = self.settings.most_characters
            raise Refusal(413, f"At most {most:,} characters a request, but there are {count:,}.")
        for text in texts:
            check_unicode(text)


def check_unicode(text: str) -> None:
    """Refuse half characters, which JSON can write and no text can have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refusal(400, "The text has half a surrogate pair in it, which is no character.") from error


def has_line(text: str) -> bool:
    """Whether a text is one line with something in it."""
    return bool(text.strip()) and "\n" not in text.strip()
