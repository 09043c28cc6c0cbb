"""More cores: child processes that take batches from the same queue as this one.

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
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING

from sixfold.errors import SixfoldError, WorkError
from sixfold.kernels import mkl
from sixfold.kernels.build import VARIABLE
from sixfold.kernels.decoding import find_kernels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sixfold.decode.config import DecodeConfig
    from sixfold.decode.matrices import Precision
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.search import Hypothesis
    from sixfold.decode.translate import Translator
    from sixfold.models.encoder_decoder import EncoderDecoderConfig

# A child multiplies with MKL's kernels as its parent does, which `prepare` settles. Only then it hears
# whether there are kernels of ours.
CHILD = f"""
import os, sys
from sixfold.kernels import prepare
prepare()
os.environ[{VARIABLE!r}] = sys.argv[2]
from sixfold.decode.workers import serve
serve(int(sys.argv[1]))
"""
READY = "ready"


@dataclass(frozen=True)
class Batch:
    """Sentences that are searched together."""

    ids: list[list[int]]
    places: list[int]  # of each in the input
    options: SearchOptions


@dataclass(frozen=True)
class Package:
    """What a child needs to be the same translator; sent through a pipe, because shared memory may be small."""

    models: list[tuple[EncoderDecoderConfig, dict[str, NDArray[np.float32]]]]
    num_own: int  # of the models; the others are partners
    tokenizer: bytes
    decode: DecodeConfig
    precision: Precision


Found = list[list["Hypothesis"]]
Search = Callable[[Batch], Found]
Todo = SimpleQueue[tuple[int, Batch]]
Done = SimpleQueue[tuple[int, Found] | BaseException]


class Child:
    """A process that searches what it is sent."""

    def __init__(self, has_kernels: bool) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CHILD, str(theirs.fileno()), "on" if has_kernels else "off"],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"OMP_NUM_THREADS": "1", VARIABLE: "off" if mkl.slow_because() else "on"},
                start_new_session=True,  # Ctrl-C is for the parent; a child ends when its connection does
            )
        self.connection = Connection(ours.detach())
        self.is_ready = False
        self.lock = Lock()  # an earlier search may have ended before the child was ready

    def work(self, package: Package, todo: Todo, done: Done) -> None:
        """Send one batch after the other and pass on the answers; what goes wrong is passed on as well."""
        with self.lock:
            try:
                self.prepare(package)
                while True:
                    number, batch = todo.get_nowait()
                    self.connection.send(batch)
                    found = self.connection.recv()
                    done.put(found if isinstance(found, BaseException) else (number, found))
            except Empty:
                return
            except (EOFError, OSError):
                done.put(self.lost())

    def prepare(self, package: Package) -> None:
        """Send the model, once, and wait until the child has it."""
        if not self.is_ready:
            self.connection.send(package)
            self.is_ready = self.connection.recv() == READY

    def lost(self) -> WorkError:
        """Return the error that says the child is gone."""
        return WorkError(
            f"A worker process ended with exit code {self.process.wait(10)} before its work was done.",
            "It may have run out of memory: try again with --workers 1.",
        )

    def end(self) -> None:
        """End the process; it holds nothing that must be saved."""
        self.process.kill()
        self.process.wait()


class Workers:
    """The child processes of a translator; this process is a worker too."""

    def __init__(self, translator: Translator, count: int) -> None:
        self.package = packed(translator)
        has_kernels = find_kernels().kernels is not None  # what is found here is what all must use
        self.children = [Child(has_kernels) for _ in range(count)]
        weakref.finalize(self, end_all, self.children)

    def map(self, batches: Sequence[Batch], search: Search) -> Iterator[tuple[int, Found]]:
        """Yield the number and the result of each batch, in the order they are ready."""
        todo: Todo = SimpleQueue()
        done: Done = SimpleQueue()
        for numbered in enumerate(batches):
            todo.put(numbered)
        for child in self.children:
            Thread(target=child.work, args=(self.package, todo, done), daemon=True).start()
        try:
            yield from self.share(len(batches), todo, done, search)
        except BaseException:
            self.close()  # what is under way belongs to nobody any more
            raise

    def share(self, missing: int, todo: Todo, done: Done, search: Search) -> Iterator[tuple[int, Found]]:
        """Search batches here while there are any, pass on what children have found, then wait for the rest."""
        while missing:
            try:
                number, batch = todo.get_nowait()
                yield number, search(batch)
                missing -= 1
            except Empty:
                yield checked(done.get())
                missing -= 1
            while not done.empty():
                yield checked(done.get())
                missing -= 1

    def close(self) -> None:
        """End the children."""
        end_all(self.children)


def checked(answer: tuple[int, Found] | BaseException) -> tuple[int, Found]:
    """Return an answer, or raise it if it is an error."""
    if isinstance(answer, BaseException):
        raise answer
    return answer


def end_all(children: list[Child]) -> None:
    """End all children."""
    while children:
        children.pop().end()


def packed(translator: Translator) -> Package:
    """Return what a child needs to be the same translator."""
    from sixfold.models.weights import weights_of

    models = [
        (model.config, {name: tensor.numpy() for name, tensor in weights_of(model).items()})
        for model in translator.models
    ]
    return Package(models, translator.num_own, translator.tokenizer.model, translator.decode, translator.precision)


def unpacked(package: Package) -> Translator:
    """Return the translator that was packed."""
    import torch

    from sixfold.decode.translate import Translator
    from sixfold.models.encoder_decoder import EncoderDecoder
    from sixfold.models.weights import set_weights
    from sixfold.text import Tokenizer

    torch.set_num_threads(1)
    models = [EncoderDecoder(config) for config, _ in package.models]
    for model, (_, arrays) in zip(models, package.models, strict=True):
        set_weights(model, {name: torch.from_numpy(array) for name, array in arrays.items()})
    own, partners = models[: package.num_own], models[package.num_own :]
    tokenizer = Tokenizer(package.tokenizer)
    return Translator(own, tokenizer, package.decode, partners=partners, precision=package.precision)


def serve(descriptor: int) -> None:
    """Be a child: take the model, then search one batch after the other until the parent is gone."""
    connection = Connection(descriptor)
    try:
        translator = unpacked(connection.recv())
        connection.send(READY)
        while True:
            try:
                connection.send(translator.search_ids(connection.recv()))
            except SixfoldError as error:
                connection.send(error)
    except (EOFError, OSError):
        return
