"""The layer and the stack: what they compute and what each position can see."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from sixfold.nn import BlockConfig, Stack, causal_mask, local_mask, padding_mask
from sixfold.nn.config import NormPlace

pytestmark = pytest.mark.usefixtures("seed")

D_MODEL, LENGTH = 12, 6
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 2], [5, 6, 2, 0, 0, 0]])
PADDING = padding_mask(TOKENS, pad_id=0)


def block(norm: NormPlace = "post", **choices: object) -> BlockConfig:
    """Return the definition of small layers without dropout."""
    shape = {"d_model": D_MODEL, "d_ff": 20, "heads": 3, "d_k": 4, "d_v": 5, "dropout": 0.0, "norm": norm}
    return BlockConfig.model_validate({**shape, **choices})


def make_encoder(num_layers: int, norm: NormPlace = "post", **choices: object) -> Stack:
    return Stack(block(norm, **choices), num_layers)


def make_decoder(num_layers: int, norm: NormPlace = "post", **choices: object) -> Stack:
    return Stack(block(norm, **choices), num_layers, has_cross_attention=True)


def random_input() -> Tensor:
    return torch.randn(2, LENGTH, D_MODEL, requires_grad=True)


def sees(output: Tensor, x: Tensor) -> list[list[bool]]:
    """Return whether output position i depends at all on input position j of the first sentence."""
    seen = []
    for i in range(LENGTH):
        (gradient,) = torch.autograd.grad(output[0, i].square().sum(), x, retain_graph=True)
        seen.append([bool(gradient[0, j].ne(0).any()) for j in range(LENGTH)])
    return seen


def norm_of(x: Tensor) -> Tensor:
    """Return the fresh layer normalisation, whose gain is one and bias zero."""
    return layer_norm(x, (D_MODEL,))


def test_a_post_norm_encoder_layer_normalises_each_sum() -> None:
    encoder, x = make_encoder(1), random_input()
    layer = encoder.layers[0]
    attended = norm_of(x + layer.self_attention(x, x, PADDING))
    expected = norm_of(attended + layer.feed_forward(attended))
    torch.testing.assert_close(encoder(x, PADDING), expected)


def test_a_pre_norm_encoder_normalises_what_enters_and_at_the_end() -> None:
    encoder, x = make_encoder(1, "pre"), random_input()
    layer, normed = encoder.layers[0], norm_of(x)
    attended = x + layer.self_attention(normed, normed, PADDING)
    expected = norm_of(attended + layer.feed_forward(norm_of(attended)))
    torch.testing.assert_close(encoder(x, PADDING), expected)


def test_a_post_norm_decoder_layer_looks_at_the_target_then_the_memory_then_feeds_forward() -> None:
    decoder, x, memory, causal = make_decoder(1), random_input(), random_input(), causal_mask(LENGTH)
    layer = decoder.layers[0]
    past = norm_of(x + layer.self_attention(x, x, causal))
    crossed = norm_of(past + layer.cross_attention(past, memory, PADDING))
    expected = norm_of(crossed + layer.feed_forward(crossed))
    torch.testing.assert_close(decoder(x, causal, memory, PADDING), expected)


def test_a_pre_norm_decoder_leaves_the_memory_as_the_encoder_normalised_it() -> None:
    decoder, x, memory, causal = make_decoder(1, "pre"), random_input(), random_input(), causal_mask(LENGTH)
    layer, normed = decoder.layers[0], norm_of(x)
    past = x + layer.self_attention(normed, normed, causal)
    crossed = past + layer.cross_attention(norm_of(past), memory, PADDING)
    expected = norm_of(crossed + layer.feed_forward(norm_of(crossed)))
    torch.testing.assert_close(decoder(x, causal, memory, PADDING), expected)


def test_a_stack_applies_its_layers_one_after_the_other() -> None:
    encoder, x = make_encoder(3), random_input()
    expected = x
    for layer in encoder.layers:
        expected = layer(expected, PADDING)
    torch.testing.assert_close(encoder(x, PADDING), expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_position_never_sees_a_later_one(norm: NormPlace) -> None:
    x, memory = random_input(), random_input()
    output = make_decoder(3, norm)(x, causal_mask(LENGTH), memory, PADDING)
    assert sees(output, x) == [[j <= i for j in range(LENGTH)] for i in range(LENGTH)]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_position_sees_the_whole_sentence(norm: NormPlace) -> None:
    x = random_input()
    assert sees(make_encoder(1, norm)(x, PADDING), x) == [[True] * LENGTH] * LENGTH


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_restricted_attention_reaches_its_width_once_a_layer(num_layers: int) -> None:
    x = random_input()
    output = make_encoder(num_layers)(x, PADDING & local_mask(LENGTH, width=1))
    assert sees(output, x) == [[abs(i - j) <= num_layers for j in range(LENGTH)] for i in range(LENGTH)]


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_restricted_attention_in_the_decoder_reaches_backwards_only(num_layers: int) -> None:
    x, memory = random_input(), random_input()
    mask = causal_mask(LENGTH) & local_mask(LENGTH, width=1)
    output = make_decoder(num_layers)(x, mask, memory, PADDING)
    assert sees(output, x) == [[i - num_layers <= j <= i for j in range(LENGTH)] for i in range(LENGTH)]


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("width", [0, 1])
def test_no_gradient_reaches_padding_in_the_encoder(norm: NormPlace, width: int) -> None:
    x = random_input()
    mask = PADDING & local_mask(LENGTH, width) if width else PADDING
    real = make_encoder(2, norm)(x, mask)[1, :3]
    (gradient,) = torch.autograd.grad(real.square().sum(), x)
    assert gradient[1, 3:].eq(0).all()
    assert gradient[1, :3].ne(0).any(dim=-1).all()


def test_no_gradient_reaches_padding_in_the_memory() -> None:
    x, memory = random_input(), random_input()
    output = make_decoder(2)(x, causal_mask(LENGTH), memory, PADDING)
    (gradient,) = torch.autograd.grad(output.square().sum(), memory)
    assert gradient[1, 3:].eq(0).all()
    assert gradient[1, :3].ne(0).any(dim=-1).all()


ALL_VARIANTS = {
    "gated": True, "activation": "silu", "norm_kind": "rms", "key_value_heads": 1, "attention_bias": True,
    "score_scale": 1.0,
}  # fmt: skip


@pytest.mark.parametrize("make", [make_encoder, make_decoder])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("choices", [{}, ALL_VARIANTS], ids=["the paper's", "every variant"])
def test_every_parameter_of_a_stack_is_used(
    make: Callable[..., Stack], norm: NormPlace, choices: dict[str, object]
) -> None:
    stack, x = make(2, norm, **choices), random_input()
    for bias in (weight for name, weight in stack.named_parameters() if name.endswith("bias")):
        torch.nn.init.normal_(bias)
    output = stack(x, PADDING, random_input(), PADDING)
    (output * torch.randn_like(output)).sum().backward()
    assert [name for name, weight in stack.named_parameters() if not weight.grad.any()] == []


def test_only_a_layer_with_a_memory_to_attend_to_has_cross_attention() -> None:
    encoder, decoder = make_encoder(1, "pre"), make_decoder(1, "pre")
    more = {name for name, _ in decoder.named_parameters()} - {name for name, _ in encoder.named_parameters()}
    assert {name.split(".")[2] for name in more} == {"cross_attention", "cross_attention_norm"}
    x = random_input()
    assert torch.equal(encoder(x, PADDING, random_input(), PADDING), encoder(x, PADDING))  # it sees no memory


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_watching_a_stack_shows_the_weights_of_each_attention_in_order_and_changes_nothing(
    norm: NormPlace,
) -> None:
    decoder, x, memory, causal = make_decoder(2, norm), random_input(), random_input()[:, :4], causal_mask(LENGTH)
    shown: list[tuple[str, Tensor]] = []
    watched = decoder(x, causal, memory, PADDING[..., :4], lambda which, weights: shown.append((which, weights)))
    torch.testing.assert_close(watched, decoder(x, causal, memory, PADDING[..., :4]))
    assert [which for which, _ in shown] == ["self", "cross", "self", "cross"]
    assert [weights.shape for _, weights in shown] == [(2, 3, LENGTH, LENGTH), (2, 3, LENGTH, 4)] * 2
    for _, weights in shown:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, LENGTH))
    _, weights = decoder.layers[0].self_attention.with_weights(normed(decoder, x), normed(decoder, x), causal)
    torch.testing.assert_close(shown[0][1], weights)


def normed(stack: Stack, x: Tensor) -> Tensor:
    """Return what the first attention of a stack sees."""
    return norm_of(x) if stack.layers[0].is_pre_norm else x
