"""Search, without a model: a function of the prefix stands for it, so that every hypothesis can be counted out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sixfold.decode import search
from sixfold.decode.search import (
    BeamOptions,
    BeamStep,
    Hypothesis,
    beam_search,
    greedy_search,
    length_penalty,
)

BOS, EOS = 0, 1
ALPHAS = (0.0, 0.6, 1.0)

every_alpha = pytest.mark.parametrize("alpha", ALPHAS)
seeds = st.integers(0, 2**32 - 1)
unhurried = settings(max_examples=20, deadline=None)


class Oracle:
    """The log-probabilities of the next token: random, but decided by the sentence and its whole prefix."""

    def __init__(self, seed: int, vocabulary: int = 4) -> None:
        draw = np.random.default_rng(seed)
        self.seed, self.vocabulary = seed, vocabulary
        self.sharpness, self.wish_to_end = draw.uniform(0.3, 4), draw.uniform(-2, 2)
        self.known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        key = (sentence, *prefix)
        if key not in self.known:
            logits = self.sharpness * np.random.default_rng((self.seed, *key)).normal(size=self.vocabulary)
            logits[EOS] += self.wish_to_end
            self.known[key] = torch.from_numpy(logits).log_softmax(dim=0)
        return self.known[key]


class PrefixStepper:
    """A stepper whose only memory is what a search told it: a row that is reordered wrongly is another prefix."""

    def __init__(self, oracle: Oracle, sentences: list[int]) -> None:
        self.oracle = oracle
        self.sentences = sentences
        self.prefixes: list[tuple[int, ...]] = [()] * len(sentences)
        self.num_rows: list[int] = []

    def step(self, tokens: Tensor) -> Tensor:
        hypotheses = len(self.prefixes) // len(self.sentences)
        self.num_rows.append(len(self.prefixes))
        self.prefixes = [(*row, token) for row, token in zip(self.prefixes, tokens.tolist(), strict=True)]
        rows = enumerate(self.prefixes)
        return torch.stack([self.oracle(self.sentences[i // hypotheses], prefix[1:]) for i, prefix in rows])

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]
        if sentences is not None:
            self.sentences = [self.sentences[i] for i in sentences.tolist()]


def run_beam(
    oracle: Oracle, sentences: list[int], limits: list[int], beam: int, alpha: float = 0.6, n_best: int = 1
) -> list[list[Hypothesis]]:
    """Search some sentences together."""
    stepper = PrefixStepper(oracle, sentences)
    return beam_search(stepper, torch.tensor(limits), BOS, EOS, BeamOptions(beam, alpha, n_best))


def run_greedy(oracle: Oracle, sentences: list[int], limits: list[int], alpha: float = 0.0) -> list[Hypothesis]:
    """Search some sentences together, greedily."""
    return greedy_search(PrefixStepper(oracle, sentences), torch.tensor(limits), BOS, EOS, alpha)


def all_outputs(oracle: Oracle, sentence: int, limit: int, alpha: float) -> list[Hypothesis]:
    """Return every output of at most `limit` tokens, best first."""
    others = [token for token in range(oracle.vocabulary) if token != EOS]
    found = [
        judged(oracle, sentence, (*words, EOS), limit, alpha)
        for length in range(limit)
        for words in itertools.product(others, repeat=length)
    ]
    return sorted(found, key=lambda each: -each.score)


def judged(oracle: Oracle, sentence: int, tokens: tuple[int, ...], limit: int, alpha: float) -> Hypothesis:
    """Return the hypothesis that these tokens are."""
    steps = [oracle(sentence, tokens[:i]) for i in range(len(tokens))]
    total = sum(float(step[token]) for step, token in zip(steps, tokens, strict=True))
    is_cut = len(tokens) == limit and int(steps[-1].argmax()) != EOS
    return Hypothesis(tokens, total, total / ((5 + len(tokens)) / 6) ** alpha, is_cut)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    """Compare hypotheses: tokens and flags exactly, numbers within rounding."""
    assert [(each.tokens, each.is_cut) for each in found] == [(each.tokens, each.is_cut) for each in expected]
    for name in ("log_probability", "score"):
        wanted = [getattr(each, name) for each in expected]
        assert [getattr(each, name) for each in found] == pytest.approx(wanted, abs=1e-5)


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
@given(seed=seeds, beam=st.integers(1, 5))
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


# Greedy


@unhurried
@given(seed=seeds)
def test_greedy_takes_the_most_probable_token_at_every_step(seed: int) -> None:
    oracle, limit = Oracle(seed), 6
    [found] = run_greedy(oracle, [0], [limit], alpha=0.6)
    tokens: tuple[int, ...] = ()
    while EOS not in tokens:
        tokens += (int(oracle(0, tokens).argmax()) if len(tokens) < limit - 1 else EOS,)
    assert_same([found], [judged(oracle, 0, tokens, limit, 0.6)])


@unhurried
@given(seed=seeds, limits=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_a_beam_of_one_is_greedy(seed: int, limits: list[int]) -> None:
    oracle, sentences = Oracle(seed), list(range(len(limits)))
    beams = run_beam(oracle, sentences, limits, beam=1, alpha=0.0)
    assert_same([best for [best] in beams], run_greedy(oracle, sentences, limits))


# Limits, and sentences that do not disturb each other


@unhurried
@given(seed=seeds, limits=st.lists(st.integers(1, 8), min_size=2, max_size=5), beam=st.integers(2, 4))
def test_sentences_of_different_limits_are_found_together_as_alone(
    seed: int, limits: list[int], beam: int
) -> None:
    oracle, sentences = Oracle(seed), list(range(len(limits)))
    together = run_beam(oracle, sentences, limits, beam, n_best=2)
    alone = [run_beam(oracle, [i], [limits[i]], beam, n_best=2)[0] for i in sentences]
    assert together == alone
    greedy_alone = [run_greedy(oracle, [i], [limits[i]])[0] for i in sentences]
    assert run_greedy(oracle, sentences, limits) == greedy_alone


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
        stepper = PrefixStepper(oracle, [0, 1])
        beam_search(stepper, torch.tensor([9, 3]), BOS, EOS, BeamOptions(beam, 0.6, 1))
        assert stepper.num_rows == [2, beam, beam]
    stepper = PrefixStepper(oracle, [0, 1])
    greedy_search(stepper, torch.tensor([9, 3]), BOS, EOS)
    assert stepper.num_rows == [2, 1, 1]


# Stopping early


@every_alpha
@pytest.mark.parametrize("n_best", [1, 3])
@unhurried
@given(seed=seeds)
def test_stopping_early_changes_nothing(alpha: float, n_best: int, seed: int) -> None:
    oracle, limits = Oracle(seed), [9, 4, 7]
    stopped = run_beam(oracle, [0, 1, 2], limits, 3, alpha, n_best)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "can_still_win", lambda beam, _: beam.scores[0] > search.NEVER)
        assert run_beam(oracle, [0, 1, 2], limits, 3, alpha, n_best) == stopped


def steps_of(oracles: Iterator[Oracle]) -> int:
    """Return how many steps the searches of one long sentence each take."""
    total = 0
    for oracle in oracles:
        stepper = PrefixStepper(oracle, [0])
        beam_search(stepper, torch.tensor([40]), BOS, EOS, BeamOptions(3, 0.6, 1))
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


# What a search offers to others


def test_a_rule_sees_each_prefix_and_its_input_and_decides_what_comes_next() -> None:
    seen: set[tuple[int, ...]] = set()

    def forbid_two(log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:
        assert log_probs.size(0) == tokens.size(0) == sentence.numel()
        assert (tokens[:, 0] == BOS).all()
        seen.update((which, *row[1:]) for which, row in zip(sentence.tolist(), tokens.tolist(), strict=True))
        return log_probs.index_fill(1, torch.tensor([2]), search.NEVER)

    for seed in range(5):
        oracle = Oracle(seed)
        stepper = PrefixStepper(oracle, [0, 1])
        found = beam_search(stepper, torch.tensor([6, 4]), BOS, EOS, BeamOptions(3, 0.6, 3), [forbid_two])
        greedy = greedy_search(PrefixStepper(oracle, [0, 1]), torch.tensor([6, 4]), BOS, EOS, 0.6, [forbid_two])
        for sentence, best in enumerate(found):
            assert all(2 not in each.tokens for each in [*best, greedy[sentence]])
            tokens = [each.tokens for each in best]
            expected = [judged(oracle, sentence, each, 99, 0.6).score for each in tokens]
            assert [each.score for each in best] == pytest.approx(expected, abs=1e-5)
    assert {which for which, *_ in seen} == {0, 1}


def test_rules_that_forbid_everything_leave_nothing() -> None:
    def forbid_all(log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:  # noqa: ARG001
        return torch.full_like(log_probs, search.NEVER)

    stepper = PrefixStepper(Oracle(1), [0])
    assert beam_search(stepper, torch.tensor([5]), BOS, EOS, BeamOptions(3, 0.6, 1), [forbid_all]) == [[]]


@every_alpha
@unhurried
@given(seed=seeds, beam=st.integers(1, 4))
def test_a_watcher_can_draw_the_whole_tree(alpha: float, seed: int, beam: int) -> None:
    steps: list[BeamStep] = []
    oracle, limits = Oracle(seed), [5, 7]
    stepper = PrefixStepper(oracle, [0, 1])
    found = beam_search(
        stepper, torch.tensor(limits), BOS, EOS, BeamOptions(beam, alpha, beam), watch=steps.append
    )
    for sentence in (0, 1):
        parents: list[tuple[int, ...]] = [()]
        ended: dict[tuple[int, ...], float] = {}
        for length, step in enumerate((each for each in steps if each.sentence == sentence), start=1):
            assert step.length == length
            branches = [(*parents[p], token) for p, token in zip(step.parents, step.tokens, strict=True)]
            ended |= {b: s for b, s, is_end in zip(branches, step.scores, step.ended, strict=True) if is_end}
            parents = [branch for branch, goes_on in zip(branches, step.went_on, strict=True) if goes_on]
        assert {each.tokens: each.log_probability for each in found[sentence]}.items() <= ended.items()


class Unnormalised(PrefixStepper):
    """The same distribution as logits, in pieces of one sentence, the rest of the vocabulary never chosen."""

    def step_logits(self, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        width = tokens.numel() // len(self.sentences)
        log_probs = torch.nn.functional.pad(self.step(tokens), [0, 3], value=search.NEVER)
        shift = torch.arange(log_probs.size(0)) * 0.37
        yield from zip((log_probs + shift[:, None]).split(width), shift.split(width), strict=True)


@every_alpha
@unhurried
@given(seed=seeds, beam=st.integers(1, 4))
def test_logits_in_pieces_give_what_log_probabilities_give(alpha: float, seed: int, beam: int) -> None:
    oracle, limits, options = Oracle(seed), torch.tensor([6, 3, 5]), BeamOptions(beam, alpha, beam)
    found = beam_search(Unnormalised(oracle, [0, 1, 2]), limits, BOS, EOS, options)
    expected = beam_search(PrefixStepper(oracle, [0, 1, 2]), limits, BOS, EOS, options)
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)
    greedy = greedy_search(Unnormalised(oracle, [0, 1, 2]), limits, BOS, EOS)
    assert_same(greedy, greedy_search(PrefixStepper(oracle, [0, 1, 2]), limits, BOS, EOS))


@unhurried
@given(seed=seeds, sentences=st.integers(1, 4), beam=st.integers(1, 5), blocks=st.integers(1, 40))
def test_the_best_extensions_are_those_of_a_sort(seed: int, sentences: int, beam: int, blocks: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.randn(sentences, beam, blocks * search.BLOCK, generator=draw)
    offsets = torch.randn(sentences, beam, generator=draw)
    count = min(2 * beam, numbers[0].numel())
    scores, parents, tokens = search.best_extensions(numbers, offsets, count)
    extended = numbers + offsets[:, :, None]
    assert torch.equal(scores, extended.flatten(1).sort(dim=1, descending=True).values[:, :count])
    rows = torch.arange(sentences)[:, None].expand_as(tokens)
    assert torch.equal(extended[rows, parents, tokens], scores)


@given(going_on=st.lists(st.booleans(), max_size=30))
def test_sentences_that_go_on_close_up_and_few_are_moved(going_on: list[bool]) -> None:
    order = search.closed_up(going_on)
    assert sorted(order) == [i for i, is_open in enumerate(going_on) if is_open]
    moved = [entry for place, entry in enumerate(order) if place != entry]
    assert all(entry >= len(order) for entry in moved)
