"""The queue of sentences for one model, and how sentences of several requests are batched.

Requests are served round-robin, one sentence at a time, so that a long document does not delay a short text. An
idle worker takes a batch of queued sentences, up to a token budget and all with the same options. A worker that
has just answered n sentences first waits a moment for n more, so that clients that send their next request at once
are batched together. A single client never waits.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sixfold.serve.job_messages import JobOptions, SentenceTranslation

ids = itertools.count()
QueuedRequest = deque["QueuedSentence"]  # the sentences of one request that are still queued


@dataclass(eq=False)
class QueuedSentence:
    """A sentence to translate, and the future that receives its translations."""

    text: str
    num_tokens: int
    options: JobOptions
    result: asyncio.Future[list[SentenceTranslation]]
    id: int = field(default_factory=lambda: next(ids))
    num_attempts: int = 0

    @property
    def is_pending(self) -> bool:
        """Whether a client is still waiting for the result."""
        return not self.result.done()


class SentenceQueue:
    """The queued sentences of one model."""

    def __init__(self, batch_tokens: int, wait_seconds: float) -> None:
        self.batch_tokens, self.wait_seconds = batch_tokens, wait_seconds
        self.requests: deque[QueuedRequest] = deque()  # in the order in which they are served next
        self.changed = asyncio.Event()
        self.num_idle_workers = 0

    @property
    def num_waiting(self) -> int:
        """The number of queued sentences."""
        return sum(map(len, self.requests))

    def put(self, sentences: Sequence[QueuedSentence]) -> QueuedRequest:
        """Queue the sentences of one request, and return the handle that removes them."""
        self.requests.append(request := deque(sentences))
        self.changed.set()
        return request

    def remove(self, request: QueuedRequest) -> None:
        """Remove the sentences of a request that are still queued."""
        self.requests = deque(other for other in self.requests if other is not request)

    async def take(self, just_answered: int = 0) -> list[QueuedSentence]:
        """Return the next batch; `just_answered` is the size of the worker's previous one."""
        self.num_idle_workers += 1
        try:
            await self.wait_for(self.num_waiting + just_answered)
            while not (batch := self.next_batch()):
                await self.wait_for_change()
            return batch
        finally:
            self.num_idle_workers -= 1

    async def wait_for(self, num_sentences: int) -> None:
        """Wait until this many sentences are queued, but at most `wait_seconds`."""
        try:
            async with asyncio.timeout(self.wait_seconds):
                while self.num_waiting < num_sentences:
                    await self.wait_for_change()
        except TimeoutError:
            pass

    async def wait_for_change(self) -> None:
        """Wait until a request is queued."""
        self.changed.clear()
        await self.changed.wait()

    def next_batch(self) -> list[QueuedSentence]:
        """Remove and return sentences round-robin, all with the same options.

        The batch ends at the token budget, or at this worker's share of the queue among the idle workers.
        """
        most = -(-self.num_waiting // max(1, self.num_idle_workers))
        batch: list[QueuedSentence] = []
        tokens, skipped = 0, deque[QueuedRequest]()
        while self.requests and len(batch) < most:
            request = self.requests.popleft()
            while request and not request[0].is_pending:
                request.popleft()
            if not request:
                continue
            first = request[0]
            if batch and (first.options != batch[0].options or tokens + first.num_tokens > self.batch_tokens):
                skipped.append(request)
                continue
            batch.append(request.popleft())
            tokens += first.num_tokens
            self.requests.append(request)
        self.requests.extendleft(reversed(skipped))
        return batch
