"""Several processes, or one step in several parts, train as one process does in one part."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from torch.distributed import TCPStore

import sixfold
from sixfold.training.ranks import Heartbeat

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.timeout(300)

NUM_STEPS = 20
EXACT = (f"train.steps={NUM_STEPS}", "model.dropout=0", "train.ema=0")
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "sixfold"]
RESUME_SECONDS, END_SECONDS = 120, 30

Start = Callable[..., subprocess.Popen[str]]
StartTwo = Callable[..., list[subprocess.Popen[str]]]


@pytest.fixture(scope="module")
def train_alone(
    tmp_path_factory: pytest.TempPathFactory, corpus: tuple[Path, Path], settings: tuple[str, ...], make_run: type
) -> Callable[..., Run]:
    """Train with one process, a step at a time."""

    def train(*more: str) -> Run:
        folder = tmp_path_factory.mktemp("alone") / "model"
        sixfold.train(*corpus, folder, settings=[*settings, *EXACT, *more])
        return make_run(folder)

    return train


@pytest.fixture(scope="module")
def train_with_two(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: tuple[Path, Path],
    options: list[str],
    environment: dict[str, str],
    make_run: type,
) -> Callable[..., Run]:
    """Train the same with two processes."""

    def train(*more: str) -> Run:
        folder = tmp_path_factory.mktemp("two") / "model"
        exact = [word for setting in (*EXACT, *more) for word in ("--set", setting)]
        command = [*LAUNCH, "train", *map(str, corpus), "-o", str(folder), *options, *exact]
        subprocess.run(command, env=environment, check=True, timeout=RESUME_SECONDS)
        return make_run(folder)

    return train


@pytest.fixture(scope="module")
def alone(train_alone: Callable[..., Run]) -> Run:
    """A run of one process."""
    return train_alone()


@pytest.fixture(scope="module")
def two_ranks(train_with_two: Callable[..., Run]) -> Run:
    """The same run of two processes."""
    return train_with_two()


def test_two_processes_train_as_one_does(alone: Run, two_ranks: Run) -> None:
    assert len(two_ranks.losses()) == NUM_STEPS
    assert two_ranks.losses() == pytest.approx(alone.losses(), abs=1e-5)


def test_two_processes_train_on_text_as_one_does(
    tmp_path: Path,
    text_corpora: dict[str, Path],
    text_settings: tuple[str, ...],
    environment: dict[str, str],
    make_run: type[Run],
) -> None:
    settings = (*text_settings, *EXACT, "data.crosses_documents=false")
    alone, two = make_run(tmp_path / "alone"), make_run(tmp_path / "two")
    sixfold.train(text_corpora["documents"], alone.folder, settings=settings)
    options = [word for setting in settings for word in ("--set", setting)]
    command = [*LAUNCH, "train", str(text_corpora["documents"]), "-o", str(two.folder), *options]
    subprocess.run(command, env=environment, check=True, timeout=RESUME_SECONDS)
    assert len(two.losses()) == NUM_STEPS
    assert two.losses() == pytest.approx(alone.losses(), abs=1e-5)


def test_two_processes_train_several_models_as_one_does(
    train_alone: Callable[..., Run], train_with_two: Callable[..., Run]
) -> None:
    alone, two_ranks = train_alone("model.ensemble=2"), train_with_two("model.ensemble=2")
    assert len(two_ranks.losses()) == NUM_STEPS
    assert two_ranks.losses() == pytest.approx(alone.losses(), abs=1e-5)


def test_a_step_in_four_parts_is_the_step(alone: Run, train_alone: Callable[..., Run]) -> None:
    assert train_alone("train.accumulate=4").losses() == pytest.approx(alone.losses(), abs=1e-5)


def test_two_processes_resume_with_the_same_bits(
    tmp_path: Path, two_ranks: Run, environment: dict[str, str]
) -> None:
    run = two_ranks.copied(tmp_path / "model", up_to=10)
    command = [*LAUNCH, "train", "--resume", "-o", str(run.folder)]
    subprocess.run(command, env=environment, check=True, timeout=RESUME_SECONDS)
    assert run.log() == two_ranks.log()


def test_one_process_can_go_on_with_the_run_of_two(tmp_path: Path, two_ranks: Run) -> None:
    run = two_ranks.copied(tmp_path / "model", up_to=10)
    sixfold.train(None, model=run.folder, resume=True)
    assert run.losses() == pytest.approx(two_ranks.losses(), abs=1e-5)


def test_two_processes_can_go_on_with_the_run_of_one(
    tmp_path: Path,
    train_alone: Callable[..., Run],
    alone: Run,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sixfold.training.run.num_data_parallel", lambda *_: 2)  # as on several cores
    run = train_alone().copied(tmp_path / "model", up_to=10)
    command = [*LAUNCH, "train", "--resume", "-o", str(run.folder)]
    subprocess.run(command, env=environment, check=True, timeout=RESUME_SECONDS)
    assert run.losses() == pytest.approx(alone.losses(), abs=1e-5)


def test_when_a_process_dies_the_others_end_soon_and_the_run_can_be_resumed(
    tmp_path: Path, two_ranks: Run, environment: dict[str, str]
) -> None:
    run = two_ranks.copied(tmp_path / "model", up_to=10)
    command = [*LAUNCH, "train", "--resume", "-o", str(run.folder), "--set", "train.steps=100000"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as launcher:
        try:
            run.wait_for(partial(run.has_saved_after, 29), lambda: launcher.poll() is None)
            os.kill(max(children_of(launcher.pid)), signal.SIGKILL)
            assert launcher.wait(END_SECONDS) != 0
        finally:
            launcher.terminate()
    outcome = sixfold.train(None, model=run.folder, resume=True, settings=["train.steps=35"])
    assert outcome.step >= 30


def test_no_thread_asks_the_store_when_the_run_is_over() -> None:
    store = TCPStore("127.0.0.1", free_port(), is_master=True)
    for _ in range(20):
        heartbeat = Heartbeat(0, 1, store)
        heartbeat.end()
        assert not any(thread.is_alive() for thread in heartbeat.threads)


@pytest.fixture
def start_two(environment: dict[str, str], start: Start) -> StartTwo:
    """Start two processes of one run, without a launcher."""

    def start_both(*command: object) -> list[subprocess.Popen[str]]:
        place = {**environment, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        return [start(*command, env={**place, "RANK": str(rank)}) for rank in range(2)]

    return start_both


def test_what_is_wrong_with_the_input_is_said_once_and_without_a_traceback(
    tmp_path: Path, start_two: StartTwo
) -> None:
    for name, lines in (("more.en", "one\ntwo\n"), ("fewer.de", "eins\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    ranks = start_two(tmp_path / "more.en", tmp_path / "fewer.de", "-o", tmp_path / "model")
    first, second = (rank.communicate(timeout=RESUME_SECONDS)[1] for rank in ranks)
    assert [rank.returncode for rank in ranks] == [2, 1]
    assert "more.en has 2" in first
    assert "error: Another process of this run has ended." in second
    assert "Traceback" not in first + second


@pytest.mark.parametrize("stopped", [0, 1])
def test_when_a_process_hangs_the_other_ends_soon_and_says_which(
    tmp_path: Path, two_ranks: Run, start_two: StartTwo, stopped: int
) -> None:
    run = two_ranks.copied(tmp_path / "model", up_to=10)
    ranks = start_two("--resume", "-o", run.folder, "--set", "train.steps=100000")
    run.wait_for(partial(run.has_saved_after, 29), lambda: ranks[stopped].poll() is None)
    ranks[stopped].send_signal(signal.SIGSTOP)
    _, said = ranks[1 - stopped].communicate(timeout=END_SECONDS)
    assert ranks[1 - stopped].returncode == 1
    assert f"error: rank {stopped} has not answered for 20 seconds" in said


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def children_of(parent: int) -> list[int]:
    """Return the processes that a process started."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children]
