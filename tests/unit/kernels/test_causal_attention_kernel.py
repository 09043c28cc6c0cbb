"""Compiled attention to what stands before, against the formula in float64."""

from __future__ import annotations

import math
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sixfold.kernels import causal_attention as kernel
from sixfold.kernels.build import COMPILERS, FLAGS
from sixfold.kernels.causal_attention import Heads
from sixfold.kernels.causal_attention_trial import attention_of_torch, trial
from sixfold.nn import BlockConfig, MultiHeadAttention, causal_mask

pytestmark = [
    pytest.mark.usefixtures("seed"),
    pytest.mark.skipif(kernel.kernels().library is None, reason=f"not compiled: {kernel.kernels().reason}"),
]

KINDS = {
    "GPT's": Heads(4, 4, 32, 32**-0.5),
    "shared by pairs": Heads(4, 2, 16, 0.25),
    "one for all": Heads(3, 1, 48, 0.1),
}


def differentiated(output: Tensor, inputs: list[Tensor], weights: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad((output * weights).sum(), inputs)


@pytest.mark.parametrize("heads", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("length", [1, 15, 16, 17, 63, 64, 65, 200])
def test_attention_and_its_gradients_are_those_of_the_formula(length: int, heads: Heads) -> None:
    projected = torch.randn(2, length, heads.columns, requires_grad=True)
    bias = torch.randn(heads.columns, requires_grad=True)
    angles = torch.rand(length, heads.width // 2) * math.tau
    turns, weights = torch.stack([angles.cos(), angles.sin()]), torch.randn(2, length, heads.queries * heads.width)
    found = kernel.attend(projected, bias, turns, heads)
    expected = attention_of_torch(projected, bias, turns, heads)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    both = [differentiated(each, [projected, bias], weights) for each in (found, expected)]
    torch.testing.assert_close(*both, rtol=1e-4, atol=1e-4)


def test_no_output_and_no_gradient_knows_of_a_later_position() -> None:
    heads, length = KINDS["GPT's"], 100
    projected = torch.randn(1, length, heads.columns, requires_grad=True)
    output = kernel.attend(projected, None, None, heads)
    for position in (0, 14, 15, 16, 63, 64, 98):
        [gradient] = torch.autograd.grad(output[:, position].sum(), projected, retain_graph=True)
        assert gradient[:, position + 1 :].eq(0).all()
        changed = projected.detach().clone()
        changed[:, position + 1 :] = 1e6
        assert torch.equal(kernel.attend(changed, None, None, heads)[:, : position + 1], output[:, : position + 1])


def test_large_scores_neither_overflow_nor_vanish() -> None:
    heads = Heads(2, 2, 32, 32**-0.5)
    projected = (60 * torch.randn(2, 90, heads.columns)).requires_grad_()
    found = kernel.attend(projected, None, None, heads)
    expected = attention_of_torch(projected, None, None, heads)
    torch.testing.assert_close(found / 60, expected / 60, rtol=1e-2, atol=1e-2)  # scores of thousands, in float32
    assert torch.autograd.grad(found.sum(), projected)[0].isfinite().all()


def test_a_number_that_is_not_finite_shows() -> None:
    heads = KINDS["GPT's"]
    projected = torch.randn(2, 40, heads.columns)
    projected[1, 3, 70] = float("nan")
    output = kernel.attend(projected, None, None, heads)
    assert output[1, 3:].isnan().any()
    assert output[0].isfinite().all()


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_neither_the_threads_nor_the_other_texts_change_a_bit(threads: int) -> None:
    heads = KINDS["shared by pairs"]
    projected = torch.randn(3, 70, heads.columns, requires_grad=True)
    before, found = torch.get_num_threads(), []
    for count in (1, threads):
        torch.set_num_threads(count)
        output = kernel.attend(projected, None, None, heads)
        found.append((output, *torch.autograd.grad(output.square().sum(), projected)))
    torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert torch.equal(kernel.attend(projected[1:2], None, None, heads), found[0][0][1:2])


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_without_a_compiler_attention_is_the_same(monkeypatch: pytest.MonkeyPatch, positions: str) -> None:
    config = BlockConfig(d_model=64, heads=4, key_value_heads=2, positions=positions, attention_bias=True)
    module, x = MultiHeadAttention(config), torch.randn(3, 90, 64)
    torch.nn.init.normal_(module.project.bias)
    with_kernels, masked = module(x, x, "causal"), module(x, x, causal_mask(90))
    monkeypatch.setenv("SIXFOLD_KERNELS", "off")
    torch.testing.assert_close(module(x, x, "causal"), with_kernels)
    torch.testing.assert_close(masked, with_kernels)
    torch.testing.assert_close(module.with_weights(x, x, "causal")[0], with_kernels)


@pytest.mark.parametrize(
    ("x", "config"),
    [
        (torch.zeros(1, 2, 48), {"d_model": 48, "heads": 2}),
        (torch.zeros(1, 2, 64), {"d_model": 64, "heads": 2, "d_k": 16, "d_v": 32}),
        (torch.zeros(1, 2, 64, dtype=torch.float64), {"d_model": 64, "heads": 2}),
        (torch.zeros(1, 2, 64, device="meta"), {"d_model": 64, "heads": 2}),
        (torch.zeros(0, 2, 64), {"d_model": 64, "heads": 2}),
    ],
)
def test_what_the_kernel_cannot_do_is_left_to_torch(x: Tensor, config: dict[str, int]) -> None:
    module = MultiHeadAttention(BlockConfig.model_validate(config)).to(x)
    assert not kernel.is_possible(x, module.causal_heads, module.sizes)
    assert module(x, x, "causal").shape == x.shape


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"\(\*slope - means\[i \+ l\]\)", "(*slope + means[i + l])"),
        (r"adds = !\(is_diagonal && is_first\)", "adds = !is_diagonal"),
        (r"head < shared", "head < 1"),
        (r"query < key \? value", "query <= key ? value"),
        (r"is_diagonal \? i \+ LANES : keys, pairs", "keys, pairs"),
        (r"store\(g, batch, keys, 0, o->positions, 1,", "store(g, batch, keys, 0, o->positions, 0,"),
        (r"bias \? bias\[d\] : 0\)\) \* factor", "0)) * factor"),
    ],
)
def test_a_wrong_library_fails_its_trial(tmp_path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, kernel.SOURCE.read_text(encoding="utf-8"), count=1)
    assert count == 1
    (tmp_path / "changed.c").write_text(text, encoding="utf-8")
    library, headers = tmp_path / "changed.so", f"-I{kernel.SOURCE.parent}"
    command = [COMPILERS[0], *FLAGS, headers, "-w", tmp_path / "changed.c", "-o", library, "-lm"]
    subprocess.run(command, check=True)
    with pytest.raises(AssertionError):
        trial(str(library))
