"""Admission control: accepts requests only for models that are ready, up to a number in progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sixfold.errors import WorkError
from sixfold.serve.http_errors import HttpError
from sixfold.serve.prometheus import ServerMetrics
from sixfold.serve.served_model import ServedModel
from sixfold.serve.server_settings import ServerSettings
from sixfold.serve.worker_pool import RejectedError


class Admission:
    """Counts the requests in progress over all models."""

    def __init__(self, settings: ServerSettings, metrics: ServerMetrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.num_requests = 0

    @contextmanager
    def admit(self, model: ServedModel) -> Iterator[None]:
        """Count a request while it is in progress; refuse it if the model is not ready or there are too many."""
        if not model.is_ready:
            raise HttpError(503, "The model is not ready.", retry_after=5)
        if self.num_requests >= self.settings.most_waiting:
            raise HttpError(503, "Too many requests in progress.", retry_after=1)
        self.num_requests += 1
        try:
            yield
        except RejectedError as error:
            raise HttpError(400, str(error), code=error.code) from error
        except WorkError as error:
            raise HttpError(503, f"The {model.work} failed.", retry_after=5) from error
        finally:
            self.num_requests -= 1

    def check_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that are too long in total or not valid Unicode."""
        count = sum(map(len, texts))
        if count > self.settings.most_characters:
            most = self.settings.most_characters
            raise HttpError(413, f"A request may have at most {most:,} characters, but this has {count:,}.")
        for text in texts:
            check_unicode(text)

    def count_characters(self, texts: Sequence[str]) -> int:
        """Count the characters of accepted texts, and return their number."""
        self.metrics.characters.inc(count := sum(map(len, texts)))
        return count


def check_unicode(text: str) -> None:
    """Refuse unpaired surrogates, which JSON can express and valid text cannot contain."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise HttpError(400, "The text contains an unpaired surrogate, which is not valid Unicode.") from error
