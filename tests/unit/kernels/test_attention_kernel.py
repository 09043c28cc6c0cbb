"""Compiled attention of short sequences, against the formula in float64."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sixfold.kernels import attention as kernel
from sixfold.kernels.attention_trial import trial
from sixfold.kernels.build import COMPILERS, FLAGS
from sixfold.nn import BlockConfig, MultiHeadAttention, attention, causal_mask

pytestmark = [
    pytest.mark.usefixtures("seed"),
    pytest.mark.skipif(kernel.kernels().library is None, reason=f"not compiled: {kernel.kernels().reason}"),
]

SHAPES = [  # sentences, heads, queries, keys, d_k, d_v
    (3, 4, 14, 14, 32, 32),
    (2, 2, 70, 33, 16, 48),
    (1, 8, 130, 130, 64, 64),
    (5, 2, 1, 1, 16, 16),
    (2, 3, 17, 9, 48, 16),
    (2, 1, 64, 65, 16, 16),
]


def by_formula(parts: list[Tensor], heads: int, mask: Tensor | None) -> Tensor:
    """Return the heads side by side, from the explicit form in float64."""
    split = [part.double().unflatten(-1, (heads, -1)).transpose(1, 2) for part in parts]
    return attention(split[0], split[1], split[2], mask)[0].transpose(1, 2).flatten(2)


def some_masks(batch: int, queries: int, keys: int) -> dict[str, Tensor | None]:
    padding = torch.rand(batch, 1, 1, keys) > 0.3
    rows = torch.rand(queries, keys) > 0.4
    return {"none": None, "padding": padding, "queries": rows, "both": padding & rows}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["none", "padding", "queries", "both"])
def test_attention_to_a_memory_and_its_gradients_are_those_of_the_formula(
    shape: tuple[int, ...], kind: str
) -> None:
    batch, heads, queries, keys, d_k, d_v = shape
    sizes, mask = [heads * d_k, heads * d_k, heads * d_v], some_masks(batch, queries, keys)[kind]
    query = torch.randn(batch, queries, sizes[0], requires_grad=True)
    memory = torch.randn(batch, keys, sizes[1] + sizes[2], requires_grad=True)
    weights = torch.randn(batch, queries, sizes[2])
    found = kernel.attend(query, memory, mask, heads, sizes)
    expected = by_formula([query, *memory.split(sizes[1:], dim=2)], heads, mask)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=2e-6)
    found_gradients = torch.autograd.grad((found * weights).sum(), [query, memory])
    expected_gradients = torch.autograd.grad((expected * weights).sum(), [query, memory])
    torch.testing.assert_close(found_gradients, expected_gradients, rtol=1e-4, atol=5e-6)


@pytest.mark.parametrize("length", [1, 15, 16, 17, 100])
def test_self_attention_and_its_gradients_are_those_of_the_formula(length: int) -> None:
    projected, mask = torch.randn(3, length, 3 * 64, requires_grad=True), causal_mask(length)
    found = kernel.attend(projected, None, mask, 2, [64, 64, 64])
    expected = by_formula(list(projected.split(64, dim=2)), 2, mask)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=2e-6)
    weights = torch.randn_like(found)
    found_gradient = torch.autograd.grad((found * weights).sum(), projected)
    expected_gradient = torch.autograd.grad((expected * weights).sum(), projected)
    torch.testing.assert_close(found_gradient, expected_gradient, rtol=1e-4, atol=5e-6)


def test_large_scores_neither_overflow_nor_vanish() -> None:
    projected = (60 * torch.randn(2, 20, 3 * 32)).requires_grad_()
    found = kernel.attend(projected, None, None, 2, [32, 32, 32])
    expected = by_formula(list(projected.split(32, dim=2)), 2, None)
    # Scores of some ten thousands are exact to a thousandth in float32, and so are the shares of the values.
    torch.testing.assert_close(found.double() / 60, expected / 60, rtol=1e-3, atol=1e-3)
    assert torch.autograd.grad(found.sum(), projected)[0].isfinite().all()


def test_a_query_that_sees_nothing_gives_zero_and_finite_gradients() -> None:
    projected = torch.randn(2, 6, 3 * 32, requires_grad=True)
    mask = (torch.arange(6) != 2)[:, None].expand(6, 6)
    output = kernel.attend(projected, None, mask, 2, [32, 32, 32])
    assert output[:, 2].eq(0).all()
    assert torch.autograd.grad(output.sum(), projected)[0].isfinite().all()


def test_a_masked_key_gets_a_gradient_of_exactly_zero() -> None:
    query, memory = torch.randn(2, 5, 32, requires_grad=True), torch.randn(2, 7, 64, requires_grad=True)
    mask = (torch.arange(7) < 4)[None, None, None]
    output = kernel.attend(query, memory, mask, 2, [32, 32, 32])
    gradient = torch.autograd.grad((output * torch.randn_like(output)).sum(), memory)[0]
    assert gradient[:, 4:].eq(0).all()
    assert gradient[:, :4].abs().min() > 0


def test_a_number_that_is_not_finite_shows() -> None:
    projected = torch.randn(2, 6, 3 * 32)
    projected[1, 3, 70] = float("nan")
    output = kernel.attend(projected, None, None, 2, [32, 32, 32])
    assert output[1].isnan().any()
    assert output[0].isfinite().all()


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_the_number_of_threads_does_not_change_a_bit(threads: int) -> None:
    projected = torch.randn(4, 20, 3 * 32, requires_grad=True)
    found = []
    for count in (1, threads):
        before = torch.get_num_threads()
        torch.set_num_threads(count)
        output = kernel.attend(projected, None, None, 2, [32, 32, 32])
        found.append((output, *torch.autograd.grad(output.square().sum(), projected)))
        torch.set_num_threads(before)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_without_a_compiler_attention_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    module, x = MultiHeadAttention(BlockConfig(d_model=64, heads=2)), torch.randn(3, 9, 64)
    with_kernels = module(x, x, causal_mask(9))
    monkeypatch.setenv("SIXFOLD_KERNELS", "off")
    assert not kernel.is_possible(x, 2, [64, 64, 64])
    torch.testing.assert_close(module(x, x, causal_mask(9)), with_kernels)


@pytest.mark.parametrize(
    ("projected", "sizes"),
    [
        (torch.zeros(1, 2, 72), [24, 24, 24]),
        (torch.zeros(1, 2, 96, dtype=torch.float64), [32, 32, 32]),
        (torch.zeros(1, 2, 96, device="meta"), [32, 32, 32]),
        (torch.zeros(0, 2, 96), [32, 32, 32]),
    ],
)
def test_what_the_kernel_cannot_do_is_left_to_torch(projected: Tensor, sizes: list[int]) -> None:
    assert not kernel.is_possible(projected, 2, sizes)


# The trial of a new library

FOUND = [name for name in (*COMPILERS, "gcc-9", "gcc-10", "gcc-11") if shutil.which(name)]


def compile_changed(folder: Path, compiler: str, pattern: str, replacement: str) -> str:
    """Compile attention from a changed source."""
    text, count = re.subn(pattern, replacement, kernel.SOURCE.read_text(encoding="utf-8"), count=1)
    assert count == 1
    (folder / "changed.c").write_text(text, encoding="utf-8")
    library = folder / "changed.so"
    headers = f"-I{kernel.SOURCE.parent}"
    subprocess.run([compiler, *FLAGS, headers, "-w", folder / "changed.c", "-o", library, "-lm"], check=True)
    return str(library)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"\(\*slope - mean\[l\]\)", "(*slope + mean[l])"),
        (r"adds = block.first > 0", "adds = 0"),
        (r"= exponential\(\*score - log_total", "= 1.01f * exponential(*score - log_total"),
        (r"block.first \* o->mask_query", "0"),
        (r"block.batch \* o->mask_batch", "0"),
        (r"if \(!mask\[", "if (0 && mask["),
        (r"scores\[j\] \* o->scale", "scores[j]"),
        (r"total\[l\] > 0 \? 1 / total\[l\] : 0", "1 / total[l]"),
    ],
)
def test_a_library_with_a_wrong_gradient_or_mask_fails_its_trial(
    tmp_path: Path, pattern: str, replacement: str
) -> None:
    with pytest.raises(AssertionError):
        trial(compile_changed(tmp_path, FOUND[0], pattern, replacement))


@pytest.mark.parametrize("compiler", FOUND)
def test_every_compiler_here_makes_a_library_that_passes_its_trial(tmp_path: Path, compiler: str) -> None:
    trial(compile_changed(tmp_path, compiler, "^", ""))


@pytest.mark.parametrize("compiler", [name for name in FOUND if "gcc" in name])
def test_without_the_newer_builtin_of_gcc_12_the_trial_passes_too(tmp_path: Path, compiler: str) -> None:
    trial(compile_changed(tmp_path, compiler, "^", "#define __has_builtin(name) 0\n"))
