from __future__ import annotations

import pytest
import torch

from sixfold.models.decoder_only import PRESETS, DecoderOnly, DecoderOnlyConfig
from sixfold.models.encoder_decoder import count_parameters
from sixfold.nn.positions import RotaryPositions

VARIANTS: dict[str, dict[str, object]] = {
    "gpt": {"norm": "pre", "activation": "gelu_tanh", "attention_bias": True, "positions": "learned"},
    "llama": {
        "norm": "pre", "norm_kind": "rms", "activation": "silu", "gated": True, "feed_forward_bias": False,
        "positions": "rotary", "key_value_heads": 2, "tied": False,
    },
    "the paper's layers": {"scaled_embedding": True},
}  # fmt: skip


def make_model(**choices: object) -> DecoderOnly:
    shape = {
        "layers": 2,
        "d_model": 24,
        "d_ff": 40,
        "heads": 4,
        "max_positions": 16,
        "vocabulary": 31,
        "dropout": 0.0,
    }
    return DecoderOnly(DecoderOnlyConfig(**{**shape, "init_std": 0.3, **choices})).double().eval()


@pytest.fixture(params=VARIANTS, ids=str)
def model(request: pytest.FixtureRequest) -> DecoderOnly:
    return make_model(**VARIANTS[request.param])


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(31, shape)


def test_no_logit_depends_on_a_later_token(model: DecoderOnly) -> None:
    given = tokens(2, 9)
    seen = []

    def keep(_: torch.nn.Module, __: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
        seen.append(output.detach().requires_grad_())
        return seen[-1]

    model.stem.register_forward_hook(keep)
    logits = model(given)
    for position in range(9):
        [gradient] = torch.autograd.grad(logits[:, position].sum(), seen[-1], retain_graph=True)
        assert (gradient[:, position + 1 :] == 0).all()
        assert (gradient[:, : position + 1] != 0).any(dim=-1).all()


def test_padding_behind_a_text_changes_nothing(model: DecoderOnly) -> None:
    given = tokens(1, 6)
    padded = torch.cat([given, tokens(1, 5)], dim=1)
    torch.testing.assert_close(model(padded)[:, :6], model(given), rtol=0, atol=1e-12)


def test_gradients_are_those_of_finite_differences(model: DecoderOnly) -> None:
    given, names = tokens(1, 5), [name for name, _ in model.named_parameters()]

    def outputs(*weights: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (given,))
        return found[:, -1, :3]

    weights = tuple(parameter.detach().clone().requires_grad_() for parameter in model.parameters())
    assert torch.autograd.gradcheck(outputs, weights, fast_mode=True)


def test_watching_shows_every_layer_and_changes_nothing(model: DecoderOnly) -> None:
    given, seen = tokens(2, 7), list[torch.Tensor]()
    torch.testing.assert_close(model.hidden(given, watch=seen.append), model.hidden(given), rtol=0, atol=1e-12)
    assert [each.shape for each in seen] == [(2, 4, 7, 7)] * 2
    assert all(torch.allclose(each.sum(dim=-1), torch.ones(2, 4, 7).double()) for each in seen)


@pytest.mark.parametrize(
    ("name", "count"),
    [("gpt2", 124_439_808), ("gpt2-medium", 354_823_168), ("gpt2-large", 774_030_080), ("gpt2-xl", 1_557_611_200)],
)
def test_presets_have_as_many_parameters_as_was_published(name: str, count: int) -> None:
    with torch.device("meta"):
        model = DecoderOnly(DecoderOnlyConfig(**PRESETS[name].model_dump(), vocabulary=50257))
    assert count_parameters(model) == count


def test_rotary_scores_depend_on_distances_only() -> None:
    rotary = RotaryPositions(8, base=10_000.0)
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    scores = [
        (rotary(query, start + 3) * rotary(key, start)).sum()
        for start in (0, 5, 400)  # the table grows
    ]
    torch.testing.assert_close(scores[1], scores[0], rtol=0, atol=1e-4)
    torch.testing.assert_close(scores[2], scores[0], rtol=0, atol=1e-4)


def test_rotary_positions_turn_nothing_at_the_start() -> None:
    x = torch.randn(2, 3, 1, 8)
    assert torch.equal(RotaryPositions(8, base=500.0)(x), x)
