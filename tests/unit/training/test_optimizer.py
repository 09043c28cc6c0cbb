"""Adam, against Adam written out; AdamW's groups: which weights decay, and how fast each part learns."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from sixfold.models.decoder_only import PRESETS, DecoderOnly, DecoderOnlyConfig
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.ensemble import make_ensemble, members_of
from sixfold.training.optimizer import (
    clip,
    clip_each,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_tensors,
    set_learning_rate,
)
from sixfold.training.recipe import TrainConfig

pytestmark = pytest.mark.usefixtures("seed")

RATE = 0.01


def small_model() -> nn.Module:
    """Return a model of two parameters."""
    return nn.Linear(3, 2)


def steps(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor) -> None:
    """Take a step for each of the inputs."""
    for number, each in enumerate(inputs, start=1):
        optimizer.zero_grad()
        model(each).square().sum().backward()
        set_learning_rate(optimizer, 0.01 / number)
        optimizer.step()


def adam_by_hand(weights: Tensor, gradients: list[Tensor], rates: list[float]) -> Tensor:
    """Follow algorithm 1 of Kingma and Ba with β₁ = 0.9, β₂ = 0.98, ε = 1e-9 in float64."""
    weights, first, second = weights.double(), torch.zeros(()).double(), torch.zeros(()).double()
    for step, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        first = 0.9 * first + 0.1 * gradient.double()
        second = 0.98 * second + 0.02 * gradient.double() ** 2
        unbiased_first, unbiased_second = first / (1 - 0.9**step), second / (1 - 0.98**step)
        weights = weights - rate * unbiased_first / (unbiased_second.sqrt() + 1e-9)
    return weights


def test_it_is_the_adam_of_section_5_3() -> None:
    model = small_model()
    parameter = next(model.parameters())
    before, optimizer = parameter.detach().clone(), make_optimizer(model, TrainConfig())
    gradients, rates = [], [0.01 * math.sqrt(number) for number in range(1, 9)]
    for rate in rates:
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().sum().backward()
        assert parameter.grad is not None
        gradients.append(parameter.grad.clone())
        set_learning_rate(optimizer, rate)
        optimizer.step()
    torch.testing.assert_close(
        parameter.detach().double(), adam_by_hand(before, gradients, rates), rtol=1e-5, atol=1e-6
    )


def test_nothing_moves_before_a_learning_rate_is_set() -> None:
    model = small_model()
    before, optimizer = next(model.parameters()).detach().clone(), make_optimizer(model, TrainConfig())
    model(torch.randn(3)).sum().backward()
    optimizer.step()
    assert torch.equal(next(model.parameters()), before)


def test_the_state_survives_a_file_bit_by_bit(tmp_path: Path) -> None:
    first, second = small_model(), small_model()
    second.load_state_dict(first.state_dict())
    inputs = torch.randn(6, 4, 3)
    unbroken, stopped, resumed = (make_optimizer(each, TrainConfig()) for each in (first, second, second))
    steps(first, unbroken, inputs)
    steps(second, stopped, inputs[:3])
    save_file(optimizer_tensors(stopped, second), tmp_path / "optimizer.safetensors")
    load_optimizer_tensors(resumed, second, load_file(tmp_path / "optimizer.safetensors"))
    for number, each in enumerate(inputs[3:], start=4):
        resumed.zero_grad()
        second(each).square().sum().backward()
        set_learning_rate(resumed, 0.01 / number)
        resumed.step()
    for name, tensor in first.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name


def test_the_state_is_named_by_parameter() -> None:
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig())
    steps(model, optimizer, torch.randn(1, 4, 3))
    kinds = ("step", "exp_avg", "exp_avg_sq")
    assert set(optimizer_tensors(optimizer, model)) == {f"{k}.{n}" for k in kinds for n in ("weight", "bias")}


def test_a_state_from_before_the_first_step_can_be_put_back() -> None:
    model = small_model()
    resumed = make_optimizer(model, TrainConfig())
    assert optimizer_tensors(resumed, model) == {}
    load_optimizer_tensors(resumed, model, {})
    steps(model, resumed, torch.randn(1, 4, 3))


@pytest.mark.parametrize("max_norm", [0.0, 0.01, 0.5, 1e6])
def test_clipping_is_torchs_own(max_norm: float) -> None:
    model, twin = small_model(), small_model()
    for each in (model, twin):
        for parameter, gradient in zip(each.parameters(), (torch.ones(2, 3), torch.full((2,), -2.0)), strict=True):
            parameter.grad = gradient.clone()
    expected = nn.utils.clip_grad_norm_(twin.parameters(), max_norm or math.inf)
    assert clip(model, max_norm) == pytest.approx(float(expected))
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-5, atol=0)


def test_a_gradient_that_is_not_finite_shows_in_the_norm() -> None:
    for number in (math.nan, math.inf):
        model = small_model()
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, number)
        assert not math.isfinite(clip(model, 1.0))


def test_each_member_is_clipped_as_if_it_were_alone() -> None:
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 4, "d_ff": 4, "heads": 2, "vocabulary": 9}
    model = make_ensemble(lambda: EncoderDecoder(EncoderDecoderConfig.model_validate(shape)), 2)
    first, second = members_of(model)
    for member, size in zip((first, second), (0.001, 10.0), strict=True):
        for parameter in member.parameters():
            parameter.grad = torch.full_like(parameter, size)
    large = clip(second, math.inf)
    small = clip(first, math.inf)
    assert clip_each(model, 1.0) == pytest.approx(math.hypot(small, large))
    assert clip(first, math.inf) == pytest.approx(small)
    assert clip(second, math.inf) == pytest.approx(1.0)
    next(first.parameters()).grad = None
    next(second.parameters()).grad = torch.full((9, 4), math.nan)
    assert not math.isfinite(clip_each(model, 1.0))


def untied_model() -> DecoderOnly:
    shape = {"layers": 2, "d_model": 16, "d_ff": 16, "heads": 2, "tied": False}
    return DecoderOnly(DecoderOnlyConfig(**PRESETS["gpt-tiny"].model_dump() | shape, vocabulary=20))


def groups_by_name(model: DecoderOnly, **choices: float) -> dict[str, dict[str, float]]:
    """Return the learning rate and weight decay of each weight."""
    config = TrainConfig.model_validate({"optimizer": "adamw", "weight_decay": 0.1, **choices})
    optimizer = make_optimizer(model, config)
    set_learning_rate(optimizer, RATE)
    of_weight = {id(weight): group for group in optimizer.param_groups for weight in group["params"]}
    return {name: of_weight[id(weight)] for name, weight in model.named_parameters()}


def test_matrices_decay_and_norms_and_biases_do_not() -> None:
    model = untied_model()
    for name, group in groups_by_name(model).items():
        assert group["weight_decay"] == (0.1 if model.get_parameter(name).dim() > 1 else 0.0)


def test_each_layer_below_the_top_learns_more_slowly() -> None:
    groups = groups_by_name(untied_model(), layer_decay=0.5)
    parts = (
        "stack.norm.weight",
        "stack.layers.1.feed_forward.inner.weight",
        "stack.layers.0.feed_forward.inner.weight",
    )
    assert [groups[part]["lr"] / RATE for part in parts] == pytest.approx([1.0, 0.5, 0.25])
    assert groups["stem.embedding.weight"]["lr"] / RATE == pytest.approx(0.125)


def test_frozen_weights_are_left_out_and_do_not_change() -> None:
    model = untied_model()
    optimizer = make_optimizer(model, TrainConfig(optimizer="adamw", frozen=["stem."]))
    set_learning_rate(optimizer, RATE)
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model(torch.tensor([[1, 2, 3]])).sum().backward()
    optimizer.step()
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert not any(name.startswith("stem.") for name in changed)
    assert "head.weight" in changed
