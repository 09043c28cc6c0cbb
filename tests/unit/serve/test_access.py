"""API keys and rate limits."""

from __future__ import annotations

import base64

import pytest

from sixfold.serve import access
from sixfold.serve.access import ApiKeys, RateLimiter, key_from_header


def test_only_exact_keys_are_accepted() -> None:
    keys = ApiKeys(["first-key-of-ours", "second"])
    assert keys.accept("first-key-of-ours")
    assert keys.accept("second")
    assert not any(keys.accept(wrong) for wrong in ("", "first", "first-key-of-ours ", "SECOND", "second\0"))


@pytest.mark.parametrize(
    "header",
    ["DeepL-Auth-Key k:1", "Bearer k:1", "bearer  k:1 ", "Basic " + base64.b64encode(b"anyone:k:1").decode()],
)
def test_a_key_is_read_from_every_supported_authorization_scheme(header: str) -> None:
    assert key_from_header(header) == "k:1"


@pytest.mark.parametrize("header", ["", "k:1", "Digest k:1", "Basic ???", "Basic /w==", "Basic"])
def test_other_authorization_headers_give_no_key(header: str) -> None:
    assert key_from_header(header) == ""


def test_each_client_has_a_rate_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(access.time, "monotonic", lambda: now)
    rates = RateLimiter(per_minute=12)  # a burst of 12, then one every five seconds
    assert [rates.seconds_to_wait("one") for _ in range(13)] == [0] * 12 + [5]
    assert rates.seconds_to_wait("other") == 0
    now += 5
    assert rates.seconds_to_wait("one") == 0
    assert rates.seconds_to_wait("one") == 5
    now += 1000
    assert [bool(rates.seconds_to_wait("one")) for _ in range(13)] == [False] * 12 + [True]


def test_the_number_of_tracked_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_CLIENTS", 10)
    rates = RateLimiter(per_minute=60)
    for i in range(100):
        rates.seconds_to_wait(str(i))
    assert list(rates.buckets) == [str(i) for i in range(90, 100)]


def test_without_a_rate_limit_no_client_is_tracked() -> None:
    rates = RateLimiter(0)
    assert not any(rates.seconds_to_wait("one") for _ in range(1000))
    assert not rates.buckets
