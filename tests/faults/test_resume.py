"""Whatever stops a run, it goes on as if it had never been stopped: the same bits in weights and log."""

from __future__ import annotations

import fcntl
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest
import torch
from safetensors.torch import load_file

import sixfold
from sixfold.errors import ConfigError, DataError, RequestError, TrainingError
from sixfold.train.checkpoint import OPTIMIZER, STATE, WEIGHTS, Checkpoint, CheckpointStore
from sixfold.train.progress import Silence
from sixfold.train.ranks import Ranks
from sixfold.train.run import make_trainer, read_setup

pytestmark = pytest.mark.timeout(300)

NUM_KILLS = 5
LAST_STEP = 60
START_SECONDS, STOP_SECONDS = 120, 60  # on a machine that has other things to do


class Run(Protocol):
    """A model folder with its training (see conftest.py)."""

    folder: Path
    checkpoints: Path

    def saved_steps(self) -> list[int]: ...
    def log(self) -> list[dict[str, object]]: ...
    def losses(self) -> list[float]: ...
    def digests(self) -> dict[str, str]: ...
    def copied(self, folder: Path, up_to: int) -> Run: ...


Start = Callable[..., "subprocess.Popen[str]"]


class Listener(Silence):
    """Remembers what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        """Remember a line."""
        self.lines.append(message)


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[str], seconds: float = START_SECONDS) -> None:
    """Wait until something is so or the process has ended."""
    end = time.monotonic() + seconds
    while not is_so() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)


def resume(run: Run) -> list[str]:
    """Resume a run in this process and return what it said."""
    listener = Listener()
    sixfold.train(None, model=run.folder, resume=True, progress=listener)
    return listener.lines


def assert_equal_runs(one: Run, other: Run) -> None:
    """Compare two finished runs bit by bit."""
    assert one.losses() == other.losses()
    assert one.log() == other.log()
    assert one.digests() == other.digests()


def damage(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


# kill -9


def test_the_unbroken_run_is_worth_comparing_with(unbroken: Run) -> None:
    losses = unbroken.losses()
    assert len(losses) == LAST_STEP
    assert len(set(losses)) == LAST_STEP
    assert losses[-1] < losses[0] - 0.5


def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    tmp_path: Path,
    corpus: tuple[Path, Path],
    options: list[str],
    start: Start,
    unbroken: Run,
    make_run: type,
    seed: int,
) -> None:
    draw = random.Random(seed)
    run = make_run(tmp_path / "model")
    arguments = [*corpus, "-o", run.folder, *options]
    seen, killed = 0, 0
    for kill in range(NUM_KILLS):
        process = start(*arguments)
        if kill % 2:  # in the middle of a save
            wait_until(lambda: bool(list(run.checkpoints.glob(".saving-*"))), process)
        else:
            wait_until(lambda last=seen: bool(run.saved_steps() and run.saved_steps()[-1] > last), process)  # type: ignore[misc]
            time.sleep(0.1 * draw.random())
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        assert run.saved_steps(), "there was a checkpoint, and there is one still"
        assert run.saved_steps()[-1] >= seen, "at most what came after the last checkpoint is lost"
        seen = run.saved_steps()[-1]
        arguments = ["--resume", "-o", run.folder]
    assert killed >= 3, "otherwise it was done too soon to learn anything from it"
    process = start(*arguments)
    _, messages = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0
    assert "already at step" in messages
    assert_equal_runs(run, unbroken)


def test_a_run_killed_before_its_first_checkpoint_can_be_begun_again(
    tmp_path: Path, corpus: tuple[Path, Path], settings: tuple[str, ...], unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=0)
    for name in ("sixfold.json", "weights.safetensors"):
        (run.folder / name).unlink()
    with pytest.raises(TrainingError, match="There is no whole checkpoint") as raised:
        resume(run)
    assert raised.value.hint == "Start the training again without --resume."
    sixfold.train(*corpus, run.folder, settings=settings)
    assert_equal_runs(run, unbroken)


def test_a_run_stopped_before_its_first_step_can_be_resumed(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=0)
    make_trainer(run.folder, read_setup(run.folder), "cpu", Ranks(), Silence(), time.monotonic()).save()
    assert resume(run)[0] == "already at step 0 of 60"
    assert_equal_runs(run, unbroken)


# SIGTERM, SIGINT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on_and_going_on_gives_the_same_bits(
    tmp_path: Path,
    corpus: tuple[Path, Path],
    options: list[str],
    start: Start,
    unbroken: Run,
    make_run: type,
    number: int,
) -> None:
    run = make_run(tmp_path / "model")
    process = start(*corpus, "-o", run.folder, *options)
    wait_until(lambda: bool(run.saved_steps()), process)
    process.send_signal(number)
    began = time.monotonic()
    _, messages = process.communicate(timeout=STOP_SECONDS)
    assert time.monotonic() - began < STOP_SECONDS
    assert process.returncode == 130
    assert "everything is saved" in messages
    assert messages.splitlines()[-1] == f"go on with: sixfold train --resume -o {run.folder}"
    assert "Traceback" not in messages
    assert 10 <= run.saved_steps()[-1] < LAST_STEP
    resume(run)
    assert_equal_runs(run, unbroken)


# Resuming


def test_a_second_resume_in_one_epoch_repeats_and_loses_nothing(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=20)
    edge = next(int(str(r["step"])) for r in unbroken.log() if r["kind"] == "step" and r["epoch"] == 2) - 1
    assert 24 < edge < LAST_STEP
    for steps in (23, 24, 24, edge, edge + 1, LAST_STEP):
        sixfold.train(None, model=run.folder, resume=True, settings=[f"train.steps={steps}"])
    # the schedule looks at the number of steps, so that only what was read can be the same
    read = [(record["epoch"], record["target_tokens"]) for record in run.log() if record["kind"] == "step"]
    assert read == [(r["epoch"], r["target_tokens"]) for r in unbroken.log() if r["kind"] == "step"]


def test_resuming_a_finished_run_says_so_and_changes_nothing(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=LAST_STEP)
    lines = resume(run)
    assert lines[0] == "already at step 60 of 60"
    assert "--set train.steps=120" in lines[1]
    assert_equal_runs(run, unbroken)


def test_a_finished_run_can_be_trained_further(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=LAST_STEP)
    outcome = sixfold.train(None, model=run.folder, resume=True, settings=["train.steps=65"])
    assert (outcome.step, outcome.finished) == (65, "all steps are done")
    assert run.losses()[:LAST_STEP] == unbroken.losses()


def test_a_moving_average_can_begin_when_a_run_goes_on(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    store = CheckpointStore(run.checkpoints)
    last = store.load(50)
    without = {name: tensor for name, tensor in last.optimizer.items() if not name.startswith("ema.")}
    store.save(50, Checkpoint(last.weights, without, last.state))
    resume(run)
    assert any(name.startswith("ema.") for name in load_file(run.checkpoints / "step-00000060" / OPTIMIZER))


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="There is no training to resume"):
        sixfold.train(None, model=tmp_path / "model", resume=True)
    assert not (tmp_path / "model").exists()


def test_a_resumed_run_keeps_its_model(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    with pytest.raises(ConfigError, match="keeps its model part"):
        sixfold.train(None, model=run.folder, resume=True, settings=["model.dropout=0"])


def test_the_files_of_a_resumed_run_may_be_named_again_but_not_others(
    tmp_path: Path, corpus: tuple[Path, Path], settings: tuple[str, ...]
) -> None:
    folder = tmp_path / "grüße"  # names are not always ASCII
    folder.mkdir()
    for path in corpus:
        (folder / path.name).write_bytes(path.read_bytes())
    files = [folder / path.name for path in corpus]
    sixfold.train(*files, tmp_path / "model", settings=[*settings, "train.steps=2"])
    assert sixfold.train(*files, tmp_path / "model", resume=True).step == 2
    with pytest.raises(RequestError, match="was begun with other files"):
        sixfold.train(*corpus, tmp_path / "model", resume=True)


def test_a_changed_input_file_is_noticed(
    tmp_path: Path, corpus: tuple[Path, Path], settings: tuple[str, ...]
) -> None:
    files = [tmp_path / path.name for path in corpus]
    for copy, path in zip(files, corpus, strict=True):
        copy.write_bytes(path.read_bytes())
    sixfold.train(*files, tmp_path / "model", settings=[*settings, "train.steps=2"])
    files[1].write_text(files[1].read_text().replace("eins", "ains", 1))
    with pytest.raises(DataError, match=r"train\.de has changed"):
        sixfold.train(None, model=tmp_path / "model", resume=True)


# Two runs in one folder


def test_a_second_run_in_the_same_folder_is_refused_and_the_first_is_not_disturbed(
    tmp_path: Path, corpus: tuple[Path, Path], unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    with (run.folder / "training" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RequestError, match="Another training is running"):
            sixfold.train(None, model=run.folder, resume=True)
        for path in (run.folder / "sixfold.json", *(run.checkpoints / f"step-{step:08d}" for step in (20, 30))):
            path.rename(tmp_path / f"away-{path.name}")  # as before the first checkpoint of a run
        with pytest.raises(RequestError, match="Another training is running"):
            sixfold.train(*corpus, run.folder)
        assert (run.folder / "training" / "run.json").is_file()
        assert (run.folder / "training" / "data" / "train" / "shard-00000.tokens").is_file()


def test_a_folder_that_holds_a_run_or_a_model_is_not_written_over(
    tmp_path: Path, corpus: tuple[Path, Path], unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    with pytest.raises(RequestError, match="already holds a training run") as raised:
        sixfold.train(*corpus, run.folder)
    assert f"sixfold train --resume -o {run.folder}" in raised.value.hint
    (run.folder / "training").rename(tmp_path / "training")
    with pytest.raises(RequestError, match="already holds a model"):
        sixfold.train(*corpus, run.folder)
    with pytest.raises(RequestError, match="is a file"):
        sixfold.train(*corpus, run.folder / "sixfold.json")


# Damaged checkpoints


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE])
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_gives_the_same_bits(
    tmp_path: Path, unbroken: Run, name: str
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=40)
    damage(run.checkpoints / "step-00000040" / name)
    warning, standing, *_ = resume(run)
    assert warning.startswith("warning: ")
    assert str(run.checkpoints / "step-00000040") in warning
    assert standing == "already at step 30 of 60"
    assert_equal_runs(run, unbroken)


def test_an_older_damaged_checkpoint_is_not_averaged_into_the_model(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    damage(run.checkpoints / "step-00000030" / WEIGHTS)
    resume(run)
    assert run.losses() == unbroken.losses()
    assert run.digests()["weights"] == unbroken.digests()["weights"]


# A full disk


def limited(num_bytes: int) -> Callable[[], None]:
    """Return a function that bounds the files a child may write, which fails as a full disk does."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, num_bytes))


@pytest.mark.parametrize("full", ["checkpoint", "model"])
def test_a_full_disk_is_a_plain_error_and_leaves_everything_whole(
    tmp_path: Path, start: Start, unbroken: Run, full: str
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    size = (run.folder / "weights.safetensors").stat().st_size
    limit = size + 1000 if full == "checkpoint" else size - 1000
    process = start("--resume", "-o", run.folder, preexec_fn=limited(limit))
    _, messages = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1
    assert "error: Cannot" in messages
    assert "hint: The disk is full or a limit was reached" in messages
    assert "Traceback" not in messages
    assert run.saved_steps() == [20, 30]
    assert not list(run.folder.rglob(".*"))
    assert len(sixfold.load(run.folder).translate(["one two"])) == 1
    resume(run)
    assert_equal_runs(run, unbroken)


# Numbers that are none


def test_a_non_finite_loss_stops_with_the_step_and_the_lines_and_nothing_is_saved(
    tmp_path: Path, unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    store = CheckpointStore(run.checkpoints)
    last = store.load(30)
    next(iter(last.weights.values()))[0, 0] = torch.nan
    store.save(30, last)
    model = run.digests()["model"]
    with pytest.raises(TrainingError, match=r"Step 31 gave a loss of nan .* from lines \d+") as raised:
        resume(run)
    assert "--set train.learning_rate=1.0e-03" in raised.value.hint
    assert run.saved_steps() == [20, 30]
    assert run.digests()["model"] == model
    assert all(record["step"] != 31 for record in run.log())
