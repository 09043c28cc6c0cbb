"""From the numbers of a step to its best extensions: what a sort of all of them finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decode.oracle import EOS, Oracle, PrefixStepper, assert_same, run_beam, search, seeds
from torch import Tensor

from sixfold.decode.extensions import BLOCK, best_extensions, best_of, log_probabilities, without
from sixfold.decode.rules import token_set
from sixfold.decode.search import NEVER, BeamOptions, BestFirst, Extensions, Forbidden

unhurried = settings(max_examples=20, deadline=None)


class Unnormalised(PrefixStepper):
    """The same distribution as logits, in pieces of one sentence, the rest of the vocabulary never chosen."""

    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        return best_of(self.pieces(tokens, forbidden, len(scores[0])), scores, count, EOS)

    def pieces(self, tokens: list[int], forbidden: Forbidden, width: int) -> Iterator[tuple[Tensor, Tensor]]:
        log_probs = torch.nn.functional.pad(self.step(tokens, forbidden), [0, 3], value=NEVER)
        shift = torch.arange(log_probs.size(0)) * 0.37
        yield from zip((log_probs + shift[:, None]).split(width), shift.split(width), strict=True)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@unhurried
@given(seed=seeds, beam=st.integers(1, 4))
def test_logits_in_pieces_give_what_log_probabilities_give(alpha: float, seed: int, beam: int) -> None:
    oracle, options = Oracle(seed), BeamOptions(beam, alpha, beam)
    stepper = Unnormalised(oracle, [0, 1, 2])
    found = search(stepper, [6, 3, 5], BestFirst(options, EOS), options).run()
    expected = run_beam(oracle, [0, 1, 2], [6, 3, 5], beam, alpha, beam)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


@unhurried
@given(seed=seeds, sentences=st.integers(1, 4), beam=st.integers(1, 5), blocks=st.integers(1, 40))
def test_the_best_extensions_are_those_of_a_sort(seed: int, sentences: int, beam: int, blocks: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.randn(sentences, beam, blocks * BLOCK, generator=draw)
    offsets = torch.randn(sentences, beam, generator=draw)
    count = min(2 * beam, numbers[0].numel())
    scores, parents, tokens = best_extensions(numbers, offsets, count)
    extended = numbers + offsets[:, :, None]
    assert torch.equal(scores, extended.flatten(1).sort(dim=1, descending=True).values[:, :count])
    rows = torch.arange(sentences)[:, None].expand_as(tokens)
    assert torch.equal(extended[rows, parents, tokens], scores)


@unhurried
@given(seed=seeds, sets=st.lists(st.sets(st.integers(0, 9)), min_size=1, max_size=9), size=st.integers(1, 9))
def test_only_what_is_forbidden_after_a_row_becomes_impossible_and_the_rest_stays(
    seed: int, sets: list[set[int]], size: int
) -> None:
    logits, total = (
        torch.randn(len(sets), 12, generator=torch.Generator().manual_seed(seed)),
        torch.ones(len(sets)),
    )
    pieces = zip(logits.clone().split(size), total.split(size), strict=True)
    found = log_probabilities(without(pieces, [token_set(each) for each in sets]), 10)
    expected = logits[:, :10] - 1
    for row, banned in zip(expected, sets, strict=True):
        row[sorted(banned)] = NEVER
    assert torch.equal(found, expected)
