"""Whatever stops a run, it goes on as if it had never been stopped: the same bits in weights and log."""

from __future__ import annotations

import random
import runpy
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from safetensors.torch import load_file

import sixfold
from sixfold.data.batches import Batches
from sixfold.data.shards import Corpus
from sixfold.errors import ConfigError, DataError, RequestError, TrainingError
from sixfold.training.checkpoint import OPTIMIZER, Checkpoint, CheckpointStore
from sixfold.training.loop import Trainer
from sixfold.training.reporting import Reporter

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.timeout(300)

NUM_KILLS = 5
LAST_STEP = 60
INTERVAL = 10
START_SECONDS = 120  # on a machine that has other things to do
DIE_AT = str(Path(__file__).with_name("die_at.py"))

Start = Callable[..., "subprocess.Popen[str]"]


# kill -9


def test_the_unbroken_run_is_worth_comparing_with(unbroken: Run) -> None:
    losses = unbroken.losses()
    assert len(losses) == LAST_STEP
    assert len(set(losses)) == LAST_STEP
    assert losses[-1] < losses[0] - 0.5


def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    tmp_path: Path,
    corpus: tuple[Path, Path],
    settings: tuple[str, ...],
    start: Start,
    nursery: ForkServerContext,
    unbroken: Run,
    make_run: type[Run],
    seed: int,
) -> None:
    draw, run = random.Random(seed), make_run(tmp_path / "model")
    arguments, options = (*corpus, run.folder), {"settings": settings}
    seen, killed = 0, 0
    for _ in range(NUM_KILLS):
        process = nursery.Process(target=sixfold.train, args=arguments, kwargs=options)
        process.start()
        run.wait_for(partial(run.has_saved_after, seen), process.is_alive)
        time.sleep(0.02 * draw.random())  # a fast machine makes ten steps in this time
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        assert run.saved_steps(), "there was a checkpoint, and there is one still"
        assert run.saved_steps()[-1] >= seen, "at most what came after the last checkpoint is lost"
        seen = run.saved_steps()[-1]
        arguments, options = (None, None, run.folder), {"resume": True}
    assert killed >= 3, "otherwise it was done too soon to learn anything from it"
    last = start("--resume", "-o", run.folder)
    _, messages = last.communicate(timeout=START_SECONDS)
    assert last.returncode == 0
    assert "already at step" in messages
    run.assert_same_as(unbroken)


@pytest.mark.parametrize("kind", ["text", "documents", "conversations"])
def test_a_run_on_text_killed_at_random_moments_ends_with_the_same_bits(
    tmp_path: Path,
    text_corpora: dict[str, Path],
    text_settings: tuple[str, ...],
    nursery: ForkServerContext,
    make_run: type[Run],
    seed: int,
    kind: str,
) -> None:
    own = ("data.crosses_documents=false",) if kind == "documents" else ()
    options = {"settings": [*text_settings, *own]}
    kill_and_resume(text_corpora[kind], make_run, tmp_path, nursery, random.Random(seed), options)


@pytest.mark.parametrize("task", ["classify", "tag", "answer", "fill"])
def test_a_run_of_an_encoder_killed_at_random_moments_ends_with_the_same_bits(
    tmp_path: Path,
    encoder_corpora: dict[str, Path],
    encoder_settings: tuple[str, ...],
    nursery: ForkServerContext,
    make_run: type[Run],
    seed: int,
    task: str,
) -> None:
    options = {"settings": encoder_settings, "task": task}
    kill_and_resume(encoder_corpora[task], make_run, tmp_path, nursery, random.Random(seed), options)


def kill_and_resume(
    corpus: Path,
    make_run: type[Run],
    folder: Path,
    nursery: ForkServerContext,
    draw: random.Random,
    options: dict[str, Any],
) -> None:
    """Train to the end, and again with kills between; compare the two bit by bit."""
    whole, run = make_run(folder / "whole"), make_run(folder / "model")
    sixfold.train(corpus, whole.folder, **options)
    assert len(set(whole.losses())) == LAST_STEP
    arguments, killed = (corpus, run.folder), 0
    for _ in range(NUM_KILLS):
        seen = run.saved_steps()[-1] if run.folder.exists() else 0
        process = nursery.Process(target=sixfold.train, args=arguments, kwargs=options)
        process.start()
        run.wait_for(partial(run.has_saved_after, seen), process.is_alive)
        time.sleep(0.01 * draw.random())
        process.kill()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        arguments, options = (None, run.folder), {"resume": True}
    assert killed >= 3, "otherwise it was done too soon to learn anything from it"
    run.resume()
    run.assert_same_as(whole)


def test_members_of_an_ensemble_go_on_with_the_same_bits(
    tmp_path: Path, corpus: tuple[Path, Path], settings: tuple[str, ...], make_run: type[Run]
) -> None:
    whole = make_run(tmp_path / "whole")
    sixfold.train(*corpus, whole.folder, settings=(*settings, "model.ensemble=3", "train.steps=30"))
    assert len(sixfold.load(whole.folder).models) == 3
    broken = whole.copied(tmp_path / "broken", up_to=10)
    broken.resume()
    broken.assert_same_as(whole)


def test_a_run_that_dies_at_any_touch_of_the_disk_loses_at_most_one_interval_and_no_bit(
    tmp_path: Path, nursery: ForkServerContext, unbroken: Run, seed: int
) -> None:
    """benchmarks/faults.py dies at every one of them."""

    def go_on(run: Run, moment: int) -> int | None:
        variables = {"folder": str(run.folder), "moment": moment, "count": str(tmp_path / "count")}
        process = nursery.Process(target=runpy.run_path, args=(DIE_AT, variables))
        process.start()
        process.join(START_SECONDS)
        return process.exitcode

    assert go_on(unbroken.copied(tmp_path / "whole", up_to=50), moment=0) == 0
    num_moments = int((tmp_path / "count").read_text())
    assert num_moments > 40
    for moment in random.Random(seed).sample(range(1, num_moments), 4):
        run = unbroken.copied(tmp_path / str(moment), up_to=50)
        assert go_on(run, moment) == -signal.SIGKILL
        done = max(int(str(record["step"])) for record in run.log())
        assert run.saved_steps()[-1] >= done - INTERVAL
        run.resume()
        run.assert_same_as(unbroken)
        shutil.rmtree(run.folder)


@pytest.mark.parametrize("moment", ["validation", "edge of an epoch", "first step of an epoch"])
def test_a_run_that_dies_there_goes_on_with_the_same_bits(tmp_path: Path, unbroken: Run, moment: str) -> None:
    class Killed(BaseException):
        """Nothing catches it, and nothing that is done after it counts."""

    run = unbroken.copied(tmp_path / "model", up_to=20)
    steps = [record for record in unbroken.log() if record["kind"] == "step"]
    edge = next(int(str(r["step"])) for r in steps if int(str(r["step"])) > 21 and r["epoch"] == 2) - 1

    owner, name = (Trainer, "measure_and_publish") if moment == "validation" else (Reporter, "step")
    method = getattr(owner, name)

    def die(self: Trainer | Reporter, *arguments: Any) -> None:
        if moment == "validation" or arguments[0].step == edge + (moment != "edge of an epoch"):
            raise Killed
        method(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, die)
        with pytest.raises(Killed):
            run.resume()
    run.resume()
    run.assert_same_as(unbroken)


def test_a_run_killed_before_its_first_checkpoint_can_be_begun_again(
    tmp_path: Path, corpus: tuple[Path, Path], settings: tuple[str, ...], unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=0)
    for name in ("sixfold.json", "weights.safetensors"):
        (run.folder / name).unlink()
    with pytest.raises(TrainingError, match="There is no undamaged checkpoint") as raised:
        run.resume()
    assert raised.value.hint == "Start the training again without --resume."
    sixfold.train(*corpus, run.folder, settings=settings)
    run.assert_same_as(unbroken)


def test_a_run_stopped_before_its_first_step_can_be_resumed(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=0)
    run.trainer(resume=False).save()
    assert run.resume()[0] == "already at step 0 of 60"
    run.assert_same_as(unbroken)


# Resuming


def test_three_resumes_in_one_epoch_and_one_at_its_edge_read_each_pair_as_the_unbroken_run_did(
    tmp_path: Path, unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=20)
    edge = next(int(str(r["step"])) for r in unbroken.log() if r["kind"] == "step" and r["epoch"] == 2) - 1
    assert 24 < edge < LAST_STEP
    for steps in (23, 24, 24, edge, edge + 1, LAST_STEP):
        run.resume(f"train.steps={steps}")
    # The schedule looks at the number of steps, so that only what was read can be the same: "examples" is a
    # digest of the numbers of a step's examples in their order.
    read = [(r["epoch"], r["examples"], r["targets"]) for r in run.log() if r["kind"] == "step"]
    expected = [(r["epoch"], r["examples"], r["targets"]) for r in unbroken.log() if r["kind"] == "step"]
    assert read == expected


def test_resuming_seeks_and_reads_nothing_twice(
    tmp_path: Path, unbroken: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    read, begun = [], []
    read_examples, from_position = Corpus.read, Batches.from_position
    monkeypatch.setattr(Corpus, "read", lambda self, ids: read.append(1) or read_examples(self, ids))
    monkeypatch.setattr(Batches, "from_position", lambda self, at: begun.append(at) or from_position(self, at))
    run.resume()
    assert len(read) == LAST_STEP - 50
    assert len(begun) == 1
    assert begun[0] != type(begun[0])()


def test_resuming_a_finished_run_says_so_and_changes_nothing(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=LAST_STEP)
    lines = run.resume()
    assert lines[0] == "already at step 60 of 60"
    assert "--set train.steps=120" in lines[1]
    run.assert_same_as(unbroken)


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
    run.resume()
    assert any(name.startswith("ema.") for name in load_file(run.checkpoints / "step-00000060" / OPTIMIZER))


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="There is no training to resume"):
        sixfold.train(None, model=tmp_path / "model", resume=True)
    assert not (tmp_path / "model").exists()


def test_a_resumed_run_keeps_its_model(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    with pytest.raises(ConfigError, match="keeps its model part"):
        run.resume("model.dropout=0")


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
    with pytest.raises(RequestError, match="was started with other files"):
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


@pytest.mark.parametrize(
    "name",
    [
        "run.json",
        "tokenizer.model",
        "inputs.json",
        "data/train/shard-00000.values",
        "data/valid/shard-00000.index",
    ],
)
def test_a_damaged_file_that_the_run_was_set_up_with_is_named(tmp_path: Path, unbroken: Run, name: str) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    run.damage(f"training/{name}")
    with pytest.raises(TrainingError, match="is damaged") as raised:
        run.resume()
    assert str(run.folder / "training" / name) in raised.value.message


# Two runs in one folder


def test_a_second_run_in_the_same_folder_is_refused_until_the_first_is_killed(
    tmp_path: Path, corpus: tuple[Path, Path], nursery: ForkServerContext, unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=20)
    options = {"resume": True, "settings": ["train.steps=1000000"]}
    first = nursery.Process(target=sixfold.train, args=(None, None, run.folder), kwargs=options)
    first.start()
    run.wait_for(partial(run.has_saved_after, 20), first.is_alive)
    with pytest.raises(RequestError, match="Another training is running"):
        run.resume()
    with pytest.raises(RequestError, match="already holds a training run"):
        sixfold.train(*corpus, run.folder)
    assert first.is_alive()
    first.kill()
    first.join()
    run.resume(f"train.steps={run.saved_steps()[-1] + 1}")  # a dead process holds no lock


def test_a_second_run_begun_before_the_first_checkpoint_destroys_nothing(
    tmp_path: Path, corpus: tuple[Path, Path], nursery: ForkServerContext, settings: tuple[str, ...]
) -> None:
    folder = tmp_path / "model"
    options = {"settings": [*settings, "train.steps=1000000", "train.checkpoint_every=1000000"]}
    first = nursery.Process(target=sixfold.train, args=(*corpus, folder), kwargs=options)
    first.start()
    end = time.monotonic() + START_SECONDS
    while not (folder / "training" / "log.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.002)
    try:
        with pytest.raises(RequestError, match="Another training is running"):
            sixfold.train(*corpus, folder)
        assert (folder / "training" / "run.json").is_file()
        assert (folder / "training" / "data" / "train" / "shard-00000.values").is_file()
    finally:
        first.kill()
        first.join()


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
