"""The translation slot: its worker translates one batch of queued sentences after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, cast

from sixfold.decode.worker_process import LostError
from sixfold.decode.worker_protocol import Message, checked
from sixfold.errors import SixfoldError, WorkError
from sixfold.serve.batching import QueuedSentence, SentenceQueue
from sixfold.serve.job_messages import SentenceTranslation
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.server_settings import ModelSpec, ServerSettings
from sixfold.serve.worker_pool import MAX_ATTEMPTS, ConnectedWorker, RejectedError, WorkerSlot


class TranslationSlot(WorkerSlot):
    """Has its worker translate queued sentences."""

    def __init__(
        self,
        spec: ModelSpec,
        settings: ServerSettings,
        metrics: ServerMetrics,
        worker: ConnectedWorker,
        queue: SentenceQueue,
    ) -> None:
        super().__init__(spec, settings, metrics, worker)
        self.queue = queue

    async def use(self, worker: ConnectedWorker) -> None:
        """Take and translate batches until the worker ends."""
        just_answered = 0
        while batch := await self.take(worker, just_answered):
            await self.translate(worker, batch)
            just_answered = len(batch)

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
                message = await answer_of(worker, batch)
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
        """Queue the sentences of a failed batch again, each in its own batch: one may have caused the error.

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


async def answer_of(worker: ConnectedWorker, batch: Sequence[QueuedSentence]) -> Message:
    """Have a batch translated; cancel the sentences of disconnected clients, and stop if none is left."""
    is_answered = False

    def cancel(sentence_id: int, _: asyncio.Future[list[SentenceTranslation]]) -> None:
        if not is_answered:
            worker.send({"cancel": [sentence_id]})

    for sentence in batch:
        sentence.result.add_done_callback(partial(cancel, sentence.id))
    work = {"texts": [sentence.text for sentence in batch], "options": asdict(batch[0].options)}
    worker.send({"work": work, "ids": [each.id for each in batch]})
    try:
        return await worker.next_message()
    finally:
        is_answered = True
