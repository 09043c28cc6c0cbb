"""The decoder's cache: steps that remember equal the whole that is computed at once."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from sixfold.models.transformer import Transformer, TransformerConfig
from sixfold.nn.cache import DecoderCache, LayerCache

pytestmark = pytest.mark.usefixtures("seed")

VOCABULARY = 23
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 4, 2], [11, 12, 2, 0, 0, 0, 0], [15, 9, 21, 6, 2, 0, 0]])
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "restricted attention": {"attention_width": 2},
    "other depths": {"encoder_layers": 1, "decoder_layers": 3},
    "d_k is not d_v": {"heads": 3, "d_k": 5, "d_v": 7},
    "biases": {"attention_bias": True},
}


def make_model(dtype: torch.dtype = torch.float32, **choices: object) -> Transformer:
    """Return a small random model that drops nothing."""
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 12, "d_ff": 20, "heads": 2}
    config = TransformerConfig.model_validate({"vocabulary": VOCABULARY, **shape, **choices})
    return Transformer(config).to(dtype).eval()


def random_tokens(*shape: int) -> Tensor:
    """Return token ids that are no padding."""
    return torch.randint(4, VOCABULARY, shape)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_cached_steps_equal_the_full_forward(variant: str, dtype: torch.dtype, tolerance: float) -> None:
    model, target = make_model(dtype, **VARIANTS[variant]), random_tokens(3, 20)
    cache = model.start_cache(SOURCE)
    steps = torch.stack([model.step(target[:, i], cache) for i in range(20)], dim=1)
    torch.testing.assert_close(steps, model(SOURCE, target), rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_cached_steps_of_several_hypotheses_equal_the_full_forward_of_each(variant: str) -> None:
    model, target = make_model(**VARIANTS[variant]), random_tokens(3 * 4, 6)
    cache = model.start_cache(SOURCE, hypotheses=4)
    steps = torch.stack([model.step(target[:, i], cache) for i in range(6)], dim=1)
    expected = model(SOURCE.repeat_interleave(4, dim=0), target)
    torch.testing.assert_close(steps, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_cached_steps_survive_reordered_hypotheses_and_finished_sentences(
    variant: str, dtype: torch.dtype, tolerance: float, seed: int
) -> None:
    model, draw = make_model(dtype, **VARIANTS[variant]), random.Random(seed)
    source, prefixes = SOURCE, torch.empty(9, 0, dtype=torch.long)
    cache = model.start_cache(SOURCE, hypotheses=3)
    for length in range(1, 15):
        prefixes = torch.cat([prefixes, random_tokens(prefixes.size(0), 1)], dim=1)
        logits = model.step(prefixes[:, -1], cache)
        expected = model(source.repeat_interleave(3, dim=0), prefixes)[:, -1]
        torch.testing.assert_close(logits, expected, rtol=0, atol=tolerance)
        kept = [s for s in range(source.size(0)) if (length, s) not in {(5, 1), (11, 0)}]
        draw.shuffle(kept)
        rows = torch.tensor([3 * sentence + draw.randrange(3) for sentence in kept for _ in range(3)])
        cache.select(torch.tensor(kept), rows)
        source, prefixes = source[kept], prefixes[rows]


@torch.no_grad()
def test_the_beam_may_widen_after_the_first_step() -> None:
    model, first, later = make_model(), random_tokens(3, 1), random_tokens(12, 2)
    cache = model.start_cache(SOURCE)
    model.step(first[:, 0], cache)
    cache.select(None, torch.arange(3).repeat_interleave(4))
    for i in range(2):
        logits = model.step(later[:, i], cache)
    target = torch.cat([first.repeat_interleave(4, dim=0), later], dim=1)
    expected = model(SOURCE.repeat_interleave(4, dim=0), target)[:, -1]
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@torch.no_grad()
def test_steps_go_on_past_the_first_table_of_sinusoids() -> None:
    model, target = make_model(decoder_layers=1, encoder_layers=1), random_tokens(3, 300)
    cache = model.start_cache(SOURCE)
    for i in range(300):
        logits = model.step(target[:, i], cache)
    torch.testing.assert_close(logits, model(SOURCE, target)[:, -1], rtol=0, atol=1e-5)


@torch.no_grad()
def test_all_hypotheses_of_a_sentence_share_one_memory() -> None:
    cache = make_model().start_cache(SOURCE, hypotheses=50)
    assert cache.layers[0].memory_key.size(0) == SOURCE.size(0)


def test_a_layer_remembers_every_position_in_order() -> None:
    keys, values = torch.randn(2, 3, 9, 4), torch.randn(2, 3, 9, 5)
    layer = LayerCache(keys, values, key=keys[:, :, :0], value=values[:, :, :0])
    for i in range(9):
        key, value = layer.append(keys[:, :, i : i + 1], values[:, :, i : i + 1])
        assert torch.equal(key, keys[:, :, : i + 1])
        assert torch.equal(value, values[:, :, : i + 1])


def test_select_keeps_sentences_and_rows_in_the_order_asked_for() -> None:
    memory, rows = torch.arange(3.0).view(3, 1, 1, 1), torch.arange(6.0).view(6, 1, 1, 1)
    layer = LayerCache(memory_key=memory, memory_value=-memory, key=rows, value=-rows)
    cache = DecoderCache(layers=[layer], memory_mask=memory > 0, length=1)
    cache.select(torch.tensor([2, 0]), torch.tensor([5, 5, 0, 1]))
    assert layer.memory_key.flatten().tolist() == [2, 0]
    assert layer.memory_value.flatten().tolist() == [-2, 0]
    assert layer.key.flatten().tolist() == [5, 5, 0, 1]
    assert layer.value.flatten().tolist() == [-5, -5, 0, -1]
    assert cache.memory_mask.flatten().tolist() == [True, False]
