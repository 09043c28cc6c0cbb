"""The server's metrics, in Prometheus format."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sixfold.serve.job_messages import Accepted, Written

if TYPE_CHECKING:
    from sixfold.serve.batching import QueuedSentence
    from sixfold.serve.generation_slot import TextStream

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self.counter("sixfold_requests", "HTTP requests, by route and status.", "route", "status")
        self.seconds = self.histogram(
            "sixfold_request_seconds", "Time from receiving a request to its response.", SECONDS, "route"
        )
        self.characters = self.counter("sixfold_characters", "Characters accepted.")
        self.batch_sentences = self.histogram("sixfold_batch_sentences", "Sentences per batch.", SENTENCES)
        self.batch_seconds = self.histogram("sixfold_batch_seconds", "Time to translate a batch.", SECONDS)
        self.tokens = self.counter("sixfold_source_tokens", "Source tokens translated.")
        self.prompt_tokens = self.counter("sixfold_prompt_tokens", "Tokens of prompts.")
        self.cached_tokens = self.counter("sixfold_cached_tokens", "Tokens of prompts that were cached.")
        self.generated_tokens = self.counter("sixfold_generated_tokens", "Tokens generated.")
        self.first_token_seconds = self.histogram(
            "sixfold_first_token_seconds", "Time from a request to the first token of each text.", SECONDS
        )
        self.clients_left = self.counter(
            "sixfold_clients_left", "Clients that disconnected before their response."
        )
        self.lost_workers = self.counter(
            "sixfold_workers_lost", "Worker processes that died or hung and were replaced."
        )

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Register a counter."""
        return Counter(name, help_text, labels, registry=self.registry)

    def histogram(self, name: str, help_text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """Register a histogram."""
        return Histogram(name, help_text, labels, buckets=buckets, registry=self.registry)

    def add_gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Register a gauge that is computed at every scrape."""
        Gauge(name, help_text, registry=self.registry).set_function(value)

    @contextmanager
    def measure_batch(self, batch: Sequence[QueuedSentence]) -> Iterator[None]:
        """Record the time and the size of a batch, if it succeeds."""
        began = time.perf_counter()
        yield
        self.batch_seconds.observe(time.perf_counter() - began)
        self.batch_sentences.observe(len(batch))
        self.tokens.inc(sum(sentence.num_tokens for sentence in batch))

    def measure_generation(self, event: Accepted | Written, stream: TextStream) -> None:
        """Record the result of a step, and the time to the first token of a text."""
        if isinstance(event, Accepted):
            self.prompt_tokens.inc(sum(map(len, event.prompt_tokens)))
            return
        self.cached_tokens.inc(event.cached_tokens)
        self.generated_tokens.inc(len(event.tokens))
        if stream.passed_on[event.index] == 1:
            self.first_token_seconds.observe(time.perf_counter() - stream.started_at)

    def render(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self.registry)
