"""The workers of one model, seen from the server: started, listened to, and replaced when they are lost.

A worker is a process of its own, so that the server answers while it computes, and outlives it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import cast

from sixfold.decode.worker_process import LostError, WorkerProcess
from sixfold.decode.worker_protocol import LENGTH, Message, Origin, Start, checked, packed
from sixfold.errors import SixfoldError, WorkError
from sixfold.machine import num_cores
from sixfold.serve.batching import Queue, Sentence
from sixfold.serve.job_messages import Description, Found
from sixfold.serve.logs import log
from sixfold.serve.prometheus import Metrics
from sixfold.serve.server_settings import ModelPlace, Settings

JOB = "sixfold.serve.serve_job:ServeJob"
BEAT_SECONDS = 0.5
MOST_TRIES = 2  # of a sentence whose worker was lost
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a lost worker is replaced


class RefusedError(WorkError):
    """The model could not do what was asked."""


class Process:
    """A worker process, listened to at all times."""

    def __init__(self, worker: WorkerProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.worker, self.reader, self.writer = worker, reader, writer
        self.last_seen = time.monotonic()
        self.answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.listening = asyncio.create_task(self.listen())

    @classmethod
    async def start(cls, place: ModelPlace, settings: Settings) -> tuple[Process, Description]:
        """Start a process and wait until its model is ready."""
        origin = Origin(str(place.folder), device=settings.device, precision=settings.precision)
        worker = WorkerProcess(Start(JOB, origin, beat_seconds=BEAT_SECONDS), threads(settings))
        process = cls(worker, *await asyncio.open_connection(sock=worker.socket))
        try:
            ready = checked(await process.answer)["ready"]
            return process, Description(**cast("dict[str, str]", ready))  # type: ignore[arg-type]
        except BaseException:
            process.end()
            raise

    async def listen(self) -> None:
        """Receive messages until the process is gone."""
        try:
            while True:
                (length,) = LENGTH.unpack(await self.reader.readexactly(LENGTH.size))
                message: Message = json.loads(await self.reader.readexactly(length))
                self.last_seen = time.monotonic()
                if "alive" not in message and not self.answer.done():
                    self.answer.set_result(message)
        except (asyncio.IncompleteReadError, OSError):
            lost = await asyncio.to_thread(self.worker.lost)
            if not self.answer.done():
                self.answer.set_exception(lost)
                self.answer.exception()  # nobody may be waiting for it

    @property
    def silence(self) -> float:
        """For how many seconds nothing was heard of it."""
        return time.monotonic() - self.last_seen

    async def translate(self, batch: Sequence[Sentence]) -> Message:
        """Translate a batch; those who leave meanwhile are crossed out, and if all leave, it stops."""
        self.answer = asyncio.get_running_loop().create_future()
        for sentence in batch:
            sentence.result.add_done_callback(lambda _, number=sentence.number: self.cross_out(number))  # type: ignore[misc]
        work = {"texts": [sentence.text for sentence in batch], "kind": asdict(batch[0].kind)}
        self.send({"work": work, "ids": [each.number for each in batch]})
        return await self.answer

    def cross_out(self, number: int) -> None:
        """Tell the worker that nobody waits for a sentence any more."""
        if not self.answer.done():
            self.send({"cancel": [number]})

    def send(self, message: Message) -> None:
        """Send a message, if there is still somebody to receive it."""
        if not self.writer.is_closing():
            self.writer.write(packed(message))

    def end(self) -> None:
        """End the process; it holds nothing that must be saved."""
        self.listening.cancel()
        self.writer.close()
        self.worker.end()


def threads(settings: Settings) -> dict[str, str]:
    """Return the environment that shares the cores among the workers of a model; one alone has them all."""
    return {"OMP_NUM_THREADS": str(max(1, num_cores() // settings.workers))} if settings.workers > 1 else {}


class Member:
    """One worker's place: whatever happens to the process in it, another follows."""

    def __init__(self, place: ModelPlace, queue: Queue, settings: Settings, metrics: Metrics) -> None:
        self.place, self.queue, self.settings, self.metrics = place, queue, settings, metrics
        self.process: Process | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has been heard of lately."""
        return self.process is not None and self.process.silence < self.settings.silence_seconds

    async def start(self) -> Description:
        """Start the first process; what is wrong with the model is raised here."""
        self.process, description = await Process.start(self.place, self.settings)
        return description

    async def run(self) -> None:
        """Translate what waits, for as long as the server lives."""
        pause = FIRST_PAUSE
        while True:
            try:
                if self.process is None:
                    await self.start()
                await self.work()
                pause = FIRST_PAUSE
            except (SixfoldError, OSError) as error:
                log("worker_lost", model=self.place.folder.name, reason=type(error).__name__)
                self.metrics.lost_workers.inc()
            finally:
                self.end()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def work(self) -> None:
        """Take and translate batches until the process is lost."""
        assert self.process is not None
        process, just_answered = self.process, 0
        watching = asyncio.create_task(self.watch(process))
        try:
            while True:
                batch = await self.take(process, just_answered)
                if not batch:
                    return
                await self.translate(process, batch)
                just_answered = len(batch)
        finally:
            watching.cancel()

    async def take(self, process: Process, just_answered: int) -> list[Sentence]:
        """Return the next batch, or nothing if the process ended while it waited."""
        taking = asyncio.create_task(self.queue.take(just_answered))
        try:
            await asyncio.wait({taking, process.listening}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            taking.cancel()
            raise
        if process.listening.done():
            if not taking.cancel():
                self.queue.put(taking.result())
            return []
        return taking.result()

    async def translate(self, process: Process, batch: list[Sentence]) -> None:
        """Translate a batch and hand out the results."""
        with self.metrics.batch(batch):
            try:
                message = await process.translate(batch)
            except LostError as error:
                self.try_again(batch, error, MOST_TRIES)
                raise
        try:
            self.hand_out(batch, cast("Message", checked(message).get("done", {})))
        except SixfoldError as error:
            self.try_again(batch, RefusedError(f"{error.message} {error.hint}".strip()), most=1)

    def hand_out(self, batch: list[Sentence], done: Message) -> None:
        """Give each sentence its translations, unless nobody waits for them any more."""
        if "is_broken" in done:
            self.try_again(batch, LostError("The translation failed."), most=1)
        rows = cast("list[list[dict[str, str]]]", done.get("found", []))
        for sentence, row in zip(batch, rows, strict=False):
            if sentence.is_wanted:
                sentence.result.set_result([Found(**each) for each in row])  # type: ignore[arg-type]

    def try_again(self, batch: list[Sentence], error: WorkError, most: int) -> None:
        """Put sentences back, each to be tried alone: only one of them may be to blame."""
        for sentence in batch:
            sentence.num_tries += 1
            is_hopeless = sentence.num_tries >= MOST_TRIES or (len(batch) == 1 and sentence.num_tries >= most)
            if is_hopeless and sentence.is_wanted:
                sentence.result.set_exception(error)
            elif sentence.is_wanted:
                sentence.num_tokens = self.settings.batch_tokens
                self.queue.put([sentence])

    async def watch(self, process: Process) -> None:
        """End a process that hangs."""
        while process.silence < self.settings.hang_seconds:
            await asyncio.sleep(self.settings.silence_seconds / 4)
        log("worker_hangs", model=self.place.folder.name)
        process.worker.process.kill()

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.end()
        self.process = None
