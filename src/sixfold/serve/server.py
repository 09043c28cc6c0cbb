"""The server itself: connections that must not dawdle, and an end that loses nobody.

On SIGTERM or Ctrl-C readiness goes first, and answers tell clients to close; a moment later no more connections
are taken, what is under way is answered, and the workers end. A second signal ends at once.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sixfold.errors import WorkError
from sixfold.serve.app import build
from sixfold.serve.logs import collect_logs, log
from sixfold.serve.server_settings import Settings
from sixfold.serve.service import Service

END_SECONDS = 5.0  # beyond the deadline, for answers to be sent before the rest is given up
BACKLOG = 1024


class Server(uvicorn.Server):
    """A server that drains before it ends."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and only then say where."""
        await super().startup(sockets)
        for listening in sockets or ():
            announce(listening, self.service)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Drain on the first signal, end on the second."""
        if self.service.is_draining:
            self.should_exit = self.force_exit = True
        else:
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(self.service.start_draining)
            loop.call_soon_threadsafe(loop.call_later, self.service.settings.drain_seconds, self.end)

    def end(self) -> None:
        """Take no more connections, and end when all is answered."""
        self.should_exit = True


def protocol(settings: Settings) -> type[H11Protocol]:
    """Return how connections are handled: so many, and each must send its headers in time."""

    class PatientProtocol(H11Protocol):
        """A connection that is closed if the headers of a request do not arrive in time."""

        waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > settings.most_connections:
                transport.abort()
            self.wait_for_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.wait_for_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.waiting:
                self.waiting.cancel()

        def wait_for_headers(self) -> None:
            """Start the clock when a request begins, and stop it when its headers are there."""
            is_waiting = self.conn.their_state is h11.IDLE
            if self.waiting and not is_waiting:
                self.waiting.cancel()
                self.waiting = None
            elif is_waiting and not self.waiting:
                self.waiting = self.loop.call_later(settings.header_seconds, self.transport.close)

    return PatientProtocol


async def serve(settings: Settings) -> None:
    """Start the workers, then serve until told to end."""
    listening = bind(settings)
    with listening:
        async with Service(settings) as service:
            config = uvicorn.Config(
                build(service),
                http=protocol(settings),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=BACKLOG,
                timeout_graceful_shutdown=int(settings.deadline_seconds + END_SECONDS),
            )
            await Server(config, service).serve(sockets=[listening])
    log("ended")


def bind(settings: Settings) -> socket.socket:
    """Take the address before anything is loaded, so that a wrong one is said at once; nobody is answered yet."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only for sockets that say they are TCP; else an answer takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise WorkError(
            f"Port {settings.port} of {settings.host} cannot be used: {error.strerror or error}.",
            "Choose another with --port, or 0 for any.",
        ) from error
    return listening


def announce(listening: socket.socket, service: Service) -> None:
    """Say where the page is, to people and in the log."""
    host, port = listening.getsockname()[:2]
    pairs = ", ".join(f"{source} → {target}" for source, target in service.models)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"Serving {pairs} at {address} (API: {address}/docs). Ctrl-C ends it.", file=sys.stdout, flush=True)
    log("serving", address=address, models=list(map("-".join, service.models)))


def run(settings: Settings) -> None:
    """Serve until told to end."""
    collect_logs()
    asyncio.run(serve(settings))
