"""Error responses, in a form that the clients of every API understand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil

Headers = list[tuple[bytes, bytes]]
OPENAI = "/v1/"  # the path of OpenAI's API
OPENAI_KINDS = ("invalid_request_error", "server_error")
OPENAI_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class ClientDisconnected(Exception):
    """The client closed its connection before the response."""


class HttpError(Exception):
    """An error response: its status, and a message for the client."""

    def __init__(
        self,
        status: int,
        message: str,
        retry_after: float = 0.0,
        closes_connection: bool = False,
        parameter: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after
        self.closes_connection = closes_connection  # because part of the request body was left unread
        self.parameter, self.code = (
            parameter,
            code,
        )  # the invalid field and the kind of error, for OpenAI's clients

    def body(self, path: str) -> bytes:
        """The JSON body: LibreTranslate's clients read `error`, DeepL's `message`, OpenAI's a record of both."""
        plain: Mapping[str, object] = {"error": self.message, "message": self.message}
        return json.dumps(self.openai_record if path.startswith(OPENAI) else plain).encode()

    @property
    def openai_record(self) -> Mapping[str, object]:
        """The error in OpenAI's format."""
        kind = {429: "rate_limit_error"}.get(self.status, OPENAI_KINDS[self.status >= 500])
        code = self.code or OPENAI_CODES.get(self.status)
        return {"error": {"message": self.message, "type": kind, "param": self.parameter, "code": code}}

    @property
    def headers(self) -> Headers:
        """The headers of the response."""
        headers = [(b"content-type", b"application/json")]
        if self.retry_after:
            headers.append((b"retry-after", str(max(1, ceil(self.retry_after))).encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Basic realm="sixfold", charset="UTF-8"'))
        if self.closes_connection:
            headers.append((b"connection", b"close"))
        return headers
