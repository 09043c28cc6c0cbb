"""What must and must not be written, how long, and at random: the text decides, and scores stay the model's."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.decode.translations import SENTENCES, SPECIAL, texts

from sixfold.decode import token_budget
from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import score_ids
from sixfold.decode.translate import Translator
from sixfold.text.words import occurs

pytestmark = pytest.mark.usefixtures("seed")


def all_texts(translator: Translator, options: SearchOptions) -> list[str]:
    """Return all translations of some sentences."""
    return [each.text for found in translator.search(SENTENCES[:8], options) for each in found]


def breaks_after(word: str, letters: int, translator: Translator) -> bool:
    """Return whether a token of a word ends there: then the beginning is forbidden with whatever follows."""
    tokens = translator.tokenizer.encode(word)
    return any(translator.tokenizer.decode(tokens[:end]) == word[:letters] for end in range(len(tokens) + 1))


@pytest.mark.parametrize("how", [{"beam": 1}, {"n_best": 4}, {"sample": 1.0, "n_best": 2}])
def test_no_text_has_a_forbidden_word_and_others_go_on_as_they_were(
    brief: Translator, how: dict[str, float]
) -> None:
    plain = all_texts(brief, SearchOptions(**how))
    likely = [word for word, _ in Counter(word for text in plain for word in text.split()).most_common()]
    forbidden = (likely[0], f"{likely[1]} {likely[2]}")
    found = all_texts(brief, SearchOptions(forbid=forbidden, **how))
    assert not any(occurs(word, text) for text in found for word in forbidden)
    longer = next(word for word in likely if word[:2] not in likely and not breaks_after(word, 2, brief))
    allowed = all_texts(brief, SearchOptions(forbid=(longer[:2],), **how))
    assert any(occurs(longer, text) for text in allowed)  # a longer word is another word
    unheard = all_texts(brief, SearchOptions(forbid=("Xylophon",), **how))
    assert unheard == plain


@pytest.mark.parametrize("prefix", ["Hau", "Haus", "Haus ", "klein blau und", "Ümläut 日本", "▁", " Haus"])
@pytest.mark.parametrize("how", [{"beam": 1}, {"n_best": 3}, {"sample": 1.0}])
def test_every_text_begins_with_the_prefix(brief: Translator, how: dict[str, float], prefix: str) -> None:
    found = all_texts(brief, SearchOptions(prefix=prefix, **how))
    assert all(text.startswith(prefix) for text in found)
    assert len(set(found)) > 3


def test_a_prefix_that_would_have_come_anyway_changes_nothing(brief: Translator) -> None:
    for text, [best] in zip(SENTENCES[:16], brief.search(SENTENCES[:16]), strict=True):
        beginning = best.text[: len(best.text) // 2].strip()
        if beginning and not best.is_cut:
            assert brief.search([text], SearchOptions(prefix=beginning))[0][0].score >= best.score - 1e-4


@pytest.mark.parametrize("beam", [2, 5])
def test_every_text_has_all_required_phrases(brief: Translator, beam: int) -> None:
    phrases = ("Fenster und", "und klein", "Käse", "%")
    for text in all_texts(brief, SearchOptions(beam=beam, n_best=2, require=phrases)):
        assert all(occurs(phrase, text) for phrase in phrases)
    with_rules = SearchOptions(beam=beam, require=("Haus",), forbid=("Hund",), prefix="alt", min_length=4)
    for text in all_texts(brief, with_rules):
        assert occurs("Haus", text)
        assert not occurs("Hund", text)
        assert text.startswith("alt")


def test_a_required_word_takes_the_place_where_it_costs_least(brief: Translator) -> None:
    [[plain]] = brief.search(["old man sees dog"])
    [[best]] = brief.search(["old man sees dog"], SearchOptions(require=(plain.text.split()[1],)))
    assert best.text == plain.text
    assert best.score == pytest.approx(plain.score, abs=1e-4)


@pytest.mark.parametrize("how", [{"beam": 1}, {"n_best": 3}, {"sample": 1.0}])
def test_lengths_stay_within_their_bounds(brief: Translator, how: dict[str, float]) -> None:
    options = SearchOptions(min_length=6, max_length=9, **how)
    found = [each for best in brief.search(SENTENCES[:8], options) for each in best]
    assert all(6 <= each.num_tokens - 1 <= 9 for each in found)
    assert any(each.is_cut for each in found)


def test_what_never_repeats_has_no_n_tokens_twice(brief: Translator) -> None:
    found = brief.search(["dog dog dog dog dog dog", *SENTENCES[:8]], SearchOptions(no_repeat=2, min_length=12))
    for [best] in found:
        pairs = list(zip(best.tokens, best.tokens[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize(
    "how",
    [
        {"length_penalty": 1.3},
        {"sample": 1.5, "n_best": 3, "seed": 5},
        {"require": ("Haus",), "n_best": 2},
        {"forbid": ("Hund",), "no_repeat": 3, "min_length": 5, "prefix": "Ba"},
    ],
)
def test_whatever_the_options_the_log_probabilities_are_those_of_the_model(
    brief: Translator, how: dict[str, float]
) -> None:
    found = brief.search(SENTENCES[:8], SearchOptions(**how))
    rows = [(text, each) for text, best in zip(SENTENCES[:8], found, strict=True) for each in best]
    ids = brief.tokenizer.encode_batch([text for text, _ in rows])
    scored = score_ids(brief.model, SPECIAL, ids, [list(each.tokens[:-1]) for _, each in rows])
    reported = [each.log_probability for _, each in rows]
    assert [each.log_probability for each in scored] == pytest.approx(reported, abs=1e-4)
    alpha = how.get("length_penalty")
    assert [brief.penalised(each, alpha) for each in scored] == pytest.approx(
        [each.score for _, each in rows], abs=1e-4
    )
    tokens = brief.token_scores(SENTENCES[:8], found, num_alternatives=2)
    assert [sum(each.log_probability for each in row) for row in tokens] == pytest.approx(reported, abs=1e-4)
    assert [len(row) for row in tokens] == [each.num_tokens for _, each in rows]
    assert all(len(each.alternatives) == 2 for row in tokens for each in row)


# Draws


def test_draws_depend_on_the_place_in_the_input_and_not_on_the_company(
    brief: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SearchOptions(sample=1.0, n_best=3, seed=4)
    together = brief.search(SENTENCES[:8], options)
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 40)
    assert texts(brief.search(SENTENCES[:8], options)) == texts(together)
    alone = [brief.search([text], options, first_place=i)[0] for i, text in enumerate(SENTENCES[:8])]
    assert texts(alone) == texts(together)
    assert texts(brief.search([SENTENCES[0]] * 9, options))[8] != texts(together)[0]
    fewer = brief.search(SENTENCES[:8], SearchOptions(sample=1.0, seed=4))
    assert [best.text for best, *_ in fewer] == [first.text for first, *_ in together]
    other = brief.search(SENTENCES[:8], SearchOptions(sample=1.0, n_best=3, seed=5))
    assert texts(other) != texts(together)


def test_a_low_temperature_or_one_choice_is_greedy(brief: Translator) -> None:
    greedy = brief.translate(SENTENCES, beam=1)
    assert brief.translate(SENTENCES, SearchOptions(sample=1.0, top_k=1)) == greedy
    cold = brief.translate(SENTENCES, SearchOptions(sample=0.01))
    assert sum(ours == theirs for ours, theirs in zip(cold, greedy, strict=True)) >= 55
