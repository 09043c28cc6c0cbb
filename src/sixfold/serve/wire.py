"""What the server and its workers say to each other: JSON with its length before it, through a pair of sockets."""

from __future__ import annotations

import json
import select
import socket
import struct
from dataclasses import dataclass, field

LENGTH = struct.Struct("!I")
Message = dict[str, object]


@dataclass(frozen=True)
class Kind:
    """What is asked of a sentence; only sentences of one kind are translated together."""

    n_best: int = 1
    has_evidence: bool = False  # with the alignment of words, and what is suspicious
    is_explained: bool = False  # the page that shows what the model did, instead of a translation


@dataclass(frozen=True)
class Found:
    """One translation of one sentence, or the page that explains it."""

    text: str
    probability: float = 1.0  # of a token, on average (geometric)
    is_cut: bool = False
    flags: list[dict[str, str]] = field(default_factory=list)
    links: list[tuple[int, int, int, int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Description:
    """What a worker says of its model when it is ready."""

    source: str
    target: str
    tokenizer: str  # SentencePiece's bytes in base64
    longest_source: int  # tokens
    beam: int


def packed(message: Message) -> bytes:
    """Return a message as it goes through the socket."""
    content = json.dumps(message).encode()
    return LENGTH.pack(len(content)) + content


class Channel:
    """The worker's end."""

    def __init__(self, ours: socket.socket) -> None:
        self.socket = ours

    def send(self, message: Message) -> None:
        """Send a message."""
        self.socket.sendall(packed(message))

    def has_message(self, seconds: float = 0.0) -> bool:
        """Wait so long for a message, or for the other end to close."""
        return bool(select.select([self.socket], [], [], seconds)[0])

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
