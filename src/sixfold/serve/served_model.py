"""A model of a server: its name and its workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sixfold.serve.server_settings import ModelSpec
from sixfold.serve.worker_pool import WorkerSlot


class ServedModel:
    """A model and its workers."""

    work = "work"  # the name of its work in messages

    def __init__(self, spec: ModelSpec, slots: Sequence[WorkerSlot]) -> None:
        self.spec, self.slots = spec, slots
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers."""
        self.tasks = [asyncio.create_task(slot.run()) for slot in self.slots]

    def end(self) -> None:
        """End the workers."""
        for task in self.tasks:
            task.cancel()
        for slot in self.slots:
            slot.end()

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.name or self.spec.folder.resolve().name

    @property
    def title(self) -> str:
        """Its name in the message that lists what is served."""
        return self.name

    @property
    def is_ready(self) -> bool:
        """Whether at least one worker is ready."""
        return any(slot.is_ready for slot in self.slots)
