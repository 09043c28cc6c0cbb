"""The whole model: its mathematics, what can leak into what, its sizes and what it refuses."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import (
    PRESETS,
    EncoderDecoder,
    EncoderDecoderConfig,
    count_parameters,
)
from sixfold.nn import BlockConfig, Dropout, Layer, MultiHeadAttention, attention, sinusoids

VOCABULARY = 23
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 4, 2], [11, 12, 2, 0, 0, 0, 0], [15, 9, 21, 6, 2, 0, 0]])
TARGET = torch.tensor([[1, 7, 8, 9, 21], [1, 5, 0, 0, 0], [1, 13, 14, 15, 0]])
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 12},
    "restricted attention": {"attention_width": 1},
    "other depths": {"encoder_layers": 3, "decoder_layers": 1},
    "d_k is not d_v": {"heads": 3, "d_k": 5, "d_v": 7},
    "biases": {"attention_bias": True},
    "rms norm, gated silu, no biases": {
        "norm": "pre", "norm_kind": "rms", "activation": "silu", "gated": True, "feed_forward_bias": False,
    },
    "shared keys and values, unscaled scores": {"heads": 4, "key_value_heads": 2, "score_scale": 1.0},
}  # fmt: skip
every_variant = pytest.mark.parametrize("variant", VARIANTS)
seeded = pytest.mark.usefixtures("seed")


def make_model(**choices: object) -> EncoderDecoder:
    """Return a small random model, in training mode."""
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 12, "d_ff": 20, "heads": 2}
    config = EncoderDecoderConfig.model_validate({"vocabulary": VOCABULARY, "dropout": 0.0, **shape, **choices})
    return EncoderDecoder(config)


# The mathematics


def plain_attention(block: MultiHeadAttention, query: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
    """Return multi-head attention as the paper writes it: no fused kernel and nothing dropped."""
    matrices = block.project.weight.split(block.sizes)
    rows = zip((query, memory, memory), matrices, strict=True)
    heads = [(x @ matrix.T).unflatten(-1, (block.heads, -1)).transpose(1, 2) for x, matrix in rows]
    return attention(*heads, mask)[0].transpose(1, 2).flatten(2) @ block.output.weight.T


def plain_forward(model: EncoderDecoder, source: Tensor, target: Tensor, rate: float) -> Tensor:
    """Return the paper's post-norm model in one piece, with dropout exactly where section 5.4 puts it."""
    weight, width, drop = model.head.weight, model.config.d_model, Dropout(rate)

    def embed(tokens: Tensor) -> Tensor:
        return drop(weight[tokens] * math.sqrt(width) + sinusoids(tokens.size(1), width))

    def feed_forward(layer: Layer, x: Tensor) -> Tensor:
        inner, outer = layer.feed_forward.inner, layer.feed_forward.outer
        return (x @ inner.weight.T + inner.bias).clamp(min=0) @ outer.weight.T + outer.bias

    def add_and_norm(x: Tensor, sublayer: Tensor) -> Tensor:
        return layer_norm(x + drop(sublayer), (width,))

    real = (source != 0)[:, None, None, :]
    past = torch.ones(target.size(1), target.size(1), dtype=torch.bool).tril()
    memory = embed(source)
    for layer in model.encoder.layers:
        memory = add_and_norm(memory, plain_attention(layer.self_attention, memory, memory, real))
        memory = add_and_norm(memory, feed_forward(layer, memory))
    x = embed(target)
    for layer in model.decoder.layers:
        x = add_and_norm(x, plain_attention(layer.self_attention, x, x, past))
        x = add_and_norm(x, plain_attention(layer.cross_attention, x, memory, real))
        x = add_and_norm(x, feed_forward(layer, x))
    return x @ weight.T


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_model_is_the_paper_in_one_piece_with_dropout_where_section_5_4_puts_it(
    rate: float, seed: int
) -> None:
    model = make_model(dropout=rate, d_k=3, d_v=5)
    torch.manual_seed(seed)
    logits = model(SOURCE, TARGET)
    torch.manual_seed(seed)  # the same draws, in the same order, or nothing agrees
    torch.testing.assert_close(logits, plain_forward(model, SOURCE, TARGET, rate), rtol=0, atol=1e-5)


@seeded
def test_training_drops_at_random_and_evaluation_never() -> None:
    model = make_model(dropout=0.3)
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@seeded
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_gradients_of_a_whole_model_are_those_of_finite_differences(norm: str) -> None:
    layers = {"encoder_layers": 1, "decoder_layers": 1, "norm": norm}
    model = make_model(vocabulary=7, d_model=4, d_ff=5, heads=2, d_k=2, d_v=1, **layers).double()
    names = list(dict(model.named_parameters()))
    source, target = torch.tensor([[4, 5, 6], [6, 2, 0]]), torch.tensor([[1, 5], [1, 4]])

    def run(*weights: Tensor) -> Tensor:
        named = dict(zip(names, weights, strict=True))
        logits: Tensor = torch.func.functional_call(model, named, (source, target))
        return logits.log_softmax(-1)[:, :, 4:6]

    assert torch.autograd.gradcheck(run, tuple(model.parameters()))


@seeded
@every_variant
def test_the_explicit_form_of_attention_gives_the_same_output(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(**VARIANTS[variant])
    before = model(SOURCE, TARGET)
    monkeypatch.setattr(MultiHeadAttention, "forward", lambda self, *inputs: self.with_weights(*inputs[:3])[0])
    torch.testing.assert_close(model(SOURCE, TARGET), before, rtol=0, atol=1e-5)


@seeded
@every_variant
def test_every_parameter_is_used(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    logits = model(SOURCE, TARGET)
    (logits * torch.randn_like(logits)).sum().backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None or not gradient.any()] == []


# Leakage


def stack_input(stack: nn.Module) -> list[Tensor]:
    """Return a list that will hold what next enters the encoder or the decoder."""
    entered: list[Tensor] = []
    stack.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0]))
    return entered


@seeded
@every_variant
def test_no_gradient_flows_from_an_output_to_a_later_target_position(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    entered = stack_input(model.decoder)
    logits = model(SOURCE, TARGET)
    for i in range(TARGET.size(1)):
        (gradient,) = torch.autograd.grad(logits[:, i].square().sum(), entered[0], retain_graph=True)
        assert gradient[:, i + 1 :].eq(0).all()
        assert gradient[:, i].ne(0).any(dim=-1).all()


@seeded
@pytest.mark.parametrize("width", [1, 2])
def test_restricted_attention_sees_its_width_and_no_further_in_both_stacks(width: int) -> None:
    model = make_model(attention_width=width, encoder_layers=1, decoder_layers=1)
    source_input, target_input = stack_input(model.encoder), stack_input(model.decoder)
    memory, hidden = model.encode(SOURCE[:1]), model.hidden(SOURCE[:1], TARGET[:1])
    for i in range(TARGET.size(1)):
        (to_source,) = torch.autograd.grad(memory[0, i].square().sum(), source_input[0], retain_graph=True)
        (to_target,) = torch.autograd.grad(hidden[0, i].square().sum(), target_input[0], retain_graph=True)
        seen_source, seen_target = to_source[0].ne(0).any(-1).tolist(), to_target[0].ne(0).any(-1).tolist()
        assert seen_source == [i - width <= j <= i + width for j in range(SOURCE.size(1))]
        assert seen_target == [i - width <= j <= i for j in range(TARGET.size(1))]


@seeded
@every_variant
def test_later_target_tokens_cannot_change_an_output(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    logits = model(SOURCE, TARGET)
    for i in range(1, TARGET.size(1)):
        changed = TARGET.clone()
        changed[:, i:] = torch.randint(4, VOCABULARY, changed[:, i:].shape)
        assert torch.equal(model(SOURCE, changed)[:, :i], logits[:, :i])


@seeded
@every_variant
def test_no_gradient_reaches_source_padding(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    entered = stack_input(model.encoder)
    (gradient,) = torch.autograd.grad(model(SOURCE, TARGET).square().sum(), entered)
    assert gradient[SOURCE == 0].eq(0).all()
    assert gradient[SOURCE != 0].ne(0).any(dim=-1).all()


@seeded
@every_variant
def test_what_stands_at_source_padding_cannot_change_the_output(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    before = model.hidden(SOURCE, TARGET.clamp(min=1))
    with torch.no_grad():
        model.head.weight[0] = 1000 * torch.randn(12)
    assert torch.equal(model.hidden(SOURCE, TARGET.clamp(min=1)), before)


@seeded
@every_variant
def test_what_stands_at_target_padding_cannot_change_a_real_position(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    garbage = torch.where(TARGET == 0, torch.randint(4, VOCABULARY, TARGET.shape), TARGET)
    real = TARGET != 0
    assert torch.equal(model(SOURCE, garbage)[real], model(SOURCE, TARGET)[real])


@seeded
@every_variant
def test_more_padding_does_not_change_a_real_position(variant: str) -> None:
    model = make_model(**VARIANTS[variant]).double()
    source, target = nn.functional.pad(SOURCE, (0, 4)), nn.functional.pad(TARGET, (0, 3))
    more = model(source, target)[:, : TARGET.size(1)]
    real = TARGET != 0
    torch.testing.assert_close(more[real], model(SOURCE, TARGET)[real], rtol=0, atol=1e-12)


@seeded
@every_variant
def test_a_sentence_alone_gives_what_it_gives_in_a_batch(variant: str) -> None:
    model = make_model(**VARIANTS[variant]).double()
    batched = model(SOURCE, TARGET)
    for i in range(len(SOURCE)):
        source, target = SOURCE[i][SOURCE[i] != 0], TARGET[i][TARGET[i] != 0]
        alone = model(source[None], target[None])[0]
        torch.testing.assert_close(batched[i, : len(target)], alone, rtol=0, atol=1e-12)


# The shared matrix and the positions


@seeded
def test_the_shared_matrix_learns_from_all_three_of_its_uses() -> None:
    model = make_model()
    (tied,) = torch.autograd.grad(model(SOURCE, TARGET).square().sum(), model.head.weight)
    model.target.embedding = copy.deepcopy(model.source.embedding)  # each gets a matrix of its own
    model.head.weight = copy.deepcopy(model.head.weight)
    matrices = [model.source.embedding.weight, model.target.embedding.weight, model.head.weight]
    gradients = torch.autograd.grad(model(SOURCE, TARGET).square().sum(), matrices)
    assert all(gradient.ne(0).any() for gradient in gradients)
    torch.testing.assert_close(tied, sum(gradients), rtol=1e-4, atol=1e-3)


def test_one_parameter_serves_both_embeddings_and_the_projection() -> None:
    model = make_model()
    shapes = [tuple(weight.shape) for weight in model.parameters()]
    assert shapes.count((VOCABULARY, 12)) == 1
    assert model.source.embedding.weight is model.target.embedding.weight is model.head.weight


def test_the_order_of_the_source_matters_through_the_positions_alone() -> None:
    model = make_model()
    order = [3, 1, 0, 2]
    tokens = torch.tensor([[5, 6, 7, 8]])
    assert not torch.allclose(model.encode(tokens[:, order]), model.encode(tokens)[:, order], atol=1e-3)
    model.source.positions.table.zero_()
    torch.testing.assert_close(model.encode(tokens[:, order]), model.encode(tokens)[:, order])


def test_learned_positions_are_learned_for_each_side_and_sinusoids_are_the_same_on_both() -> None:
    learned, fixed = make_model(positions="learned"), make_model()
    assert not torch.equal(learned.source.positions.table, learned.target.positions.table)
    assert torch.equal(fixed.source.positions(0, 9), fixed.target.positions(0, 9))
    assert not any("positions" in name for name, _ in fixed.named_parameters())


# The sizes of table 3

TABLE_3: dict[str, tuple[dict[str, object], int]] = {  # what a row changes, and its millions of parameters
    "base": ({}, 65),
    "B, d_k 16": ({"d_k": 16}, 58),
    "B, d_k 32": ({"d_k": 32}, 60),
    "C, 2 layers": ({"encoder_layers": 2, "decoder_layers": 2}, 36),
    "C, 4 layers": ({"encoder_layers": 4, "decoder_layers": 4}, 50),
    "C, 8 layers": ({"encoder_layers": 8, "decoder_layers": 8}, 80),
    "C, d_model 256": ({"d_model": 256}, 28),
    "C, d_model 1024": ({"d_model": 1024}, 168),
    "C, d_ff 1024": ({"d_ff": 1024}, 53),
    "C, d_ff 4096": ({"d_ff": 4096}, 90),
}


def count(vocabulary: int = 37_000, preset: str = "base", **choices: object) -> int:
    """Return the parameters of a model that is never allocated."""
    config = {**PRESETS[preset].model_dump(), "vocabulary": vocabulary, **choices}
    with torch.device("meta"):
        return count_parameters(EncoderDecoder(EncoderDecoderConfig.model_validate(config)))


def formula(vocabulary: int, layers: int, d_model: int, d_ff: int) -> int:
    """Return the parameters of the paper's model, from its equations alone."""
    attention_block = 4 * d_model**2  # W^Q, W^K, W^V and W^O of all heads
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder_layer = attention_block + feed_forward + 2 * norm
    decoder_layer = 2 * attention_block + feed_forward + 3 * norm
    return vocabulary * d_model + layers * (encoder_layer + decoder_layer)


def test_base_has_the_parameters_its_equations_give_and_nearly_those_of_table_3() -> None:
    assert count() == formula(37_000, 6, 512, 2048) == 63_045_632
    assert count() == pytest.approx(65e6, rel=0.031)


def test_big_has_the_parameters_its_equations_give_and_nearly_those_of_table_3() -> None:
    assert count(preset="big") == formula(37_000, 6, 1024, 4096) == 214_171_648
    assert count(preset="big") == pytest.approx(213e6, rel=0.01)


@pytest.mark.parametrize("row", TABLE_3)
def test_every_row_of_table_3_has_the_paper_parameters_at_one_vocabulary(row: str) -> None:
    choices, millions = TABLE_3[row]
    assert round(count(vocabulary=41_100, **choices) / 1e6) == millions


@pytest.mark.parametrize("heads", [1, 4, 16, 32])
def test_more_heads_cost_no_parameters(heads: int) -> None:
    assert count(heads=heads) == count()


def test_the_presets_are_those_of_the_paper() -> None:
    base, big = PRESETS["base"], PRESETS["big"]
    assert (base.encoder_layers, base.decoder_layers, base.d_model, base.d_ff) == (6, 6, 512, 2048)
    assert (big.encoder_layers, big.decoder_layers, big.d_model, big.d_ff) == (6, 6, 1024, 4096)
    assert (base.heads, base.dropout, big.heads, big.dropout) == (8, 0.1, 16, 0.3)
    for preset in (base, big):
        assert (preset.norm, preset.positions, preset.attention_width) == ("post", "sinusoidal", 0)
        paper = BlockConfig(d_model=preset.d_model, d_ff=preset.d_ff, heads=preset.heads, dropout=preset.dropout)
        assert {name: getattr(preset, name) for name in BlockConfig.model_fields} == paper.model_dump()


@pytest.mark.parametrize("preset", PRESETS)
def test_heads_are_d_model_over_h_wide_unless_stated(preset: str) -> None:
    config = EncoderDecoderConfig(vocabulary=9, **PRESETS[preset].model_dump())
    with torch.device("meta"):
        block = EncoderDecoder(config).encoder.layers[0].self_attention
    assert block.sizes == [config.d_model] * 3


def test_heads_are_as_wide_as_stated() -> None:
    model = make_model(heads=3, d_k=5, d_v=7)
    blocks = [block for block in model.modules() if isinstance(block, MultiHeadAttention)]
    assert len(blocks) == 2 + 2 * 2
    assert all(block.sizes == [15, 15, 21] for block in blocks)


# Refusals


def test_a_model_refuses_what_its_layers_refuse() -> None:
    with pytest.raises(ConfigError, match="d_model=512, heads=7 leaves 1 over") as refusal:
        EncoderDecoderConfig(vocabulary=9, heads=7)
    assert "heads=8" in refusal.value.hint
    assert EncoderDecoderConfig(vocabulary=9, heads=7, d_k=64, d_v=64).heads == 7


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="even"):
        EncoderDecoderConfig(vocabulary=9, d_model=511, heads=7)


@pytest.mark.parametrize(
    "choices",
    [
        {"layers": 6},
        {"members": 2},
        {"norm": "middle"},
        {"positions": "rotary"},
        {"dropout": 1.0},
        {"d_model": 10**9},
        {"encoder_layers": 0},
        {"vocabulary": 0},
    ],
)
def test_an_unknown_key_or_an_impossible_value_is_refused(choices: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        EncoderDecoderConfig.model_validate({"vocabulary": 9, **choices})


def test_a_configuration_cannot_be_changed_afterwards() -> None:
    with pytest.raises(ValidationError):
        PRESETS["base"].heads = 4


def test_a_configuration_comes_back_from_json() -> None:
    config = EncoderDecoderConfig(vocabulary=9, heads=4, positions="learned")
    assert EncoderDecoderConfig.model_validate_json(config.model_dump_json()) == config
