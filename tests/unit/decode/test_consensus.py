"""Consensus: what is most like the others wins, and how alike texts are is sacreBLEU's chrF with β = 1."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from sixfold.decode.consensus import MOST_COMPARED, by_consensus, likeness, weights
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Hypothesis
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.explain import explain
from sixfold.models.folder import DecodeConfig

SHARPNESS = 4.0
WORDS = ["man", "woman", "dog", "house", "window", "tree", "blue", "old", "small", "sees", "paints", "and"]
texts = st.lists(st.text(alphabet="abc ü日", max_size=12), min_size=1, max_size=5)


def hypotheses(*scores: float) -> list[Hypothesis]:
    """Return hypotheses with these scores."""
    return [Hypothesis((number, 2), score, score) for number, score in enumerate(scores)]


@given(texts)
@settings(max_examples=200, deadline=None)
def test_likeness_is_chrf_with_precision_and_recall_alike(some: list[str]) -> None:
    metric = CHRF(beta=1)
    for ours, text in zip(likeness(some), some, strict=True):
        theirs = [metric.sentence_score(text, [other]).score / 100 for other in some]
        assert list(ours) == pytest.approx(theirs, abs=1e-9)
    assert np.array_equal(likeness(some), likeness(some).T)


def test_what_most_agree_with_wins_over_what_is_most_probable() -> None:
    some = ["ein Mann schläft", "eine Frau liest ein Buch", "eine Frau liest Bücher", "eine Frau liest das Buch"]
    ordered = by_consensus(hypotheses(-1.0, -1.1, -1.1, -1.1), some, sharpness=1.0)
    assert [each.tokens[0] for each in ordered] == [1, 3, 2, 0]
    agreements = [each.agreement for each in ordered]
    assert agreements == sorted(agreements, reverse=True)
    assert all(0 < each < 1 for each in agreements)


def test_a_hypothesis_that_is_probable_enough_needs_nobody_else() -> None:
    some = ["ein Mann schläft", "eine Frau liest ein Buch", "eine Frau liest Bücher", "eine Frau liest das Buch"]
    ordered = by_consensus(hypotheses(-1.0, -3.0, -3.0, -3.0), some, sharpness=4.0)
    assert ordered[0].tokens[0] == 0


def test_opinions_are_weighted_by_the_score_with_what_was_read_back() -> None:
    one, other = Hypothesis((1, 2), -1.0, -1.0, read_back=-2.0), Hypothesis((2,), -2.0, -2.0, read_back=-0.5)
    shares = weights([one, other], 2.0)
    assert float(shares[1] / shares[0]) == pytest.approx(np.exp(1.0))
    assert float(shares.sum()) == pytest.approx(1.0)


def test_of_very_many_only_the_best_are_compared() -> None:
    many = hypotheses(*np.linspace(-1, -9, 3 * MOST_COMPARED))
    ordered = by_consensus(many, [str(number) for number in range(len(many))], SHARPNESS)
    assert ordered[MOST_COMPARED:] == many[MOST_COMPARED:]
    assert {each.tokens for each in ordered} == {each.tokens for each in many}


@pytest.mark.parametrize("some", [["", ""], ["", "a"], ["   ", "日本"]])
def test_texts_without_characters_are_like_nothing(some: list[str]) -> None:
    ordered = by_consensus(hypotheses(-1.0, -1.0), some, SHARPNESS)
    assert all(np.isfinite(each.agreement) for each in ordered)
    assert len(ordered) == 2


def test_where_nothing_was_found_nothing_is_chosen() -> None:
    assert by_consensus([], [], SHARPNESS) == []


# In a translator


@pytest.fixture
def agreeing(trained: Translator) -> Translator:
    """Return a model that compares its hypotheses."""
    return Translator(trained.model, trained.tokenizer, DecodeConfig(beam=5, consensus=SHARPNESS))


@pytest.fixture
def sentences(seed: int) -> list[str]:
    """Return sentences of many lengths."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=1 + number % 9)) for number in range(90)]


def test_the_hypotheses_are_those_of_the_beam_in_another_order(agreeing: Translator, sentences: list[str]) -> None:
    plain = agreeing.search(sentences, SearchOptions(n_best=5, consensus=0))
    found = agreeing.search(sentences, SearchOptions(n_best=5))
    for before, after in zip(plain, found, strict=True):
        assert {each.tokens: each.score for each in after} == {each.tokens: each.score for each in before}
        assert [each.agreement for each in after] == sorted((each.agreement for each in after), reverse=True)
        assert {each.agreement for each in before} == {0.0}
    assert [best.text for best, *_ in found] == agreeing.translate(sentences)
    assert any(before[0].tokens != after[0].tokens for before, after in zip(plain, found, strict=True))


def test_it_does_not_depend_on_the_company(agreeing: Translator, sentences: list[str]) -> None:
    assert [agreeing.search([sentence])[0] for sentence in sentences] == agreeing.search(sentences)


def test_where_there_is_nothing_to_choose_from_nothing_is_compared(
    agreeing: Translator, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Translator, "choose")
    agreeing.search(sentences[:3], SearchOptions(beam=1))
    agreeing.search(sentences[:3], SearchOptions(sample=1.0))
    agreeing.search(sentences[:3], SearchOptions(diverse=0.5, n_best=2))
    agreeing.search(sentences[:3], SearchOptions(consensus=0))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam": 1, "consensus": 4}, "beam of at least 2"),
        ({"sample": 1.0, "consensus": 4}, "cannot be used together"),
        ({"diverse": 1.0, "n_best": 2, "consensus": 4}, "cannot be used together"),
        ({"consensus": -1}, "consensus must be from 0"),
    ],
)
def test_what_cannot_be_compared_is_refused(agreeing: Translator, options: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        agreeing.search(["man"], SearchOptions(**options))


def test_the_explained_translation_is_the_one_that_was_agreed_on(
    agreeing: Translator, sentences: list[str]
) -> None:
    for sentence in sentences[:6]:
        found, [[expected]] = explain(agreeing, sentence), agreeing.search([sentence])
        assert (found.translation, found.score) == (expected.text, pytest.approx(expected.score, abs=1e-4))
        assert "most like" in found.notes[-1]
