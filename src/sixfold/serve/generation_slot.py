"""The generation slot: its worker generates the texts of many requests at the same time, one token per step.

A request goes to the worker at once and joins its running batch at the next step. If the worker is lost, the
request goes to the next one, which generates the same tokens again, because a text depends on its request alone;
events are not passed on twice.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from sixfold.decode.worker_process import LostError
from sixfold.decode.worker_protocol import Message, checked
from sixfold.errors import SixfoldError, WorkError
from sixfold.serve.job_messages import TOO_LONG, Accepted, TextRequest, TokenRecord, Written, WrittenToken
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.server_settings import ModelSpec, ServerSettings
from sixfold.serve.worker_pool import MAX_ATTEMPTS, ConnectedWorker, RejectedError, WorkerSlot

ids = itertools.count()
Event = Accepted | Written


@dataclass(eq=False)
class TextStream:
    """A request, and what has been written for it."""

    request: TextRequest
    num_texts: int
    id: int = field(default_factory=lambda: next(ids))
    events: asyncio.Queue[Event | WorkError] = field(default_factory=asyncio.Queue)
    started_at: float = field(default_factory=time.perf_counter)
    num_attempts: int = 0
    is_accepted: bool = False
    passed_on: Counter[int] = field(default_factory=Counter)  # text -> how many of its steps
    repeated: Counter[int] = field(default_factory=Counter)  # the same, of the present worker

    async def next(self) -> Event:
        """Return the next event."""
        event = await self.events.get()
        if isinstance(event, WorkError):
            raise event
        return event

    def is_new(self, event: Event) -> bool:
        """Return whether an event is new; an earlier worker may already have sent it."""
        if isinstance(event, Accepted):
            is_new, self.is_accepted = not self.is_accepted, True
            return is_new
        self.repeated[event.index] += 1
        is_new = self.repeated[event.index] > self.passed_on[event.index]
        self.passed_on[event.index] += is_new
        return is_new


class GenerationSlot(WorkerSlot):
    """Passes requests to its worker, and the worker's events back to them."""

    def __init__(
        self, spec: ModelSpec, settings: ServerSettings, metrics: ServerMetrics, worker: ConnectedWorker
    ) -> None:
        super().__init__(spec, settings, metrics, worker)
        self.streams: dict[int, TextStream] = {}
        self.num_running = 0  # texts that the worker generates; its other texts wait

    @property
    def num_texts(self) -> int:
        """The number of texts that the worker has."""
        return sum(stream.num_texts for stream in self.streams.values())

    def add(self, stream: TextStream) -> None:
        """Pass a request to the worker."""
        self.streams[stream.id] = stream
        if self.worker is not None:
            send(self.worker, stream)

    def remove(self, stream: TextStream) -> None:
        """Cancel a request; its texts leave the batch before the next step."""
        if self.streams.pop(stream.id, None) and self.worker is not None:
            self.worker.send({"cancel": [stream.id]})

    async def use(self, worker: ConnectedWorker) -> None:
        """Pass on the worker's events until it ends; then its requests wait for the next worker."""
        for stream in self.streams.values():
            send(worker, stream)
        try:
            while True:
                message = await worker.next_message()
                self.num_running = cast("int", message["running"])
                for event in cast("list[Message]", message["events"]):
                    self.pass_on(event)
        except LostError as error:
            self.retry(error)
            raise

    def pass_on(self, message: Message) -> None:
        """Deliver the events of a message, except to requests whose clients have disconnected."""
        stream = self.streams.get(cast("int", message["id"]))
        if stream is None:
            return
        try:
            event = event_from(checked(message))
        except SixfoldError as error:
            stream.events.put_nowait(refusal(error))
            return
        if stream.is_new(event):
            self.metrics.measure_generation(event, stream)
            stream.events.put_nowait(event)

    def retry(self, error: LostError) -> None:
        """Keep the requests of a lost worker for the next one, but fail those that have lost too many workers."""
        self.num_running = 0
        for stream in [*self.streams.values()]:
            stream.num_attempts += 1
            stream.repeated.clear()
            if stream.num_attempts >= MAX_ATTEMPTS:
                stream.events.put_nowait(error)
                del self.streams[stream.id]


def send(worker: ConnectedWorker, stream: TextStream) -> None:
    """Send a request to a worker."""
    worker.send({"add": stream.id, "request": asdict(stream.request)})


def refusal(error: SixfoldError) -> WorkError:
    """Return the error for the client: the request was wrong, or the work failed."""
    if isinstance(error, WorkError):
        return error
    is_too_long = error.message.startswith(TOO_LONG)
    return RejectedError(error.message, code="context_length_exceeded" if is_too_long else None)


def event_from(message: Message) -> Event:
    """Return the event in a worker's message."""
    if "accepted" in message:
        return Accepted(**cast("dict[str, Any]", message["accepted"]))
    written = cast("dict[str, Any]", message["written"])
    return Written(**written | {name: [*map(token_from, written[name])] for name in ("tokens", "prompt")})


def token_from(record: dict[str, Any]) -> WrittenToken:
    """Return the token in a record."""
    return WrittenToken(**{**record, "alternatives": [TokenRecord(**each) for each in record["alternatives"]]})
