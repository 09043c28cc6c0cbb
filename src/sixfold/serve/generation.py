"""Text generation for any API: a request goes to the least busy worker of its model."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

from sixfold.errors import ConfigError
from sixfold.serve.admission import Admission
from sixfold.serve.generation_slot import Event, GenerationSlot, TextStream
from sixfold.serve.http_errors import HttpError
from sixfold.serve.job_messages import Accepted, GeneratorDescription, TextRequest
from sixfold.serve.served_model import ServedModel
from sixfold.serve.server_settings import ModelSpec
from sixfold.serve.worker_pool import ConnectedWorker


class GenerationModel(ServedModel):
    """A decoder-only model and its workers."""

    work = "generation"

    def __init__(self, spec: ModelSpec, admission: Admission, workers: Sequence[ConnectedWorker]) -> None:
        self.admission = admission
        self.writers = [GenerationSlot(spec, admission.settings, admission.metrics, each) for each in workers]
        super().__init__(spec, self.writers)
        self.description = GeneratorDescription(**cast("dict[str, Any]", workers[0].description))
        if spec.source:
            raise ConfigError(f"{spec.folder} does not translate.", f"sixfold serve {spec.folder}")

    async def write(self, request: TextRequest) -> AsyncGenerator[Event, None]:
        """Yield that the request is accepted, then each step of each of its texts until all are finished.

        If the caller stops iterating, the texts leave the running batch.
        """
        num_texts = max(1, len(request.prompts)) * int(request.options["samples"])
        if request.options["seed"] is None:  # chosen here, so that a lost worker's text can be generated again
            request.options["seed"] = secrets.randbits(48)
        with self.admission.admit(self):
            writer = min((each for each in self.writers if each.is_ready), key=lambda each: each.num_texts)
            writer.add(stream := TextStream(request, num_texts))
            try:
                while num_texts:
                    event = await stream.next()
                    yield event
                    num_texts -= not isinstance(event, Accepted) and bool(event.finished)
            finally:
                writer.remove(stream)


class GenerationModels:
    """All decoder-only models of a server."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.models: dict[str, GenerationModel] = {}

    def add(self, model: GenerationModel) -> None:
        """Register a model under its name."""
        if model.name in self.models:
            raise ConfigError(
                f"Both {self.models[model.name].spec.folder} and {model.spec.folder} are called {model.name}.",
                f"Give one another name: NAME={model.spec.folder}",
            )
        self.models[model.name] = model

    def model(self, name: str) -> GenerationModel:
        """Return the model of a name."""
        if name not in self.models:
            served = ", ".join(self.models)
            message = f"The model {name[:60]!r} is not served here. Served models: {served}."
            raise HttpError(404, message, parameter="model", code="model_not_found")
        return self.models[name]

    @property
    def num_running(self) -> int:
        """The number of texts being generated."""
        return sum(each.num_running for model in self.models.values() for each in model.writers)

    @property
    def num_waiting(self) -> int:
        """The number of waiting texts."""
        given = sum(each.num_texts for model in self.models.values() for each in model.writers)
        return max(0, given - self.num_running)
