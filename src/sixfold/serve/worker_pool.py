"""The worker processes of one model: started, monitored, and replaced when they fail.

Workers are separate processes, so that the server keeps responding while they compute, and survives them.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from typing import cast

from sixfold.decode.worker_process import WorkerProcess
from sixfold.decode.worker_protocol import LENGTH, Message, Origin, Start, checked, packed
from sixfold.errors import SixfoldError, WorkError
from sixfold.machine import num_cores
from sixfold.serve.logs import log
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.server_settings import ModelSpec, ServerSettings

JOB = "sixfold.serve.serve_job:open_job"
HEARTBEAT_SECONDS = 0.5
MAX_ATTEMPTS = 2  # for work whose worker is lost
FIRST_BACKOFF, LONGEST_BACKOFF = 0.5, 30.0  # seconds before a lost worker is replaced


class RejectedError(WorkError):
    """The model refused a request; some reasons have a code for clients."""

    def __init__(self, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.code = code


class ConnectedWorker:
    """A running worker process and the connection to it."""

    def __init__(self, worker: WorkerProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.worker, self.reader, self.writer = worker, reader, writer
        self.last_seen = time.monotonic()
        self.messages: asyncio.Queue[Message | SixfoldError] = (
            asyncio.Queue()
        )  # at the end, the loss of the worker
        self.receiving = asyncio.create_task(self.receive())

    task: str  # of the model
    description: Message  # of the model

    @classmethod
    async def start(cls, spec: ModelSpec, settings: ServerSettings) -> ConnectedWorker:
        """Start a process and wait until its model is loaded; an error of the model is raised here."""
        origin = Origin(str(spec.folder), device=settings.device, precision=settings.precision)
        start = Start(JOB, origin, beat_seconds=HEARTBEAT_SECONDS, limits=job_limits(settings))
        worker = WorkerProcess(start, thread_limit(settings))
        connected = cls(worker, *await asyncio.open_connection(sock=worker.socket))
        try:
            ready = cast("Message", checked(await connected.next_message())["ready"])
            connected.task, connected.description = str(ready["task"]), cast("Message", ready["model"])
            return connected
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
                if "alive" not in message:
                    self.messages.put_nowait(message)
        except (asyncio.IncompleteReadError, OSError):
            self.messages.put_nowait(await asyncio.to_thread(self.worker.lost))

    async def next_message(self) -> Message:
        """Return the next message; raise LostError if there will be none."""
        message = await self.messages.get()
        if isinstance(message, SixfoldError):
            self.messages.put_nowait(message)  # for the next caller
            raise message
        return message

    @property
    def seconds_silent(self) -> float:
        """The seconds since its last message."""
        return time.monotonic() - self.last_seen

    def send(self, message: Message) -> None:
        """Send a message, unless the connection is closed."""
        if not self.writer.is_closing():
            self.writer.write(packed(message))

    def end(self) -> None:
        """End the process; it has no state to save."""
        self.receiving.cancel()
        self.writer.close()
        self.worker.end()


async def start_workers(settings: ServerSettings) -> list[list[ConnectedWorker]]:
    """Start the workers of each model; if one fails, none stays."""
    count = settings.workers
    specs = [spec for spec in settings.models for _ in range(count)]
    starting = [asyncio.create_task(ConnectedWorker.start(spec, settings)) for spec in specs]
    try:
        workers = await asyncio.gather(*starting)
    except BaseException:
        for task in starting:
            task.cancel()
        for worker in await asyncio.gather(*starting, return_exceptions=True):
            if isinstance(worker, ConnectedWorker):
                worker.end()
        raise
    return [workers[first : first + count] for first in range(0, len(workers), count)]


def job_limits(settings: ServerSettings) -> dict[str, int]:
    """Return the limits of a worker that generates text."""
    return {
        "texts": settings.most_texts,
        "context_bytes": settings.context_mebibytes << 20,
        "cache_bytes": settings.cache_mebibytes << 20,
    }


def thread_limit(settings: ServerSettings) -> dict[str, str]:
    """Return the environment that divides the cores among a model's workers; a single one may use them all."""
    return {"OMP_NUM_THREADS": str(max(1, num_cores() // settings.workers))} if settings.workers > 1 else {}


class WorkerSlot(ABC):
    """Keeps one worker running and at work: a process that dies or hangs is replaced."""

    def __init__(
        self, spec: ModelSpec, settings: ServerSettings, metrics: ServerMetrics, worker: ConnectedWorker
    ) -> None:
        self.spec, self.settings, self.metrics = spec, settings, metrics
        self.worker: ConnectedWorker | None = worker

    @abstractmethod
    async def use(self, worker: ConnectedWorker) -> None:
        """Give a worker work until it ends."""

    @property
    def is_ready(self) -> bool:
        """Whether its worker runs and has sent a heartbeat recently."""
        return self.worker is not None and self.worker.seconds_silent < self.settings.silence_seconds

    async def run(self) -> None:
        """Work until cancelled, with exponential backoff between failing workers."""
        backoff = FIRST_BACKOFF
        while True:
            try:
                if self.worker is None:
                    self.worker = await ConnectedWorker.start(self.spec, self.settings)
                await self.use_monitored(self.worker)
                backoff = FIRST_BACKOFF
            except (SixfoldError, OSError) as error:
                log("worker_lost", model=self.spec.folder.name, reason=type(error).__name__)
                self.metrics.lost_workers.inc()
            finally:
                self.end()
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF)

    async def use_monitored(self, worker: ConnectedWorker) -> None:
        """Use a worker, and kill it if it hangs."""
        monitoring = asyncio.create_task(self.kill_when_hung(worker))
        try:
            await self.use(worker)
        finally:
            monitoring.cancel()

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
