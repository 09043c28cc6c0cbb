"""A separate process that opens a model and works for its parent as long as that is alive.

`WorkerProcess` is the parent's side. `main` is the start of the process: it opens a job, which opens the model
from its folder and does the `Parent`'s work; most jobs answer one request after the other, in a `RequestLoop`.
Heartbeats are sent from the loop that does the work, before each step of a search and while waiting, so a worker
that hangs sends none.
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
END_SECONDS = 10.0  # for a process to end after its connection is closed


class LostError(WorkError):
    """A worker ended or hung while it was needed."""


class WorkerProcess:
    """The parent's side of a worker, with a connection through `socket`."""

    def __init__(self, start: Start, environment: Mapping[str, str]) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | environment,
                start_new_session=True,  # Ctrl-C is for the parent only; a worker ends when its connection closes
            )
        with suppress(ConnectionError):  # it has already ended, which waiting for its answer will report
            self.socket.sendall(packed({**message_of(start), "origin": message_of(start.origin)}))

    def lost(self) -> LostError:
        """Return the error that describes how the process ended."""
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
        """End the process; it has no unsaved state."""
        self.process.kill()
        self.process.wait()


class Parent:
    """The worker's side of the connection to its parent."""

    def __init__(self, channel: Channel, beat_seconds: float) -> None:
        self.channel, self.beat_seconds = channel, beat_seconds
        self.last_beat = 0.0

    def tell(self, message: Message) -> None:
        """Send a message."""
        self.channel.send(message)

    def wait(self) -> Message:
        """Return the next message, sending heartbeats while waiting."""
        while self.beat_seconds and not self.channel.has_message(self.beat_seconds):
            self.beat()
        return self.channel.receive()

    def messages(self) -> Iterator[Message]:
        """Send a heartbeat if it is time, and yield the messages that have arrived."""
        if self.beat_seconds and time.monotonic() - self.last_beat > self.beat_seconds:
            self.beat()
        while self.channel.has_message():
            yield self.channel.receive()

    def beat(self) -> None:
        """Send a heartbeat."""
        self.tell({"alive": True})
        self.last_beat = time.monotonic()


class Job(Protocol):
    """The work that a worker does with its model."""

    def describe(self) -> Message:
        """Return the message that tells the parent that the worker is ready."""

    def work(self, parent: Parent) -> None:
        """Work for the parent until it is gone."""


class RequestLoop:
    """Answers one request after the other."""

    def __init__(self, parent: Parent, answer: Callable[[Message], Message]) -> None:
        self.parent, self.answer = parent, answer
        self.pending: set[int] = set()  # the ids of the current request that are still wanted

    def run(self) -> None:
        """Answer until the parent is gone."""
        while True:
            message = self.parent.wait()
            if "work" in message:  # otherwise it cancels a request that has just been answered
                self.parent.tell(self.answered(message))

    def answered(self, message: Message) -> Message:
        """Do the work and return the answer, which may be an error or a cancellation."""
        from sixfold.decode.search import Stopped

        self.pending = set(cast("list[int]", message["ids"]))
        try:
            return {"done": self.answer(cast("Message", message["work"]))}
        except Stopped:
            return {"stopped": True}
        except SixfoldError as error:
            return error_message(error)

    def should_stop(self) -> bool:
        """Read cancellations, and return whether no id is wanted any more."""
        for message in self.parent.messages():
            self.pending -= set(cast("list[int]", message["cancel"]))
        return not self.pending


def main(descriptor: int) -> None:
    """Run a worker: open the model named in the first message, and work until the parent is gone."""
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
    """Do what must precede importing torch, as the parent did if the message says how."""
    if not start.kernels:
        let_threads_sleep()
        prepare_environment(start.origin.precision)
    prepare()  # uses the same MKL kernels as the parent, according to the environment
    if start.kernels:
        os.environ[VARIABLE] = start.kernels


def open_job(start: Start) -> Job:
    """Open the job and the model that the parent names."""
    module, _, name = start.job.partition(":")
    job: Job = getattr(import_module(module), name)(start)
    return job
