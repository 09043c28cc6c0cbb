"""The queue: who is translated when, and together with whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from sixfold.serve.batching import Queue, Sentence
from sixfold.serve.job_messages import Kind

Result = TypeVar("Result")


PLAIN = Kind()


def sentence(text: str, num_tokens: int = 1, kind: Kind = PLAIN) -> Sentence:
    return Sentence(text, num_tokens, kind, asyncio.get_running_loop().create_future())


def texts(batch: list[Sentence]) -> list[str]:
    return [each.text for each in batch]


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in an event loop."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 5))  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


@in_loop
async def test_requests_take_turns_sentence_by_sentence() -> None:
    queue = Queue(batch_tokens=4, wait_seconds=0)
    queue.put([sentence(f"book {i}") for i in range(5)])
    queue.put([sentence("word")])
    assert texts(await queue.take()) == ["book 0", "word", "book 1", "book 2"]
    assert texts(await queue.take()) == ["book 3", "book 4"]


@in_loop
async def test_a_batch_stays_within_its_budget_but_a_long_sentence_is_never_left_behind() -> None:
    queue = Queue(batch_tokens=10, wait_seconds=0)
    queue.put([sentence("huge", 50)])
    queue.put([sentence("small", 6)])
    queue.put([sentence("tiny", 4)])
    assert texts(await queue.take()) == ["huge"]
    assert texts(await queue.take()) == ["small", "tiny"]


@in_loop
async def test_kinds_are_not_mixed_and_none_is_passed_over() -> None:
    queue = Queue(batch_tokens=10, wait_seconds=0)
    queue.put([sentence("a")])
    queue.put([sentence("b", kind=Kind(n_best=4))])
    queue.put([sentence("c")])
    assert texts(await queue.take()) == ["a", "c"]
    assert texts(await queue.take()) == ["b"]


@in_loop
async def test_those_who_left_are_not_translated() -> None:
    queue = Queue(batch_tokens=10, wait_seconds=0)
    left, stays = sentence("left"), sentence("stays")
    queue.put([left])
    queue.put([stays])
    left.result.cancel()
    assert await queue.take() == [stays]


@in_loop
async def test_a_request_that_is_given_up_leaves_nothing_behind() -> None:
    queue = Queue(batch_tokens=10, wait_seconds=0)
    turn = queue.put([sentence("a"), sentence("b")])
    queue.remove(turn)
    assert queue.waiting == 0
    assert not queue.turns


@in_loop
async def test_free_workers_share_what_waits() -> None:
    queue = Queue(batch_tokens=100, wait_seconds=0)
    takers = [asyncio.create_task(queue.take()) for _ in range(2)]
    await asyncio.sleep(0)
    for i in range(8):
        queue.put([sentence(str(i))])
    assert sorted(len(batch) for batch in await asyncio.gather(*takers)) == [4, 4]


@in_loop
async def test_one_client_alone_never_waits() -> None:
    queue = Queue(batch_tokens=100, wait_seconds=60)
    taking = asyncio.create_task(queue.take(just_answered=1))
    await asyncio.sleep(0)
    queue.put([sentence("a")])
    began = time.perf_counter()
    await taking
    assert time.perf_counter() - began < 1


@in_loop
async def test_a_worker_waits_for_those_it_has_just_answered() -> None:
    queue = Queue(batch_tokens=100, wait_seconds=60)
    queue.put([sentence("waits")])
    taking = asyncio.create_task(queue.take(just_answered=2))
    for text in ("again", "and again"):
        await asyncio.sleep(0.01)
        assert not taking.done()
        queue.put([sentence(text)])
    assert len(await taking) == 3


@in_loop
async def test_a_worker_does_not_wait_for_ever() -> None:
    queue = Queue(batch_tokens=100, wait_seconds=0.02)
    queue.put([sentence("a")])
    assert len(await queue.take(just_answered=5)) == 1


@pytest.mark.parametrize("cancelled_after", [0, 0.01])
def test_a_taker_that_is_cancelled_takes_nothing(cancelled_after: float) -> None:
    async def run() -> None:
        queue = Queue(batch_tokens=100, wait_seconds=0.005)
        taking = asyncio.create_task(queue.take())
        await asyncio.sleep(cancelled_after)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        queue.put([sentence("a")])
        assert queue.num_takers == 0
        assert len(await queue.take()) == 1

    asyncio.run(run())
