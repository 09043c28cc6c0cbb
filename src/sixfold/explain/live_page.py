"""The live training page: a small HTTP server on the loopback address while a model trains."""

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
from sixfold.explain.training_history import TrainingHistory, history_of, metrics_log_path, read_training

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8606  # if it is in use, any free one
HOSTS = {LOOPBACK, "localhost"}  # other names may be DNS rebinding


@contextmanager
def live_training_page(folder: Path) -> Iterator[str]:
    """Serve the training page of a model folder, and yield its address."""
    server = start_server(folder)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def start_server(folder: Path) -> ThreadingHTTPServer:
    """Listen on the default port, or on a free one."""

    class Handler(TrainingHandler):
        model_folder = folder

    try:
        return ThreadingHTTPServer((LOOPBACK, DEFAULT_PORT), Handler)
    except OSError:
        return ThreadingHTTPServer((LOOPBACK, 0), Handler)


def current(folder: Path) -> TrainingHistory:
    """Return the history so far; it is empty before the first step."""
    try:
        return history_at(folder, metrics_log_path(folder).stat().st_mtime_ns)
    except (OSError, ModelFolderError):
        return history_of(folder, [])


@lru_cache(maxsize=1)
def history_at(folder: Path, changed: int) -> TrainingHistory:  # noqa: ARG001
    """Return the history as of the last change of its metrics log, which is read again only after a change."""
    return read_training(folder)


class TrainingHandler(BaseHTTPRequestHandler):
    """Serves the page, and its data for updates."""

    model_folder: Path
    server_version, sys_version = "sixfold", ""

    def do_GET(self) -> None:
        """Respond to a GET request."""
        if self.headers.get("Host", "").rsplit(":", 1)[0] not in HOSTS:
            self.send_error(421, "Unknown host name")
        elif self.path == "/":
            self.respond(render_training(current(self.model_folder), is_live=True), "text/html; charset=utf-8")
        elif self.path == "/training.json":
            self.respond(json.dumps(asdict(current(self.model_folder))), "application/json")
        else:
            self.send_error(404)

    def respond(self, content: str, content_type: str) -> None:
        """Send a response that browsers do not cache."""
        body = content.encode()
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal shows the progress of the training."""
