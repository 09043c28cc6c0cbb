"""Ctrl-C and SIGTERM: the run ends soon, has saved, says how to go on; at the second Ctrl-C it ends at once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sixfold
from sixfold.tasks.translate.validate import TranslationValidator
from sixfold.training.setup import import_ahead
from sixfold.training.step import TrainStepper
from sixfold.training.task import Batch

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.timeout(300)

LAST_STEP, INTERVAL = 60, 10
STOP_SECONDS = 60  # a step and a save take milliseconds here; the rest is a machine that has other things to do

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_says_how_to_go_on_and_going_on_gives_the_same_bits(
    tmp_path: Path, start: Start, unbroken: Run, number: int
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=20)
    process = start("--resume", "-o", run.folder)
    run.wait_for(lambda: run.saved_steps()[-1] > 20, lambda: process.poll() is None)
    process.send_signal(number)
    began = time.monotonic()
    _, messages = process.communicate()
    assert time.monotonic() - began < STOP_SECONDS
    assert process.returncode == 130
    assert "everything is saved" in messages
    assert messages.splitlines()[-1] == f"to resume: sixfold train --resume -o {run.folder}"
    assert "Traceback" not in messages
    assert 20 < run.saved_steps()[-1] < LAST_STEP
    run.resume()
    run.assert_same_as(unbroken)


def test_a_second_ctrl_c_ends_at_once_and_loses_at_most_one_interval(
    tmp_path: Path, start: Start, unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=20)
    process = start("--resume", "-o", run.folder)
    run.wait_for(lambda: run.saved_steps()[-1] > 20, lambda: process.poll() is None)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "Ctrl-C again" not in (line := process.stderr.readline()):
        assert line, "it ended before it was interrupted"
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, messages = process.communicate()
    assert time.monotonic() - began < STOP_SECONDS
    assert process.returncode == 130
    assert "--resume" in messages.splitlines()[-1]
    assert "Traceback" not in messages
    done = max(int(str(record["step"])) for record in run.log())
    assert run.saved_steps()[-1] >= done - INTERVAL
    run.resume()
    run.assert_same_as(unbroken)


def test_two_ctrl_c_in_one_step_do_not_wait_for_its_end(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    forward_and_backward = TrainStepper.forward_and_backward

    def press_twice(self: TrainStepper, batch: Batch, step: int) -> float:
        if step == 55:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second should have ended it")
        return forward_and_backward(self, batch, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainStepper, "forward_and_backward", press_twice)
        with pytest.raises(KeyboardInterrupt):
            run.resume()
    assert run.saved_steps()[-1] == 50
    run.resume()
    run.assert_same_as(unbroken)


def test_ctrl_c_in_the_middle_of_an_import_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[str] = []

    def be_interrupted(name: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        finished.append(name)

    monkeypatch.setattr("sixfold.training.setup.import_module", be_interrupted)
    done = threading.Event()
    other = threading.Thread(target=done.wait)  # the system may give the signal to any thread
    other.start()
    with pytest.raises(KeyboardInterrupt):
        import_ahead()
    done.set()
    assert finished == ["sentencepiece", "torch._dynamo"]


@pytest.mark.parametrize("up_to", [50, 60], ids=["in the middle", "at the end"])
@pytest.mark.parametrize("part", ["loss", "measure"])
def test_a_validation_is_given_up_and_made_up_for(tmp_path: Path, unbroken: Run, part: str, up_to: int) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=up_to - INTERVAL)
    measure = getattr(TranslationValidator, part)

    def be_interrupted(self: TranslationValidator, *arguments: object) -> object:
        signal.raise_signal(signal.SIGTERM)
        return measure(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TranslationValidator, part, be_interrupted)
        lines = run.resume()
    *_, stopped, advice = lines
    assert stopped == f"stopped at step {up_to}; everything is saved"
    assert advice.startswith("to resume: sixfold train --resume")
    assert run.saved_steps()[-1] == up_to
    assert [r for r in run.log() if r["kind"] == "validation"][-1]["step"] == up_to - INTERVAL
    run.resume()
    run.assert_same_as(unbroken)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stopped_while_it_reads_its_text_leaves_nothing_that_is_in_the_way(
    tmp_path: Path,
    corpus: tuple[Path, Path],
    options: list[str],
    start: Start,
    settings: tuple[str, ...],
    make_run: type[Run],
    number: int,
) -> None:
    run = make_run(tmp_path / "model")
    options = [*options, "--set", "train.steps=1000000", "--set", "train.checkpoint_every=1000000"]
    process = start(*corpus, "-o", run.folder, *options)
    run.wait_for(lambda: (run.folder / "training" / "lock").exists(), lambda: process.poll() is None)
    process.send_signal(number)
    _, messages = process.communicate()
    assert process.returncode in (130, -number)
    assert "Traceback" not in messages
    if run.saved_steps():
        run.resume(f"train.steps={run.saved_steps()[-1] + 1}")
    else:
        sixfold.train(*corpus, run.folder, settings=[*settings, "train.steps=1"])
