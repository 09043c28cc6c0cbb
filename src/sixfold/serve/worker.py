"""What a worker of the server does with its model: it translates sentences, or explains them."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, cast

from sixfold.errors import SixfoldError
from sixfold.serve.logs import log_error
from sixfold.serve.messages import Description, Found, Kind

if TYPE_CHECKING:
    from sixfold.decode.translate import Translation, Translator
    from sixfold.decode.worker_protocol import Message


class ServeJob:
    """Answers the server's requests."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        translator.translate(["."])  # what is made once is made before anybody waits

    def describe(self) -> Message:
        """Return what the server has to know of the model."""
        info = self.translator.info
        description = Description(
            source=info.languages.source if info else "",
            target=info.languages.target if info else "",
            tokenizer=base64.b64encode(self.translator.tokenizer.model).decode(),
            longest_source=self.translator.decoder.longest_source,
        )
        return asdict(description)

    def answer(self, work: Message) -> Message:
        """Translate or explain; a fault of ours must not take the model away from everybody else."""
        from sixfold.decode.search import Stopped

        texts, kind = cast("list[str]", work["texts"]), Kind(**cast("dict[str, int]", work["kind"]))  # type: ignore[arg-type]
        try:
            found = self.explain(texts) if kind.is_explained else self.translate(texts, kind)
            return {"found": [[asdict(each) for each in row] for row in found]}
        except (Stopped, SixfoldError, EOFError, OSError):
            raise
        except Exception as error:
            log_error("worker_error", error)
            return {"is_broken": True}

    def translate(self, texts: Sequence[str], kind: Kind) -> list[list[Found]]:
        """Translate sentences of one kind."""
        found = self.search(texts, kind.n_best)
        rows = [[finished(each) for each in translations] for translations in found]
        if kind.has_evidence:
            self.add_evidence(texts, found, rows)
        return rows

    def search(self, texts: Sequence[str], n_best: int) -> list[list[Translation]]:
        """Return n translations of each sentence; of one with addresses, placeholders or tags, which stay as they
        are, only the best.
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

    def add_evidence(
        self, texts: Sequence[str], found: Sequence[list[Translation]], rows: Sequence[list[Found]]
    ) -> None:
        """Add to translations which words belong together, and what is suspicious."""
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

    def explain(self, texts: Sequence[str]) -> list[list[Found]]:
        """Return the pages that show what the model did with sentences."""
        from sixfold.explain import explain, render

        return [[Found(render(explain(self.translator, text)))] for text in texts]


def finished(translation: Translation) -> Found:
    """Return what is told of a translation."""
    mean = translation.log_probability / max(1, translation.num_tokens)
    return Found(translation.text, math.exp(mean), translation.is_cut or translation.source_is_cut)
