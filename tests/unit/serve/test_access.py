"""Keys and rates."""

from __future__ import annotations

import base64

import pytest

from sixfold.serve import access
from sixfold.serve.access import Keys, RateLimit, key_of_header


def test_only_the_keys_themselves_are_accepted() -> None:
    keys = Keys(["first-key-of-ours", "second"])
    assert keys.accept("first-key-of-ours")
    assert keys.accept("second")
    assert not any(keys.accept(wrong) for wrong in ("", "first", "first-key-of-ours ", "SECOND", "second\0"))


@pytest.mark.parametrize(
    "header",
    ["DeepL-Auth-Key k:1", "Bearer k:1", "bearer  k:1 ", "Basic " + base64.b64encode(b"anyone:k:1").decode()],
)
def test_a_key_is_read_from_every_kind_of_header(header: str) -> None:
    assert key_of_header(header) == "k:1"


@pytest.mark.parametrize("header", ["", "k:1", "Digest k:1", "Basic ???", "Basic /w==", "Basic"])
def test_other_headers_have_no_key(header: str) -> None:
    assert key_of_header(header) == ""


def test_a_client_has_its_rate_and_others_have_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(access.time, "monotonic", lambda: now)
    rates = RateLimit(per_minute=12)  # so many at once, then one every five seconds
    assert [rates.seconds_to_wait("one") for _ in range(13)] == [0] * 12 + [5]
    assert rates.seconds_to_wait("other") == 0
    now += 5
    assert rates.seconds_to_wait("one") == 0
    assert rates.seconds_to_wait("one") == 5
    now += 1000
    assert [bool(rates.seconds_to_wait("one")) for _ in range(13)] == [False] * 12 + [True]


def test_the_memory_for_rates_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_CLIENTS", 10)
    rates = RateLimit(per_minute=60)
    for i in range(100):
        rates.seconds_to_wait(str(i))
    assert list(rates.buckets) == [str(i) for i in range(90, 100)]


def test_no_limit_remembers_nobody() -> None:
    rates = RateLimit(0)
    assert not any(rates.seconds_to_wait("one") for _ in range(1000))
    assert not rates.buckets
