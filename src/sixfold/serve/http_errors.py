"""How a request is refused, in a form that the clients of every interface understand."""

from __future__ import annotations

import json
from math import ceil

Headers = list[tuple[bytes, bytes]]


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


class Refusal(Exception):
    """A request that is not answered as it hoped, and why."""

    def __init__(self, status: int, message: str, retry_after: float = 0.0, is_last: bool = False) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after
        self.is_last = is_last  # what follows on the connection cannot be read

    @property
    def body(self) -> bytes:
        """The answer: LibreTranslate's clients read `error`, DeepL's `message`."""
        return json.dumps({"error": self.message, "message": self.message}).encode()

    @property
    def headers(self) -> Headers:
        """The headers of the answer."""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self.body)).encode())]
        if self.retry_after:
            headers.append((b"retry-after", str(max(1, ceil(self.retry_after))).encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="sixfold", charset="UTF-8"'))
        if self.is_last:
            headers.append((b"connection", b"close"))
        return headers
