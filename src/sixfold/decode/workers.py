"""More cores: child processes that take batches from the same list as this one.

One process with one thread for each core is faster than threads that wait for each other. A child is a Python
interpreter of its own that is given the model once and then receives batches and answers with hypotheses. While
it starts, this process is already at work. A child that dies is an error, never a wait without end.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from sixfold.errors import SixfoldError, WorkError

if TYPE_CHECKING:
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.search import Hypothesis
    from sixfold.decode.translate import Translator

AHEAD = 2  # batches that a child has at once, so that it need not wait for the next
THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
CHILD = "from sixfold.decode.workers import serve; import sys; serve(int(sys.argv[1]))"


@dataclass(frozen=True)
class Batch:
    """Sentences that are searched together."""

    ids: list[list[int]]
    places: list[int]  # of each in the input
    options: SearchOptions


Found = list[list["Hypothesis"]]
Search = Callable[[Batch], Found]


@dataclass
class Child:
    """A process that searches, and the numbers of the batches it has."""

    process: subprocess.Popen[bytes]
    connection: Connection
    waiting_for: list[int] = field(default_factory=list)

    def give(self, number: int, batch: Batch) -> None:
        """Send a batch."""
        try:
            self.connection.send(batch)
        except OSError as error:
            raise self.lost() from error
        self.waiting_for.append(number)

    def take(self) -> tuple[int, Found]:
        """Receive the next result, or raise what went wrong in the child."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self.lost() from error
        if isinstance(answer, BaseException):
            raise answer
        return self.waiting_for.pop(0), answer

    def lost(self) -> WorkError:
        """Return the error that says the child is gone."""
        return WorkError(
            f"A worker process ended with exit code {self.process.wait(10)} before its work was done.",
            "It may have run out of memory: try again with --workers 1.",
        )


class Workers:
    """The child processes of a translator; this process is a worker too."""

    def __init__(self, translator: Translator, count: int) -> None:
        self.children = [start_child() for _ in range(count)]
        self.untold = packed(translator)  # the model, until the children have it
        weakref.finalize(self, end, self.children)

    def map(self, batches: Sequence[Batch], search: Search) -> Iterator[tuple[int, Found]]:
        """Yield the number and the result of each batch, in the order they are ready."""
        todo = iter(enumerate(batches))
        try:
            self.tell_model()
            yield from self.share(todo, search)
        except BaseException:
            self.close()  # what is under way belongs to nobody any more
            raise

    def share(self, todo: Iterator[tuple[int, Batch]], search: Search) -> Iterator[tuple[int, Found]]:
        """Give each child some batches ahead, search the next one here, and collect what is ready."""
        for number, batch in todo:
            yield number, search(batch)
            yield from self.collect(timeout=0)
            self.hand_out(todo)
        while any(child.waiting_for for child in self.children):
            yield from self.collect(timeout=None)

    def hand_out(self, todo: Iterator[tuple[int, Batch]]) -> None:
        """Let each child have its share of batches."""
        for child in self.children:
            while len(child.waiting_for) < AHEAD and (following := next(todo, None)):
                child.give(*following)

    def collect(self, timeout: float | None) -> Iterator[tuple[int, Found]]:
        """Yield what the children have ready, waiting for the first at most so long."""
        busy = {child.connection: child for child in self.children if child.waiting_for}
        for connection in wait([*busy], timeout):
            assert isinstance(connection, Connection)
            yield busy[connection].take()

    def tell_model(self) -> None:
        """Send the model, once."""
        for child in self.children if self.untold else ():
            try:
                child.connection.send(self.untold)
            except OSError as error:
                raise child.lost() from error
        self.untold = ()

    def close(self) -> None:
        """End the children."""
        end(self.children)


def end(children: list[Child]) -> None:
    """End processes; they hold nothing that must be saved."""
    while children:
        child = children.pop()
        child.connection.close()
        child.process.kill()
        child.process.wait()


def start_child() -> Child:
    """Start a process that waits for a model; it ends when this process does, as its connection is then closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", "-c", CHILD, str(theirs.fileno())]
        process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=os.environ | THREADS,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the parent alone
        )
    return Child(process, Connection(ours.detach()))


def packed(translator: Translator) -> tuple[object, ...]:
    """Return what a child needs to be the same translator, without shared memory, which may be small."""
    models = [
        (model.config, {name: tensor.numpy() for name, tensor in model.state_dict().items()})
        for model in translator.models
    ]
    return models, translator.tokenizer.model, translator.decode, translator.precision


def unpacked(models: list[tuple[object, dict[str, object]]], tokenizer: bytes, *others: object) -> Translator:
    """Return the translator that was packed."""
    import torch

    from sixfold.decode.translate import Translator
    from sixfold.models.folder import build_model
    from sixfold.text import Tokenizer

    decode, precision = others
    torch.set_num_threads(1)
    first, *partners = (
        build_model(config, {name: torch.from_numpy(array) for name, array in arrays.items()})  # type: ignore[arg-type]
        for config, arrays in models
    )
    return Translator(first, Tokenizer(tokenizer), decode, partners=partners, precision=precision)  # type: ignore[arg-type]


def serve(descriptor: int) -> None:
    """Be a child: take the model, then search one batch after the other until the parent is gone."""
    connection = Connection(descriptor)
    try:
        translator = unpacked(*connection.recv())
        while True:
            batch: Batch = connection.recv()
            try:
                connection.send(translator.search_ids(batch))
            except SixfoldError as error:
                connection.send(error)
    except (EOFError, OSError, KeyboardInterrupt):
        return
