"""Scaled dot-product and multi-head attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sixfold.nn import (
    BlockConfig,
    MultiHeadAttention,
    attention,
    causal_mask,
    fast_attention,
    local_mask,
    padding_mask,
)

pytestmark = pytest.mark.usefixtures("seed")

BATCH, HEADS, LENGTH, D_K, D_V = 3, 2, 7, 4, 6
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 4, 2], [5, 6, 7, 2, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0]])
PADDING = padding_mask(TOKENS, pad_id=0)
MASKS = {
    "no mask": None,
    "padding": PADDING,
    "causal": causal_mask(LENGTH),
    "local": local_mask(LENGTH, width=2),
    "causal and padding": PADDING & causal_mask(LENGTH),
    "local and padding": PADDING & local_mask(LENGTH, width=1),  # some queries see nothing
    "one row for all queries": torch.arange(LENGTH)[None] >= 3,
    "another in every head": torch.arange(BATCH * HEADS * LENGTH**2).view(BATCH, HEADS, LENGTH, -1) % 3 > 0,
}
BOTH_FORMS = pytest.mark.parametrize("attend", [fast_attention, lambda *inputs: attention(*inputs)[0]])
Attend = Callable[..., Tensor]


def random_inputs(d_k: int = D_K, d_v: int = D_V, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return query, key and value that want gradients."""
    widths = (d_k, d_k, d_v)
    return [torch.randn(BATCH, HEADS, LENGTH, width, dtype=dtype, requires_grad=True) for width in widths]


def test_attention_is_the_formula_of_equation_1_written_with_plain_numbers() -> None:
    query, key, value = (x.detach() for x in random_inputs(dtype=torch.float64))
    output, _ = attention(query, key, value)
    for i in range(LENGTH):
        q, keys, values = query[1, 1, i].tolist(), key[1, 1].tolist(), value[1, 1].tolist()
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(D_K) for k in keys]
        exponentials = [math.exp(score) for score in scores]
        for column in range(D_V):
            weighted = sum(e * v[column] for e, v in zip(exponentials, values, strict=True))
            assert output[1, 1, i, column].item() == pytest.approx(weighted / sum(exponentials), abs=1e-12)


@pytest.mark.parametrize("kind", MASKS)
def test_the_weights_of_every_query_that_sees_something_sum_to_one(kind: str) -> None:
    query, key, value = random_inputs()
    _, weights = attention(query, key, value, MASKS[kind])
    sees = torch.ones_like(weights) if MASKS[kind] is None else MASKS[kind].expand_as(weights)
    torch.testing.assert_close(weights.sum(-1), sees.any(-1).float())


@pytest.mark.parametrize("kind", [kind for kind in MASKS if kind != "no mask"])
def test_the_weight_of_a_masked_key_is_exactly_zero(kind: str) -> None:
    query, key, value = random_inputs()
    _, weights = attention(query, key, value, MASKS[kind])
    assert weights[~MASKS[kind].expand_as(weights)].eq(0).all()


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("d_k", "d_v"), [(D_K, D_K), (D_K, D_V), (9, 3)])
def test_the_fast_form_equals_the_explicit_form(kind: str, d_k: int, d_v: int) -> None:
    inputs = random_inputs(d_k, d_v)
    explicit, _ = attention(*inputs, MASKS[kind])
    fast = fast_attention(*inputs, MASKS[kind])
    torch.testing.assert_close(fast, explicit, rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", MASKS)
def test_the_fast_form_has_the_gradients_of_the_explicit_form(kind: str) -> None:
    inputs = random_inputs()
    direction = torch.randn(BATCH, HEADS, LENGTH, D_V)
    explicit = torch.autograd.grad(attention(*inputs, MASKS[kind])[0], inputs, direction)
    fast = torch.autograd.grad(fast_attention(*inputs, MASKS[kind]), inputs, direction)
    torch.testing.assert_close(fast, explicit, rtol=0, atol=1e-5)


@BOTH_FORMS
def test_a_masked_key_cannot_change_the_output(attend: Attend) -> None:
    query, key, value = (x.detach() for x in random_inputs())
    mask = torch.arange(LENGTH)[None] != 3
    before = attend(query, key, value, mask)
    key[..., 3, :], value[..., 3, :] = 1e6, -1e6
    assert torch.equal(attend(query, key, value, mask), before)


@BOTH_FORMS
def test_a_query_that_may_attend_to_nothing_gives_zero_and_finite_gradients(attend: Attend) -> None:
    inputs = random_inputs()
    mask = (torch.arange(LENGTH) != 2)[:, None].expand(LENGTH, LENGTH)
    output = attend(*inputs, mask)
    gradients = torch.autograd.grad(output.sum(), inputs)
    assert output[:, :, 2].eq(0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)


@BOTH_FORMS
@pytest.mark.parametrize("kind", ["no mask", "causal and padding", "local and padding"])
def test_the_gradients_of_attention_are_those_of_finite_differences(attend: Attend, kind: str) -> None:
    inputs = random_inputs(d_k=2, d_v=3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *x: attend(*x, MASKS[kind]), inputs, fast_mode=True)


def test_multi_head_attention_is_the_paper_formula_head_by_head() -> None:
    module = MultiHeadAttention(BlockConfig(d_model=10, heads=3, d_k=4, d_v=5, attention_bias=True)).double()
    torch.nn.init.normal_(module.project.bias)
    x, memory = torch.randn(2, 6, 10).double(), torch.randn(2, 8, 10).double()
    every_query, every_key, every_value = module.project.weight.split([12, 12, 15])
    query_bias, key_bias, value_bias = module.project.bias.split([12, 12, 15])
    heads = []
    for i in range(3):
        narrow, wide = slice(4 * i, 4 * i + 4), slice(5 * i, 5 * i + 5)
        query = x @ every_query[narrow].T + query_bias[narrow]
        key = memory @ every_key[narrow].T + key_bias[narrow]
        value = memory @ every_value[wide].T + value_bias[wide]
        heads.append((query @ key.mT / 4**0.5).softmax(-1) @ value)
    expected = torch.cat(heads, dim=-1) @ module.output.weight.T + module.output.bias
    torch.testing.assert_close(module(x, memory), expected)


@pytest.mark.parametrize("bias", [False, True])
def test_self_attention_equals_attention_to_an_equal_memory(bias: bool) -> None:
    module = MultiHeadAttention(BlockConfig(d_model=12, heads=3, d_k=4, d_v=5, attention_bias=bias))
    x, mask = torch.randn(BATCH, LENGTH, 12), PADDING & causal_mask(LENGTH)
    torch.testing.assert_close(module(x, x, mask), module(x, x.clone(), mask))


@pytest.mark.parametrize("choices", [{}, {"key_value_heads": 1}, {"score_scale": 0.7}], ids=str)
def test_the_form_with_weights_has_the_same_output(choices: dict[str, object]) -> None:
    module = MultiHeadAttention(BlockConfig.model_validate({"d_model": 12, "heads": 3, "d_v": 5, **choices}))
    x = torch.randn(BATCH, LENGTH, 12)
    output, weights = module.with_weights(x, x, PADDING)
    torch.testing.assert_close(output, module(x, x, PADDING))
    assert weights.shape == (BATCH, 3, LENGTH, LENGTH)


@BOTH_FORMS
def test_a_stated_scale_takes_the_place_of_one_over_root_d_k(attend: Attend) -> None:
    query, key, value = random_inputs()
    expected = attend(query * 0.7 * math.sqrt(D_K), key, value, MASKS["causal"])
    torch.testing.assert_close(attend(query, key, value, MASKS["causal"], 0.7), expected)


@pytest.mark.parametrize("score_scale", [1.0, 0.3])
def test_the_scores_of_all_heads_have_the_stated_scale(score_scale: float) -> None:
    shape = {"d_model": 12, "heads": 3, "d_k": 5}
    stated = MultiHeadAttention(BlockConfig.model_validate({**shape, "score_scale": score_scale})).double()
    usual = MultiHeadAttention(BlockConfig.model_validate(shape)).double()
    usual.load_state_dict(stated.state_dict())
    with torch.no_grad():
        usual.project.weight[:15] *= score_scale * math.sqrt(5)  # W^Q
    x, memory = torch.randn(2, 6, 12).double(), torch.randn(2, 8, 12).double()
    torch.testing.assert_close(stated(x, memory), usual(x, memory))
    assert stated.query_divisor == pytest.approx(1 / score_scale)


@pytest.mark.parametrize("key_value_heads", [1, 2, 3])
def test_neighbouring_heads_share_a_head_of_keys_and_values(key_value_heads: int) -> None:
    shape = {"d_model": 12, "heads": 6, "d_k": 4, "d_v": 5, "attention_bias": True}
    shared = MultiHeadAttention(BlockConfig.model_validate({**shape, "key_value_heads": key_value_heads}))
    apart = MultiHeadAttention(BlockConfig.model_validate(shape))
    assert shared.sizes == [24, 4 * key_value_heads, 5 * key_value_heads]
    torch.nn.init.normal_(shared.project.bias)
    for ours, copied in ((apart.project.weight, shared.project.weight), (apart.project.bias, shared.project.bias)):
        query, key, value = copied.detach().split(shared.sizes)
        by_head = [(part.unflatten(0, (key_value_heads, -1)), 6 // key_value_heads) for part in (key, value)]
        rows = [part[i // group] for part, group in by_head for i in range(6)]  # head i looks at its group's
        ours.data = torch.cat([query, *rows])
    apart.output.load_state_dict(shared.output.state_dict())
    x, memory = torch.randn(2, 6, 12), torch.randn(2, 8, 12)
    torch.testing.assert_close(shared(x, memory), apart(x, memory))
    torch.testing.assert_close(shared(x, x, causal_mask(6)), apart(x, x, causal_mask(6)))


def test_the_gradients_of_multi_head_attention_are_those_of_finite_differences() -> None:
    module = MultiHeadAttention(BlockConfig(d_model=4, heads=2, d_k=3, d_v=2, attention_bias=True)).double()
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(1, 5, 4, dtype=torch.float64, requires_grad=True)
    names = list(dict(module.named_parameters()))

    def run(x: Tensor, memory: Tensor, *weights: Tensor) -> Tensor:
        mask = torch.arange(5)[None] != 4
        named = dict(zip(names, weights, strict=True))
        result: Tensor = torch.func.functional_call(module, named, (x, memory, mask))
        return result

    assert torch.autograd.gradcheck(run, (x, memory, *module.parameters()))


def test_the_projections_have_no_bias_unless_asked_for() -> None:
    module = MultiHeadAttention(BlockConfig(d_model=8, heads=2, d_k=4, d_v=4))
    assert [name for name, _ in module.named_parameters()] == ["project.weight", "output.weight"]


def test_each_of_the_four_matrices_starts_with_the_spread_glorot_gives_it_alone() -> None:
    d_model, heads, d_k, d_v = 256, 4, 16, 96
    module = MultiHeadAttention(BlockConfig(d_model=d_model, heads=heads, d_k=d_k, d_v=d_v))
    matrices = [*module.project.weight.split([heads * d_k, heads * d_k, heads * d_v]), module.output.weight]
    for matrix, width in zip(matrices, (d_k, d_k, d_v, d_v), strict=True):
        bound = math.sqrt(6 / (d_model + heads * width))
        assert 0.99 * bound < matrix.abs().max() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
