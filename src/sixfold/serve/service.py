"""All models of a server, of every task."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import chain
from types import TracebackType

from sixfold.serve.admission import Admission
from sixfold.serve.generation import GenerationModel, GenerationModels
from sixfold.serve.logs import log
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.served_model import ServedModel
from sixfold.serve.server_settings import ModelSpec, ServerSettings
from sixfold.serve.translation import TranslationModel, TranslationModels
from sixfold.serve.worker_pool import ConnectedWorker, start_workers


class Service(AbstractAsyncContextManager["Service"]):
    """The models and the state of a server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.metrics = settings, ServerMetrics()
        self.admission = Admission(settings, self.metrics)
        self.translation, self.generation = TranslationModels(self.admission), GenerationModels(self.admission)
        self.is_draining = False
        self.ending = AsyncExitStack()

    async def __aenter__(self) -> Service:
        started = await start_workers(self.settings)
        for worker in chain.from_iterable(started):
            self.ending.callback(worker.end)
        try:
            for spec, workers in zip(self.settings.models, started, strict=True):
                self.add(spec, workers)
            self.translation.start()
        except BaseException:
            await self.ending.aclose()
            raise
        for model in self.models:
            self.ending.callback(model.end)
            model.start()
        self.add_gauges()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.ending.aclose()

    def add(self, spec: ModelSpec, workers: Sequence[ConnectedWorker]) -> None:
        """Register a model by its task."""
        if workers[0].task == "generate":
            self.generation.add(GenerationModel(spec, self.admission, workers))
        else:
            self.translation.add(TranslationModel(spec, self.admission, workers))

    @property
    def models(self) -> list[ServedModel]:
        """All models."""
        return [*self.translation.models.values(), *self.generation.models.values()]

    def add_gauges(self) -> None:
        """Register the metrics that describe the current state."""
        gauge = self.metrics.add_gauge
        gauge("sixfold_waiting_sentences", "Sentences in the queues.", lambda: self.translation.num_waiting)
        gauge("sixfold_open_requests", "Requests in progress.", lambda: self.admission.num_requests)
        gauge("sixfold_ready", "1 if every model has a responsive worker, else 0.", lambda: float(self.is_ready))
        gauge("sixfold_waiting_texts", "Texts that wait to be generated.", lambda: self.generation.num_waiting)
        gauge("sixfold_running_texts", "Texts that are being generated.", lambda: self.generation.num_running)

    @property
    def is_ready(self) -> bool:
        """Whether the server is ready for requests."""
        return not self.is_draining and all(model.is_ready for model in self.models)

    def start_draining(self) -> None:
        """Report "not ready" from now on, but keep responding."""
        self.is_draining = True
        log("draining")
