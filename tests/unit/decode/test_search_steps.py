"""A search as a state machine: its steps one by one, what rules and watchers see of them, and where it stops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decode.oracle import (
    BOS,
    EOS,
    SPELLING,
    Oracle,
    PrefixStepper,
    all_outputs,
    assert_same,
    assert_same_numbers,
    judged,
    run_beam,
    search,
    seeds,
    text,
    text_oracle,
)

from sixfold.decode.constraints import Phrase, Required, TowardsPhrases
from sixfold.decode.rules import NOTHING, token_set
from sixfold.decode.sampling import Draws, Sampler, Sampling
from sixfold.decode.search import (
    BeamOptions,
    BeamStep,
    BestFirst,
    Hypothesis,
    Search,
    Stopped,
    Strategy,
    TokenSet,
    closed_up,
    union,
)

unhurried = settings(max_examples=20, deadline=None)
LETTER = Required((Phrase("a", (2,), (7,)),), SPELLING)


def strategies(num_sentences: int) -> dict[str, tuple[Strategy, BeamOptions]]:
    """Return every strategy with the options it is for."""
    sampler = Sampler(Sampling(1.0), 5, [(place, 0) for place in range(num_sentences)])
    wide, one = BeamOptions(3, 0.6, 3), BeamOptions(1, 0.6)
    return {
        "greedy": (BestFirst(one, EOS), one),
        "beam": (BestFirst(wide, EOS), wide),
        "draws": (Draws(sampler, EOS), one),
        "phrases": (TowardsPhrases(wide, EOS, LETTER), wide),
    }


every_strategy = pytest.mark.parametrize("name", strategies(0))


# One step at a time


@every_strategy
@unhurried
@given(seed=seeds)
def test_a_search_can_be_stepped_one_step_at_a_time(name: str, seed: int) -> None:
    def begin() -> Search:
        return search(PrefixStepper(text_oracle(seed), [0, 1]), [6, 9], *strategies(2)[name])

    stepped = begin()
    for length in itertools.count(1):
        if stepped.is_done:
            break
        assert {beam.length for beam in stepped.alive} == {length}
        stepped.step()
        assert {len(beam.output(0)) for beam in stepped.alive} <= {length}
    assert stepped.results == begin().run()
    assert all(stepped.results)


@every_strategy
@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_search_stops_before_the_step_that_nobody_waits_for(name: str, most: int) -> None:
    oracle, asked = text_oracle(seed=1), []
    oracle.wish_to_end = -30.0
    stepper = PrefixStepper(oracle, [0, 1])

    def should_stop() -> bool:
        asked.append(len(stepper.num_rows))
        return len(asked) > most

    with pytest.raises(Stopped):
        search(stepper, [9, 9], *strategies(2)[name]).run(should_stop)
    assert asked == [*range(most + 1)]
    assert len(stepper.num_rows) == most


@every_strategy
@unhurried
@given(seed=seeds)
def test_to_be_asked_changes_nothing(name: str, seed: int) -> None:
    def begin() -> Search:
        return search(PrefixStepper(text_oracle(seed), [0, 1]), [6, 9], *strategies(2)[name])

    assert begin().run(lambda: False) == begin().run()


def test_a_search_of_nothing_is_done() -> None:
    assert search(PrefixStepper(Oracle(1), []), [], *strategies(0)["beam"]).run() == []


# Prompts


@unhurried
@given(seed=seeds, prompt=st.lists(st.integers(2, 3), max_size=3))
def test_an_output_goes_on_from_its_prompt_and_neither_limit_nor_rule_counts_it(
    seed: int, prompt: list[int]
) -> None:
    oracle, seen, options = Oracle(seed), set(), BeamOptions(36, 0.6, 5)

    class Watching:
        def forbidden(self, tokens: Sequence[int]) -> TokenSet:
            seen.add(tuple(tokens))
            return NOTHING

    after = Oracle(seed)
    after.known = {
        (0, *words): oracle(0, (*prompt, *words))
        for length in range(4)
        for words in itertools.product(range(4), repeat=length)
    }
    start = [BOS, *prompt]
    stepper = PrefixStepper(oracle, [0], start)
    [found] = Search(stepper, [start], [4], BestFirst(options, EOS), options, [Watching()]).run()
    assert_same(found, all_outputs(after, 0, 4, 0.6)[:5])
    assert () in seen
    assert max(map(len, seen)) <= 3


# The n best say different things


@settings(max_examples=6, deadline=None)
@given(seed=seeds)
def test_of_the_outputs_that_mean_the_same_only_the_best_is_kept(seed: int) -> None:
    oracle, options = text_oracle(seed), BeamOptions(300, 0.6, 5)
    stepper, strategy = PrefixStepper(oracle), BestFirst(options, EOS)
    [found] = Search(stepper, [[BOS]], [4], strategy, options, meaning=text).run()
    best_of_text: dict[str, Hypothesis] = {}
    for each in all_outputs(oracle, 0, 4, 0.6):
        best_of_text.setdefault(text(each.tokens), each)
    assert_same_numbers(found, [*best_of_text.values()][:5])


# Rules


class NoTwo:
    """A rule that remembers what it was asked about."""

    def __init__(self) -> None:
        self.seen: set[tuple[int, ...]] = set()

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:
        self.seen.add(tuple(tokens))
        return token_set([2])


class Everything:
    """A rule that forbids all there is."""

    def forbidden(self, tokens: Sequence[int]) -> TokenSet:  # noqa: ARG002
        return token_set(range(len(SPELLING)))


@pytest.mark.parametrize("beam", [1, 3])
def test_a_rule_sees_each_unfinished_output_and_decides_what_comes_next(beam: int) -> None:
    for seed in range(5):
        rule, oracle = NoTwo(), Oracle(seed)
        found = run_beam(oracle, [0, 1], [6, 4], beam, n_best=beam, rules=[rule])
        for sentence, best in enumerate(found):
            tokens = [each.tokens for each in best]
            assert all(2 not in each for each in tokens)
            expected = [judged(oracle, sentence, each, 99, 0.6).score for each in tokens]
            assert [each.score for each in best] == pytest.approx(expected, abs=1e-5)
            assert {each[:length] for each in tokens for length in range(len(each))} <= rule.seen


@every_strategy
def test_rules_that_forbid_everything_leave_nothing(name: str) -> None:
    found = search(PrefixStepper(text_oracle(1), [0, 1]), [5, 5], *strategies(2)[name], [Everything()]).run()
    assert found == [[], []]


@given(sets=st.lists(st.sets(st.integers(0, 20)), min_size=1, max_size=4))
def test_what_any_rule_forbids_is_forbidden_once(sets: list[set[int]]) -> None:
    together = union([token_set(each) for each in sets])
    assert together.dtype == np.int64
    assert together.tolist() == sorted(set().union(*sets))


# Watchers


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@unhurried
@given(seed=seeds, beam=st.integers(1, 4))
def test_a_watcher_can_draw_the_whole_tree(alpha: float, seed: int, beam: int) -> None:
    steps: list[BeamStep] = []
    options, stepper = BeamOptions(beam, alpha, beam), PrefixStepper(Oracle(seed), [0, 1])
    found = search(stepper, [5, 7], BestFirst(options, EOS), options, watch=steps.append).run()
    for sentence in (0, 1):
        parents: list[tuple[int, ...]] = [()]
        ended: dict[tuple[int, ...], float] = {}
        for length, step in enumerate((each for each in steps if each.sentence == sentence), start=1):
            assert step.length == length
            branches = [(*parents[p], token) for p, token in zip(step.parents, step.tokens, strict=True)]
            ended |= {b: s for b, s, is_end in zip(branches, step.scores, step.ended, strict=True) if is_end}
            parents = [branch for branch, goes_on in zip(branches, step.went_on, strict=True) if goes_on]
        assert {each.tokens: each.log_probability for each in found[sentence]}.items() <= ended.items()


# Sentences that leave


@given(going_on=st.lists(st.booleans(), max_size=30))
def test_sentences_that_go_on_close_up_and_few_are_moved(going_on: list[bool]) -> None:
    order = closed_up(going_on)
    assert sorted(order) == [i for i, is_open in enumerate(going_on) if is_open]
    moved = [entry for place, entry in enumerate(order) if place != entry]
    assert all(entry >= len(order) for entry in moved)
