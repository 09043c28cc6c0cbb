"""Request bodies: size limit, time limit, and fields."""

from __future__ import annotations

import asyncio
import gzip
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.types import Message

from sixfold.serve.http_errors import HttpError
from sixfold.serve.request_body import read_body, read_fields


def read(parts: list[bytes], max_bytes: int = 100, **headers: str) -> bytes:
    waiting = list(parts)

    async def receive() -> Message:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    return asyncio.run(read_body(Headers(headers), receive, max_bytes, seconds=5))


def fields(body: bytes, kind: str = "application/json", query: str = "") -> dict[str, object]:
    return asyncio.run(read_fields(Headers({"content-type": kind}), query, body))


def test_a_body_up_to_the_limit_is_read() -> None:
    assert read([b"a" * 60, b"b" * 40]) == b"a" * 60 + b"b" * 40


@pytest.mark.parametrize("parts", [[b"a" * 101], [b"a" * 60, b"b" * 41], [b""] * 3 + [b"a" * 200]])
def test_a_body_over_the_limit_is_refused_while_it_arrives(parts: list[bytes]) -> None:
    with pytest.raises(HttpError) as refused:
        read(parts)
    assert refused.value.status == 413


def test_a_compressed_body_is_decompressed_up_to_the_limit() -> None:
    encoded = {"content-encoding": "gzip"}
    assert read([gzip.compress(b"text")], **encoded) == b"text"
    with pytest.raises(HttpError) as refused:
        read([gzip.compress(b"0" * 1_000_000)], max_bytes=20_000, **encoded)
    assert refused.value.status == 413


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 400), ("br", 415), ("gzip, gzip", 415)])
def test_other_content_encodings_and_invalid_gzip_are_refused(encoding: str, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        read([b"\x00\x01\x02 not compressed"], **{"content-encoding": encoding})
    assert refused.value.status == status


def test_a_body_that_does_not_arrive_in_time_is_refused() -> None:
    async def never() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(HttpError) as refused:
        asyncio.run(read_body(Headers(), never, 100, seconds=0.05))
    assert refused.value.status == 408


MULTIPART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nGr\xc3\xbc\xc3\x9fe\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps({"q": "Grüße"}).encode(), "application/json"),
        ('{"q": "Grüße"}'.encode(), "application/json; charset=utf-8"),
        (b"q=Gr%C3%BC%C3%9Fe", "application/x-www-form-urlencoded"),
        ('{"q": "Grüße"}'.encode(), "application/x-www-form-urlencoded"),  # what curl -d sends
        (MULTIPART, "multipart/form-data; boundary=x"),
    ],
)
def test_fields_are_read_from_json_and_from_forms(body: bytes, kind: str) -> None:
    assert fields(body, kind) == {"q": "Grüße"}


def test_a_repeated_form_field_is_a_list() -> None:
    assert fields(b"q=a&q=b&c=", "application/x-www-form-urlencoded") == {"q": ["a", "b"], "c": ""}


def test_query_parameters_are_fields_and_the_body_takes_precedence() -> None:
    assert fields(b'{"a": 1}', query="a=2&b=3") == {"a": 1, "b": "3"}


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=60) | st.just(b"[" * 100_000) | st.just(b'{"a": ' + b"9" * 5000 + b"}"),
    st.sampled_from(
        ["", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    ),
)
def test_arbitrary_bytes_are_parsed_or_refused(body: bytes, kind: str) -> None:
    with suppress(HttpError):
        assert isinstance(fields(body, kind), dict)
