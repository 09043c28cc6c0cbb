"""A batch computed in micro-batches is the batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.ensemble import Ensemble, make_ensemble, members_of
from sixfold.nn.loss import projected_loss
from sixfold.training.micro_batches import MOST_THREADS, MicroBatches, Objective, mixed_seed, num_data_parallel
from sixfold.training.recipe import TrainConfig
from sixfold.training.step import TrainStepper
from sixfold.training.task import Batch, Loss

CONFIG = EncoderDecoderConfig(
    encoder_layers=2, decoder_layers=2, d_model=32, d_ff=64, heads=2, dropout=0.0, vocabulary=50
)
CPU = torch.device("cpu")
PAD = 0


def make_batch(num_rows: int = 7) -> Batch:
    """Return random sentences of different lengths."""
    sides = torch.randint(5, 50, (3, num_rows, 9))
    for row in range(num_rows):
        sides[:, row, 9 - row % 4 :] = PAD
    tensors = dict(zip(("source", "target_in", "target_out"), sides, strict=True))
    return Batch(tensors, int((sides[2] != PAD).sum()), np.arange(num_rows, dtype=np.uint32))


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of the real target tokens."""
    assert isinstance(model, EncoderDecoder)
    targets = batch.tensors["target_out"].flatten()
    hidden = model.hidden(batch.tensors["source"], batch.tensors["target_in"]).flatten(0, 1)
    return projected_loss(hidden[targets != PAD], model.head.weight, targets[targets != PAD], 0.1)


def micro_batches(model: nn.Module, num_threads: int, loss: Loss = loss_of) -> MicroBatches:
    """Return what differentiates a model in so many threads."""
    return MicroBatches(loss, model, Objective(loss, model), num_threads)


def gradients(model: nn.Module) -> list[Tensor]:
    """Return all gradients, and forget them."""
    found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    return found


@pytest.mark.parametrize("num_threads", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_micro_batches_add_up_to_the_whole(num_threads: int, dtype: torch.dtype, seed: int) -> None:
    model, batch, weight = EncoderDecoder(CONFIG).to(dtype), make_batch(), 1 / 40
    whole_loss = micro_batches(model, 1).backward(batch, weight, (seed,))
    whole = gradients(model)
    loss = micro_batches(model, num_threads).backward(batch, weight, (seed,))
    assert loss == pytest.approx(whole_loss, rel=1e-5 if dtype == torch.float32 else 1e-12)
    torch.testing.assert_close(gradients(model), whole)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("num_members", [1, 2, 3])
def test_a_step_is_the_same_in_any_number_of_threads_and_parts(num_members: int) -> None:
    model, batch = make_ensemble(lambda: EncoderDecoder(CONFIG), num_members), make_batch(8)
    found = []
    for num_threads in (1, 2, 4):
        for accumulate in (1, 2, 4):
            stepper = TrainStepper(loss_of, model, TrainConfig(accumulate=accumulate), num_threads)
            found.append((stepper.forward_and_backward(batch, step=1), gradients(model)))
    (loss, whole), *others = found
    for other_loss, parts in others:
        assert other_loss == pytest.approx(loss, abs=1e-5)
        torch.testing.assert_close(parts, whole, rtol=0, atol=1e-5)


def test_micro_batches_draw_the_same_dropout_for_the_same_seed_and_each_its_own(seed: int) -> None:
    model = EncoderDecoder(CONFIG.model_copy(update={"dropout": 0.4})).train()
    several, batch = micro_batches(model, 2), make_batch(8)
    losses = [several.backward(batch, 1.0, (seed, step % 2)) for step in range(20)]
    assert set(losses[0::2]) == {losses[0]}
    assert set(losses[1::2]) == {losses[1]}
    assert losses[0] != losses[1]
    assert several.pool is not None
    first, _ = several.pool.submit(
        several.members[0].differentiate, batch.take([0]), 1.0, mixed_seed(seed, 0)
    ).result()
    both = several.backward(batch.take([0, 0]), 1.0, (seed,))
    assert both != pytest.approx(2 * first, rel=1e-6)


def test_gradients_are_added_to_those_of_earlier_parts(seed: int) -> None:
    model, batch = EncoderDecoder(CONFIG), make_batch()
    several = micro_batches(model, 2)
    several.backward(batch, 1.0, (seed,))
    once = gradients(model)
    for _ in range(2):
        several.backward(batch, 1.0, (seed,))
    torch.testing.assert_close(gradients(model), [2 * gradient for gradient in once])


def test_a_batch_of_fewer_rows_than_threads(seed: int) -> None:
    model, batch = EncoderDecoder(CONFIG), make_batch(1)
    expected = micro_batches(model, 1).backward(batch, 1.0, (seed,))
    assert micro_batches(model, 3).backward(batch, 1.0, (seed,)) == pytest.approx(expected, rel=1e-5)


def test_a_micro_batch_that_fails_leaves_no_gradients_behind(seed: int) -> None:
    model = EncoderDecoder(CONFIG)

    def fails(member: nn.Module, batch: Batch) -> Tensor:
        if len(batch) == 3:  # the second of seven rows
            raise MemoryError
        return loss_of(member, batch)

    with pytest.raises(MemoryError):
        micro_batches(model, 2, fails).backward(make_batch(), 1.0, (seed,))
    assert not gradients(model)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_frozen_weights_have_no_gradient_and_the_others_have_theirs(num_threads: int, seed: int) -> None:
    model, batch = EncoderDecoder(CONFIG), make_batch()
    micro_batches(model, 1).backward(batch, 1.0, (seed,))
    expected = {name: each.grad for name, each in model.named_parameters() if not name.startswith("source")}
    model.zero_grad()
    model.source.requires_grad_(requires_grad=False)  # with it the one matrix of both stems and the head
    micro_batches(model, num_threads).backward(batch, 1.0, (seed,))
    found = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("num_members", [2, 3, 4])
@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_members_of_an_ensemble_have_the_gradients_they_would_have_alone(
    num_members: int, num_threads: int, seed: int
) -> None:
    model, batch = make_ensemble(lambda: EncoderDecoder(CONFIG), num_members), make_batch()
    losses, expected = [], []
    for member in members_of(model):
        losses.append(micro_batches(member, 1).backward(batch, 0.1, (seed,)))
        expected.append(gradients(member))
    loss = micro_batches(model, num_threads).backward(batch, 0.1, (seed,))
    assert loss == pytest.approx(sum(losses) / num_members, rel=1e-5)
    for member, gradient in zip(members_of(model), expected, strict=True):
        torch.testing.assert_close(gradients(member), gradient)


def test_members_of_an_ensemble_drop_different_things(seed: int) -> None:
    member = EncoderDecoder(CONFIG.model_copy(update={"dropout": 0.4})).train()
    twins = Ensemble([member, copy.deepcopy(member)])
    for num_threads in (1, 2):
        micro_batches(twins, num_threads).backward(make_batch(), 1.0, (seed,))
        one, other = (gradients(each) for each in members_of(twins))
        assert not any(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_the_number_of_threads_follows_torchs_the_batch_and_the_device() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert num_data_parallel(4096, CPU, world=1) == 2
        assert num_data_parallel(200, CPU, world=1) == 1
        assert num_data_parallel(4096, CPU, world=2) == 1
        assert num_data_parallel(4096, torch.device("cuda"), world=1) == 1
        torch.set_num_threads(64)
        assert num_data_parallel(100_000, CPU, world=1) == MOST_THREADS
    finally:
        torch.set_num_threads(before)


def test_the_threads_of_micro_batches_leave_the_callers_alone(seed: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        micro_batches(EncoderDecoder(CONFIG), 2).backward(make_batch(), 1.0, (seed,))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
