"""Reads the body of a request within a size and a time limit, and parses its fields from JSON or a form."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator
from urllib.parse import parse_qs

from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Message, Receive

from sixfold.serve.http_errors import ClientDisconnected, HttpError

MAX_FIELDS = 1000
# How much of an oversized body is read and discarded, because many clients read the response only after sending
# their whole request.
DRAIN_BYTES, DRAIN_SECONDS = 4 << 20, 0.2

FieldValues = dict[str, object]


async def read_body(headers: Headers, receive: Receive, max_bytes: int, seconds: float) -> bytes:
    """Return the body, decompressed; never hold more than `max_bytes` of it."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        message = f"Content-Encoding {encoding[:20]!r} is not supported; send gzip or none."
        raise HttpError(415, message, closes_connection=True)
    if int(headers.get("content-length", "0")) > max_bytes:
        await drain(receive)
        raise body_too_large(max_bytes)
    reader = GzipBodyReader(max_bytes) if encoding == "gzip" else BodyReader(max_bytes)
    try:
        async with asyncio.timeout(seconds):
            while reader.has_more:
                reader.add(await next_message(receive))
    except TimeoutError:
        message = f"The request body did not arrive within {seconds:g} s."
        raise HttpError(408, message, closes_connection=True) from None
    except OverflowError:
        if reader.has_more:
            await drain(receive)
        raise body_too_large(max_bytes) from None
    except zlib.error:
        message = "Content-Encoding says gzip, but the body is not valid gzip."
        raise HttpError(400, message, closes_connection=True) from None
    return bytes(reader.content)


async def next_message(receive: Receive) -> Message:
    """Return the next part of the body."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message


def body_too_large(max_bytes: int) -> HttpError:
    """Return the error for a body over the limit."""
    return HttpError(413, f"A request body may have at most {max_bytes:,} bytes.", closes_connection=True)


async def drain(receive: Receive) -> None:
    """Read and discard the rest of a body, up to a size and a time."""
    bytes_left = DRAIN_BYTES
    try:
        while bytes_left > 0:
            async with asyncio.timeout(DRAIN_SECONDS):
                message = await next_message(receive)
            bytes_left -= len(message.get("body", b""))
            if not message.get("more_body"):
                break
    except TimeoutError:
        pass


class BodyReader:
    """Collects an uncompressed body, and raises OverflowError above the limit."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.content, self.has_more = max_bytes, bytearray(), True

    def add(self, message: Message) -> None:
        """Add one part of the body."""
        self.has_more = bool(message.get("more_body"))
        self.extend(message.get("body", b""))

    def extend(self, content: bytes) -> None:
        """Append bytes."""
        if len(self.content) + len(content) > self.max_bytes:
            raise OverflowError
        self.content += content


class GzipBodyReader(BodyReader):
    """Collects a gzip-compressed body, and decompresses no more than the limit."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    def extend(self, content: bytes) -> None:
        """Append compressed bytes."""
        super().extend(self.decompressor.decompress(content, self.max_bytes - len(self.content) + 1))


async def read_fields(headers: Headers, query: str, body: bytes) -> FieldValues:
    """Return the fields of the query string and the body (JSON or a form); the body takes precedence."""
    content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        fields = form_fields(query)
        if not body.strip():
            return fields
        if content_type == "multipart/form-data":
            return fields | await multipart_fields(headers, body)
        is_json = body.lstrip().startswith(b"{")  # which curl -d declares to be a form
        if content_type == "application/x-www-form-urlencoded" and not is_json:
            return fields | form_fields(body.decode())
        return fields | json_fields(body)
    except (ValueError, RecursionError, MultiPartException):
        raise HttpError(400, "The body must be a JSON object or a form, in UTF-8.") from None


def json_fields(body: bytes) -> FieldValues:
    """Return the fields of a JSON object."""
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not an object")
    return content


def form_fields(text: str) -> FieldValues:
    """Return the fields of a URL-encoded form; a repeated name has a list."""
    pairs = parse_qs(
        text, keep_blank_values=True, strict_parsing=False, errors="strict", max_num_fields=MAX_FIELDS
    )
    return {name: values[0] if len(values) == 1 else values for name, values in pairs.items()}


async def multipart_fields(headers: Headers, body: bytes) -> FieldValues:
    """Return the fields of a multipart form; uploaded files are refused."""

    async def once() -> AsyncGenerator[bytes, None]:
        yield body

    form: FormData = await MultiPartParser(headers, once(), max_files=0, max_fields=MAX_FIELDS).parse()
    return {name: texts[0] if len(texts := form.getlist(name)) == 1 else texts for name in form}
