"""The protocol between a process and its workers: length-prefixed JSON messages through a socket pair.

The parent first sends a `Start`, and gets {"ready": …}. What follows depends on the job.

Most jobs answer one request after the other: {"work": …, "ids": […]} with {"done": …}, or with {"error": …} if the
worker refuses it. With {"cancel": […]} the parent cancels ids; when all ids of a request are cancelled, its search
stops and is answered with {"stopped": true}.

A job that generates takes several requests at the same time, {"add": id, "request": …}, and reports after each
step the new text of each: {"events": [{"id": …, …}], "running": …}. {"cancel": […]} removes them from the batch.

A worker with heartbeats sends {"alive": true} in between.
"""

from __future__ import annotations

import json
import select
import socket
import struct
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, cast

from sixfold import errors
from sixfold.errors import SixfoldError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from sixfold.decode.matrices import Precision

LENGTH = struct.Struct("!I")
Message = dict[str, object]


@dataclass(frozen=True)
class Origin:
    """Everything that another process needs to open the same model."""

    folder: str
    partners: tuple[str, ...] = ()
    device: str = "auto"
    precision: Precision = "float32"


@dataclass(frozen=True)
class Start:
    """The first message to a worker."""

    job: str  # module:name of the job class
    origin: Origin
    kernels: str = ""  # on or off, as in the parent; empty: the worker decides
    beat_seconds: float = 0.0  # interval of heartbeats; 0: none
    limits: dict[str, int] = field(default_factory=dict)  # limits of the job, by its own names

    @classmethod
    def read(cls, message: Message) -> Start:
        """Return the start from a message."""
        origin = Origin(**plain_values(cast("Message", message["origin"])))  # type: ignore[arg-type]
        return cls(**{**message, "origin": origin})  # type: ignore[arg-type]


def message_of(value: DataclassInstance) -> Message:
    """Return the fields of a dataclass of plain values; JSON keeps every bit of a number."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def plain_values(message: Message) -> Message:
    """Return the fields of a dataclass from a message, with JSON's lists as tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in message.items()}


def error_message(error: SixfoldError) -> Message:
    """Return an error as a message: its nearest class in `sixfold.errors`, and its texts."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__)
    return {"error": {"kind": kind, "message": error.message, "hint": error.hint}}


def checked(message: Message) -> Message:
    """Return an answer, or raise the error in it."""
    if "error" not in message:
        return message
    told = cast("dict[str, str]", message["error"])
    kind: type[SixfoldError] = getattr(errors, told["kind"])
    error = kind.__new__(kind)
    SixfoldError.__init__(error, told["message"], told["hint"])
    raise error


def packed(message: Message) -> bytes:
    """Serialise a message for the socket."""
    content = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(content)) + content


class Channel:
    """One end of the connection, for blocking use."""

    def __init__(self, ours: socket.socket) -> None:
        self.socket = ours
        self.poll = select.poll()  # unlike select, it works for any descriptor number
        self.poll.register(ours, select.POLLIN)

    def send(self, message: Message) -> None:
        """Send a message."""
        self.socket.sendall(packed(message))

    def has_message(self, seconds: float = 0.0) -> bool:
        """Wait up to this long for a message, or for the other end to close."""
        return bool(self.poll.poll(1000 * seconds))

    def receive(self) -> Message:
        """Return the next message; raise EOFError if the other end has closed."""
        (length,) = LENGTH.unpack(self.exactly(LENGTH.size))
        message: Message = json.loads(self.exactly(length))
        return message

    def exactly(self, count: int) -> bytes:
        """Read this many bytes."""
        content = bytearray()
        while len(content) < count:
            part = self.socket.recv(min(1 << 20, count - len(content)))
            if not part:
                raise EOFError
            content += part
        return bytes(content)
