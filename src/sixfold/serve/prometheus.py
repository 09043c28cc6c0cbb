"""Numbers about the server, in the form that Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from sixfold.serve.batching import Sentence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """All numbers of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "sixfold_requests", "Requests, by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "sixfold_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.characters = Counter("sixfold_characters", "Characters to translate.", registry=self.registry)
        self.batch_sentences = Histogram(
            "sixfold_batch_sentences",
            "Sentences translated together.",
            buckets=SENTENCES,
            registry=self.registry,
        )
        self.batch_seconds = Histogram(
            "sixfold_batch_seconds", "Time to translate a batch.", buckets=SECONDS, registry=self.registry
        )
        self.tokens = Counter("sixfold_source_tokens", "Source tokens translated.", registry=self.registry)
        self.stopped = Counter(
            "sixfold_clients_left", "Clients that left before their answer.", registry=self.registry
        )
        self.lost_workers = Counter("sixfold_workers_lost", "Workers that were replaced.", registry=self.registry)

    def watch(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Add a number that is looked up whenever it is asked for."""
        Gauge(name, help_text, registry=self.registry).set_function(value)

    @contextmanager
    def batch(self, batch: Sequence[Sentence]) -> Iterator[None]:
        """Measure a batch."""
        began = time.perf_counter()
        yield
        self.batch_seconds.observe(time.perf_counter() - began)
        self.batch_sentences.observe(len(batch))
        self.tokens.inc(sum(sentence.num_tokens for sentence in batch))

    def text(self) -> bytes:
        """Return all numbers as Prometheus reads them."""
        return generate_latest(self.registry)
