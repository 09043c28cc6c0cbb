"""Access control: API keys and rate limits."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable

MAX_CLIENTS = 10_000  # whose rates are tracked; the least recently seen client is dropped first


class ApiKeys:
    """The accepted API keys, compared in constant time."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.digests = [digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self.digests)

    def accept(self, key: str) -> bool:
        """Return whether a key is accepted; it is always compared with all keys."""
        given = digest(key)
        matches = [hmac.compare_digest(given, known) for known in self.digests]
        return any(matches)


def digest(key: str) -> bytes:
    """Return the SHA-256 digest of a key, so that comparing keys of any length takes the same time."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def key_from_header(value: str) -> str:
    """Return the key in an Authorization header: DeepL's scheme, Bearer, or the password of Basic."""
    scheme, _, content = value.strip().partition(" ")
    if scheme.lower() in ("deepl-auth-key", "bearer"):
        return content.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(content, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return ""


class RateLimiter:
    """A token bucket for each client."""

    def __init__(self, per_minute: int) -> None:
        self.per_second = per_minute / 60
        self.size = float(per_minute)
        self.buckets: OrderedDict[str, tuple[float, float]] = (
            OrderedDict()
        )  # requests left, and the time of that count

    def seconds_to_wait(self, client: str) -> float:
        """Count one request of a client; return 0 if it is allowed, else the seconds until it would be."""
        if not self.per_second:
            return 0.0
        now = time.monotonic()
        left, then = self.buckets.pop(client, (self.size, now))
        left = min(self.size, left + (now - then) * self.per_second)
        is_allowed = left >= 1
        self.buckets[client] = (left - 1 if is_allowed else left), now
        if len(self.buckets) > MAX_CLIENTS:
            self.buckets.popitem(last=False)
        return 0.0 if is_allowed else (1 - left) / self.per_second
