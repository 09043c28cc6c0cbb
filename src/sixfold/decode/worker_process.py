"""A process of its own that opens a model and works for its parent, as long as that lives.

`WorkerProcess` is what the parent sees of it. `main` is where the process begins: it opens a job, which opens the
model from its folder and does what the `Parent` asks for; most jobs answer one request after the other, in a
`RequestLoop`. A worker that beats says that it is alive from the very loop that does the work: before a step of a
search, and while it waits. So one that is stuck falls silent.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Protocol, cast

from sixfold.decode.worker_protocol import Channel, Message, Start, error_message, message_of, packed
from sixfold.errors import SixfoldError, WorkError
from sixfold.kernels import prepare
from sixfold.kernels.build import VARIABLE
from sixfold.machine import let_threads_sleep, prepare_environment

CHILD = "import sys; from sixfold.decode.worker_process import main; main(int(sys.argv[1]))"
END_SECONDS = 10.0  # for a process that has closed its connection to end


class LostError(WorkError):
    """A worker ended or hung while it was needed."""


class WorkerProcess:
    """A worker, seen from its parent, which speaks with it through `socket`."""

    def __init__(self, start: Start, environment: Mapping[str, str]) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C is for the parent; a worker ends when its connection does
            )
        with suppress(ConnectionError):  # it has ended already, as whoever waits for its answer will learn
            self.socket.sendall(packed({**message_of(start), "origin": message_of(start.origin)}))

    def lost(self) -> LostError:
        """Return the error that says how the process ended."""
        try:
            exit_code = self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            exit_code = self.process.wait()
        return LostError(
            f"A worker process ended with exit code {exit_code} before its work was done.",
            "It may have run out of memory: try again with --workers 1.",
        )

    def end(self) -> None:
        """End the process; it holds nothing that must be saved."""
        self.process.kill()
        self.process.wait()


class Parent:
    """The parent, as its worker sees it."""

    def __init__(self, channel: Channel, beat_seconds: float) -> None:
        self.channel, self.beat_seconds = channel, beat_seconds
        self.last_beat = 0.0

    def tell(self, message: Message) -> None:
        """Send a message."""
        self.channel.send(message)

    def wait(self) -> Message:
        """Return the next message, and say while waiting that this worker is alive."""
        while self.beat_seconds and not self.channel.has_message(self.beat_seconds):
            self.beat()
        return self.channel.receive()

    def messages(self) -> Iterator[Message]:
        """Beat if it is time, and yield the messages that have come."""
        if self.beat_seconds and time.monotonic() - self.last_beat > self.beat_seconds:
            self.beat()
        while self.channel.has_message():
            yield self.channel.receive()

    def beat(self) -> None:
        """Say that this worker is alive."""
        self.tell({"alive": True})
        self.last_beat = time.monotonic()


class Job(Protocol):
    """What a worker does with the model that it has opened."""

    def describe(self) -> Message:
        """Return what the parent is told when all is ready."""

    def work(self, parent: Parent) -> None:
        """Do what the parent asks for, until it is gone."""


class RequestLoop:
    """Answers one request after the other."""

    def __init__(self, parent: Parent, answer: Callable[[Message], Message]) -> None:
        self.parent, self.answer = parent, answer
        self.pending: set[int] = set()  # the ids of this request that somebody waits for

    def run(self) -> None:
        """Answer until the parent is gone."""
        while True:
            message = self.parent.wait()
            if "work" in message:  # or else somebody left who had just been answered
                self.parent.tell(self.answered(message))

    def answered(self, message: Message) -> Message:
        """Do the work; what is refused or called off is an answer too."""
        from sixfold.decode.search import Stopped

        self.pending = set(cast("list[int]", message["ids"]))
        try:
            return {"done": self.answer(cast("Message", message["work"]))}
        except Stopped:
            return {"stopped": True}
        except SixfoldError as error:
            return error_message(error)

    def should_stop(self) -> bool:
        """Hear who has left, and return whether nobody waits any more."""
        for message in self.parent.messages():
            self.pending -= set(cast("list[int]", message["cancel"]))
        return not self.pending


def main(descriptor: int) -> None:
    """Be a worker: open the model that the first message names, and work until the parent is gone."""
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        start = Start.read(channel.receive())
        prepare_process(start)
        job = open_job(start)
        channel.send({"ready": job.describe()})
        job.work(Parent(channel, start.beat_seconds))
    except SixfoldError as error:
        channel.send(error_message(error))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone


def prepare_process(start: Start) -> None:
    """Do what must be done before torch is loaded, as the parent did it if it says how."""
    if not start.kernels:
        let_threads_sleep()
        prepare_environment(start.origin.precision)
    prepare()  # multiplies with MKL's kernels as the parent does, which its environment tells
    if start.kernels:
        os.environ[VARIABLE] = start.kernels


def open_job(start: Start) -> Job:
    """Open the model that the parent names, for the job that it names."""
    module, _, name = start.job.partition(":")
    job: Job = getattr(import_module(module), name)(start)
    return job
