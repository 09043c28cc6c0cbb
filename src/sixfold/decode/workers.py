"""Decoding on several cores: worker processes that take batches from the same queue as this process.

One single-threaded process per core is faster than threads that synchronise. A worker opens the model from its
folder and proves by a fingerprint that it is the same; then it receives batches and answers with hypotheses. While
workers start, this process already works. A worker that dies is an error, never an endless wait.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import RLock, Thread
from typing import TYPE_CHECKING, cast

from sixfold.decode.worker_process import Parent, RequestLoop, WorkerProcess
from sixfold.decode.worker_protocol import Channel, Message, Origin, Start, checked, message_of, plain_values
from sixfold.errors import ModelFolderError
from sixfold.kernels import mkl
from sixfold.kernels.build import VARIABLE
from sixfold.kernels.decoding import find_kernels

if TYPE_CHECKING:
    from sixfold.decode.batch_decoder import BatchDecoder
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.search import Hypothesis


@dataclass(frozen=True)
class SearchBatch:
    """Sentences that are searched together."""

    ids: list[list[int]]
    places: list[int]  # positions in the input
    options: SearchOptions


BatchHypotheses = list[list["Hypothesis"]]
Todo = SimpleQueue[tuple[int, SearchBatch]]
Done = SimpleQueue[tuple[int, BatchHypotheses] | Exception]


class SearchJob:
    """The job of a worker: it searches batches."""

    def __init__(self, start: Start) -> None:
        from sixfold.decode.translate import load

        origin = start.origin
        self.decoder = load(origin.folder, origin.device, origin.partners, origin.precision).decoder

    def work(self, parent: Parent) -> None:
        """Search one batch after the other."""
        RequestLoop(parent, self.answer).run()

    def describe(self) -> Message:
        """Return the fingerprint of the model, to compare with the parent's."""
        return {"fingerprint": fingerprint(self.decoder)}

    def answer(self, work: Message) -> Message:
        """Search a batch."""
        found = self.decoder.decode_batch(batch_from(work))
        return {"found": [[message_of(hypothesis) for hypothesis in row] for row in found]}


JOB = f"{__name__}:{SearchJob.__name__}"


def batch_message(batch: SearchBatch) -> Message:
    """Return the message of a batch."""
    return {"ids": batch.ids, "places": batch.places, "options": message_of(batch.options)}


def batch_from(work: Message) -> SearchBatch:
    """Return the batch in a message."""
    from sixfold.decode.options import SearchOptions

    options = SearchOptions(**cast("Message", work["options"]))  # type: ignore[arg-type]
    return SearchBatch(cast("list[list[int]]", work["ids"]), cast("list[int]", work["places"]), options)


def found_from(answer: Message) -> BatchHypotheses:
    """Return the hypotheses in a message."""
    from sixfold.decode.search import Hypothesis

    rows = cast("list[list[Message]]", cast("Message", answer["done"])["found"])
    return [[Hypothesis(**plain_values(each)) for each in row] for row in rows]  # type: ignore[arg-type]


def fingerprint(decoder: BatchDecoder) -> str:
    """Return the SHA-256 of everything that determines a translation: weights, shapes, tokenizer, defaults."""
    from sixfold.models.weights import weights_of

    digest = hashlib.sha256(decoder.tokenizer.model)
    digest.update(f"{decoder.defaults!r} {decoder.precision}".encode())
    for model in decoder.models:
        digest.update(repr(model.config).encode())
        for name, weight in weights_of(model).items():
            digest.update(name.encode())
            digest.update(weight.contiguous().numpy().data)
    return digest.hexdigest()


class Child:
    """A worker process that searches batches."""

    def __init__(self, origin: Origin, environment: dict[str, str], has_kernels: bool) -> None:
        self.worker = WorkerProcess(Start(JOB, origin, "on" if has_kernels else "off"), environment)
        self.channel = Channel(self.worker.socket)
        self.folder, self.is_ready = origin.folder, False
        self.lock = RLock()  # because an earlier search may have ended before the worker was ready

    def work(self, expected: str, todo: Todo, done: Done) -> None:
        """Send one batch after the other and pass on the answers and errors."""
        with self.lock:
            try:
                self.wait_until_ready(expected)
                while True:
                    number, batch = todo.get_nowait()
                    self.channel.send({"work": batch_message(batch), "ids": []})
                    done.put((number, found_from(checked(self.channel.receive()))))
            except Empty:
                return
            except (EOFError, OSError):
                done.put(self.worker.lost())
            except Exception as error:
                done.put(error)

    def wait_until_ready(self, expected: str) -> None:
        """Wait until the model is open; refuse it if it differs from this process's model."""
        if self.is_ready:
            return
        ready = cast("Message", checked(self.channel.receive())["ready"])
        if ready["fingerprint"] != expected:
            raise ModelFolderError(
                f"{self.folder} was replaced after it was opened: a worker process read another model.",
                "Start again, or translate with --workers 1.",
            )
        self.is_ready = True

    def end(self) -> None:
        """End the process."""
        self.worker.end()
        with self.lock:  # a thread that waits for an answer first gets an error
            self.worker.socket.close()


class Workers:
    """The processes that divide a translator's work, this one included; the others start when first needed."""

    def __init__(self, origin: Origin, count: int) -> None:
        self.origin, self.count = origin, count
        self.children: list[Child] = []
        self.fingerprint = ""
        weakref.finalize(self, end_all, self.children)

    def map(self, batches: Sequence[SearchBatch], decoder: BatchDecoder) -> Iterator[tuple[int, BatchHypotheses]]:
        """Yield the index and the result of each batch, in the order of completion."""
        todo: Todo = SimpleQueue()
        done: Done = SimpleQueue()
        for numbered in enumerate(batches):
            todo.put(numbered)
        try:
            self.start(decoder)
            for child in self.children:
                Thread(target=child.work, args=(self.fingerprint, todo, done), daemon=True).start()
            yield from self.share(len(batches), todo, done, decoder)
        except BaseException:
            self.close()  # nobody waits for the batches in progress
            raise

    def start(self, decoder: BatchDecoder) -> None:
        """Start the other processes, unless they are running; they use the same kernels as this one."""
        if not self.children:
            has_kernels = find_kernels().kernels is not None
            environment = {"OMP_NUM_THREADS": "1", VARIABLE: "off" if mkl.slow_because() else "on"}
            for _ in range(self.count - 1):
                self.children.append(Child(self.origin, environment, has_kernels))
            self.fingerprint = fingerprint(decoder)

    def share(
        self, missing: int, todo: Todo, done: Done, decoder: BatchDecoder
    ) -> Iterator[tuple[int, BatchHypotheses]]:
        """Search batches here while there are any, pass on the children's results, then wait for the rest."""
        while missing:
            try:
                number, batch = todo.get_nowait()
                yield number, decoder.decode_batch(batch)
                missing -= 1
            except Empty:
                yield result(done.get())
                missing -= 1
            while not done.empty():
                yield result(done.get())
                missing -= 1

    def close(self) -> None:
        """End the children."""
        end_all(self.children)


def result(answer: tuple[int, BatchHypotheses] | Exception) -> tuple[int, BatchHypotheses]:
    """Return a result, or raise it if it is an error."""
    if isinstance(answer, Exception):
        raise answer
    return answer


def end_all(children: list[Child]) -> None:
    """End all children."""
    while children:
        children.pop().end()
