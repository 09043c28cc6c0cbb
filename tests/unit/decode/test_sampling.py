"""Random draws: as often as the model says, whatever stands beside them in a batch."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decode.oracle import (
    EOS,
    Oracle,
    PrefixStepper,
    all_outputs,
    assert_same,
    run_beam,
    search,
    seeds,
    text_oracle,
)

from sixfold.decode.sampling import Draws, Sampler, Sampling
from sixfold.decode.search import NEVER, BeamOptions, Hypothesis

unhurried = settings(max_examples=10, deadline=None)


def draw(
    oracle: Oracle, places: list[tuple[int, int]], limits: list[int], seed: int, top_k: int = 0
) -> list[Hypothesis]:
    """Return an output for each place and number of a draw."""
    stepper = PrefixStepper(oracle, [place for place, _ in places])
    strategy = Draws(Sampler(Sampling(1.0, top_k, 1.0), seed, places), EOS)
    return [drawn for [drawn] in search(stepper, limits, strategy, BeamOptions(1, 0.6)).run()]


def chi_square(counts: Mapping[Hashable, int], expected: Mapping[Hashable, float], draws: int) -> float:
    """Return Pearson's statistic; outcomes too rare to count are taken together."""
    common = {key: p for key, p in expected.items() if p * draws >= 5}
    rows = [(counts[key], p * draws) for key, p in common.items()]
    rare = (draws - sum(seen for seen, _ in rows), draws * (1 - sum(common.values())))
    rows += [rare] if rare[1] >= 1 else []
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in rows) - (len(rows) - 1)


def is_plausible(excess: float, outcomes: int) -> bool:
    """Say whether the statistic is within six standard deviations of its mean."""
    return excess < 6 * math.sqrt(2 * outcomes)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_they_are_probable(seed: int, temperature: float) -> None:
    draws, log_probs = 20_000, (torch.randn(8) * 2).log_softmax(dim=0)
    sampler = Sampler(Sampling(temperature, 0, 1.0), seed, [(place, 0) for place in range(draws)])
    counts = Counter(sampler(log_probs.expand(draws, -1), range(draws)).tolist())
    probabilities = (log_probs / temperature).softmax(dim=0).tolist()
    assert is_plausible(chi_square(counts, dict(enumerate(probabilities)), draws), 8)


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.9), (7, 1.0), (400, 0.7), (0, 0.999), (0, 1e-6), (9999, 0.5)])
@pytest.mark.usefixtures("seed")
def test_the_most_probable_tokens_are_those_of_a_whole_sorted_vocabulary(top_k: int, top_p: float) -> None:
    sharpness = torch.tensor([[0.0], [0.1], [1.0], [3.0], [30.0]])  # from all equal to one alone
    log_probs = (sharpness * torch.randn(5, 5000)).mul(8).round().div(8).log_softmax(dim=1)  # many are equal
    found = Sampling(0.8, top_k, top_p).weights(log_probs)
    ordered, order = (log_probs.double() / 0.8).softmax(dim=1).sort(dim=1, descending=True, stable=True)
    ordered[:, top_k or 5000 :] = 0
    ordered[ordered.cumsum(dim=1) - ordered >= top_p * ordered.sum(dim=1, keepdim=True)] = 0
    assert torch.equal(found > 0, torch.zeros_like(found).scatter(1, order, ordered) > 0)
    torch.testing.assert_close(found, torch.zeros_like(found).scatter(1, order, ordered), rtol=0, atol=0)
    alone = torch.cat([Sampling(0.8, top_k, top_p).weights(row[None]) for row in log_probs])
    assert torch.equal(found, alone)


def test_whole_outputs_are_drawn_as_often_as_they_are_probable(seed: int) -> None:
    oracle, draws, limit = text_oracle(seed, sharpness=1.0), 4000, 3
    found = draw(oracle, [(0, number) for number in range(draws)], [limit] * draws, seed)
    expected: dict[Hashable, float] = {}
    outputs = all_outputs(oracle, 0, limit, 0.0)
    for each in outputs:  # at the limit the end token is certain, whatever its probability
        last = 0.0 if len(each.tokens) < limit else float(oracle(0, each.tokens[:-1])[EOS])
        expected[each.tokens] = math.exp(each.log_probability - last)
    assert sum(expected.values()) == pytest.approx(1)
    assert is_plausible(chi_square(Counter(each.tokens for each in found), expected, draws), len(expected))
    known = {each.tokens: each.log_probability for each in outputs}
    assert [each.log_probability for each in found] == pytest.approx([known[each.tokens] for each in found])


@unhurried
@given(
    seed=seeds,
    top_k=st.integers(0, 9),
    top_p=st.floats(0.01, 1),
    temperature=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_only_the_likeliest_tokens_are_drawn(seed: int, top_k: int, top_p: float, temperature: float) -> None:
    log_probs = torch.from_numpy(np.random.default_rng(seed).normal(size=8)).log_softmax(dim=0)
    weights = (log_probs / temperature).softmax(dim=0).tolist()
    ranked = sorted(range(8), key=lambda token: -weights[token])[: top_k or 8]
    total, support = sum(weights[token] for token in ranked), []
    for token in ranked:
        if sum(weights[each] for each in support) < top_p * total - 1e-12:
            support.append(token)
    sampler = Sampler(Sampling(temperature, top_k, top_p), seed, [(place, 0) for place in range(400)])
    kept = sampler.sampling.weights(log_probs[None])[0]
    assert set(kept.nonzero()[:, 0].tolist()) == set(support)
    drawn = set(sampler(log_probs.expand(400, -1), range(400)).tolist())
    assert drawn <= set(support)


@unhurried
@given(seed=seeds)
def test_a_draw_depends_on_its_place_and_number_alone(seed: int) -> None:
    def draw_at(places: list[tuple[int, int]]) -> list[Hypothesis]:
        return draw(text_oracle(seed), places, [6 + place for place, _ in places], seed)

    places = [(place, number) for place in range(4) for number in range(3)]
    together = draw_at(places)
    assert together[::-1] == draw_at(places[::-1])
    assert together == [draw_at([each])[0] for each in places]
    assert len({each.tokens for each in together}) > 1


def test_seeds_and_places_give_other_draws() -> None:
    def numbers(seed: int, place: int, number: int) -> list[int]:
        sampler, even = Sampler(Sampling(1.0, 0, 1.0), seed, [(place, number)]), torch.zeros(1, 1000)
        return [int(sampler(even, [0])) for _ in range(5)]

    assert numbers(1, 2, 3) == numbers(1, 2, 3)
    rows = [numbers(*each) for each in itertools.product(range(3), repeat=3)]
    assert len({tuple(row) for row in rows}) == 27


@unhurried
@given(seed=seeds)
def test_drawing_among_one_choice_is_greedy_search(seed: int) -> None:
    oracle, limits = text_oracle(seed), [7, 3, 5]
    drawn = draw(oracle, [(place, 0) for place in range(3)], limits, seed, top_k=1)
    greedy = [best for [best] in run_beam(oracle, [0, 1, 2], limits, 1)]
    assert_same(drawn, greedy)


def test_an_output_that_would_not_end_is_cut_at_its_limit_and_one_that_ends_there_is_not() -> None:
    oracle, limit = text_oracle(seed=1), 4
    found = draw(oracle, [(0, number) for number in range(200)], [limit] * 200, seed=2)
    assert {len(each.tokens) for each in found} == {1, 2, 3, 4}
    assert all(each.tokens.index(EOS) == len(each.tokens) - 1 for each in found)
    assert {each.is_cut for each in found if len(each.tokens) < limit} == {False}
    assert {each.is_cut for each in found if len(each.tokens) == limit} == {True, False}


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (3, 0.5)])
def test_a_row_that_may_not_go_on_draws_a_token_that_cannot_be(top_k: int, top_p: float) -> None:
    log_probs = torch.full((2, 8), NEVER)
    log_probs[1, 5] = -1.0
    impossible, only = Sampler(Sampling(1.0, top_k, top_p), 1, [(0, 0), (1, 0)])(log_probs, [0, 1]).tolist()
    assert log_probs[0, impossible] == NEVER
    assert only == 5
