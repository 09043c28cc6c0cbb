"""A batch computed in shares is the batch."""

from __future__ import annotations

import copy

import pytest
import torch
from sixfold.training.loss import Objective
from sixfold.training.shares import MOST_SHARES, Inputs, Shares, mixed_seed, num_shares
from torch import Tensor

from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.ensemble import Ensemble, make_model
from sixfold.text.tokens import PAD_ID

CONFIG = EncoderDecoderConfig(
    encoder_layers=2, decoder_layers=2, d_model=32, d_ff=64, heads=2, dropout=0.0, vocabulary=50
)
CPU = torch.device("cpu")


def batch(rows: int = 7) -> Inputs:
    """Return random sentences of different lengths."""
    sides = torch.randint(5, 50, (3, rows, 9))
    for row in range(rows):
        sides[:, row, 9 - row % 4 :] = PAD_ID
    return list(sides)


def gradients(model: EncoderDecoder) -> list[Tensor]:
    """Return all gradients, and forget them."""
    found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    return found


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_add_up_to_the_whole(count: int, dtype: torch.dtype, seed: int) -> None:
    model, inputs = EncoderDecoder(CONFIG).to(dtype), batch()
    objective, weight = Objective(model, 0.1), 1 / 40
    whole_loss = Shares(objective, 1).backward(inputs, weight, (seed,))
    whole = gradients(model)
    loss = Shares(objective, count).backward(inputs, weight, (seed,))
    assert loss == pytest.approx(whole_loss, rel=1e-5 if dtype == torch.float32 else 1e-12)
    torch.testing.assert_close(gradients(model), whole)


def test_shares_draw_the_same_dropout_for_the_same_seed_and_each_its_own(seed: int) -> None:
    model = EncoderDecoder(CONFIG.model_copy(update={"dropout": 0.4})).train()
    shares, inputs = Shares(Objective(model, 0.1), 2), batch(8)
    losses = [shares.backward(inputs, 1.0, (seed, step % 2)) for step in range(20)]
    assert set(losses[0::2]) == {losses[0]}
    assert set(losses[1::2]) == {losses[1]}
    assert losses[0] != losses[1]
    assert shares.pool is not None
    row = [side[:1] for side in inputs]
    first, _ = shares.pool.submit(shares.members[0].differentiate, row, 1.0, mixed_seed(seed, 0)).result()
    both = shares.backward([torch.cat([side, side]) for side in row], 1.0, (seed,))
    assert both != pytest.approx(2 * first, rel=1e-6)


def test_gradients_are_added_to_those_of_earlier_parts(seed: int) -> None:
    model, inputs = EncoderDecoder(CONFIG), batch()
    shares = Shares(Objective(model, 0.1), 2)
    shares.backward(inputs, 1.0, (seed,))
    once = gradients(model)
    for _ in range(2):
        shares.backward(inputs, 1.0, (seed,))
    torch.testing.assert_close(gradients(model), [2 * gradient for gradient in once])


def test_a_batch_of_fewer_rows_than_shares(seed: int) -> None:
    model, inputs = EncoderDecoder(CONFIG), batch(1)
    expected = Shares(Objective(model, 0.1), 1).backward(inputs, 1.0, (seed,))
    assert Shares(Objective(model, 0.1), 3).backward(inputs, 1.0, (seed,)) == pytest.approx(expected, rel=1e-5)


def test_a_share_that_fails_leaves_no_gradients_behind(seed: int) -> None:
    model, inputs = EncoderDecoder(CONFIG), batch()
    objective = Objective(model, 0.1)

    class Fails(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = objective.members[0]

        def forward(self, *sides: Tensor) -> Tensor:
            if sides[0].size(0) == 3:  # the second share of seven rows
                raise MemoryError
            loss: Tensor = self.whole(*sides)
            return loss

    objective.members[0] = Fails()
    with pytest.raises(MemoryError):
        Shares(objective, 2).backward(inputs, 1.0, (seed,))
    assert not gradients(model)


@pytest.mark.parametrize("members", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_models_trained_side_by_side_have_the_gradients_they_would_have_alone(
    members: int, count: int, seed: int
) -> None:
    model, inputs = make_model(CONFIG.model_copy(update={"members": members})), batch()
    losses, expected = [], []
    for member in model.members:
        losses.append(Shares(Objective(member, 0.1), 1).backward(inputs, 0.1, (seed,)))
        expected.append(gradients(member))
    loss = Shares(Objective(model, 0.1), count).backward(inputs, 0.1, (seed,))
    assert loss == pytest.approx(sum(losses) / members, rel=1e-5)
    for member, wanted in zip(model.members, expected, strict=True):
        torch.testing.assert_close(gradients(member), wanted)


def test_models_trained_side_by_side_drop_different_things(seed: int) -> None:
    member = EncoderDecoder(CONFIG.model_copy(update={"dropout": 0.4})).train()
    twins = Ensemble([member, copy.deepcopy(member)])
    for count in (1, 2):
        Shares(Objective(twins, 0.1), count).backward(batch(), 1.0, (seed,))
        one, other = (gradients(each) for each in twins.members)
        assert not any(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_the_number_of_shares_follows_threads_batch_and_device() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert num_shares(4096, CPU, world=1) == 2
        assert num_shares(200, CPU, world=1) == 1
        assert num_shares(4096, CPU, world=2) == 1
        assert num_shares(4096, torch.device("cuda"), world=1) == 1
        torch.set_num_threads(64)
        assert num_shares(100_000, CPU, world=1) == MOST_SHARES
    finally:
        torch.set_num_threads(before)


def test_the_threads_of_shares_leave_the_callers_alone(seed: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        Shares(Objective(EncoderDecoder(CONFIG), 0.1), 2).backward(batch(), 1.0, (seed,))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
