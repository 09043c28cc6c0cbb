"""Bodies: a size, a time, and fields."""

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

from sixfold.serve.http_errors import Refusal
from sixfold.serve.request_body import fields_of, read_body


def read(parts: list[bytes], most: int = 100, **headers: str) -> bytes:
    waiting = list(parts)

    async def receive() -> Message:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    return asyncio.run(read_body(Headers(headers), receive, most, seconds=5))


def fields(body: bytes, kind: str = "application/json", query: str = "") -> dict[str, object]:
    return asyncio.run(fields_of(Headers({"content-type": kind}), query, body))


def test_a_body_is_read_whole_up_to_its_limit() -> None:
    assert read([b"a" * 60, b"b" * 40]) == b"a" * 60 + b"b" * 40


@pytest.mark.parametrize("parts", [[b"a" * 101], [b"a" * 60, b"b" * 41], [b""] * 3 + [b"a" * 200]])
def test_a_longer_body_is_refused_while_it_arrives(parts: list[bytes]) -> None:
    with pytest.raises(Refusal) as refused:
        read(parts)
    assert refused.value.status == 413


def test_what_was_compressed_is_inflated_and_no_more_than_may_be_kept() -> None:
    encoded = {"content-encoding": "gzip"}
    assert read([gzip.compress(b"text")], **encoded) == b"text"
    with pytest.raises(Refusal) as refused:
        read([gzip.compress(b"0" * 1_000_000)], most=20_000, **encoded)
    assert refused.value.status == 413


@pytest.mark.parametrize(("encoding", "status"), [("gzip", 400), ("br", 415), ("gzip, gzip", 415)])
def test_other_encodings_are_refused(encoding: str, status: int) -> None:
    with pytest.raises(Refusal) as refused:
        read([b"\x00\x01\x02 not compressed"], **{"content-encoding": encoding})
    assert refused.value.status == status


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def never() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    with pytest.raises(Refusal) as refused:
        asyncio.run(read_body(Headers(), never, 100, seconds=0.05))
    assert refused.value.status == 408


MULTIPART = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\nGr\xc3\xbc\xc3\x9fe\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (json.dumps({"q": "Grüße"}).encode(), "application/json"),
        ('{"q": "Grüße"}'.encode(), "application/json; charset=utf-8"),
        (b"q=Gr%C3%BC%C3%9Fe", "application/x-www-form-urlencoded"),
        (MULTIPART, "multipart/form-data; boundary=x"),
    ],
)
def test_fields_are_read_from_json_and_from_forms(body: bytes, kind: str) -> None:
    assert fields(body, kind) == {"q": "Grüße"}


def test_a_name_that_stands_twice_in_a_form_is_a_list() -> None:
    assert fields(b"q=a&q=b&c=", "application/x-www-form-urlencoded") == {"q": ["a", "b"], "c": ""}


def test_a_query_counts_too_and_the_body_decides() -> None:
    assert fields(b'{"a": 1}', query="a=2&b=3") == {"a": 1, "b": "3"}


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=60) | st.just(b"[" * 100_000) | st.just(b'{"a": ' + b"9" * 5000 + b"}"),
    st.sampled_from(
        ["", "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    ),
)
def test_any_bytes_are_fields_or_refused(body: bytes, kind: str) -> None:
    with suppress(Refusal):
        assert isinstance(fields(body, kind), dict)
