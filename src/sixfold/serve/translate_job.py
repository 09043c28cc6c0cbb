"""The job of a server's worker process: it translates batches of sentences, or explains one."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from sixfold.decode.worker_process import RequestLoop
from sixfold.errors import SixfoldError
from sixfold.serve.job_messages import JobOptions, SentenceTranslation, TranslatorDescription
from sixfold.serve.logs import log_error

if TYPE_CHECKING:
    from typing import Any

    from sixfold.decode.translate import Translation, Translator
    from sixfold.decode.worker_process import Parent
    from sixfold.decode.worker_protocol import Message


class TranslateJob:
    """Translates or explains one batch after the other."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        translator.translate(["."])  # warm up: lazy initialisation happens before the first request

    def work(self, parent: Parent) -> None:
        """Answer one request after the other until the parent is gone."""
        requests = RequestLoop(parent, self.answer)
        self.translator.decoder.should_stop = requests.should_stop
        requests.run()

    def describe(self) -> Message:
        """Return what the server needs to know about the model."""
        info = self.translator.info
        description = TranslatorDescription(
            source=info.languages.source if info else "",
            target=info.languages.target if info else "",
            tokenizer=base64.b64encode(self.translator.tokenizer.model).decode(),
            longest_source=self.translator.decoder.longest_source,
        )
        return {"task": "translate", "model": asdict(description)}

    def answer(self, work: Message) -> Message:
        """Translate or explain; a bug triggered by one batch must not end the worker."""
        from sixfold.decode.search import Stopped

        texts, options = cast("list[str]", work["texts"]), JobOptions(**cast("dict[str, Any]", work["options"]))
        try:
            rows = self.explain(texts) if options.is_explanation else self.translate(texts, options)
            return {"translations": [[asdict(each) for each in row] for row in rows]}
        except (Stopped, SixfoldError, EOFError, OSError):
            raise
        except Exception as error:
            log_error("worker_error", error)
            return {"has_failed": True}

    def translate(self, texts: Sequence[str], options: JobOptions) -> list[list[SentenceTranslation]]:
        """Translate sentences."""
        found = self.search(texts, options.n_best)
        rows = [[sentence_translation(each) for each in hypotheses] for hypotheses in found]
        if options.has_details:
            self.add_details(texts, found, rows)
        return rows

    def search(self, texts: Sequence[str], n_best: int) -> list[list[Translation]]:
        """Return n translations of each sentence, but only the best of one with protected spans.

        Protected spans are addresses, placeholders and tags, which are copied unchanged.
        """
        from sixfold.decode.options import SearchOptions
        from sixfold.text.spans import spans_of

        beam = max(n_best, self.translator.decode.beam)
        is_protected = [bool(spans_of(text)) for text in texts]
        protected = [text for text, has_spans in zip(texts, is_protected, strict=True) if has_spans]
        others = [text for text, has_spans in zip(texts, is_protected, strict=True) if not has_spans]
        with_spans = iter(self.translator.search_protected(protected, SearchOptions(beam=beam)))
        plain = iter(self.translator.search(others, SearchOptions(n_best=n_best, beam=beam)))
        return [next(with_spans if has_spans else plain) for has_spans in is_protected]

    def add_details(
        self, texts: Sequence[str], found: Sequence[list[Translation]], rows: Sequence[list[SentenceTranslation]]
    ) -> None:
        """Add word alignment and quality warnings to the translations."""
        sources = [text for text, row in zip(texts, rows, strict=True) for _ in row]
        targets = [each for translations in found for each in translations]
        links = self.translator.align(sources, [each.text for each in targets])
        flat = (each for row in rows for each in row)
        for source, target, row, each in zip(sources, targets, links, flat, strict=True):
            flags = self.translator.flags(source, target)
            each.flags.extend({"fault": flag.fault, "message": flag.message} for flag in flags)
            each.links.extend(
                (link.source_start, link.source_end, link.target_start, link.target_end, link.weight)
                for link in row
            )

    def explain(self, texts: Sequence[str]) -> list[list[SentenceTranslation]]:
        """Return the explain page of each sentence."""
        from sixfold.explain import explain, render

        return [[SentenceTranslation(render(explain(self.translator, text)))] for text in texts]


def sentence_translation(translation: Translation) -> SentenceTranslation:
    """Return a translation in the form that is sent to the server."""
    mean = translation.log_probability / max(1, translation.num_tokens)
    return SentenceTranslation(translation.text, math.exp(mean), translation.is_cut or translation.source_is_cut)
