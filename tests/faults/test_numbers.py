"""Numbers that are none never reach a file; a batch too large for the memory is computed in parts."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from torch import Tensor

from sixfold.data.batches import Batches
from sixfold.errors import TrainingError
from sixfold.training.checkpoint import Checkpoint, CheckpointStore
from sixfold.training.loop import Trainer
from sixfold.training.micro_batches import Objective, mixed_seed
from sixfold.training.step import TrainStepper
from sixfold.training.task import Batch

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.timeout(300)

POISONED = (33, 41)  # steps


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some steps give a loss or a gradient that is no number, as a fault of the hardware or the data would."""
    accumulate = TrainStepper.accumulate

    def poisoned(self: TrainStepper, batch: Batch, parts: int, step: int) -> float:
        loss = accumulate(self, batch, parts, step)
        if step == POISONED[0]:
            gradient = next(self.model.parameters()).grad
            assert gradient is not None
            gradient[0, 0] = math.inf
        return math.nan if step == POISONED[1] else loss

    monkeypatch.setattr(TrainStepper, "accumulate", poisoned)


@pytest.mark.usefixtures("poison")
def test_a_non_finite_gradient_stops_with_the_step_and_the_lines_and_nothing_is_saved(
    tmp_path: Path, unbroken: Run
) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    model, steps = run.digests()["model"], run.saved_steps()
    pattern = (
        r"Step 33 has a loss of \d.* and a gradient norm of (inf|nan); its \d+ examples are from lines \d+, \d+"
    )
    with pytest.raises(TrainingError, match=pattern) as raised:
        run.resume()
    assert "--set train.learning_rate=1.0e-03" in raised.value.hint
    assert run.saved_steps() == steps
    assert run.digests()["model"] == model
    assert all(int(str(record["step"])) != 33 for record in run.log())


@pytest.mark.usefixtures("poison")
def test_as_many_such_steps_as_allowed_are_left_out_and_one_more_stops(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    with pytest.raises(TrainingError, match="Step 41 has a loss of nan"):
        run.resume("train.skip_nonfinite=1")
    lines = run.resume("train.skip_nonfinite=2")
    assert any(line.startswith("warning: Step 41 has a loss of nan") for line in lines)
    skipped = [record for record in run.log() if record["kind"] == "skipped"]
    assert [record["step"] for record in skipped] == list(POISONED)
    assert all(len(str(record["lines"])) > 4 for record in skipped)
    assert len(run.losses()) == 60 - len(POISONED)
    assert all(map(math.isfinite, run.losses()))


@pytest.mark.usefixtures("poison")
def test_leaving_steps_out_is_exact_on_resuming(tmp_path: Path, unbroken: Run) -> None:
    whole = unbroken.copied(tmp_path / "whole", up_to=30)
    whole.resume("train.skip_nonfinite=2")
    run = whole.copied(tmp_path / "model", up_to=40)
    run.resume()
    run.assert_same_as(whole)
    state = CheckpointStore(run.checkpoints).load(60).state
    assert state["skipped"] == 2


def test_weights_that_are_no_numbers_are_neither_saved_nor_published(tmp_path: Path, unbroken: Run) -> None:
    run = unbroken.copied(tmp_path / "model", up_to=30)
    store, before = CheckpointStore(run.checkpoints), run.digests()
    last = store.load(30)
    broken = {name: tensor.clone() for name, tensor in last.weights.items()}
    broken["source.embedding.weight"][7, 3] = math.inf
    with pytest.raises(
        TrainingError, match=r"After step 40, source\.embedding\.weight contains numbers that are not finite"
    ):
        store.save(40, Checkpoint(broken, last.optimizer, last.state))
    trainer = run.trainer()
    with pytest.raises(TrainingError, match="not finite"):
        trainer.publish(trainer.state, broken)
    assert run.digests() == before
    assert not list(run.folder.rglob(".*"))


# Out of memory


def step_of(trainer: Trainer) -> tuple[float, dict[str, Tensor]]:
    """Return the loss and the gradients of the next step, without dropout."""
    learner, stepper = trainer.learner, trainer.stepper
    model = stepper.model.eval()
    batches = Batches(learner.sizes(trainer.corpus), stepper.config.batch_tokens, trainer.seed)
    examples, _ = next(batches.from_position(trainer.state.position))
    batch = learner.collate(trainer.corpus.read(examples), mixed_seed(trainer.seed, 31))
    loss = stepper.forward_and_backward(batch, 31)
    gradients = {name: copy.deepcopy(p.grad) for name, p in model.named_parameters() if p.grad is not None}
    stepper.optimizer.zero_grad(set_to_none=True)
    return loss, gradients


@contextmanager
def little_memory(error: Exception) -> Iterator[list[int]]:
    """Let the memory hold three rows; it runs out before and after gradients were added up, by turns."""
    forward, rows = Objective.forward, []

    def bounded(self: Objective, batch: Batch) -> Tensor:
        rows.append(len(batch))
        loss = forward(self, batch)
        if len(batch) > 3:
            if len(rows) % 2:
                loss.backward()  # gradients of a part that is then given up
            raise error
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "forward", bounded)
        yield rows


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
        MemoryError(),
    ],
    ids=["GPU", "CPU", "Python"],
)
def test_a_batch_too_large_for_the_memory_is_split_and_has_the_same_gradient(
    tmp_path: Path, unbroken: Run, error: Exception
) -> None:
    trainer = unbroken.copied(tmp_path / "model", up_to=30).trainer()
    loss, gradients = step_of(trainer)
    with little_memory(error) as rows:
        split_loss, split_gradients = step_of(trainer)
    assert rows[0] > 6
    assert rows[-1] <= 3
    assert split_loss == pytest.approx(loss, abs=1e-6)
    assert gradients.keys() == split_gradients.keys()
    difference = max(float((gradients[name] - split_gradients[name]).abs().max()) for name in gradients)
    assert difference <= 1e-6


def test_a_row_that_alone_is_too_large_is_a_plain_error(
    tmp_path: Path, unbroken: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Tensor:
        raise torch.OutOfMemoryError("out of memory")

    run = unbroken.copied(tmp_path / "model", up_to=30)
    monkeypatch.setattr(Objective, "forward", full)
    with pytest.raises(TrainingError, match="Out of memory at step 31") as raised:
        run.resume()
    assert "train.accumulate" in raised.value.hint


def test_another_error_is_not_taken_for_it(tmp_path: Path, unbroken: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    trainer = unbroken.copied(tmp_path / "model", up_to=30).trainer()
    monkeypatch.setattr(Objective, "forward", wrong)
    with pytest.raises(RuntimeError, match="shapes"):
        step_of(trainer)
