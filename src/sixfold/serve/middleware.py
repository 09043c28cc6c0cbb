"""The gate that every request passes, whatever its route: who asks, how much, how often and for how long.

Nothing behind it has to think of deadlines or of clients that leave: the work for a request is simply called off.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sixfold.serve.access import Keys, RateLimit, key_of_header
from sixfold.serve.http_errors import ClientLeft, Refusal
from sixfold.serve.logs import log, log_error
from sixfold.serve.request_body import Fields, fields_of, read_body
from sixfold.serve.service import Service

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
]
CLIENT_LEFT = 499  # what logs write of a client that did not wait


def is_free(path: str) -> bool:
    """Whether a path is not counted against a client's rate: probes, and the files of the web page."""
    return path in ("/", "/health", "/ready") or path.startswith("/page/")


@dataclass
class Visit:
    """One request on its way: what is logged of it."""

    number: str = field(default_factory=lambda: secrets.token_hex(8))
    began: float = field(default_factory=time.perf_counter)
    status: int = CLIENT_LEFT
    has_answer: bool = False
    fields: Fields = field(default_factory=dict)
    num_characters: int = 0


class Gate:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service, self.settings = app, service, service.settings
        self.keys, self.rates = Keys(self.settings.keys), RateLimit(self.settings.rate_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        visit = scope["visit"] = Visit()
        send = self.with_headers(visit, Headers(scope=scope), send)
        try:
            if self.is_preflight(scope):
                await send({"type": "http.response.start", "status": 204, "headers": PREFLIGHT})
                await send({"type": "http.response.body", "body": b""})
                return
            await self.admit(scope, receive, visit)
            await self.attend(scope, receive, send, visit)
        except Refusal as refusal:
            await refuse(refusal, send, visit)
        except ClientLeft:
            self.service.metrics.stopped.inc()
        except Exception as error:
            log_error("error", error, request=visit.number)
            await refuse(Refusal(500, "Something went wrong here."), send, visit)
        finally:
            self.record(scope, visit)

    async def admit(self, scope: Scope, receive: Receive, visit: Visit) -> None:
        """Refuse who may not ask, and read what is asked."""
        headers = Headers(scope=scope)
        self.check_host(headers)
        self.check_origin(headers)
        settings = self.settings
        body = await read_body(headers, receive, settings.longest_body, settings.body_seconds)
        visit.fields = await fields_of(headers, scope["query_string"].decode("latin-1"), body)
        key = key_of_header(headers.get("authorization", "")) or str(visit.fields.pop("api_key", ""))
        visit.fields.pop("api_key", None)
        if self.keys and not self.keys.accept(key):
            raise Refusal(401, "A valid API key is needed: as api_key, or in the Authorization header.")
        client = key if self.keys else (scope.get("client") or ("unknown",))[0]
        if not is_free(scope["path"]) and (seconds := self.rates.seconds_to_wait(client)):
            raise Refusal(429, f"At most {settings.rate_limit} requests a minute.", retry_after=seconds)

    def is_preflight(self, scope: Scope) -> bool:
        """Whether a browser asks if a page of an allowed site may ask; that is all it learns."""
        return scope["method"] == "OPTIONS" and Headers(scope=scope).get("origin") in self.settings.origins

    def check_host(self, headers: Headers) -> None:
        """Refuse names that are not ours: a page elsewhere may have let its name point here."""
        name = host_name(headers.get("host", ""))
        if name not in ("localhost", *self.settings.hosts) and not is_address(name):
            raise Refusal(421, "This server is not known under that name; see --allow-host.")

    def check_origin(self, headers: Headers) -> None:
        """Refuse what pages of other sites send."""
        origin = headers.get("origin")
        is_ours = origin is None or origin.partition("://")[2] == headers.get("host")
        if not is_ours and origin not in self.settings.origins:
            raise Refusal(403, "Pages of other sites may not ask here; see --allow-origin.")

    async def attend(self, scope: Scope, receive: Receive, send: Send, visit: Visit) -> None:
        """Let the application answer, until the deadline, and while the client is there."""
        work = asyncio.ensure_future(self.app(scope, nothing_more, send))
        leaving = asyncio.create_task(left(receive))
        try:
            seconds = self.settings.deadline_seconds
            done, _ = await asyncio.wait({work, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done and not visit.has_answer:
                raise Refusal(503, f"No answer within {seconds:g} s.", retry_after=5)
            if work not in done:
                raise ClientLeft
            work.result()
        finally:
            work.cancel()
            leaving.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)

    def with_headers(self, visit: Visit, headers: Headers, send: Send) -> Send:
        """Return a way to send that adds what every answer carries."""
        origin = headers.get("origin", "")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status, visit.has_answer = message["status"], True
                given = {name.lower() for name, _ in message["headers"]}
                added = [*SAFE_HEADERS, (b"content-security-policy", CONTENT_POLICY.encode())]
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in added if name not in given),
                    (b"x-request-id", visit.number.encode()),
                ]
                if self.service.is_draining:
                    message["headers"].append((b"connection", b"close"))
                if origin in self.settings.origins:
                    message["headers"] += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
            await send(message)

        return send_with_headers

    def record(self, scope: Scope, visit: Visit) -> None:
        """Log and count a request; the route, not the path, which a client may have invented."""
        route = getattr(scope.get("route"), "path", "none")
        seconds = time.perf_counter() - visit.began
        self.service.metrics.requests.labels(route, str(visit.status)).inc()
        self.service.metrics.seconds.labels(route).observe(seconds)
        facts = {"request": visit.number, "method": scope["method"][:10], "route": route, "status": visit.status}
        log("request", **facts, seconds=round(seconds, 4), characters=visit.num_characters)


async def refuse(refusal: Refusal, send: Send, visit: Visit) -> None:
    """Send a refusal, unless an answer has begun."""
    if not visit.has_answer:
        await send({"type": "http.response.start", "status": refusal.status, "headers": refusal.headers})
        await send({"type": "http.response.body", "body": refusal.body})


async def nothing_more() -> Message:
    """Tell the application that the body was read."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def left(receive: Receive) -> None:
    """Wait until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


def host_name(host: str) -> str:
    """Return a Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    """Whether a name is an address; no page elsewhere can let one point here."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
