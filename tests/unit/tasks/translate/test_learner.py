"""What the loop sees of translation: its batches, its loss, its validation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sixfold.data.shards import Corpus, Record, ShardWriter
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.tasks.translate.learner import TranslateLearner
from sixfold.tasks.translate.prepare import columns_for
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.text import SpecialIds, Tokenizer
from sixfold.training.recipe import make_recipe
from sixfold.training.task import Batch

pytestmark = pytest.mark.usefixtures("seed")

CONFIG = EncoderDecoderConfig(
    encoder_layers=1, decoder_layers=1, d_model=8, d_ff=16, heads=2, dropout=0, vocabulary=13
)
PAD, BOS, EOS = SpecialIds().pad, SpecialIds().bos, SpecialIds().eos
SOURCE = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
TARGET_IN = torch.tensor([[BOS, 9, 10], [BOS, 11, PAD]])
TARGET_OUT = torch.tensor([[9, 10, EOS], [11, EOS, PAD]])
TEXTS = [("one two three", "eins"), ("four", "vier fünf"), ("five six", "sechs sieben acht neun")]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A tokenizer that knows a few words."""
    return Tokenizer.learn([text for pair in TEXTS for text in pair], 300, "bpe")


def learner(tokenizer: Tokenizer, **data: float) -> TranslateLearner:
    """Return the learner of a recipe."""
    return TranslateLearner(make_recipe(TranslateRecipe, {"data": dict(data)}), tokenizer)


def as_batch(source: Tensor, target_in: Tensor, target_out: Tensor) -> Batch:
    """Return what `collate` would make of these rows."""
    tensors = {"source": source, "target_in": target_in, "target_out": target_out}
    return Batch(tensors, int((target_out != PAD).sum()), np.arange(len(source), dtype=np.uint32))


@pytest.fixture
def corpus(tmp_path: Path, tokenizer: Tokenizer) -> Corpus:
    """The texts, encoded."""
    writer = ShardWriter(tmp_path, columns_for(tokenizer))
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in TEXTS]
    writer.write(Record({"source": s, "target": t}, line) for line, (s, t) in enumerate(ids, start=1))
    writer.close()
    return Corpus(tmp_path)


# Batches


def test_a_batch_is_padded_and_marked(tokenizer: Tokenizer, corpus: Corpus) -> None:
    batch = learner(tokenizer).collate(corpus.read(np.array([2, 0], dtype=np.uint32)), seed=1)
    source, target = ([tokenizer.encode(pair[side]) for pair in (TEXTS[2], TEXTS[0])] for side in (0, 1))
    assert [row[row != PAD].tolist() for row in batch.tensors["source"]] == [[*ids, EOS] for ids in source]
    assert [row[row != PAD].tolist() for row in batch.tensors["target_in"]] == [[BOS, *ids] for ids in target]
    assert [row[row != PAD].tolist() for row in batch.tensors["target_out"]] == [[*ids, EOS] for ids in target]
    assert all(tensor.size(1) == (tensor != PAD).sum(dim=1).max() for tensor in batch.tensors.values())
    assert batch.examples.tolist() == [2, 0]
    assert batch.num_targets == sum(len(ids) + 1 for ids in target)
    assert {tensor.dtype for tensor in batch.tensors.values()} == {torch.int64}


def test_a_row_takes_as_many_positions_as_its_size_says(tokenizer: Tokenizer, corpus: Corpus) -> None:
    sizes = learner(tokenizer).sizes(corpus)
    for number in range(len(corpus)):
        batch = learner(tokenizer).collate(corpus.read(np.array([number], dtype=np.uint32)), seed=1)
        assert sizes[number].tolist() == [batch.tensors[name].size(1) for name in ("source", "target_out")]


# The loss


def test_the_loss_is_that_of_the_real_target_tokens(tokenizer: Tokenizer) -> None:
    model = EncoderDecoder(CONFIG).double()
    logits = model(SOURCE, TARGET_IN).detach().flatten(0, 1)
    expected = cross_entropy(logits, TARGET_OUT.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum")
    found = learner(tokenizer).loss(model, as_batch(SOURCE, TARGET_IN, TARGET_OUT))
    assert float(found.detach()) == pytest.approx(float(expected), rel=1e-12)


def test_padding_contributes_nothing(tokenizer: Tokenizer) -> None:
    model = EncoderDecoder(CONFIG)
    padded = [torch.cat([each, torch.full((2, 3), PAD)], dim=1) for each in (SOURCE, TARGET_IN, TARGET_OUT)]
    with torch.no_grad():
        plain = float(learner(tokenizer).loss(model, as_batch(SOURCE, TARGET_IN, TARGET_OUT)))
        assert float(learner(tokenizer).loss(model, as_batch(*padded))) == pytest.approx(plain, rel=1e-6)


def test_the_gradient_of_a_batch_is_that_of_its_rows(tokenizer: Tokenizer) -> None:
    model, batch = EncoderDecoder(CONFIG).double(), as_batch(SOURCE, TARGET_IN, TARGET_OUT)
    learner(tokenizer).loss(model, batch).backward()
    together = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    for row in range(2):
        learner(tokenizer).loss(model, batch.take([row])).backward()
    alone = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-6)


# Validation


def test_a_validation_measures_no_more_pairs_than_it_may_and_shows_one_of_them(
    tokenizer: Tokenizer, corpus: Corpus
) -> None:
    config = CONFIG.model_copy(update={"vocabulary": tokenizer.vocabulary})
    for most, expected in ((1, TEXTS[:1]), (3, TEXTS)):
        validator = learner(tokenizer).validator(corpus, most)
        scores = validator.measure(EncoderDecoder(config), lambda: None)
        assert (scores.name, scores.is_higher_better) == ("BLEU", True)
        assert 0 <= scores.value <= 100
        assert (scores.sample.given, scores.sample.expected) in expected


def test_the_validation_loss_is_that_of_a_target_token_without_smoothing(
    tokenizer: Tokenizer, corpus: Corpus
) -> None:
    model = EncoderDecoder(CONFIG.model_copy(update={"vocabulary": tokenizer.vocabulary})).train()
    own = learner(tokenizer)
    batch = own.collate(corpus.read(np.arange(3, dtype=np.uint32)), seed=1)
    logits = model(batch.tensors["source"], batch.tensors["target_in"]).detach().flatten(0, 1)
    expected = cross_entropy(logits, batch.tensors["target_out"].flatten(), ignore_index=PAD)
    assert own.validator(corpus).loss(model, lambda: None) == pytest.approx(float(expected), rel=1e-5)
    assert model.training
