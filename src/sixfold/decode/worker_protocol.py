"""What a process and its workers say to each other: JSON with its length before it, through a pair of sockets.

The parent first sends a `Start`, and is answered {"ready": …}. What follows depends on the job.

Most jobs answer one request after the other: {"work": …, "ids": […]} with {"done": …}, or with {"error": …} if the
worker refuses it. By {"cancel": […]} the parent tells that nobody waits for these ids any more; a search that
nobody waits for is given up and answered with {"stopped": true}.

A job that generates takes several requests at the same time, {"add": id, "request": …}, and tells after each step
what it wrote for each: {"events": [{"id": …, …}], "running": …}. {"cancel": […]} takes them out of the batch.

A worker that was asked to beat says {"alive": true} in between.
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
    """Where a model comes from: all that another process needs to open it too."""

    folder: str
    partners: tuple[str, ...] = ()
    device: str = "auto"
    precision: Precision = "float32"


@dataclass(frozen=True)
class Start:
    """The first message to a worker."""

    job: str  # module:name of what opens the model and does the work
    origin: Origin
    kernels: str = ""  # on or off: compute as the parent does; empty: as is best here
    beat_seconds: float = 0.0  # how often to say that it is alive; 0: never
    limits: dict[str, int] = field(default_factory=dict)  # what the job may use at most, by its own names

    @classmethod
    def read(cls, message: Message) -> Start:
        """Return the start that a message tells."""
        origin = Origin(**plain_values(cast("Message", message["origin"])))  # type: ignore[arg-type]
        return cls(**{**message, "origin": origin})  # type: ignore[arg-type]


def message_of(value: DataclassInstance) -> Message:
    """Return the fields of a dataclass of plain values; a number keeps every bit in JSON."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def plain_values(message: Message) -> Message:
    """Return the fields of a dataclass as they were: JSON made lists of its tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in message.items()}


def error_message(error: SixfoldError) -> Message:
    """Return an error of ours as a message: the nearest kind that `sixfold.errors` knows, and what it says."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__module__ == errors.__name__)
    return {"error": {"kind": kind, "message": error.message, "hint": error.hint}}


def checked(message: Message) -> Message:
    """Return an answer, or raise the error that it tells."""
    if "error" not in message:
        return message
    told = cast("dict[str, str]", message["error"])
    kind: type[SixfoldError] = getattr(errors, told["kind"])
    error = kind.__new__(kind)
    SixfoldError.__init__(error, told["message"], told["hint"])
    raise error


def packed(message: Message) -> bytes:
    """Return a message as it goes through the socket."""
    content = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(content)) + content


class Channel:
    """One end of the connection, for a program that waits."""

    def __init__(self, ours: socket.socket) -> None:
        self.socket = ours
        self.poll = select.poll()  # unlike select, for descriptors of any number
        self.poll.register(ours, select.POLLIN)

    def send(self, message: Message) -> None:
        """Send a message."""
        self.socket.sendall(packed(message))

    def has_message(self, seconds: float = 0.0) -> bool:
        """Wait so long for a message, or for the other end to close."""
        return bool(self.poll.poll(1000 * seconds))

    def receive(self) -> Message:
        """Return the next message; EOFError if there will be none."""
        (length,) = LENGTH.unpack(self.exactly(LENGTH.size))
        message: Message = json.loads(self.exactly(length))
        return message

    def exactly(self, count: int) -> bytes:
        """Return so many bytes."""
        content = bytearray()
        while len(content) < count:
            part = self.socket.recv(min(1 << 20, count - len(content)))
            if not part:
                raise EOFError
            content += part
        return bytes(content)
