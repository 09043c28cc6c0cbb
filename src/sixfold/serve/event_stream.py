"""Server-sent events: a response that is sent while it is generated."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sixfold.serve.http_errors import HttpError

EVENT_STREAM = b"text/event-stream; charset=utf-8"
END = b"data: [DONE]\n\n"


def event(record: Mapping[str, object]) -> bytes:
    """Return one event; its JSON has no line breaks."""
    return b"data: " + json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


class EventStream(Response):
    """Sends each record at once; when the client disconnects, the generator of the records is closed."""

    def __init__(self, records: AsyncGenerator[Mapping[str, object], None]) -> None:
        super().__init__()
        self.records = records

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the events, and at the end that they are complete, or an error."""
        headers = [(b"content-type", EVENT_STREAM), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        last = END
        try:
            async with aclosing(self.records) as records:
                async for record in records:
                    await send({"type": "http.response.body", "body": event(record), "more_body": True})
        except HttpError as error:
            last = event(error.openai_record)
        await send({"type": "http.response.body", "body": last})
