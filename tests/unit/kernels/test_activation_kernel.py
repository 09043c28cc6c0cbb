"""Compiled activations, against torch's own in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sixfold.kernels import activation as kernel
from sixfold.nn import BlockConfig
from sixfold.nn.feed_forward import ACTIVATIONS, CURVES, FeedForward

pytestmark = [
    pytest.mark.usefixtures("seed"),
    pytest.mark.skipif(kernel.kernels().library is None, reason=f"not compiled: {kernel.kernels().reason}"),
]


def differentiated(output: Tensor, inputs: list[Tensor], weights: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((output * weights).sum(), inputs)


@pytest.mark.parametrize("is_gated", [False, True])
@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 50, 33), (2, 64, 16)])
def test_an_activation_and_its_gradients_are_torchs(shape: tuple[int, ...], name: str, is_gated: bool) -> None:
    x, gate, weights = 4 * torch.randn(3, *shape)
    bias = torch.randn(shape[-1])
    inputs = [each.requires_grad_() for each in ((x, bias, gate) if is_gated else (x, bias))]
    found = kernel.activate(x, bias, gate if is_gated else None, CURVES[name])
    expected = ACTIVATIONS[name](x.double() + bias.double()) * (gate.double() if is_gated else 1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    both = [differentiated(each, inputs, weights) for each in (found, expected)]
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CURVES)
def test_far_from_zero_it_is_the_identity_or_nothing(name: str) -> None:
    x = torch.tensor([[-300.0, -40.0, 40.0, 300.0]], requires_grad=True)
    found = kernel.activate(x, None, None, CURVES[name])
    torch.testing.assert_close(found, x.relu(), rtol=1e-6, atol=1e-10)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], (x > 0).float(), rtol=1e-6, atol=1e-10)


def test_a_number_that_is_not_finite_shows() -> None:
    assert kernel.activate(torch.full((2, 40), float("nan")), None, None, CURVES["gelu_tanh"]).isnan().all()


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_does_not_change_a_bit(threads: int) -> None:
    x, bias = torch.randn(200, 48, requires_grad=True), torch.randn(48, requires_grad=True)
    before, found = torch.get_num_threads(), []
    for count in (1, threads):
        torch.set_num_threads(count)
        output = kernel.activate(x, bias, None, CURVES["gelu_tanh"])
        found.append((output, *torch.autograd.grad(output.square().sum(), [x, bias])))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize(
    "choices",
    [{"activation": "gelu_tanh"}, {"activation": "silu", "gated": True, "feed_forward_bias": False}],
    ids=["GPT's", "Llama's"],
)
def test_without_a_compiler_the_layer_is_the_same(
    monkeypatch: pytest.MonkeyPatch, choices: dict[str, object]
) -> None:
    module = FeedForward(BlockConfig.model_validate({"d_model": 32, "d_ff": 70, "heads": 2, **choices}))
    x = torch.randn(3, 9, 32)
    with_kernels = module(x)
    monkeypatch.setenv("SIXFOLD_KERNELS", "off")
    assert not kernel.is_possible(x)
    torch.testing.assert_close(module(x), with_kernels)


def test_what_the_kernel_cannot_do_is_left_to_torch() -> None:
    module = FeedForward(BlockConfig(d_model=32, d_ff=70, heads=2, activation="gelu_tanh"))
    assert module(torch.zeros(0, 32)).shape == (0, 32)
    assert module.double()(torch.zeros(3, 32).double()).dtype == torch.float64
    assert module.to("meta")(torch.zeros(3, 32, device="meta", dtype=torch.float64)).is_meta
