"""Error responses, in a form that the clients of every API understand."""

from __future__ import annotations

import json
from math import ceil

Headers = list[tuple[bytes, bytes]]


class ClientDisconnected(Exception):
    """The client closed its connection before the response."""


class HttpError(Exception):
    """An error response: its status, and a message for the client."""

    def __init__(
        self, status: int, message: str, retry_after: float = 0.0, closes_connection: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after
        self.closes_connection = closes_connection  # because part of the request body was left unread

    @property
    def body(self) -> bytes:
        """The JSON body: LibreTranslate's clients read `error`, DeepL's read `message`."""
        return json.dumps({"error": self.message, "message": self.message}).encode()

    @property
    def headers(self) -> Headers:
        """The headers of the response."""
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self.body)).encode())]
        if self.retry_after:
            headers.append((b"retry-after", str(max(1, ceil(self.retry_after))).encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="sixfold", charset="UTF-8"'))
        if self.closes_connection:
            headers.append((b"connection", b"close"))
        return headers
