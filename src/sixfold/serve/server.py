"""The HTTP server: connection limits, header timeouts and graceful shutdown.

On SIGTERM or Ctrl-C, /ready turns to 503 and responses ask clients to close their connections. A moment later no
more connections are accepted, requests in progress are answered, and the workers end. A second signal ends the
server at once.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from types import FrameType
from typing import cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sixfold.errors import WorkError
from sixfold.serve.app import build
from sixfold.serve.logs import collect_logs, log
from sixfold.serve.server_settings import ServerSettings
from sixfold.serve.service import Service

END_SECONDS = 5.0  # beyond the deadline, to send the last responses
BACKLOG = 1024


class Server(uvicorn.Server):
    """A uvicorn server that drains before it ends."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and only then print the address."""
        await super().startup(sockets)
        for listening in sockets or ():
            announce(listening, self.service)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Drain on the first signal, end at once on the second."""
        if self.service.is_draining:
            self.should_exit = self.force_exit = True
        else:
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(self.service.start_draining)
            loop.call_soon_threadsafe(loop.call_later, self.service.settings.drain_seconds, self.end)

    def end(self) -> None:
        """Accept no more connections, and end once every request is answered."""
        self.should_exit = True


def protocol(settings: ServerSettings) -> type[H11Protocol]:
    """Return a protocol that limits the number of connections, the time to receive headers and that to be read."""

    class LimitedProtocol(H11Protocol):
        """A connection that ends where the headers of a request or the reader of a response are late."""

        timer: asyncio.TimerHandle | None = None
        stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            connection = cast("asyncio.Transport", transport)
            super().connection_made(connection)
            if len(self.connections) > settings.most_connections:
                connection.abort()
            self.time_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.time_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            for timer in filter(None, (self.timer, self.stalled)):
                timer.cancel()

        def pause_writing(self) -> None:
            super().pause_writing()
            self.stalled = self.loop.call_later(settings.stall_seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.stalled:
                self.stalled.cancel()

        def time_headers(self) -> None:
            """Start the timer when a request begins, and stop it once its headers are complete."""
            is_waiting = self.conn.their_state is h11.IDLE
            if self.timer and not is_waiting:
                self.timer.cancel()
                self.timer = None
            elif is_waiting and not self.timer:
                self.timer = self.loop.call_later(settings.header_seconds, self.transport.close)

    return LimitedProtocol


async def serve(settings: ServerSettings) -> None:
    """Start the workers, then serve until a signal ends the server."""
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
                timeout_graceful_shutdown=int(settings.longest_answer + END_SECONDS),
            )
            await Server(config, service).serve(sockets=[listening])
    log("ended")


def bind(settings: ServerSettings) -> socket.socket:
    """Bind the address before the models are loaded, so that an address in use is reported at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio disables Nagle's algorithm, which delays responses by 40 ms, only for sockets with IPPROTO_TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise WorkError(
            f"Cannot listen on port {settings.port} of {settings.host}: {error.strerror or error}.",
            "Choose another port with --port, or --port 0 for any free one.",
        ) from error
    return listening


def announce(listening: socket.socket, service: Service) -> None:
    """Print and log the address."""
    host, port = listening.getsockname()[:2]
    names = ", ".join(model.title for model in service.models)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(
        f"Serving {names} at {address} (API: {address}/docs). Press Ctrl-C to stop.", file=sys.stdout, flush=True
    )
    log("serving", address=address, models=[model.name for model in service.models])


def run(settings: ServerSettings) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    collect_logs()
    asyncio.run(serve(settings))
