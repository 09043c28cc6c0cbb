"""Checkpoints: damage is named and survived, a full disk leaves all whole, best and last are never deleted."""

from __future__ import annotations

import os
import random
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sixfold
from sixfold.tasks.translate.validate import TranslationValidator
from sixfold.training.checkpoint import OPTIMIZER, STATE, WEIGHTS, CheckpointStore
from sixfold.training.loop import Trainer
from sixfold.training.task import Sample, Scores

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.timeout(300)

START_SECONDS = 120
NUM_DAMAGES = 50
NAMES = [WEIGHTS, OPTIMIZER, STATE]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_gives_the_same_bits(
    tmp_path: Path, unbroken: Run, name: str
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=40)
    run.damage(f"training/checkpoints/step-00000040/{name}")
    warning, standing, *_ = run.resume()
    assert warning.startswith("warning: ")
    assert str(run.checkpoints / "step-00000040") in warning
    assert name in warning
    assert standing == "already at step 30 of 60"
    run.assert_same_as(unbroken)


def test_fifty_damages_of_fifty_are_named_and_the_checkpoint_before_is_taken(
    tmp_path: Path, unbroken: Run, seed: int, harm: Callable[[bytes, random.Random], bytes]
) -> None:
    draw, store = random.Random(seed), CheckpointStore(unbroken.copied(tmp_path / "model", up_to=40).checkpoints)
    whole = store.load(30).state
    for number in range(NUM_DAMAGES):
        path = store.path(40) / NAMES[number % 3]
        content = path.read_bytes()
        path.write_bytes(harm(content, draw))
        found, (problem,) = store.newest()
        assert found.state == whole
        assert str(path.parent) in problem
        assert path.name in problem
        path.write_bytes(content)
    assert store.newest()[1] == []


def test_damaged_checkpoints_are_never_taken_for_the_last_ones(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=60)
    for step in (40, 50, 60):
        run.damage(f"training/checkpoints/step-{step:08d}/{WEIGHTS}")
    run.resume("train.steps=31")
    assert 31 in run.saved_steps()
    run.resume("train.steps=60")
    assert run.losses()[:30] == unbroken.losses()[:30]
    assert CheckpointStore(run.checkpoints).newest()[1] == []


def test_an_older_damaged_checkpoint_is_not_averaged_into_the_model(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=50)
    run.damage(f"training/checkpoints/step-00000030/{WEIGHTS}")
    run.resume()
    assert run.losses() == unbroken.losses()
    assert run.digests()["weights"] == unbroken.digests()["weights"]


# Rotation


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, corpus: tuple[Path, Path], make_run: type[Run]) -> Run:
    """A run of one step of a very small model."""
    folder = tmp_path_factory.mktemp("begun") / "model"
    shape = ("model.layers=1", "model.d_model=8", "model.heads=2", "model.d_ff=8", "data.vocabulary=300")
    brief = ("train.steps=1", "train.batch_tokens=64", "train.checkpoint_every=1", "train.valid_sentences=1")
    sixfold.train(*corpus, folder, settings=[*shape, *brief])
    return make_run(folder)


@settings(max_examples=8)
@given(scores=st.lists(st.integers(0, 3), min_size=1, max_size=12), average=st.integers(1, 3))
def test_the_best_and_the_last_are_never_deleted(
    tmp_path_factory: pytest.TempPathFactory, begun: Run, scores: list[int], average: int
) -> None:
    run = begun.copied(tmp_path_factory.mktemp("rotation") / "model", up_to=1)
    given_scores, save = iter(scores), Trainer.save

    def measure(*_: object) -> Scores:
        return Scores("BLEU", float(next(given_scores)), 0.5, "given", Sample("", "", ""))

    def save_and_look(trainer: Trainer) -> None:
        save(trainer)
        store = CheckpointStore(run.checkpoints)
        assert store.load(trainer.state.step).state["step"] == trainer.state.step
        assert store.load(int(trainer.state.best["step"])).state["step"] == trainer.state.best["step"]
        assert len(store.steps()) <= max(2, average) + 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TranslationValidator, "measure", measure)
        patch.setattr(Trainer, "save", save_and_look)
        run.resume(f"train.steps={1 + len(scores)}", f"train.average={average}")
    shutil.rmtree(run.folder)


# The disk


def test_a_checkpoint_is_on_disk_before_it_has_its_name_and_its_name_before_the_old_one_goes(
    tmp_path: Path, unbroken: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(unbroken.copied(tmp_path / "model", up_to=40).checkpoints)
    calls: list[tuple[str, str]] = []
    fsync, rename, rmtree = os.fsync, Path.rename, shutil.rmtree

    def recorded_fsync(descriptor: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    def recorded_rename(path: Path, target: Path) -> Path:
        calls.append((f"rename {path.name}", target.name))
        return rename(path, target)

    def recorded_rmtree(path: Path, **options: bool) -> None:
        calls.append(("delete", path.name))
        rmtree(path, **options)

    checkpoint = store.load(40)
    monkeypatch.setattr(os, "fsync", recorded_fsync)
    monkeypatch.setattr(Path, "rename", recorded_rename)
    monkeypatch.setattr(shutil, "rmtree", recorded_rmtree)
    store.save(40, checkpoint)
    assert calls == [
        ("fsync", WEIGHTS),
        ("fsync", OPTIMIZER),
        ("fsync", STATE),
        ("fsync", ".saving-00000040"),
        ("rename step-00000040", ".replaced-00000040"),
        ("rename .saving-00000040", "step-00000040"),
        ("fsync", "checkpoints"),
        ("delete", ".replaced-00000040"),
    ]


def test_every_file_of_a_run_may_be_read_by_those_whom_the_umask_lets(tmp_path: Path, begun: Run) -> None:
    before = os.umask(0o022)
    try:
        run = begun.copied(tmp_path / "model", up_to=1)
        run.resume("train.steps=2")
    finally:
        os.umask(before)
    newest = [*(run.checkpoints / "step-00000002").iterdir(), *run.folder.glob("*.*")]
    assert len(newest) == 7
    assert {stat.S_IMODE(path.stat().st_mode) for path in newest} == {0o644}


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
    assert {20, 30} <= set(run.saved_steps()) <= {10, 20, 30}
    assert not list(run.folder.rglob(".*"))
    assert len(sixfold.load(run.folder).translate(["one two"])) == 1
    run.resume()
    run.assert_same_as(unbroken)


@pytest.mark.parametrize("limit", [100, 5000])
def test_a_disk_that_is_full_from_the_start_is_a_plain_error_and_leaves_nothing(
    tmp_path: Path, corpus: tuple[Path, Path], options: list[str], start: Start, limit: int
) -> None:
    process = start(*corpus, "-o", tmp_path / "model", *options, preexec_fn=limited(limit))
    _, messages = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 1
    assert "error: Cannot write" in messages
    assert "hint: The disk is full or a limit was reached" in messages
    assert "Traceback" not in messages
    assert not (tmp_path / "model").exists()
