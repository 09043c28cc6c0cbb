"""Sentences that wait for a model, and how they go together.

Requests take turns, a sentence each, so that a book does not hold up a word. Whenever a worker is free it takes
what waits, up to a budget of tokens, sentences of one kind at a time. A worker that has just answered n sentences
first waits a moment for as many more: clients that ask again at once are then translated together. One client
alone never waits.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sixfold.serve.job_messages import Found, Kind

numbers = itertools.count()


@dataclass(eq=False)
class Sentence:
    """A sentence that somebody waits for."""

    text: str
    num_tokens: int
    kind: Kind
    result: asyncio.Future[list[Found]]
    number: int = field(default_factory=lambda: next(numbers))
    num_tries: int = 0

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits."""
        return not self.result.done()


class Queue:
    """The sentences that wait for one model."""

    def __init__(self, batch_tokens: int, wait_seconds: float) -> None:
        self.batch_tokens, self.wait_seconds = batch_tokens, wait_seconds
        self.turns: deque[deque[Sentence]] = deque()  # of each request, what waits
        self.changed = asyncio.Event()
        self.num_takers = 0  # workers that are free

    @property
    def waiting(self) -> int:
        """How many sentences wait."""
        return sum(map(len, self.turns))

    def put(self, sentences: Sequence[Sentence]) -> deque[Sentence]:
        """Add the sentences of one request, and return its turn."""
        self.turns.append(turn := deque(sentences))
        self.changed.set()
        return turn

    def remove(self, turn: deque[Sentence]) -> None:
        """Forget what is left of a request."""
        self.turns = deque(other for other in self.turns if other is not turn)

    async def take(self, just_answered: int = 0) -> list[Sentence]:
        """Return what is to be translated next; `just_answered` is how many sentences the worker had before."""
        self.num_takers += 1
        try:
            await self.gather(self.waiting + just_answered)
            while not (batch := self.pick()):
                await self.change()
            return batch
        finally:
            self.num_takers -= 1

    async def gather(self, enough: int) -> None:
        """Wait a moment for so many sentences."""
        try:
            async with asyncio.timeout(self.wait_seconds):
                while self.waiting < enough:
                    await self.change()
        except TimeoutError:
            pass

    async def change(self) -> None:
        """Wait until a request comes."""
        self.changed.clear()
        await self.changed.wait()

    def pick(self) -> list[Sentence]:
        """Take one sentence of each request in turn, of one kind, up to the budget and this worker's share."""
        share = -(-self.waiting // max(1, self.num_takers))
        batch: list[Sentence] = []
        tokens, others = 0, deque[deque[Sentence]]()
        while self.turns and len(batch) < share:
            turn = self.turns.popleft()
            while turn and not turn[0].is_wanted:
                turn.popleft()
            if not turn:
                continue
            if batch and (turn[0].kind != batch[0].kind or tokens + turn[0].num_tokens > self.batch_tokens):
                others.append(turn)
                continue
            batch.append(turn.popleft())
            tokens += batch[-1].num_tokens
            self.turns.append(turn)
        self.turns.extendleft(reversed(others))
        return batch
