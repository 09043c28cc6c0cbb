"""Words that belong together are linked: by hand-made weights, and by a model that has learned a word order."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sixfold.decode.alignment import align_ids, balanced, membership, pairs, source_attention, word_weights
from sixfold.decode.scoring import forced_batch, token_scores
from sixfold.decode.translate import Translator

SOURCES = ["the small dog sees", "man", "old woman and blue house", "tree window dog dog man"]


def test_the_words_of_a_translation_are_linked_to_those_they_came_from(trained: Translator) -> None:
    names = {"man": "Mann", "dog": "Hund", "tree": "Baum", "old": "alt", "sees": "sieht", "window": "Fenster"}
    sources = [" ".join(order) for order in permutations(names, 4)][::9]
    targets = [" ".join(names[word] for word in source.split()) for source in sources]  # the n-th is the n-th
    places = [
        (source[: link.source_start].count(" "), target[: link.target_start].count(" "))
        for source, target, links in zip(sources, targets, trained.align(sources, targets), strict=True)
        for link in links
    ]
    assert sum(source == target for source, target in places) >= 0.75 * len(places)


def test_links_hold_whole_words(trained: Translator) -> None:
    source, target = "old woman, and house", "alt Frau, und Haus"
    for link in trained.align([source], [target])[0]:
        assert source[link.source_start : link.source_end] in {"old", "woman", ",", "and", "house"}
        assert target[link.target_start : link.target_end] in {"alt", "Frau", ",", "und", "Haus"}


def test_every_word_of_either_side_is_linked(trained: Translator) -> None:
    [links] = trained.align(["old man sees, and dog."], ["alt Mann sieht und Hund"])
    assert len({link.target_start for link in links}) == 5
    assert len({link.source_start for link in links}) == 7
    assert all(0 <= link.weight <= 1 for link in links)


def test_links_do_not_depend_on_the_batch(trained: Translator) -> None:
    targets = trained.translate(SOURCES)
    together = trained.align(SOURCES, targets)
    for source, target, links in zip(SOURCES, targets, together, strict=True):
        [alone] = trained.align([source], [target])
        assert [(x.source_start, x.target_start) for x in alone] == [
            (x.source_start, x.target_start) for x in links
        ]
        assert [x.weight for x in alone] == pytest.approx([x.weight for x in links], abs=2e-4)


def test_an_empty_side_has_no_links(trained: Translator) -> None:
    assert trained.align(["", "man", " "], ["Mann", "", " "]) == [[], [], []]


def test_several_models_are_averaged(trained: Translator) -> None:
    tokenizer = trained.tokenizer
    ids = [tokenizer.encode("old man")], [tokenizer.encode("alt Mann")]
    once = align_ids([trained.model], tokenizer, *ids)
    assert align_ids([trained.model, trained.model], tokenizer, *ids) == once


def test_the_attention_is_the_mean_of_all_layers_and_heads(trained: Translator) -> None:
    ids = [[7, 270, 271]], [[280, 281]]
    special = trained.tokenizer.special
    source, target_in, _ = forced_batch(trained.model, special, *ids)
    cross: list[Tensor] = []
    with torch.inference_mode():
        trained.model.hidden(source, target_in, lambda kind, seen: cross.append(seen) if kind == "cross" else None)
    torch.testing.assert_close(source_attention(trained.model, special, *ids), torch.stack(cross).mean((0, 2)))


def test_a_source_word_that_all_look_at_does_not_win() -> None:
    # Both target words look most at the last source word, as heads that rest on a full stop do.
    weights = torch.tensor([[0.4, 0.0, 0.6], [0.0, 0.3, 0.7]])
    assert weights.argmax(dim=1).tolist() == [2, 2]
    assert balanced(weights).argmax(dim=1).tolist() == [0, 1]
    assert pairs(balanced(weights)) == [(0, 0), (1, 1), (1, 2)]


def test_tokens_are_shared_out_among_the_words_they_touch() -> None:
    shares = membership([(0, 2), (2, 4), (4, 4), (5, 9)], [(0, 3), (3, 4), (5, 9)])
    assert shares.tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0, 0, 0], [0, 0, 1]]


@given(st.integers(0, 5), st.integers(0, 5), st.data())
@settings(deadline=None)
def test_links_stay_within_the_words(num_targets: int, num_sources: int, data: st.DataObject) -> None:
    numbers = st.lists(st.floats(0, 1, width=32), min_size=num_sources, max_size=num_sources)
    rows = data.draw(st.lists(numbers, min_size=num_targets, max_size=num_targets))
    weights = torch.tensor(rows).reshape(num_targets, num_sources)
    found = pairs(word_weights(weights, torch.eye(num_sources), torch.eye(num_targets)))
    assert found == sorted(set(found))
    assert all(0 <= j < num_targets and 0 <= i < num_sources for j, i in found)


def test_token_scores_hold_the_chosen_token_and_the_best_ones() -> None:
    logits, target = torch.randn(2, 3, 7), torch.tensor([[1, 2, 3], [4, 5, 6]])
    expected = logits.log_softmax(-1)
    for row, scores in enumerate(token_scores(expected, target, 2)):
        for place, score in enumerate(scores):
            assert score.token == target[row, place]
            assert score.log_probability == pytest.approx(float(expected[row, place, score.token]), abs=1e-6)
            best = expected[row, place].topk(2)
            assert [token for token, _ in score.alternatives] == best.indices.tolist()
            assert [value for _, value in score.alternatives] == pytest.approx(best.values.tolist())
