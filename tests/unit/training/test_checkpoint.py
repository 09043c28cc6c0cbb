"""Checkpoints: whole or not at all, whatever happens to the process or the disk."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.errors import TrainingError, WorkError
from sixfold.training import checkpoint as module
from sixfold.training.checkpoint import OPTIMIZER, STATE, WEIGHTS, Checkpoint, CheckpointStore, average


class Killed(BaseException):
    """Stands for SIGKILL: nothing that the code does after it counts, because nothing catches it."""


def content(step: int) -> Checkpoint:
    """Return a checkpoint that depends on its step."""
    generator = torch.Generator().manual_seed(step)
    weights = {"a": torch.randn(3, 4, generator=generator), "b": torch.randn(5, generator=generator)}
    moments = {
        f"exp_avg.{name}": torch.randn(tensor.shape, generator=generator) for name, tensor in weights.items()
    }
    return Checkpoint(weights, moments, {"step": step, "position": {"epoch": 1}, "seconds": step / 3, "best": {}})


def is_equal(one: Checkpoint, other: Checkpoint) -> bool:
    """Compare two checkpoints bit by bit."""
    pairs = [(one.weights, other.weights), (one.optimizer, other.optimizer)]
    return one.state == other.state and all(
        left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)
        for left, right in pairs
    )


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    """A store that holds the checkpoints of steps 10 and 20."""
    store = CheckpointStore(tmp_path / "checkpoints")
    for step in (10, 20):
        store.save(step, content(step))
    return store


def test_what_was_saved_comes_back_bit_by_bit(store: CheckpointStore) -> None:
    assert is_equal(store.load(10), content(10))
    newest, problems = store.newest()
    assert is_equal(newest, content(20))
    assert problems == []


def test_the_weights_can_be_read_alone(store: CheckpointStore) -> None:
    assert all(torch.equal(tensor, store.weights(10)[name]) for name, tensor in content(10).weights.items())


def test_a_run_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="There is no undamaged checkpoint") as raised:
        CheckpointStore(tmp_path / "checkpoints").newest()
    assert raised.value.hint == "Start the training again without --resume."


def test_saving_a_step_again_replaces_it(store: CheckpointStore) -> None:
    store.save(20, content(21))
    assert is_equal(store.load(20), content(21))
    assert sorted(path.name for path in store.folder.iterdir()) == ["step-00000010", "step-00000020"]


# Damage


def damage_by_flipping(path: Path, random_numbers: random.Random) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[random_numbers.randrange(len(data))] ^= 1 << random_numbers.randrange(8)
    path.write_bytes(data)


def damage_by_cutting(path: Path, random_numbers: random.Random) -> None:
    """Cut the end of a file off."""
    path.write_bytes(path.read_bytes()[: random_numbers.randrange(path.stat().st_size)])


def damage_by_deleting(path: Path, _: random.Random) -> None:
    """Delete a file."""
    path.unlink()


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER, STATE])
@pytest.mark.parametrize("damage", [damage_by_flipping, damage_by_cutting, damage_by_deleting])
def test_any_damage_is_found_and_the_checkpoint_before_it_is_used(
    store: CheckpointStore, seed: int, name: str, damage: Callable[[Path, random.Random], None]
) -> None:
    random_numbers = random.Random(seed)
    for _ in range(8):
        store.save(20, content(20))
        damage(store.path(20) / name, random_numbers)
        newest, (problem,) = store.newest()
        assert is_equal(newest, content(10))
        assert str(store.path(20)) in problem


@pytest.mark.parametrize("name", [WEIGHTS, OPTIMIZER])
def test_the_damaged_file_is_named(store: CheckpointStore, name: str) -> None:
    damage_by_flipping(store.path(20) / name, random.Random(1))
    _, (problem,) = store.newest()
    assert name in problem


def test_when_all_are_damaged_the_error_names_them_all(store: CheckpointStore) -> None:
    for step in (10, 20):
        (store.path(step) / WEIGHTS).write_bytes(b"")
    with pytest.raises(TrainingError, match=r"step-00000020.*step-00000010"):
        store.newest()


def test_damaged_weights_are_not_averaged(store: CheckpointStore) -> None:
    damage_by_flipping(store.path(10) / WEIGHTS, random.Random(1))
    assert [step for step in (5, 10, 20) if store.has_weights(step)] == [20]


# A save that is interrupted


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int, error: type[BaseException]) -> None:
    """Raise when the functions that touch the disk are called for the given time."""
    calls = 0

    def interrupted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == after:
                raise error("no")
            return function(*arguments, **options)

        return call

    for owner, name in (
        (module, "save_file"),
        (module, "sha256"),
        (module, "sync"),
        (Path, "mkdir"),
        (Path, "write_bytes"),
        (Path, "rename"),
        (shutil, "rmtree"),
    ):
        monkeypatch.setattr(owner, name, interrupted(getattr(owner, name)))


@pytest.mark.parametrize("step", [20, 30])
@pytest.mark.parametrize("error", [Killed, OSError])
def test_an_interrupted_save_leaves_a_whole_checkpoint_at_every_moment(
    store: CheckpointStore, step: int, error: type[BaseException]
) -> None:
    for moment in range(1, 30):
        with pytest.MonkeyPatch.context() as patch:
            interrupt(patch, moment, error)
            try:
                store.save(step, content(step))
            except (Killed, WorkError):
                is_done = False
            else:
                is_done = True
        newest, problems = store.newest()
        assert is_equal(newest, content(20)) or is_equal(newest, content(step))
        assert problems == []
        if is_done:
            break
    assert moment > 10
    assert sorted(path.name for path in store.folder.iterdir() if not path.is_dir()) == []


def test_what_a_killed_save_left_is_cleared_away(store: CheckpointStore) -> None:
    shutil.copytree(store.path(20), store.folder / ".saving-00000030")
    store.newest()
    assert store.steps() == [10, 20]
    assert not list(store.folder.glob(".*"))


def test_a_failed_write_is_a_plain_error_and_leaves_nothing_behind(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "save_file", full)
    with pytest.raises(WorkError, match="Cannot save the checkpoint of step 30") as raised:
        store.save(30, content(30))
    assert "The disk is full" in raised.value.hint
    assert sorted(path.name for path in store.folder.iterdir()) == ["step-00000010", "step-00000020"]


# Rotation and averaging


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(1, 40), min_size=1, max_size=8), st.sets(st.integers(1, 40)), st.integers(1, 3))
def test_rotation_deletes_neither_the_last_nor_those_to_keep(
    tmp_path_factory: pytest.TempPathFactory, steps: set[int], keep: set[int], keep_last: int
) -> None:
    store = CheckpointStore(tmp_path_factory.mktemp("checkpoints"))
    for step in steps:
        store.path(step).mkdir()
    store.rotate(max(steps), keep_last, keep)
    assert set(store.steps()) == (steps & keep) | set(sorted(steps)[-keep_last:])


def test_the_average_is_the_mean() -> None:
    several = [content(step).weights for step in (1, 2, 3)]
    mean = average(several)
    for name in several[0]:
        expected = sum(each[name].double() for each in several) / 3
        torch.testing.assert_close(mean[name].double(), expected, rtol=1e-6, atol=1e-7)


def test_the_average_of_equal_weights_is_these_weights() -> None:
    weights = content(1).weights
    assert all(torch.equal(tensor, weights[name]) for name, tensor in average([weights] * 4).items())
