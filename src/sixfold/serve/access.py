"""Who may ask, and how often."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Iterable

MOST_CLIENTS = 10_000  # whose rates are remembered; the one that asked longest ago is forgotten first


class Keys:
    """The keys that open the server, compared in a time that tells nothing about them."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.digests = [digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self.digests)

    def accept(self, key: str) -> bool:
        """Whether this is one of the keys; all of them are always compared."""
        given = digest(key)
        matches = [hmac.compare_digest(given, known) for known in self.digests]
        return any(matches)


def digest(key: str) -> bytes:
    """Return a digest of a key, so that keys of all lengths are compared alike."""
    return hashlib.sha256(key.encode(errors="surrogateescape")).digest()


def key_of_header(value: str) -> str:
    """Return the key in an Authorization header: DeepL's, a bearer's, or the password a browser asked for."""
    scheme, _, content = value.strip().partition(" ")
    if scheme.lower() in ("deepl-auth-key", "bearer"):
        return content.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(content, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return ""


class RateLimit:
    """A bucket of requests for each client, which fills up again as time goes by."""

    def __init__(self, per_minute: int) -> None:
        self.per_second = per_minute / 60
        self.size = float(per_minute)
        self.buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, and when that was

    def seconds_to_wait(self, client: str) -> float:
        """Take one request from a client's bucket; return 0, or how long to wait if there was none."""
        if not self.per_second:
            return 0.0
        now = time.monotonic()
        left, then = self.buckets.pop(client, (self.size, now))
        left = min(self.size, left + (now - then) * self.per_second)
        is_allowed = left >= 1
        self.buckets[client] = (left - 1 if is_allowed else left), now
        if len(self.buckets) > MOST_CLIENTS:
            self.buckets.popitem(last=False)
        return 0.0 if is_allowed else (1 - left) / self.per_second
