"""A process that holds one model and translates the batches it is sent, until the server is gone.

It says that it is alive from the very loop that does the work: before a step of a search, and while it waits. So a
worker that is stuck falls silent.
"""

from __future__ import annotations

import base64
import math
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sixfold.errors import SixfoldError
from sixfold.serve.logs import log_error
from sixfold.serve.wire import Channel, Description, Found, Kind, Message

if TYPE_CHECKING:
    from sixfold.decode.translate import Translation, Translator

BEAT_SECONDS = 0.5


class Worker:
    """The loop of the process."""

    def __init__(self, channel: Channel, translator: Translator) -> None:
        self.channel, self.translator = channel, translator
        self.running: set[int] = set()  # the sentences of this batch that somebody waits for
        self.last_beat = 0.0
        translator.should_stop = self.should_stop

    def work(self) -> None:
        """Answer one message after the other."""
        while True:
            while not self.channel.has_message(BEAT_SECONDS):
                self.channel.send({"alive": True})
            message = self.channel.receive()
            if "texts" in message:  # or else somebody left who had just been answered
                self.channel.send(self.answer(message))

    def answer(self, message: Message) -> Message:
        """Translate or explain; what goes wrong is an answer too."""
        from sixfold.decode.stopping import Stopped

        texts, kind = cast("list[str]", message["texts"]), Kind(**cast("dict[str, int]", message["kind"]))  # type: ignore[arg-type]
        self.running = set(cast("list[int]", message["ids"]))
        try:
            found = self.explain(texts) if kind.is_explained else self.translate(texts, kind)
            return {"done": [[asdict(each) for each in row] for row in found]}
        except Stopped:
            return {"stopped": True}
        except SixfoldError as error:
            return {"refused": f"{error.message} {error.hint}".strip()}
        except (EOFError, OSError):
            raise
        except Exception as error:  # a fault of ours must not take the model away from everybody else
            log_error("worker_error", error)
            return {"broken": True}

    def should_stop(self) -> bool:
        """Say that this worker is alive, hear who has left, and return whether nobody waits any more."""
        now = time.monotonic()
        if now - self.last_beat > BEAT_SECONDS:
            self.channel.send({"alive": True})
            self.last_beat = now
        while self.channel.has_message():
            self.running -= set(cast("list[int]", self.channel.receive()["cancel"]))
        return not self.running

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


def describe(translator: Translator) -> Description:
    """Return what the server has to know of a model."""
    info = translator.info
    return Description(
        source=info.languages.source if info else "",
        target=info.languages.target if info else "",
        tokenizer=base64.b64encode(translator.tokenizer.model).decode(),
        longest_source=translator.longest_source,
        beam=translator.decode.beam,
    )


def serve(descriptor: int, folder: str, device: str, precision: str) -> None:
    """Be a worker."""
    from sixfold.kernels import prepare
    from sixfold.machine import let_threads_sleep, prepare_environment

    channel = Channel(socket.socket(fileno=descriptor))
    try:
        let_threads_sleep()
        prepare_environment(precision)  # before torch is loaded, as is the next
        prepare()
        from sixfold.decode.translate import load

        translator = load(Path(folder), device, precision="int8" if precision == "int8" else "float32")
        translator.translate(["."])  # what is made once is made before anybody waits
        channel.send({"ready": asdict(describe(translator))})
        Worker(channel, translator).work()
    except SixfoldError as error:
        channel.send({"failed": [error.message, error.hint]})
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the server is gone
