"""The queue: when a sentence is translated, and in which batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sixfold.serve.batching import QueuedSentence, SentenceQueue
from sixfold.serve.job_messages import JobOptions

DEFAULT = JobOptions()


def sentence(text: str, num_tokens: int = 1, options: JobOptions = DEFAULT) -> QueuedSentence:
    return QueuedSentence(text, num_tokens, options, asyncio.get_running_loop().create_future())


def texts(batch: list[QueuedSentence]) -> list[str]:
    return [each.text for each in batch]


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """Run an async test in an event loop."""

    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), 5))  # type: ignore[arg-type]

    run.__name__ = test.__name__
    return run


@in_loop
async def test_requests_are_served_round_robin_a_sentence_at_a_time() -> None:
    queue = SentenceQueue(batch_tokens=4, wait_seconds=0)
    queue.put([sentence(f"book {i}") for i in range(5)])
    queue.put([sentence("word")])
    assert texts(await queue.take()) == ["book 0", "word", "book 1", "book 2"]
    assert texts(await queue.take()) == ["book 3", "book 4"]


@in_loop
async def test_a_batch_keeps_to_its_token_budget_unless_a_single_sentence_exceeds_it() -> None:
    queue = SentenceQueue(batch_tokens=10, wait_seconds=0)
    queue.put([sentence("huge", 50)])
    queue.put([sentence("small", 6)])
    queue.put([sentence("tiny", 4)])
    assert texts(await queue.take()) == ["huge"]
    assert texts(await queue.take()) == ["small", "tiny"]


@in_loop
async def test_a_batch_has_one_set_of_options_and_no_sentence_starves() -> None:
    queue = SentenceQueue(batch_tokens=10, wait_seconds=0)
    queue.put([sentence("a")])
    queue.put([sentence("b", options=JobOptions(n_best=4))])
    queue.put([sentence("c")])
    assert texts(await queue.take()) == ["a", "c"]
    assert texts(await queue.take()) == ["b"]


@in_loop
async def test_cancelled_sentences_are_not_translated() -> None:
    queue = SentenceQueue(batch_tokens=10, wait_seconds=0)
    cancelled, pending = sentence("cancelled"), sentence("pending")
    queue.put([cancelled])
    queue.put([pending])
    cancelled.result.cancel()
    assert await queue.take() == [pending]


@in_loop
async def test_a_removed_request_leaves_nothing_in_the_queue() -> None:
    queue = SentenceQueue(batch_tokens=10, wait_seconds=0)
    request = queue.put([sentence("a"), sentence("b")])
    queue.remove(request)
    assert queue.num_waiting == 0
    assert not queue.requests


@in_loop
async def test_idle_workers_divide_the_queue_evenly() -> None:
    queue = SentenceQueue(batch_tokens=100, wait_seconds=0)
    workers = [asyncio.create_task(queue.take()) for _ in range(2)]
    await asyncio.sleep(0)
    for i in range(8):
        queue.put([sentence(str(i))])
    assert sorted(len(batch) for batch in await asyncio.gather(*workers)) == [4, 4]


@in_loop
async def test_a_single_client_never_waits() -> None:
    queue = SentenceQueue(batch_tokens=100, wait_seconds=60)
    batch = asyncio.create_task(queue.take(just_answered=1))
    await asyncio.sleep(0)
    queue.put([sentence("a")])
    assert len(await batch) == 1


@in_loop
async def test_a_worker_waits_for_new_requests_of_the_clients_it_has_just_answered() -> None:
    queue = SentenceQueue(batch_tokens=100, wait_seconds=60)
    queue.put([sentence("first")])
    batch = asyncio.create_task(queue.take(just_answered=2))
    for text in ("second", "third"):
        await asyncio.sleep(0.01)
        assert not batch.done()
        queue.put([sentence(text)])
    assert len(await batch) == 3


@in_loop
async def test_a_worker_waits_no_longer_than_wait_seconds() -> None:
    queue = SentenceQueue(batch_tokens=100, wait_seconds=0.02)
    queue.put([sentence("a")])
    assert len(await queue.take(just_answered=5)) == 1


@pytest.mark.parametrize("cancelled_after", [0, 0.01])
def test_a_cancelled_take_removes_nothing_from_the_queue(cancelled_after: float) -> None:
    async def run() -> None:
        queue = SentenceQueue(batch_tokens=100, wait_seconds=0.005)
        batch = asyncio.create_task(queue.take())
        await asyncio.sleep(cancelled_after)
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)
        queue.put([sentence("a")])
        assert queue.num_idle_workers == 0
        assert len(await queue.take()) == 1

    asyncio.run(run())
