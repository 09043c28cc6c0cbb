"""The body of a request: read within a size and a time, and then as fields, from JSON or from a form."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncGenerator
from urllib.parse import parse_qs

from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.types import Message, Receive

from sixfold.serve.http_errors import ClientLeft, Refusal

MOST_FIELDS = 1000
SPARE_BYTES, SPARE_SECONDS = 4 << 20, 0.2  # of a body that is too long, read so that its sender hears the answer

Fields = dict[str, object]


async def read_body(headers: Headers, receive: Receive, most: int, seconds: float) -> bytes:
    """Read a body, inflating it if need be; nothing beyond the limit is ever kept."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise Refusal(415, f"The encoding {encoding[:20]!r} is not understood; send gzip or none.", is_last=True)
    if int(headers.get("content-length", "0")) > most:
        await read_spare(receive)
        raise too_long(most)
    reader = Inflated(most) if encoding == "gzip" else Plain(most)
    try:
        async with asyncio.timeout(seconds):
            while reader.has_more:
                reader.add(await next_part(receive))
    except TimeoutError:
        raise Refusal(408, f"The request did not arrive within {seconds:g} s.", is_last=True) from None
    except OverflowError:
        if reader.has_more:
            await read_spare(receive)
        raise too_long(most) from None
    except zlib.error:
        raise Refusal(400, "The body is not gzip, as its header says.", is_last=True) from None
    return bytes(reader.content)


async def next_part(receive: Receive) -> Message:
    """Return the next part of a body."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientLeft
    return message


def too_long(most: int) -> Refusal:
    """Return the refusal of a body that is too long."""
    return Refusal(413, f"A request may have at most {most:,} bytes.", is_last=True)


async def read_spare(receive: Receive) -> None:
    """Read a little of what is not wanted, for a sender that does not listen while it speaks."""
    spare = SPARE_BYTES
    try:
        while spare > 0:
            async with asyncio.timeout(SPARE_SECONDS):
                message = await next_part(receive)
            spare -= len(message.get("body", b""))
            if not message.get("more_body"):
                break
    except TimeoutError:
        pass


class Plain:
    """A body as it comes."""

    def __init__(self, most: int) -> None:
        self.most, self.content, self.has_more = most, bytearray(), True

    def add(self, message: Message) -> None:
        """Add a part."""
        self.has_more = bool(message.get("more_body"))
        self.extend(message.get("body", b""))

    def extend(self, content: bytes) -> None:
        """Add bytes."""
        if len(self.content) + len(content) > self.most:
            raise OverflowError
        self.content += content


class Inflated(Plain):
    """A body that was compressed."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)

    def extend(self, content: bytes) -> None:
        """Add bytes, inflating no more than may be kept."""
        super().extend(self.inflater.decompress(content, self.most - len(self.content) + 1))


async def fields_of(headers: Headers, query: str, body: bytes) -> Fields:
    """Return the fields of a request: of its body, whether JSON or a form, and of its query."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        found: Fields = from_form(query)
        if not body.strip():
            return found
        if kind == "multipart/form-data":
            return found | await from_multipart(headers, body)
        if kind == "application/x-www-form-urlencoded":
            return found | from_form(body.decode())
        return found | from_json(body)
    except (ValueError, RecursionError, MultiPartException):
        raise Refusal(400, "The body is neither JSON nor a form, or not in UTF-8.") from None


def from_json(body: bytes) -> Fields:
    """Read a JSON object."""
    content = json.loads(body)
    if not isinstance(content, dict):
        raise ValueError("not an object")
    return content


def from_form(text: str) -> Fields:
    """Read a form; a name that stands several times has a list."""
    pairs = parse_qs(
        text, keep_blank_values=True, strict_parsing=False, errors="strict", max_num_fields=MOST_FIELDS
    )
    return {name: values[0] if len(values) == 1 else values for name, values in pairs.items()}


async def from_multipart(headers: Headers, body: bytes) -> Fields:
    """Read a form in parts; files are not taken."""

    async def once() -> AsyncGenerator[bytes, None]:
        yield body

    form: FormData = await MultiPartParser(headers, once(), max_files=0, max_fields=MOST_FIELDS).parse()
    return {name: texts[0] if len(texts := form.getlist(name)) == 1 else texts for name in form}
