"""What heads tend to do, on attention made by hand whose answer is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sixfold.decode.translate import Translator
from sixfold.explain.head_roles import (
    ENOUGH,
    SHARES,
    WIDE,
    Habit,
    aligned_tokens,
    find_habits,
    habit,
    marks,
    measure,
    sample_sentences,
)

LENGTH = 8
NO_MARKS = torch.zeros(LENGTH, dtype=torch.bool)
LAST = torch.arange(LENGTH) == LENGTH - 1


def habit_of(weights: Tensor, is_mark: Tensor = NO_MARKS, aligned: Tensor | None = None) -> Habit:
    """Return the habit of one head (Q, K)."""
    sums, count = measure(weights[None], is_mark, aligned)
    return habit((sums[0] / count).tolist())


def shifted(by: int) -> Tensor:
    """Return attention that goes by so many positions, and stays at the edge."""
    weights = torch.zeros(LENGTH, LENGTH)
    for query in range(LENGTH):
        weights[query, min(LENGTH - 1, max(0, query + by))] = 1.0
    return weights * 0.9 + 0.1 / LENGTH


@pytest.mark.parametrize(("by", "role"), [(0, "self"), (-1, "previous"), (1, "next"), (-3, "other"), (4, "other")])
def test_a_head_that_always_looks_so_far_away_has_this_role(by: int, role: str) -> None:
    assert habit_of(shifted(by)).role == role


def test_a_head_that_rests_on_the_end_mark_has_that_role() -> None:
    weights = torch.full((LENGTH, LENGTH), 0.3 / (LENGTH - 1))
    weights[:, -1] = 0.7
    found = habit_of(weights, LAST)
    assert found.role == "mark"
    assert found.shares["mark"] == pytest.approx(0.7)


def test_a_head_that_follows_the_alignment_has_that_role_only_in_cross_attention() -> None:
    order = torch.tensor([2, 0, 1, 4, 3, 7, 6, 5])
    aligned = torch.nn.functional.one_hot(order, LENGTH).bool()
    weights = aligned * 0.8 + 0.2 / LENGTH
    assert habit_of(weights, aligned=aligned).role == "aligned"
    assert habit_of(weights).role == "other"


def test_an_even_head_is_wide_and_a_diagonal_means_nothing_in_cross_attention() -> None:
    even = torch.full((LENGTH, LENGTH), 1 / LENGTH)
    assert habit_of(even).role == "wide"
    nothing = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    assert habit_of(shifted(0), aligned=nothing).role == "other"


@pytest.mark.parametrize(("share", "role"), [(ENOUGH + 0.01, "previous"), (ENOUGH - 0.01, "other")])
def test_a_role_begins_at_the_stated_share(share: float, role: str) -> None:
    shares = [share if name == "previous" else 0.1 for name in SHARES]
    assert habit([*shares, WIDE - 0.01, 0.5, 1.0, 1.0]).role == role


def test_positions_without_a_choice_are_not_counted() -> None:
    causal = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    causal = causal * 0.9 + 0.1 * torch.ones(3, 3).tril() / torch.arange(1, 4)[:, None]
    sums, count = measure(causal[None], torch.zeros(3, dtype=torch.bool))
    assert count == 2
    assert habit((sums[0] / count).tolist()).role == "previous"


def test_reach_is_the_mean_distance_and_marks_do_not_count() -> None:
    weights = torch.zeros(LENGTH, LENGTH)
    for query in range(LENGTH):
        weights[query, (query + 4) % LENGTH] = 0.5
        weights[query, -1] += 0.5
    assert habit_of(weights, LAST).reach == pytest.approx(4.0)
    assert habit_of(weights, LAST).focus == pytest.approx(0.5)


def test_marks_are_begin_and_end_marks_and_punctuation(phrases: Translator) -> None:
    ids = [1, *phrases.tokenizer.encode("The dog, é."), 2]
    pieces = phrases.tokenizer.pieces(ids)
    found = [
        piece for piece, is_mark in zip(pieces, marks(phrases.tokenizer, ids).tolist(), strict=True) if is_mark
    ]
    assert found == ["<s>", ",", ".", "</s>"]


def test_aligned_tokens_are_those_of_the_words_that_align_finds(phrases: Translator, sentences: list[str]) -> None:
    source, target = sentences[1], phrases.translate([sentences[1]])[0]
    ids = [phrases.tokenizer.encode(text) for text in (source, target)]
    found = aligned_tokens(phrases, *ids)
    assert found.shape == (len(ids[1]) + 1, len(ids[0]) + 1)
    assert not found[-1].any()
    assert not found[:, -1].any()
    [links] = phrases.align([source], [target])
    pieces = [phrases.tokenizer.pieces(each) for each in ids]
    for link in links:
        words = source[link.source_start : link.source_end], target[link.target_start : link.target_end]
        rows = [i for i, piece in enumerate(pieces[1]) if piece.strip("▁") == words[1]]
        columns = [i for i, piece in enumerate(pieces[0]) if piece.strip("▁") == words[0]]
        assert all(
            found[row, column] for row in rows[:1] for column in columns[:1] if len(rows) == len(columns) == 1
        )


def test_every_head_of_a_real_model_is_measured(phrases: Translator, sentences: list[str]) -> None:
    found, config = find_habits(phrases, sentences), phrases.model.config
    assert found.num_sentences == len([line for line in sentences[:32] if line.strip()])
    layers = (config.encoder_layers, config.decoder_layers, config.decoder_layers)
    for stack, count in zip((found.encoder, found.decoder, found.cross), layers, strict=True):
        assert [len(layer) for layer in stack] == [config.heads] * count
        assert all(0 <= share <= 1 for layer in stack for head in layer for share in head.shares.values())
    assert all(head.shares["next"] == 0 for layer in found.decoder for head in layer)


def test_a_model_without_its_training_text_is_measured_on_the_grammar_if_it_reads_english(
    phrases: Translator, tmp_path
) -> None:
    found = sample_sentences(tmp_path, phrases)
    is_english = phrases.info is not None and phrases.info.languages.source == "en"
    assert bool(found) == is_english
