"""The log: one JSON object per line on standard error, never with users' text.

An error message may quote the text that caused it, so only the type of an error and its stack frames are logged.
A line that cannot be written, because the disk is full or the pipe is closed, is lost: requests continue.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime


def log(event: str, **facts: object) -> None:
    """Write one line in plain ASCII; other characters and line breaks are escaped."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    with suppress(OSError):
        print(json.dumps({"time": now, "event": event, **facts}, default=str), file=sys.stderr, flush=True)


def log_error(event: str, error: BaseException, **facts: object) -> None:
    """Log the type of an error and its last stack frames."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
    log(event, error=type(error).__name__, places=places, **facts)


class JsonHandler(logging.Handler):
    """Writes the log records of libraries in the same form, without their arguments."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        if record.exc_info and record.exc_info[1]:
            log_error("library", record.exc_info[1], logger=record.name)
        else:
            log("library", logger=record.name, level=record.levelname, message=str(record.msg))


def collect_logs() -> None:
    """Send the warnings and errors of all libraries to this log."""
    logging.basicConfig(level=logging.WARNING, handlers=[JsonHandler()], force=True)
    logging.captureWarnings(True)
