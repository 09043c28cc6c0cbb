"""Watching a model: every layer and head is seen, and seeing changes nothing."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from torch import Tensor

from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 4, 2], [11, 12, 2, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 7, 8, 9, 21], [1, 5, 0, 0, 0]])
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 12},
    "restricted attention": {"attention_width": 1},
    "d_k is not d_v": {"heads": 3, "d_k": 5, "d_v": 7},
    "biases": {"attention_bias": True},
    "shared keys and values": {"key_value_heads": 1},
    "unscaled scores": {"score_scale": 1.0},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make_model(**choices: object) -> EncoderDecoder:
    """Return a small random model."""
    torch.manual_seed(1)
    shape = {"encoder_layers": 3, "decoder_layers": 2, "d_model": 12, "d_ff": 20, "heads": 2, "vocabulary": 23}
    return EncoderDecoder(EncoderDecoderConfig.model_validate({**shape, **choices})).eval()


@every_variant
def test_watching_gives_the_same_output(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    watched = model.hidden(SOURCE, TARGET, lambda *_: None)
    torch.testing.assert_close(watched, model.hidden(SOURCE, TARGET), rtol=0, atol=1e-5)


@every_variant
def test_the_weights_of_every_query_sum_to_one_over_what_it_may_see(variant: str) -> None:
    model = make_model(**VARIANTS[variant])
    seen: dict[str, list[Tensor]] = defaultdict(list)
    model.hidden(SOURCE, TARGET, lambda kind, weights: seen[kind].append(weights))
    heads = model.config.heads
    assert [each.shape for each in seen["encoder"]] == [(2, heads, 7, 7)] * 3
    assert [each.shape for each in seen["decoder"]] == [(2, heads, 5, 5)] * 2
    assert [each.shape for each in seen["cross"]] == [(2, heads, 5, 7)] * 2
    for weights in (*seen["encoder"], *seen["decoder"], *seen["cross"]):
        torch.testing.assert_close(weights[0].sum(-1), torch.ones_like(weights[0].sum(-1)))
    assert all(not weights[1, ..., 3:].any() for weights in (*seen["encoder"], *seen["cross"]))  # padding
    assert all(not weights.triu(1).any() for weights in seen["decoder"])  # the future
