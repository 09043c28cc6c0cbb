"""Head roles, on constructed attention with a known answer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sixfold.decode.translate import Translator
from sixfold.explain.head_roles import (
    MIN_ENTROPY,
    MIN_WEIGHT,
    HeadRole,
    Role,
    delimiters,
    head_role,
    is_delimiter,
    measure_self_attention,
)
from sixfold.explain.translation_heads import (
    aligned_tokens,
    measure_cross_attention,
    measure_head_roles,
    sample_sentences,
)

LENGTH = 8
NO_DELIMITERS = torch.zeros(LENGTH, dtype=torch.bool)
LAST = torch.arange(LENGTH) == LENGTH - 1


def role_of_head(weights: Tensor, is_delimiter: Tensor = NO_DELIMITERS, aligned: Tensor | None = None) -> HeadRole:
    """Return the role of one head from its weights (Q, K)."""
    if aligned is None:
        return measure_self_attention(weights[None], is_delimiter).roles()[0]
    return measure_cross_attention(weights[None], is_delimiter, aligned).roles()[0]


def shifted(by: int) -> Tensor:
    """Return attention to the position at this offset, clipped at the edges."""
    weights = torch.zeros(LENGTH, LENGTH)
    for query in range(LENGTH):
        weights[query, min(LENGTH - 1, max(0, query + by))] = 1.0
    return weights * 0.9 + 0.1 / LENGTH


@pytest.mark.parametrize(("by", "role"), [(0, "self"), (-1, "previous"), (1, "next"), (-3, "mixed"), (4, "mixed")])
def test_a_head_that_attends_at_a_fixed_offset_has_the_role_of_that_offset(by: int, role: str) -> None:
    assert role_of_head(shifted(by)).role == role


def test_a_head_that_attends_to_the_eos_token_is_a_delimiter_head() -> None:
    weights = torch.full((LENGTH, LENGTH), 0.3 / (LENGTH - 1))
    weights[:, -1] = 0.7
    found = role_of_head(weights, LAST)
    assert found.role == "delimiter"
    assert found.weights["delimiter"] == pytest.approx(0.7)


def test_a_head_that_follows_the_alignment_is_aligned_in_cross_attention_only() -> None:
    order = torch.tensor([2, 0, 1, 4, 3, 7, 6, 5])
    aligned = torch.nn.functional.one_hot(order, LENGTH).bool()
    weights = aligned * 0.8 + 0.2 / LENGTH
    assert role_of_head(weights, aligned=aligned).role == "aligned"
    assert role_of_head(weights).role == "mixed"


def test_a_uniform_head_is_broad_and_a_diagonal_has_no_role_in_cross_attention() -> None:
    even = torch.full((LENGTH, LENGTH), 1 / LENGTH)
    assert role_of_head(even).role == "broad"
    nothing = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    assert role_of_head(shifted(0), aligned=nothing).role == "mixed"


@pytest.mark.parametrize(("weight", "role"), [(MIN_WEIGHT + 0.01, "previous"), (MIN_WEIGHT - 0.01, "mixed")])
def test_a_role_needs_the_minimum_weight(weight: float, role: str) -> None:
    targets: tuple[Role, ...] = ("self", "previous", "first")
    assert head_role(targets, [0.1, weight, 0.1, MIN_ENTROPY - 0.01, 0.5, 1.0, 1.0]).role == role


def test_positions_that_see_one_position_only_are_not_counted() -> None:
    causal = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    causal = causal * 0.9 + 0.1 * torch.ones(3, 3).tril() / torch.arange(1, 4)[:, None]
    found = measure_self_attention(causal[None], torch.zeros(3, dtype=torch.bool))
    assert found.count == 2
    assert found.roles()[0].role == "previous"


def test_the_distance_is_a_mean_without_delimiters() -> None:
    weights = torch.zeros(LENGTH, LENGTH)
    for query in range(LENGTH):
        weights[query, (query + 4) % LENGTH] = 0.5
        weights[query, -1] += 0.5
    assert role_of_head(weights, LAST).distance == pytest.approx(4.0)
    assert role_of_head(weights, LAST).max_weight == pytest.approx(0.5)


def test_delimiters_are_bos_eos_and_punctuation(phrases: Translator) -> None:
    ids = [1, *phrases.tokenizer.encode("The dog, é."), 2]
    pieces = phrases.tokenizer.pieces(ids)
    found = [
        piece
        for piece, is_delimiter in zip(pieces, delimiters(phrases.tokenizer, ids).tolist(), strict=True)
        if is_delimiter
    ]
    assert found == ["<s>", ",", ".", "</s>"]


@pytest.mark.parametrize(
    ("spelled", "is_one"),
    [
        (b"", True),
        (b"\n", True),
        (b" ...", True),
        (b" ", False),
        (b" a", False),
        ("é".encode(), False),
        (b"\xc3", False),
    ],
)
def test_a_delimiter_writes_nothing_or_no_letter_and_no_digit(spelled: bytes, is_one: bool) -> None:
    assert is_delimiter(spelled) == is_one


def test_aligned_tokens_agree_with_the_word_alignment(phrases: Translator, sentences: list[str]) -> None:
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
    found, config = measure_head_roles(phrases, sentences), phrases.model.config
    assert found.num_texts == len([line for line in sentences[:32] if line.strip()])
    layers = (config.encoder_layers, config.decoder_layers, config.decoder_layers)
    for stack, count in zip(found.stacks.values(), layers, strict=True):
        assert [len(layer) for layer in stack] == [config.heads] * count
        assert all(0 <= weight <= 1 for layer in stack for head in layer for weight in head.weights.values())
    assert all(head.weights["next"] == 0 for layer in found.stacks["decoder"] for head in layer)


def test_without_validation_sentences_an_english_model_is_measured_on_the_phrasebook(
    phrases: Translator, tmp_path
) -> None:
    found = sample_sentences(tmp_path, phrases)
    is_english = phrases.info is not None and phrases.info.languages.source == "en"
    assert bool(found) == is_english
