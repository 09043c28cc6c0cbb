"""The middleware around every route: access control, rate and size limits, the deadline, the log and metrics.

No route needs to handle deadlines or disconnected clients: the middleware cancels the task of the request.
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

from sixfold.serve.access import ApiKeys, RateLimiter, key_from_header
from sixfold.serve.event_stream import EVENT_STREAM, event
from sixfold.serve.http_errors import ClientDisconnected, HttpError
from sixfold.serve.logs import log, log_error
from sixfold.serve.request_body import FieldValues, read_body, read_fields
from sixfold.serve.service import Service

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", CONTENT_POLICY.encode()),
]
PREFLIGHT_HEADERS = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
]
CLIENT_CLOSED_REQUEST = 499  # nginx's status for a client that disconnected first; used in the log only


def is_rate_limited(path: str) -> bool:
    """Whether requests for a path count towards the rate limit; probes and the files of the web page do not."""
    return path not in ("/", "/health", "/ready") and not path.startswith("/page/")


@dataclass
class RequestContext:
    """What is known about one request: its fields for the route, its status and size for the log."""

    request_id: str = field(default_factory=lambda: secrets.token_hex(8))
    started_at: float = field(default_factory=time.perf_counter)
    status: int = CLIENT_CLOSED_REQUEST
    has_response: bool = False
    is_event_stream: bool = False
    fields: FieldValues = field(default_factory=dict)
    num_characters: int = 0


class Middleware:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service, self.settings = app, service, service.settings
        self.keys, self.rates = ApiKeys(self.settings.keys), RateLimiter(self.settings.rate_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        if scope["type"] != "http":
            return
        context = scope["context"] = RequestContext()
        send = self.with_headers(context, Headers(scope=scope), send)
        try:
            if self.is_preflight(scope):
                await send({"type": "http.response.start", "status": 204, "headers": PREFLIGHT_HEADERS})
                await send({"type": "http.response.body", "body": b""})
                return
            await self.admit(scope, receive, context)
            await self.run_app(scope, receive, send)
        except HttpError as error:
            await send_error(error, scope["path"], send, context)
        except ClientDisconnected:
            self.service.metrics.clients_left.inc()
        except Exception as error:
            log_error("error", error, request=context.request_id)
            await send_error(HttpError(500, "Internal error."), scope["path"], send, context)
        finally:
            self.record(scope, context)

    async def admit(self, scope: Scope, receive: Receive, context: RequestContext) -> None:
        """Read the fields of a request, and refuse it if a check fails or a limit is exceeded."""
        headers = Headers(scope=scope)
        self.check_host(headers)
        self.check_origin(headers)
        settings = self.settings
        body = await read_body(headers, receive, settings.longest_body, settings.body_seconds)
        context.fields = await read_fields(headers, scope["query_string"].decode("latin-1"), body)
        key = key_from_header(headers.get("authorization", "")) or str(context.fields.pop("api_key", ""))
        context.fields.pop("api_key", None)
        if self.keys and not self.keys.accept(key):
            raise HttpError(401, "A valid API key is required, as api_key or in the Authorization header.")
        client = key if self.keys else (scope.get("client") or ("unknown",))[0]
        if is_rate_limited(scope["path"]) and (seconds := self.rates.seconds_to_wait(client)):
            message = f"Rate limit exceeded: at most {settings.rate_limit} requests per minute."
            raise HttpError(429, message, retry_after=seconds)

    def is_preflight(self, scope: Scope) -> bool:
        """Whether this is a CORS preflight from an allowed origin; it needs no API key and reveals nothing."""
        return scope["method"] == "OPTIONS" and Headers(scope=scope).get("origin") in self.settings.origins

    def check_host(self, headers: Headers) -> None:
        """Refuse unknown host names: another site could point its own name here (DNS rebinding)."""
        name = host_name(headers.get("host", ""))
        if name not in ("localhost", *self.settings.hosts) and not is_ip_address(name):
            raise HttpError(421, "Unknown host name. Start the server with --allow-host to serve it.")

    def check_origin(self, headers: Headers) -> None:
        """Refuse requests from pages of other sites."""
        origin = headers.get("origin")
        is_same_origin = origin is None or origin.partition("://")[2] == headers.get("host")
        if not is_same_origin and origin not in self.settings.origins:
            raise HttpError(403, "Origin not allowed. Start the server with --allow-origin to allow it.")

    async def run_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the route respond, and cancel it at the deadline or when the client disconnects."""
        work = asyncio.ensure_future(self.app(scope, empty_body, send))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        seconds = self.settings.seconds_to_answer(scope["path"])
        try:
            done, _ = await asyncio.wait({work, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise HttpError(503, f"No answer within {seconds:g} s.", retry_after=5)
            if work not in done:
                raise ClientDisconnected
            work.result()
        finally:
            work.cancel()
            leaving.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)

    def with_headers(self, context: RequestContext, headers: Headers, send: Send) -> Send:
        """Return a `send` that adds the headers of every response."""
        origin = headers.get("origin", "")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                context.status, context.has_response = message["status"], True
                context.is_event_stream = (b"content-type", EVENT_STREAM) in message["headers"]
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in SECURITY_HEADERS if name not in given),
                    (b"x-request-id", context.request_id.encode()),
                ]
                if self.service.is_draining:
                    message["headers"].append((b"connection", b"close"))
                if origin in self.settings.origins:
                    message["headers"] += [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin")]
            await send(message)

        return send_with_headers

    def record(self, scope: Scope, context: RequestContext) -> None:
        """Log and count a request under its route, not its path, which a client can make up."""
        route = getattr(scope.get("route"), "path", "none")
        seconds = time.perf_counter() - context.started_at
        self.service.metrics.requests.labels(route, str(context.status)).inc()
        self.service.metrics.seconds.labels(route).observe(seconds)
        facts = {"method": scope["method"][:10], "route": route, "status": context.status}
        characters = context.num_characters
        log("request", request=context.request_id, **facts, seconds=round(seconds, 4), characters=characters)


async def send_error(error: HttpError, path: str, send: Send, context: RequestContext) -> None:
    """Send an error response, or an error event if a stream has begun."""
    if context.is_event_stream:
        await send({"type": "http.response.body", "body": event(error.openai_record)})
    elif not context.has_response:
        body = error.body(path)
        headers = [*error.headers, (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": error.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def empty_body() -> Message:
    """Return an empty body to the route: the middleware has read the real one."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


def host_name(host: str) -> str:
    """Return a Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_ip_address(name: str) -> bool:
    """Whether a host name is an IP address, which DNS rebinding cannot fake."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
