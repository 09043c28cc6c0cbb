"""Co-occurrence initialisation: translations begin near each other, and nothing else is touched."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from sixfold.data.shards import Corpus, Record, ShardWriter
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.tasks.translate.initialise import initialise_from_cooccurrence, leading_eigenvectors, ties

FIRST, WORDS = 10, 12  # word i of one language has the id FIRST + i, its translation FIRST + WORDS + i
VOCABULARY = FIRST + 2 * WORDS + 5


@pytest.fixture
def corpus(tmp_path: Path, seed: int) -> Corpus:
    """Return pairs whose target is the source, word by word, in another order."""
    draw = random.Random(seed)
    writer = ShardWriter(tmp_path, {"source": "<u2", "target": "<u2"})
    for line in range(400):
        words = draw.sample(range(WORDS), draw.randint(1, 4))
        target = [FIRST + WORDS + word for word in draw.sample(words, len(words))]
        writer.write([Record({"source": [FIRST + word for word in words], "target": target}, line)])
    writer.close()
    return Corpus(tmp_path)


def small_model(**choices: object) -> EncoderDecoder:
    config = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 32, "d_ff": 16, "heads": 4, **choices}
    return EncoderDecoder(EncoderDecoderConfig.model_validate({**config, "vocabulary": VOCABULARY}))


def test_a_word_begins_nearest_to_its_translation(corpus: Corpus) -> None:
    model = small_model()
    initialise_from_cooccurrence([model], corpus)
    words, translations = model.head.weight[FIRST : FIRST + 2 * WORDS].chunk(2)
    assert (words @ translations.T).argmax(dim=1).tolist() == list(range(WORDS))


def test_tokens_that_never_occur_keep_their_random_vectors(corpus: Corpus) -> None:
    model = small_model()
    before = model.head.weight.detach().clone()
    initialise_from_cooccurrence([model], corpus)
    assert torch.equal(model.head.weight[:FIRST], before[:FIRST])
    assert torch.equal(model.head.weight[-5:], before[-5:])


def test_the_vectors_are_as_long_as_random_ones(corpus: Corpus) -> None:
    model = small_model()
    initialise_from_cooccurrence([model], corpus)
    lengths = model.head.weight[FIRST : FIRST + 2 * WORDS].norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones(2 * WORDS))


@pytest.mark.parametrize("choices", [{}, {"d_k": 4, "d_v": 3}, {"attention_bias": True}])
def test_attending_to_one_source_position_gives_what_stands_there(
    corpus: Corpus, choices: dict[str, object]
) -> None:
    model = small_model(**choices)
    initialise_from_cooccurrence([model], corpus)
    memory = torch.randn(1, 1, 32)  # with a single position, all attention is on it
    for layer in model.decoder.layers:
        seen = layer.cross_attention(torch.randn(1, 3, 32), memory)
        carried = 12 if choices.get("d_v") else 32  # narrower heads carry the first dimensions
        torch.testing.assert_close(seen[..., :carried], memory[..., :carried].expand(1, 3, -1))


def test_the_same_seed_gives_the_same_start(corpus: Corpus) -> None:
    def started() -> torch.Tensor:
        torch.manual_seed(7)
        model = small_model()
        initialise_from_cooccurrence([model], corpus)
        return model.head.weight

    assert torch.equal(started(), started())


def test_ties_are_symmetric_and_only_between_words_of_the_two_languages(corpus: Corpus) -> None:
    tied = ties(corpus, VOCABULARY)
    assert torch.equal(tied, tied.T)
    words = slice(FIRST, FIRST + WORDS)
    assert tied[words, words].abs().sum() == 0
    assert tied[words, FIRST + WORDS : FIRST + 2 * WORDS].diagonal().min() > 0


@pytest.mark.usefixtures("seed")
def test_the_eigenvectors_are_those_of_a_full_decomposition() -> None:
    vectors = torch.linalg.qr(torch.randn(120, 120)).Q
    values = torch.cat([torch.tensor([50.0, 40.0, 30.0, 20.0]), torch.randn(116)])
    matrix = vectors @ torch.diag(values) @ vectors.T
    found, directions = leading_eigenvectors((matrix + matrix.T) / 2, 4)
    torch.testing.assert_close(found, values[:4], rtol=1e-4, atol=1e-3)
    torch.testing.assert_close((directions.T @ vectors[:, :4]).abs(), torch.eye(4), atol=1e-3, rtol=0)


def test_members_of_an_ensemble_begin_with_the_same_neighbours_in_other_directions(corpus: Corpus) -> None:
    members = [small_model(), small_model()]
    initialise_from_cooccurrence(members, corpus)
    one, other = (member.head.weight[FIRST : FIRST + 2 * WORDS] for member in members)
    torch.testing.assert_close(one @ one.T, other @ other.T, atol=0.05, rtol=0)
    assert (one - other).norm(dim=1).min() > 0.5
