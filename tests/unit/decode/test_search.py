"""Beam search without a model: a function of the prefix stands for it, so every hypothesis can be counted out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

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
    judged,
    run_beam,
    search,
    seeds,
)

from sixfold.decode.search import NEVER, Beam, BeamOptions, BestFirst, Hypothesis, length_penalty

ALPHAS = (0.0, 0.6, 1.0)

every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
unhurried = settings(max_examples=20, deadline=None)


def run_greedy(oracle: Oracle, sentences: list[int], limits: list[int], alpha: float = 0.6) -> list[Hypothesis]:
    """Search some sentences together with a beam of one."""
    return [best for [best] in run_beam(oracle, sentences, limits, 1, alpha)]


# The best of all


@every_alpha
@unhurried
@given(seed=seeds, size=st.sampled_from([(3, 6), (4, 5), (5, 4)]))
def test_a_wide_beam_finds_the_n_best_of_all_outputs(alpha: float, seed: int, size: tuple[int, int]) -> None:
    vocabulary, limit = size
    oracle, beam = Oracle(seed, vocabulary), vocabulary * (vocabulary - 1) ** (limit - 2)
    found = run_beam(oracle, [0, 1], [limit, limit], beam, alpha, n_best=8)
    for sentence in (0, 1):
        assert_same(found[sentence], all_outputs(oracle, sentence, limit, alpha)[:8])


@every_alpha
def test_more_wishes_than_outputs_give_all_outputs(alpha: float) -> None:
    oracle = Oracle(seed=3, vocabulary=3)
    [found] = run_beam(oracle, [0], [3], beam=12, alpha=alpha, n_best=12)
    assert_same(found, all_outputs(oracle, 0, 3, alpha))
    assert len(found) == 1 + 2 + 4


def plain_beam(
    oracle: Oracle, sentence: int, limit: int, beam: int, alpha: float, n_best: int
) -> list[Hypothesis]:
    """Search one sentence to its limit with nothing but lists."""
    open_ends: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished = []
    for length in range(1, limit + 1):
        extended = [
            (total + float(log_prob), (*prefix, token))
            for total, prefix in open_ends
            for token, log_prob in enumerate(oracle(sentence, prefix))
            if length < limit or token == EOS
        ]
        best = sorted(extended, reverse=True)
        finished += [tokens for _, tokens in best[:beam] if tokens[-1] == EOS]
        open_ends = [each for each in best if each[1][-1] != EOS][:beam]
    judgements = [judged(oracle, sentence, tokens, limit, alpha) for tokens in finished]
    return sorted(judgements, key=lambda each: -each.score)[:n_best]


@every_alpha
@unhurried
@given(seed=seeds, beam=st.integers(2, 5))
def test_a_narrow_beam_finds_what_a_plain_beam_search_finds(alpha: float, seed: int, beam: int) -> None:
    oracle, limits = Oracle(seed), [7, 3, 5]
    for sentence, found in enumerate(run_beam(oracle, [0, 1, 2], limits, beam, alpha, n_best=beam)):
        assert_same(found, plain_beam(oracle, sentence, limits[sentence], beam, alpha, n_best=beam))


@every_alpha
@unhurried
@given(seed=seeds, beam=st.integers(1, 6))
def test_what_a_narrow_beam_finds_is_judged_rightly_and_is_in_order(alpha: float, seed: int, beam: int) -> None:
    oracle, limits = Oracle(seed), [7, 3, 5]
    for sentence, found in enumerate(run_beam(oracle, [0, 1, 2], limits, beam, alpha, n_best=beam)):
        tokens = [each.tokens for each in found]
        assert_same(found, [judged(oracle, sentence, each, limits[sentence], alpha) for each in tokens])
        assert len(set(tokens)) == len(tokens)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


def test_a_wider_beam_escapes_a_first_word_that_promises_too_much() -> None:
    oracle = Oracle(seed=0, vocabulary=4)
    garden = torch.tensor([1e-9, 1e-9, 0.6, 0.4]).log()  # 2 looks better than 3 …
    oracle.known[0,] = garden
    oracle.known[0, 2] = torch.tensor([0.25, 0.25, 0.25, 0.25]).log()  # … but leads nowhere
    oracle.known[0, 3] = torch.tensor([0.01, 0.97, 0.01, 0.01]).log()
    assert run_greedy(oracle, [0], [2])[0].tokens == (2, EOS)
    assert run_beam(oracle, [0], [2], beam=2)[0][0].tokens == (3, EOS)


# A beam of one is greedy


def plain_greedy(oracle: Oracle, sentence: int, limit: int, alpha: float) -> Hypothesis:
    """Take the most probable token at every step, and the end at the limit."""
    tokens: tuple[int, ...] = ()
    while EOS not in tokens:
        tokens += (int(oracle(sentence, tokens).argmax()) if len(tokens) < limit - 1 else EOS,)
    return judged(oracle, sentence, tokens, limit, alpha)


@every_alpha
@unhurried
@given(seed=seeds, limits=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_a_beam_of_one_takes_the_most_probable_token_at_every_step(
    alpha: float, seed: int, limits: list[int]
) -> None:
    oracle, sentences = Oracle(seed), list(range(len(limits)))
    expected = [plain_greedy(oracle, sentence, limits[sentence], alpha) for sentence in sentences]
    assert_same(run_greedy(oracle, sentences, limits, alpha), expected)


# Limits, and sentences that do not disturb each other


@unhurried
@given(seed=seeds, limits=st.lists(st.integers(1, 8), min_size=2, max_size=5), beam=st.integers(1, 4))
def test_sentences_of_different_limits_are_found_together_as_alone(
    seed: int, limits: list[int], beam: int
) -> None:
    oracle, sentences, n_best = Oracle(seed), list(range(len(limits))), min(beam, 2)
    together = run_beam(oracle, sentences, limits, beam, n_best=n_best)
    assert together == [run_beam(oracle, [i], [limits[i]], beam, n_best=n_best)[0] for i in sentences]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_an_output_that_would_not_end_is_cut_at_its_limit(limit: int) -> None:
    oracle = Oracle(seed=1)
    oracle.wish_to_end = -30.0
    best = [run_greedy(oracle, [0], [limit])[0], *run_beam(oracle, [0], [limit], beam=3, n_best=3)[0]]
    assert all(len(each.tokens) == limit and each.tokens[-1] == EOS and each.is_cut for each in best)


@pytest.mark.parametrize("limit", [1, 3])
def test_an_output_that_ends_itself_just_at_its_limit_is_not_cut(limit: int) -> None:
    oracle = Oracle(seed=1)
    for prefix in itertools.chain(*(itertools.product(range(4), repeat=length) for length in range(limit))):
        wanted = EOS if len(prefix) == limit - 1 else 2
        oracle.known[0, *prefix] = torch.eye(4)[wanted].mul(9.0).log_softmax(dim=0)
    for best in (run_greedy(oracle, [0], [limit])[0], run_beam(oracle, [0], [limit], beam=3)[0][0]):
        assert len(best.tokens) == limit
        assert not best.is_cut


def test_a_sentence_that_is_done_costs_no_more_steps() -> None:
    oracle = Oracle(seed=1)
    oracle.known[0,] = torch.tensor([0.0, 50.0, 0.0, 0.0]).log_softmax(dim=0)  # ends at once
    for prefix in itertools.product((0, 2, 3), repeat=1):
        oracle.known[1, *prefix] = torch.tensor([0.0, -50.0, 1.0, 0.0]).log_softmax(dim=0)
    oracle.known[1,] = torch.tensor([0.0, -50.0, 1.0, 0.0]).log_softmax(dim=0)
    for beam in (1, 3):
        stepper, options = PrefixStepper(oracle, [0, 1]), BeamOptions(beam, 0.6, 1)
        search(stepper, [9, 3], BestFirst(options, EOS), options).run()
        assert stepper.num_rows == [2, beam, beam]


# Stopping early


@every_alpha
@pytest.mark.parametrize("n_best", [1, 3])
@unhurried
@given(seed=seeds)
def test_stopping_early_changes_nothing(alpha: float, n_best: int, seed: int) -> None:
    oracle, limits = Oracle(seed), [9, 4, 7]
    stopped = run_beam(oracle, [0, 1, 2], limits, 3, alpha, n_best)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Beam, "can_still_win", lambda beam, _: beam.scores[0] > NEVER)
        assert run_beam(oracle, [0, 1, 2], limits, 3, alpha, n_best) == stopped


def steps_of(oracles: Iterator[Oracle]) -> int:
    """Return how many steps the searches of one long sentence each take."""
    total, options = 0, BeamOptions(3, 0.6, 1)
    for oracle in oracles:
        stepper = PrefixStepper(oracle)
        search(stepper, [40], BestFirst(options, EOS), options).run()
        total += len(stepper.num_rows)
    return total


def test_a_search_stops_long_before_its_limit_when_nothing_can_win_any_more() -> None:
    def keen_to_end(seed: int) -> Oracle:
        oracle = Oracle(seed)
        oracle.wish_to_end, oracle.sharpness = 3.0, 1.0
        return oracle

    assert steps_of(keen_to_end(seed) for seed in range(10)) < 10 * 12


# The length penalty


@pytest.mark.parametrize(
    ("length", "alpha", "penalty"), [(1, 0.6, 1.0), (7, 1.0, 2.0), (13, 0.5, 3**0.5), (99, 0, 1)]
)
def test_the_length_penalty_is_that_of_wu_et_al(length: int, alpha: float, penalty: float) -> None:
    assert float(length_penalty(length, alpha)) == pytest.approx(penalty)
    assert float(length_penalty(torch.tensor([length]), alpha)) == pytest.approx(penalty)


def test_a_larger_penalty_prefers_longer_outputs() -> None:
    lengths = [
        sum(len(run_beam(Oracle(seed), [0], [8], beam=6, alpha=alpha)[0][0].tokens) for seed in range(30))
        for alpha in (0.0, 0.6, 2.0)
    ]
    assert lengths == sorted(set(lengths))
