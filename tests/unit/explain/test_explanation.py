"""An explanation agrees with what the translator does."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest

from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.explain import explain, measure_head_roles


@pytest.mark.parametrize("beam", [1, 2, 4])
def test_the_explained_translation_is_the_one_that_translate_gives(
    phrases: Translator, sentences: list[str], beam: int
) -> None:
    for sentence in sentences[:8]:
        [[expected]] = phrases.search([sentence], beam=beam)
        found = explain(phrases, sentence, SearchOptions(beam=beam))
        assert found.translation == expected.text
        assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
        assert found.score == pytest.approx(expected.score, abs=1e-4)


def test_token_probabilities_multiply_to_the_whole_translation(phrases: Translator, sentences: list[str]) -> None:
    found = explain(phrases, sentences[0])
    assert sum(choice.log_probability for choice in found.choices) == pytest.approx(
        found.log_probability, abs=1e-3
    )
    assert len(found.choices) == len(found.target_tokens)
    for choice in found.choices:
        probabilities = [math.exp(number) for _, number in choice.alternatives]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) <= 1.0001


def test_the_winner_of_the_tree_spells_the_translation(phrases: Translator, sentences: list[str]) -> None:
    found = explain(phrases, sentences[2])
    pieces, place = [], found.tree.winner
    while place >= 0:
        pieces.insert(0, found.tree.nodes[place].piece)
        place = found.tree.nodes[place].parent
    assert pieces == [token.piece for token in found.target_tokens]


def test_every_layer_has_a_row_for_each_token(phrases: Translator, sentences: list[str]) -> None:
    found, config = explain(phrases, sentences[0]), phrases.model.config
    source, target = len(found.source_tokens), len(found.target_tokens)
    assert [(each.queries, each.keys) for each in found.attention.stacks["encoder"]] == [
        (source, source)
    ] * config.encoder_layers
    assert [(each.queries, each.keys) for each in found.attention.stacks["decoder"]] == [
        (target, target)
    ] * config.decoder_layers
    assert [(each.queries, each.keys) for each in found.attention.stacks["cross"]] == [
        (target, source)
    ] * config.decoder_layers


def test_alignment_links_refer_to_words_of_the_tokens(phrases: Translator, sentences: list[str]) -> None:
    found = explain(phrases, sentences[1])
    assert found.links
    assert {link[0] for link in found.links} <= {token.word for token in found.source_tokens}
    assert {link[1] for link in found.links} <= {token.word for token in found.target_tokens}


def test_an_explanation_is_json_compatible(phrases: Translator, sentences: list[str]) -> None:
    roles = measure_head_roles(phrases, sentences[:4])
    found = explain(phrases, sentences[0], head_roles=roles, name="phrases")
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["head_roles"]["num_texts"] == 4


def test_forbidden_words_are_respected(phrases: Translator, sentences: list[str]) -> None:
    first = explain(phrases, sentences[1]).translation.split()[0]
    found = explain(phrases, sentences[1], SearchOptions(forbid=(first,)))
    assert first not in found.translation.split()


@pytest.mark.parametrize("text", ["", " \u2581 ", "<script>alert(1)</script>", "\0", "שלום 🙂", "a" * 400])
def test_any_text_is_explained_or_refused(phrases: Translator, text: str) -> None:
    if not text:
        with pytest.raises(ConfigError, match="no text"):
            explain(phrases, text)
    else:
        assert explain(phrases, text).source == text


@pytest.mark.parametrize(
    "options",
    [
        SearchOptions(sample=1.0),
        SearchOptions(beam=17),
        SearchOptions(require=("Hund",)),
    ],
)
def test_a_search_without_a_readable_beam_tree_is_refused(phrases: Translator, options: SearchOptions) -> None:
    with pytest.raises(ConfigError):
        explain(phrases, "The dog sleeps.", options)
