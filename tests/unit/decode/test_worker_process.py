"""Worker processes: what goes through the socket comes out the same, and the process is what its parent says."""

from __future__ import annotations

import fcntl
import inspect
import os
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold import errors
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Hypothesis
from sixfold.decode.worker_process import LostError, Parent, RequestLoop, WorkerProcess
from sixfold.decode.worker_protocol import Channel, Message, Origin, Start, checked, error_message, message_of
from sixfold.decode.workers import SearchBatch, batch_from, batch_message, found_from
from sixfold.errors import SixfoldError
from sixfold.kernels.build import VARIABLE
from sixfold.models.folder import load_info

SOURCE = Path(__file__).parents[3] / "src"
MODEL = Path(__file__).parents[2] / "compat" / "format-1-phrases"
KINDS = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, SixfoldError)]


def sent(message: Message) -> Message:
    """Return a message as it arrives at the other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sending = threading.Thread(target=Channel(ours).send, args=(message,))  # it may not fit into the socket
        sending.start()
        received = Channel(theirs).receive()
        sending.join()
    return received


@given(st.lists(st.floats(width=64), min_size=2, max_size=2), st.lists(st.integers(0, 2**40)), st.booleans())
def test_a_hypothesis_arrives_with_every_bit(floats: list[float], tokens: list[int], is_cut: bool) -> None:
    hypothesis = Hypothesis(tuple(tokens), *floats, is_cut)
    [[arrived]] = found_from(sent({"done": {"found": [[message_of(hypothesis)]]}}))
    assert type(arrived.tokens) is tuple
    assert bits(arrived) == bits(hypothesis)


def bits(hypothesis: Hypothesis) -> dict[str, object]:
    """Return the fields, numbers by their bits; one that is none has no other use for them."""
    return {
        name: struct.pack("d", value) if isinstance(value, float) and value == value else str(value)
        for name, value in asdict(hypothesis).items()
    }


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(),
        SearchOptions(sample=0.1 + 0.2, top_p=1 / 3, top_k=7, seed=2**63 - 1),
        SearchOptions(
            beam=7, n_best=3, require=("ein Hund", "Ärger 🐕"), forbid=("x",), prefix="„", length_penalty=1
        ),
    ],
    ids=["none", "draws", "phrases"],
)
def test_a_batch_arrives_as_it_was(options: SearchOptions) -> None:
    batch = SearchBatch([[1, 2, 3], [4]], [9, 2**40], options)
    arrived = batch_from(sent(batch_message(batch)))
    assert arrived == batch
    assert hash(arrived.options) == hash(options)


def test_a_message_larger_than_the_socket_holds_arrives_whole() -> None:
    message: Message = {"text": "dog " * 1_000_000}
    assert sent(message) == message


def test_a_start_arrives_as_it_was() -> None:
    start = Start("module:job", Origin("folder \udcff", ("partner",), "cpu", "int8"), "off", 0.5)
    assert Start.read(sent({**message_of(start), "origin": message_of(start.origin)})) == start


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_raised_again_as_the_kind_it_is(kind: type[SixfoldError]) -> None:
    error = kind("a", "b", "c") if kind is errors.MissingExtraError else kind("It failed.", "Do this.")  # type: ignore[call-arg]
    with pytest.raises(SixfoldError) as caught:
        checked(sent(error_message(error)))
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == (error.message, error.hint)


def test_an_error_of_another_room_is_raised_as_the_nearest_kind() -> None:
    with pytest.raises(errors.WorkError, match="gone") as caught:
        checked(error_message(LostError("gone")))
    assert type(caught.value) is errors.WorkError


def test_a_channel_closed_at_the_other_end_says_so() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(b"\0\0\1\0{")
    theirs.close()
    with ours, pytest.raises(EOFError):
        Channel(ours).receive()


def test_a_descriptor_of_any_number_can_be_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, socket.socket(fileno=fcntl.fcntl(ours.fileno(), fcntl.F_DUPFD, 1500)) as high:
        channel = Channel(high)
        assert not channel.has_message()
        Channel(theirs).send({"alive": True})
        assert channel.has_message()
        assert channel.receive() == {"alive": True}


class Watcher:
    """A job that tells what its process is like."""

    def __init__(self, start: Start) -> None:
        load_info(Path(start.origin.folder))

    def work(self, parent: Parent) -> None:
        RequestLoop(parent, self.answer).run()

    def describe(self) -> Message:
        import torch

        from sixfold.kernels.decoding import find_kernels

        return {
            "kernels": find_kernels().kernels is not None,
            "threads": torch.get_num_threads(),
        }

    def answer(self, work: Message) -> Message:
        raise errors.DataError("I only watch.", str(work["hint"]))


@pytest.fixture
def started() -> Iterator[list[WorkerProcess]]:
    """Return a list of processes that are ended in the end."""
    processes: list[WorkerProcess] = []
    yield processes
    for process in processes:
        process.end()
        process.socket.close()


def start(started: list[WorkerProcess], job: str, folder: Path = MODEL, beat_seconds: float = 0.0) -> Channel:
    """Start a worker."""
    origin = Origin(str(folder), device="cpu")
    paths = os.pathsep.join([str(SOURCE), str(Path(__file__).parent)])
    environment = {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", VARIABLE: "on"}
    started.append(WorkerProcess(Start(job, origin, "off", beat_seconds), environment))
    return Channel(started[-1].socket)


def test_a_worker_computes_as_it_is_told_and_answers_what_it_refuses(started: list[WorkerProcess]) -> None:
    channel = start(started, f"{Path(__file__).stem}:{Watcher.__name__}")
    ready = checked(channel.receive())["ready"]
    assert ready["kernels"] is False  # type: ignore[index]
    assert ready["threads"] == 1  # type: ignore[index]
    for hint in ("one", "two"):
        channel.send({"work": {"hint": hint}, "ids": []})
        with pytest.raises(errors.DataError) as caught:
            checked(channel.receive())
        assert caught.value.hint == hint
    assert not channel.has_message(1.2), "it was not asked to beat"


def test_a_worker_that_beats_is_heard_of_while_it_waits(started: list[WorkerProcess]) -> None:
    channel = start(started, f"{Path(__file__).stem}:{Watcher.__name__}", beat_seconds=0.1)
    assert "ready" in channel.receive()
    assert [channel.receive() for _ in range(3)] == [{"alive": True}] * 3


def test_a_model_that_cannot_be_opened_is_an_answer_and_the_end(started: list[WorkerProcess]) -> None:
    channel = start(started, f"{Path(__file__).stem}:{Watcher.__name__}", MODEL.parent / "absent")
    with pytest.raises(errors.ModelFolderError, match="absent"):
        checked(channel.receive())
    assert started[0].process.wait(30) == 0


def test_only_json_goes_between_processes() -> None:
    for path in SOURCE.rglob("*.py"):
        assert "multiprocessing" not in path.read_text(encoding="utf-8"), path
