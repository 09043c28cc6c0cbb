"""Translation for any API: split texts into sentences, have them translated, join the results."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from sixfold.errors import ConfigError
from sixfold.serve.admission import Admission
from sixfold.serve.batching import QueuedSentence, SentenceQueue
from sixfold.serve.http_errors import HttpError
from sixfold.serve.job_messages import JobOptions, SentenceTranslation, TranslatorDescription
from sixfold.serve.languages import DetectedLanguage, LanguageDetector
from sixfold.serve.served_model import ServedModel
from sixfold.serve.server_settings import ModelSpec
from sixfold.serve.translation_slot import TranslationSlot
from sixfold.serve.worker_pool import ConnectedWorker
from sixfold.text import Tokenizer
from sixfold.text.documents import Part, plain_parts
from sixfold.text.markup import html_parts

MAX_PART_TOKENS = 200  # a longer sentence is translated in parts
MAX_EXPLAINED_TOKENS = 512
MAX_ALTERNATIVES = 8

Format = Literal["text", "html"]


@dataclass(frozen=True)
class TranslatedPart:
    """A part of a text with its translations, best first; none if the part is not translated."""

    part: Part
    translations: tuple[SentenceTranslation, ...] = ()

    def text(self, rank: int = 0) -> str:
        """Return this part of the translated text: the translation of this rank, or the best if it has fewer."""
        if not self.translations:
            return self.part.text
        return self.part.finish(self.translations[rank if rank < len(self.translations) else 0].text)


def join_parts(parts: Sequence[TranslatedPart], rank: int = 0) -> str:
    """Return the whole translated text, made of the translations of this rank."""
    return "".join(part.text(rank) for part in parts)


class TranslationModel(ServedModel):
    """A translation model with its queue of sentences."""

    work = "translation"

    def __init__(self, spec: ModelSpec, admission: Admission, workers: Sequence[ConnectedWorker]) -> None:
        self.settings = admission.settings
        self.queue = SentenceQueue(self.settings.batch_tokens, self.settings.wait_seconds)
        common = spec, self.settings, admission.metrics
        super().__init__(spec, [TranslationSlot(*common, worker, self.queue) for worker in workers])
        found = TranslatorDescription(**cast("dict[str, Any]", workers[0].description))
        self.description = replace(found, source=spec.source or found.source, target=spec.target or found.target)
        if not self.description.source or not self.description.target:
            raise ConfigError(f"{spec.folder} does not state its languages.", f"sixfold serve {spec.folder}=en-de")
        self.tokenizer = Tokenizer(base64.b64decode(self.description.tokenizer))

    @property
    def name(self) -> str:
        """Its languages."""
        return f"{self.description.source}-{self.description.target}"

    @property
    def title(self) -> str:
        """Its languages, with an arrow."""
        return f"{self.description.source} → {self.description.target}"

    def num_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, including the end-of-sentence token."""
        return len(self.tokenizer.encode(text)) + 1

    def parts(self, text: str, format: Format) -> list[Part]:
        """Return the sentences of a text and the text between them."""
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


class TranslationModels:
    """All translation models of a server."""

    def __init__(self, admission: Admission) -> None:
        self.admission, self.settings = admission, admission.settings
        self.models: dict[tuple[str, str], TranslationModel] = {}
        self.num_characters = 0

    detector: LanguageDetector

    def add(self, model: TranslationModel) -> None:
        """Register a model under its languages."""
        pair = model.description.source, model.description.target
        if pair in self.models:
            raise ConfigError(
                f"Both {self.models[pair].spec.folder} and {model.spec.folder} translate {' to '.join(pair)}.",
                "Serve only one of them, or set the languages of one: MODEL=en-de",
            )
        self.models[pair] = model

    def start(self) -> None:
        """Prepare to detect the source languages."""
        if self.models:
            self.detector = LanguageDetector([source for source, _ in self.models])

    @property
    def num_waiting(self) -> int:
        """The number of queued sentences."""
        return sum(model.queue.num_waiting for model in self.models.values())

    def detect(self, text: str, target: str = "") -> DetectedLanguage:
        """Return the language of a text, among those that can be translated into the target."""
        sources = {source for source, other in self.models if not target or other == target}
        ranked = [each for each in self.detector.rank(text) if each.language in sources]
        if not ranked:
            raise HttpError(400, f"No model here translates into {target!r}.")
        return ranked[0]

    def model(self, source: str, target: str) -> TranslationModel:
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
        self.admission.check_texts(texts)
        documents = [model.parts(text, format) for text in texts]
        options = JobOptions(n_best=1 + alternatives, has_details=has_details)
        given = [part.given for parts in documents for part in parts if part.given]
        self.num_characters += self.admission.count_characters(texts)
        rows = iter(await self.run(model, given, options))
        return [
            [TranslatedPart(part, tuple(next(rows)) if part.given else ()) for part in parts]
            for parts in documents
        ]

    async def explain(self, text: str, source: str, target: str) -> str:
        """Return the explain page of a sentence."""
        model = self.model(source, target)
        self.admission.check_texts([text])
        longest = min(MAX_EXPLAINED_TOKENS, model.description.longest_source)
        if not is_one_line(text) or (length := model.num_tokens(text)) > longest:
            came = f"this has {length} tokens" if is_one_line(text) else "this is empty or has several lines"
            raise HttpError(400, f"Only one line of at most {longest} tokens can be explained; {came}.")
        [[page]] = await self.run(model, [text.strip()], JobOptions(is_explanation=True))
        return page.text

    async def run(
        self, model: TranslationModel, texts: Sequence[str], options: JobOptions
    ) -> list[list[SentenceTranslation]]:
        """Have a model translate sentences, unless it is not ready or the server is overloaded."""
        with self.admission.admit(model):
            return await model.run(texts, options) if texts else []


def is_one_line(text: str) -> bool:
    """Whether a text is a single line that is not blank."""
    return bool(text.strip()) and "\n" not in text.strip()
