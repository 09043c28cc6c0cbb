"""Contexts that are kept: the longest common beginning is found, and memory is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sixfold.decode.contexts import Context, ContextEngine
from sixfold.decode.generate import load
from sixfold.decode.kept_contexts import KeptContexts

ROOM = 10 * 64  # tokens
pytestmark = pytest.mark.usefixtures("one_core")


@pytest.fixture(scope="module")
def engine(chat_model: Path) -> ContextEngine:
    return load(chat_model, "cpu").engine


@pytest.fixture
def kept(engine: ContextEngine) -> KeptContexts:
    return KeptContexts(engine, ROOM)


def read(engine: ContextEngine, tokens: list[int]) -> Context:
    """Return a context of these tokens."""
    context = engine.new_context()
    engine.read([context], [tokens])
    return context


def test_a_prompt_begins_with_the_longest_beginning_that_is_kept(
    engine: ContextEngine, kept: KeptContexts
) -> None:
    for tokens in ([5, 6], [5, 6, 7, 8], [5, 9]):
        kept.keep(read(engine, tokens))
    assert [*kept.begin([5, 6, 7, 1]).tokens] == [5, 6, 7]
    assert [*kept.begin([8]).tokens] == []


def test_what_is_read_after_a_kept_beginning_has_the_same_bits(engine: ContextEngine, kept: KeptContexts) -> None:
    kept.keep(read(engine, [*range(10, 100)]))
    prompt = [*range(10, 90), 5, 6, 7]
    context = kept.begin(prompt)
    rest = engine.read([context], [prompt[len(context.tokens) :]])
    whole = engine.read([engine.new_context()], [prompt])
    assert len(rest) == 3
    assert torch.equal(rest, whole[-3:])


def test_writing_after_a_kept_beginning_leaves_it_as_it_is(engine: ContextEngine, kept: KeptContexts) -> None:
    kept.keep(read(engine, [5, 6, 7]))
    engine.read([kept.begin([5, 6, 7])], [[8, 9]])
    assert [[*each.tokens] for each in kept.contexts] == [[5, 6, 7]]


def test_a_longer_context_takes_the_place_of_its_beginning(engine: ContextEngine, kept: KeptContexts) -> None:
    for tokens in ([5, 6], [5, 6, 7], [5, 6, 7, 8]):
        kept.keep(read(engine, tokens))
    assert [[*each.tokens] for each in kept.contexts] == [[5, 6, 7, 8]]


def test_a_hundred_different_prompts_take_no_more_than_the_bound(
    engine: ContextEngine, kept: KeptContexts
) -> None:
    for number in range(100):
        kept.keep(read(engine, [5 + number]))
        assert kept.num_tokens <= ROOM
    assert len(kept.contexts) == 10


def test_the_least_recently_used_context_goes_first(engine: ContextEngine, kept: KeptContexts) -> None:
    for number in range(10):
        kept.keep(read(engine, [10 + number]))
    kept.begin([10, 1])
    kept.keep(read(engine, [50]))
    assert [10] in [[*each.tokens] for each in kept.contexts]
    assert [11] not in [[*each.tokens] for each in kept.contexts]


def test_without_room_nothing_is_kept(engine: ContextEngine) -> None:
    kept = KeptContexts(engine, 0)
    kept.keep(read(engine, [5, 6]))
    assert kept.contexts == []
