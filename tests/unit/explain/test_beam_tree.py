"""The beam tree is exactly what the search did."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sixfold.decode.options import SearchOptions
from sixfold.decode.search import NEVER, BeamStep
from sixfold.decode.translate import Translator
from sixfold.explain.beam_tree import ROOT, BeamTree, beam_tree
from sixfold.explain.translation import explainable, traced_search

END = 2


def letters(tokens: Sequence[int]) -> list[str]:
    """Return tokens as letters."""
    return ["-" if token == END else chr(ord("a") + token) for token in tokens]


def spelled(tree: BeamTree, place: int) -> str:
    """Return the tokens from the root to a node."""
    if place == ROOT:
        return ""
    return spelled(tree, tree.nodes[place].parent) + tree.nodes[place].piece


def test_two_steps_of_a_beam_of_two_give_the_tree_drawn_by_hand() -> None:
    first = BeamStep(0, 1, (0, 0, 0), (0, 1, 3), (-1.0, -2.0, -3.0), (False,) * 3, (True, True, False))
    second = BeamStep(
        0, 2, (1, 0, 0), (END, 4, END), (-2.5, -2.75, -4.0), (True, False, False), (False, True, False)
    )
    tree = beam_tree([first, second], (1, END), 2, 0.0, letters)
    shown = [(spelled(tree, place), node.fate, node.log_probability) for place, node in enumerate(tree.nodes)]
    assert shown == [
        ("a", "kept", -1.0), ("b", "kept", -2.0), ("d", "pruned", -3.0),
        ("b-", "ended", -0.5), ("ae", "left", -1.75), ("a-", "pruned", -3.0),
    ]  # fmt: skip
    assert spelled(tree, tree.winner) == "b-"


def test_impossible_extensions_are_not_shown() -> None:
    step = BeamStep(0, 1, (0, 0), (0, 1), (-1.0, NEVER), (False, False), (True, False))
    assert len(beam_tree([step], (), 2, 0.6, letters).nodes) == 1


@pytest.mark.parametrize("beam", [1, 4, 7])
def test_the_tree_has_every_extension_that_the_search_kept_ended_or_pruned(
    phrases: Translator, sentences: list[str], beam: int
) -> None:
    options = explainable(phrases, SearchOptions(beam=beam))
    for sentence in sentences[:6]:
        found, steps = traced_search(phrases, options, phrases.tokenizer.encode(sentence))
        tree = beam_tree(steps, found.tokens, beam, 0.6, phrases.tokenizer.pieces)
        prefixes = [""]
        for number, step in enumerate(steps):
            pieces = phrases.tokenizer.pieces(step.tokens)
            texts = [prefixes[parent] + piece for parent, piece in zip(step.parents, pieces, strict=True)]
            here = [place for place, node in enumerate(tree.nodes) if node.step == number]
            assert [spelled(tree, place) for place in here] == texts
            open_ends = [place for place in here if tree.nodes[place].fate in ("kept", "left")]
            prefixes = [text for text, goes_on in zip(texts, step.went_on, strict=True) if goes_on]
            assert [spelled(tree, place) for place in open_ends] == prefixes
            assert [tree.nodes[place].fate == "ended" for place in here] == list(step.ended)


def test_kept_hypotheses_score_at_least_as_high_as_pruned_ones_of_the_same_step(
    phrases: Translator, sentences: list[str]
) -> None:
    options = explainable(phrases, SearchOptions())
    found, steps = traced_search(phrases, options, phrases.tokenizer.encode(sentences[0]))
    tree = beam_tree(steps, found.tokens, 4, 0.6, phrases.tokenizer.pieces)
    for number in range(len(steps)):
        nodes = [node for node in tree.nodes if node.step == number]
        kept = [node.total for node in nodes if node.fate in ("kept", "left")]
        pruned = [node.total for node in nodes if node.fate == "pruned" and node.piece != "</s>"]
        assert not kept or not pruned or min(kept) >= max(pruned)
