"""Bigram initialisation: before the first step a model predicts what usually follows a token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.data.shards import Corpus, Record, ShardWriter
from sixfold.errors import ConfigError
from sixfold.models.decoder_only import PRESETS, DecoderOnly, DecoderOnlyConfig
from sixfold.tasks.generate.initialise import count_bigrams, initialise_from_bigrams, leading_singular
from sixfold.tasks.generate.recipe import GenerateRecipe
from sixfold.training.recipe import make_recipe

VOCABULARY, SEEN, CONTEXT, ROWS = 60, 50, 32, 200
FIRST = 5  # token that occurs


@pytest.fixture
def corpus(tmp_path: Path, seed: int) -> Corpus:
    """Return rows in which a token is followed by one of three, each by three of its own."""
    draw = np.random.default_rng(seed)
    following = np.stack([FIRST + draw.permutation(SEEN) for _ in range(3)], axis=1)
    writer = ShardWriter(tmp_path, {"tokens": "<u2", "starts": "<i4"})
    for line in range(ROWS):
        tokens = [FIRST + int(draw.integers(SEEN))]
        for choice in draw.choice(3, CONTEXT, p=(0.6, 0.3, 0.1)):
            tokens.append(int(following[tokens[-1] - FIRST, choice]))
        writer.write([Record({"tokens": tokens, "starts": [0]}, line)])
    writer.close()
    return Corpus(tmp_path)


def small_model(preset: str = "llama-tiny") -> DecoderOnly:
    shape = {"layers": 2, "d_model": 64, "d_ff": 32, "heads": 4, "key_value_heads": 4, "tied": False}
    return DecoderOnly(DecoderOnlyConfig(**PRESETS[preset].model_dump() | shape, vocabulary=VOCABULARY)).eval()


def rows_of(corpus: Corpus) -> Tensor:
    return torch.from_numpy(np.stack([corpus.record(row)["tokens"] for row in range(ROWS)]).astype(np.int64))


@torch.no_grad()
def loss_of(model: DecoderOnly, rows: Tensor) -> float:
    return float(F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()))


def loss_of_counts(corpus: Corpus) -> tuple[float, float]:
    """Return the loss of the frequencies of single tokens, and of bigrams."""
    found = count_bigrams(corpus, VOCABULARY)
    total = found.counts.sum()
    single = -(found.second * (found.second / total).clamp(min=1e-9).log()).sum() / total
    conditional = found.counts / found.first[found.places[0]]
    return float(single), float(-(found.counts * conditional.log()).sum() / total)


@pytest.mark.parametrize("preset", ["llama-tiny", "gpt-tiny"])
def test_the_first_loss_is_nearer_to_that_of_bigrams_than_to_that_of_single_tokens(
    corpus: Corpus, preset: str
) -> None:
    model = small_model(preset)
    initialise_from_bigrams(model, corpus)
    single, bigrams = loss_of_counts(corpus)
    assert bigrams - 1e-3 < loss_of(model, rows_of(corpus)) < (single + bigrams) / 2


def test_tokens_that_never_occur_keep_their_random_embeddings(corpus: Corpus) -> None:
    model = small_model()
    before = model.stem.embedding.weight.detach().clone()
    initialise_from_bigrams(model, corpus)
    after = model.stem.embedding.weight
    assert torch.equal(after[:FIRST], before[:FIRST])
    assert torch.equal(after[FIRST + SEEN :], before[FIRST + SEEN :])


def test_embeddings_are_as_long_as_random_ones_on_average(corpus: Corpus) -> None:
    model = small_model()
    random = model.stem.embedding.weight.norm(dim=1).mean().item()
    initialise_from_bigrams(model, corpus)
    assert model.stem.embedding.weight[FIRST : FIRST + SEEN].norm(dim=1).mean().item() == pytest.approx(
        random, rel=0.2
    )


def test_bigrams_are_counted_within_rows(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path, {"tokens": "<u2", "starts": "<i4"})
    writer.write([Record({"tokens": tokens, "starts": [0]}, 0) for tokens in ([1, 2, 1, 2], [3, 1])])
    writer.close()
    found = count_bigrams(Corpus(tmp_path), 5)
    pairs = zip(*found.places.tolist(), found.counts.tolist(), strict=True)
    assert {(first, second): count for first, second, count in pairs} == {(1, 2): 2, (2, 1): 1, (3, 1): 1}


def test_the_leading_singular_vectors_are_those_of_a_full_decomposition(seed: int) -> None:
    torch.manual_seed(seed)
    matrix = torch.randn(80, 6) @ torch.diag(2.0 ** -torch.arange(6)) @ torch.randn(6, 80)
    left, values, right = leading_singular(matrix.to_sparse_coo(), 6)
    torch.testing.assert_close(values, torch.linalg.svdvals(matrix)[:6], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(left * values @ right.T, matrix, rtol=1e-3, atol=1e-3)


def test_a_tied_model_cannot_begin_as_bigrams() -> None:
    with pytest.raises(ConfigError, match="tied"):
        make_recipe(GenerateRecipe, {"train": {"initialise": "bigrams"}, "model": {"preset": "gpt-tiny"}})
