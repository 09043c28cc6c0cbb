"""The training page, live: a small server on this machine alone, beside the training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from sixfold.errors import ModelFolderError
from sixfold.explain.html_page import render_training
from sixfold.explain.training_history import Training, journal_of, read_training, training_of

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8606  # any free one, if it is taken
HOSTS = {LOOPBACK, "localhost"}  # a page of another name that leads here may not read


@contextmanager
def watching(folder: Path) -> Iterator[str]:
    """Serve the page of the training in a folder, and yield its address."""
    server = start_server(folder)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def start_server(folder: Path) -> ThreadingHTTPServer:
    """Listen on the usual port, or on a free one."""

    class Handler(TrainingHandler):
        watched = folder

    try:
        return ThreadingHTTPServer((LOOPBACK, USUAL_PORT), Handler)
    except OSError:
        return ThreadingHTTPServer((LOOPBACK, 0), Handler)


def current(folder: Path) -> Training:
    """Return the training as it stands, even before its first step."""
    try:
        return training_at(folder, journal_of(folder).stat().st_mtime_ns)
    except (OSError, ModelFolderError):
        return training_of(folder, [])


@lru_cache(maxsize=1)
def training_at(folder: Path, changed: int) -> Training:  # noqa: ARG001
    """Return the training as it stood when its journal was last changed: a long one is not read without need."""
    return read_training(folder)


class TrainingHandler(BaseHTTPRequestHandler):
    """Answers with the page, and with its data as the training goes on."""

    watched: Path
    server_version, sys_version = "sixfold", ""

    def do_GET(self) -> None:
        """Answer a browser."""
        if self.headers.get("Host", "").rsplit(":", 1)[0] not in HOSTS:
            self.send_error(421, "This name does not lead here")
        elif self.path == "/":
            self.answer(render_training(current(self.watched), is_live=True), "text/html; charset=utf-8")
        elif self.path == "/training.json":
            self.answer(json.dumps(asdict(current(self.watched))), "application/json")
        else:
            self.send_error(404)

    def answer(self, content: str, kind: str) -> None:
        """Send a content that is never kept."""
        body = content.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the training."""
