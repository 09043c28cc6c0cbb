"""The worker processes of one model, as the server sees them: started, monitored, and replaced when they fail.

Workers are separate processes, so that the server keeps responding while they compute, and survives them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from sixfold.decode.worker_process import LostError, WorkerProcess
from sixfold.decode.worker_protocol import LENGTH, Message, Origin, Start, checked, packed
from sixfold.errors import SixfoldError, WorkError
from sixfold.machine import num_cores
from sixfold.serve.batching import QueuedSentence, SentenceQueue
from sixfold.serve.job_messages import ModelDescription, SentenceTranslation
from sixfold.serve.logs import log
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.server_settings import ModelSpec, ServerSettings

JOB = "sixfold.serve.serve_job:ServeJob"
HEARTBEAT_SECONDS = 0.5
MAX_ATTEMPTS = 2  # to translate a sentence whose worker is lost
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 30.0  # seconds before a lost worker is replaced


class RejectedError(WorkError):
    """The model refused a request."""


class ConnectedWorker:
    """A running worker process and the connection to it."""

    def __init__(self, worker: WorkerProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.worker, self.reader, self.writer = worker, reader, writer
        self.last_seen = time.monotonic()
        self.answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.receiving = asyncio.create_task(self.receive())

    @classmethod
    async def start(cls, spec: ModelSpec, settings: ServerSettings) -> tuple[ConnectedWorker, ModelDescription]:
        """Start a process and wait until its model is loaded."""
        origin = Origin(str(spec.folder), device=settings.device, precision=settings.precision)
        worker = WorkerProcess(Start(JOB, origin, beat_seconds=HEARTBEAT_SECONDS), thread_limit(settings))
        connected = cls(worker, *await asyncio.open_connection(sock=worker.socket))
        try:
            ready = checked(await connected.answer)["ready"]
            return connected, ModelDescription(**cast("dict[str, Any]", ready))
        except BaseException:
            connected.end()
            raise

    async def receive(self) -> None:
        """Receive messages until the process ends."""
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
                self.answer.exception()  # mark it as retrieved: nobody may be waiting for it

    @property
    def seconds_silent(self) -> float:
        """The seconds since its last message."""
        return time.monotonic() - self.last_seen

    async def translate(self, batch: Sequence[QueuedSentence]) -> Message:
        """Translate a batch; sentences whose clients disconnect are cancelled, and without any left it stops."""
        self.answer = asyncio.get_running_loop().create_future()
        for sentence in batch:
            sentence.result.add_done_callback(partial(self.cancel, sentence.id))
        work = {"texts": [sentence.text for sentence in batch], "options": asdict(batch[0].options)}
        self.send({"work": work, "ids": [each.id for each in batch]})
        return await self.answer

    def cancel(self, sentence_id: int, _: asyncio.Future[list[SentenceTranslation]]) -> None:
        """Tell the worker that nobody waits for a sentence any more."""
        if not self.answer.done():
            self.send({"cancel": [sentence_id]})

    def send(self, message: Message) -> None:
        """Send a message, unless the connection is closed."""
        if not self.writer.is_closing():
            self.writer.write(packed(message))

    def end(self) -> None:
        """End the process; it has no state to save."""
        self.receiving.cancel()
        self.writer.close()
        self.worker.end()


def thread_limit(settings: ServerSettings) -> dict[str, str]:
    """Return the environment that divides the cores among a model's workers; a single one may use them all."""
    return {"OMP_NUM_THREADS": str(max(1, num_cores() // settings.workers))} if settings.workers > 1 else {}


class WorkerSlot:
    """Keeps one worker running: a process that dies or hangs is replaced."""

    def __init__(
        self, spec: ModelSpec, queue: SentenceQueue, settings: ServerSettings, metrics: ServerMetrics
    ) -> None:
        self.spec, self.queue, self.settings, self.metrics = spec, queue, settings, metrics
        self.worker: ConnectedWorker | None = None

    @property
    def is_ready(self) -> bool:
        """Whether its worker runs and has sent a heartbeat recently."""
        return self.worker is not None and self.worker.seconds_silent < self.settings.silence_seconds

    async def start(self) -> ModelDescription:
        """Start the first worker; an error of the model is raised here."""
        self.worker, description = await ConnectedWorker.start(self.spec, self.settings)
        return description

    async def run(self) -> None:
        """Translate queued sentences until cancelled, with exponential backoff between failing workers."""
        backoff = FIRST_BACKOFF
        while True:
            try:
                if self.worker is None:
                    await self.start()
                await self.translate_batches()
                backoff = FIRST_BACKOFF
            except (SixfoldError, OSError) as error:
                log("worker_lost", model=self.spec.folder.name, reason=type(error).__name__)
                self.metrics.lost_workers.inc()
            finally:
                self.end()
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF)

    async def translate_batches(self) -> None:
        """Take and translate batches until the worker ends."""
        assert self.worker is not None
        worker, just_answered = self.worker, 0
        monitoring = asyncio.create_task(self.kill_when_hung(worker))
        try:
            while True:
                batch = await self.take(worker, just_answered)
                if not batch:
                    return
                await self.translate(worker, batch)
                just_answered = len(batch)
        finally:
            monitoring.cancel()

    async def take(self, worker: ConnectedWorker, just_answered: int) -> list[QueuedSentence]:
        """Return the next batch, or an empty one if the worker has ended."""
        taking = asyncio.create_task(self.queue.take(just_answered))
        try:
            await asyncio.wait({taking, worker.receiving}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            taking.cancel()
            raise
        if worker.receiving.done():
            if not taking.cancel():
                self.queue.put(taking.result())
            return []
        return taking.result()

    async def translate(self, worker: ConnectedWorker, batch: list[QueuedSentence]) -> None:
        """Translate a batch and deliver the results."""
        with self.metrics.measure_batch(batch):
            try:
                message = await worker.translate(batch)
            except LostError as error:
                self.retry(batch, error, MAX_ATTEMPTS)
                raise
        try:
            self.deliver(batch, cast("Message", checked(message).get("done", {})))
        except SixfoldError as error:
            self.retry(batch, RejectedError(f"{error.message} {error.hint}".strip()), attempts_alone=1)

    def deliver(self, batch: list[QueuedSentence], done: Message) -> None:
        """Give each sentence that is still pending its translations."""
        if "has_failed" in done:
            self.retry(batch, LostError("The translation failed."), attempts_alone=1)
        rows = cast("list[list[dict[str, Any]]]", done.get("translations", []))
        for sentence, row in zip(batch, rows, strict=False):
            if sentence.is_pending:
                sentence.result.set_result([SentenceTranslation(**each) for each in row])

    def retry(self, batch: list[QueuedSentence], error: WorkError, attempts_alone: int) -> None:
        """Queue the sentences of a failed batch again, each for a batch of its own: one may have caused the error.

        A sentence that has failed too often gets the error: MAX_ATTEMPTS times, or `attempts_alone` times alone.
        """
        for sentence in batch:
            sentence.num_attempts += 1
            has_failed_alone = len(batch) == 1 and sentence.num_attempts >= attempts_alone
            if not sentence.is_pending:
                continue
            if has_failed_alone or sentence.num_attempts >= MAX_ATTEMPTS:
                sentence.result.set_exception(error)
            else:
                sentence.num_tokens = self.settings.batch_tokens
                self.queue.put([sentence])

    async def kill_when_hung(self, worker: ConnectedWorker) -> None:
        """Kill the worker once it has sent no heartbeat for too long."""
        while worker.seconds_silent < self.settings.hang_seconds:
            await asyncio.sleep(self.settings.silence_seconds / 4)
        log("worker_hangs", model=self.spec.folder.name)
        worker.worker.process.kill()

    def end(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self.worker.end()
        self.worker = None
