"""Required phrases: a wide beam finds the best outputs that contain them, and a narrow one writes them too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decode.oracle import (
    EOS,
    SPELLING,
    Oracle,
    PrefixStepper,
    all_outputs,
    run_beam,
    search,
    seeds,
    text,
    text_oracle,
)

from sixfold.decode.constraints import Phrase, Required, TowardsPhrases
from sixfold.decode.rules import ForbiddenWords, ForcedPrefix
from sixfold.decode.search import BeamOptions, Hypothesis, Rule
from sixfold.text.words import occurs

LIMIT = 4
WIDE = 300  # more than there are unfinished outputs

unhurried = settings(max_examples=10, deadline=None)
exhaustive = settings(max_examples=6, deadline=None)

PHRASES = {
    "a": Phrase("a", (2,), (7,)),
    "ab": Phrase("ab", (4,), (7, 3)),
    "c": Phrase("c", (5, 6), (6,)),
    "a ab": Phrase("a ab", (2, 4), (7, 4)),
    "ab c": Phrase("ab c", (4, 5, 6), (7, 3, 5, 6)),
    "abc": Phrase("abc", (4, 6), (7, 3, 6)),
    "a c": Phrase("a c", (2, 5, 6), (7, 5, 6)),
}


def require(*phrases: str) -> Required:
    return Required(tuple(PHRASES[phrase] for phrase in phrases), SPELLING)


def run_constrained(
    oracle: Oracle, required: Required, limit: int, beam: int, n_best: int = 1, rules: Sequence[Rule] = ()
) -> list[Hypothesis]:
    return run_together(oracle, required, [0], [limit], BeamOptions(beam, 0.6, n_best), rules)[0]


def run_together(
    oracle: Oracle,
    required: Required,
    sentences: list[int],
    limits: list[int],
    options: BeamOptions,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    stepper = PrefixStepper(oracle, sentences)
    return search(stepper, limits, TowardsPhrases(options, EOS, required), options, rules).run()


@pytest.mark.parametrize("phrases", [("a",), ("ab", "c"), ("a ab", "ab"), ("abc",), ("a", "ab")])
@exhaustive
@given(seed=seeds)
def test_a_wide_beam_finds_the_best_of_all_outputs_that_contain_the_phrases(
    seed: int, phrases: tuple[str, ...]
) -> None:
    oracle = text_oracle(seed)
    obey = [
        each
        for each in all_outputs(oracle, 0, LIMIT, 0.6)
        if all(occurs(phrase, text(each.tokens)) for phrase in phrases)
    ]
    # Near the limit room is kept for the canonical spelling, which may be longer than another one.
    roomy = [each for each in obey if len(each.tokens) <= LIMIT - 1][:1]
    [best] = run_constrained(oracle, require(*phrases), LIMIT, WIDE)
    assert best.tokens in [each.tokens for each in obey]
    assert best.score >= roomy[0].score - 1e-6 if roomy else True


@settings(max_examples=40, deadline=None)
@given(
    seed=seeds,
    phrases=st.lists(st.sampled_from(sorted(PHRASES)), min_size=1, max_size=4, unique=True),
    beam=st.integers(2, 6),
    spare=st.integers(0, 6),
)
def test_every_phrase_is_written_however_narrow_the_beam_and_the_limit(
    seed: int, phrases: list[str], beam: int, spare: int
) -> None:
    required = require(*phrases)
    limit = required.most_tokens + 1 + spare
    found = run_constrained(text_oracle(seed, sharpness=4.0), required, limit, beam, n_best=2)
    assert found
    for each in found:
        assert all(occurs(phrase, text(each.tokens)) for phrase in phrases)
        assert len(each.tokens) <= limit


@unhurried
@given(seed=seeds, beam=st.integers(2, 5))
def test_sentences_are_constrained_together_as_alone(seed: int, beam: int) -> None:
    oracle, limits, options = text_oracle(seed), [9, 6, 12], BeamOptions(beam, 0.6, 2)
    required = require("a ab", "c")
    together = run_together(oracle, required, [0, 1, 2], limits, options)
    assert together == [run_together(oracle, required, [i], [limits[i]], options)[0] for i in range(3)]


@unhurried
@given(seed=seeds)
def test_required_phrases_obey_the_other_rules(seed: int) -> None:
    rules = [ForcedPrefix("a", SPELLING), ForbiddenWords(["abc"], SPELLING)]
    for found in run_constrained(text_oracle(seed), require("ab", "c"), 14, 4, 2, rules):
        assert text(found.tokens).startswith("a")
        assert occurs("ab", text(found.tokens))
        assert occurs("c", text(found.tokens))
        assert not occurs("abc", text(found.tokens))


def test_an_output_that_contains_the_phrase_anyway_is_found_as_without_the_wish() -> None:
    for seed in range(20):
        [best] = run_beam(text_oracle(seed), [0], [9], 8)
        if occurs("a", text(best[0].tokens)):
            assert run_constrained(text_oracle(seed), require("a"), 9, 8)[0].score >= best[0].score - 1e-6
