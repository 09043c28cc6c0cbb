"""Scores of given translations: sums of log-probabilities, whatever stands beside them in a batch."""

from __future__ import annotations

import random

import pytest
import torch

from sixfold.decode import batch_decoder, token_budget
from sixfold.decode.scoring import score_ids, target_log_probabilities
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.text import SpecialIds

pytestmark = pytest.mark.usefixtures("seed")

SPECIAL = SpecialIds()
SOURCES = ["dog", "old man sees small tree", "", "blue house and blue window", "woman paints", "tree", ""]
TARGETS = ["Hund", "alt Mann sieht klein Baum", "Hund", "blau", "", "🙂 ganz anders als erwartet", ""]


def test_the_log_probability_of_a_token_is_picked_from_its_row_and_padding_counts_nothing() -> None:
    logits = torch.randn(2, 3, 6)
    target = torch.tensor([[4, 5, SPECIAL.eos], [5, SPECIAL.eos, SPECIAL.pad]])
    found = target_log_probabilities(logits, target, SPECIAL.pad)
    expected = logits.softmax(dim=-1).log()
    assert found[0].tolist() == pytest.approx([float(expected[0, i, token]) for i, token in enumerate(target[0])])
    assert found[1].tolist() == pytest.approx([float(expected[1, 0, 5]), float(expected[1, 1, SPECIAL.eos]), 0.0])


@torch.no_grad()
def test_a_score_is_the_product_of_the_probabilities_of_all_steps(trained: Translator) -> None:
    source, target = trained.tokenizer.encode(SOURCES[1]), trained.tokenizer.encode(TARGETS[1])
    stepper, total = trained.decoder.engine.start([[*source, SPECIAL.eos]], [[SPECIAL.bos]]), 0.0
    for token, following in zip([SPECIAL.bos, *target], [*target, SPECIAL.eos], strict=True):
        total += float(stepper.step([token])[0, following])
    [score] = score_ids(trained.model, SPECIAL, [source], [target])
    assert score.log_probability == pytest.approx(total, abs=1e-4)
    assert score.num_tokens == len(target) + 1


@torch.no_grad()
def test_the_probabilities_of_all_first_tokens_add_up_to_one(trained: Translator) -> None:
    vocabulary = trained.tokenizer.vocabulary
    sources = torch.tensor([[7, 8, SPECIAL.eos]]).expand(vocabulary, -1)
    logits = trained.model(sources, torch.full((vocabulary, 1), SPECIAL.bos))
    found = target_log_probabilities(logits, torch.arange(vocabulary)[:, None], SPECIAL.pad)
    assert float(found[SPECIAL.pad]) == 0.0
    assert float(found[1:].exp().sum()) == pytest.approx(1.0, abs=1e-3)


def test_a_pair_scores_the_same_alone_and_in_any_batch(
    trained: Translator, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = trained.score(SOURCES, TARGETS)
    alone = [trained.score([source], [target])[0] for source, target in zip(SOURCES, TARGETS, strict=True)]
    order = random.Random(seed).sample(range(len(SOURCES)), len(SOURCES))
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 60)
    shuffled = trained.score([SOURCES[i] for i in order], [TARGETS[i] for i in order])
    back = [shuffled[order.index(i)] for i in range(len(SOURCES))]
    for other in (alone, back):
        assert [each.num_tokens for each in other] == [each.num_tokens for each in together]
        wanted = [each.log_probability for each in together]
        assert [each.log_probability for each in other] == pytest.approx(wanted, abs=1e-4)


def test_a_right_translation_scores_better_than_a_wrong_one(trained: Translator) -> None:
    right, wrong = trained.score(["dog and tree"] * 2, ["Hund und Baum", "Fenster malt alt"])
    assert right.log_probability > wrong.log_probability + 1


def test_a_score_counts_the_end_token(trained: Translator) -> None:
    scores = trained.score(SOURCES, TARGETS)
    assert [each.num_tokens for each in scores] == [len(trained.tokenizer.encode(text)) + 1 for text in TARGETS]
    assert all(each.log_probability < 0 for each in scores)
    assert not any(each.is_cut for each in scores)


def test_texts_longer_than_a_search_could_handle_are_cut_and_say_so(
    trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_decoder, "LONGEST_SOURCE", 10)
    short = Translator([trained.model], trained.tokenizer, trained.decode.model_copy(update={"extra_tokens": 5}))
    scores = short.score(["dog", "dog " * 500, "dog"], ["Hund", "Hund", "Hund " * 500])
    assert [each.is_cut for each in scores] == [False, True, True]
    assert scores[2].num_tokens == 15
    [beginning] = score_ids(
        trained.model, SPECIAL, [trained.tokenizer.encode("dog " * 500)[:10]], [trained.tokenizer.encode("Hund")]
    )
    assert scores[1].log_probability == pytest.approx(beginning.log_probability, abs=1e-4)


def test_progress_counts_every_pair(trained: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 60)
    told: list[int] = []
    trained.score(SOURCES, TARGETS, told.append)
    assert told == sorted(set(told))
    assert told[-1] == len(SOURCES)


def test_unequal_numbers_of_texts_are_refused_with_both_numbers(trained: Translator) -> None:
    with pytest.raises(ConfigError, match=r"2 sources but 1 translations"):
        trained.score(["dog", "tree"], ["Hund"])
