"""Rules: a wide beam finds the best of all outputs that obey, and no search breaks one."""

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
    assert_same_numbers,
    run_beam,
    search,
    seeds,
    text,
    text_oracle,
)

from sixfold.decode.rules import ForbiddenWords, ForcedPrefix, MinLength, NoRepeat
from sixfold.decode.sampling import Draws, Sampler, Sampling
from sixfold.decode.search import BeamOptions, Hypothesis, Rule
from sixfold.text.words import occurs

LIMIT = 4
WIDE = 300  # more than there are unfinished outputs

words = st.text("abc", min_size=1, max_size=3)
unhurried = settings(max_examples=10, deadline=None)
exhaustive = settings(max_examples=6, deadline=None)


def wide_beam(oracle: Oracle, rules: Sequence[Rule], n_best: int = 5) -> list[Hypothesis]:
    """Return the best outputs of all that obey."""
    return run_beam(oracle, [0], [LIMIT], WIDE, 0.6, n_best, rules)[0]


def every_search(oracle: Oracle, rules: Sequence[Rule], seed: int) -> list[Hypothesis]:
    """Return what narrow searches of all kinds find."""
    [narrow], [greedy] = (run_beam(oracle, [0], [9], beam, 0.6, beam, rules) for beam in (3, 1))
    draws = Draws(Sampler(Sampling(1.0), seed, [(0, 0)]), EOS)
    [drawn] = search(PrefixStepper(oracle), [9], draws, BeamOptions(1, 0.6), rules).run()
    return [*narrow, *greedy, *drawn]


@exhaustive
@given(seed=seeds, prefix=st.text("abc ", min_size=1, max_size=4).filter(str.strip))
def test_a_forced_prefix_gives_the_best_of_all_outputs_that_begin_with_it(seed: int, prefix: str) -> None:
    oracle = text_oracle(seed)
    obey = [
        each
        for each in all_outputs(oracle, 0, LIMIT, 0.6)
        if b"".join(SPELLING[token] for token in each.tokens).startswith(b" " + prefix.encode())
    ]
    assert_same_numbers(wide_beam(oracle, [ForcedPrefix(prefix, SPELLING)]), obey[:5])


@unhurried
@given(seed=seeds, prefix=st.text("abc ", min_size=1, max_size=4).filter(str.strip))
def test_every_search_begins_with_its_prefix(seed: int, prefix: str) -> None:
    for found in every_search(text_oracle(seed), [ForcedPrefix(prefix, SPELLING)], seed):
        assert text(found.tokens).startswith(prefix)


@exhaustive
@given(seed=seeds, phrases=st.lists(st.one_of(words, st.just("ab a"), st.just("a b")), min_size=1, max_size=3))
def test_forbidden_words_leave_the_best_of_all_outputs_that_never_write_them(
    seed: int, phrases: list[str]
) -> None:
    def is_clean(tokens: tuple[int, ...]) -> bool:
        begun = [text(tokens[:i]) for i in range(len(tokens))]
        return not any(occurs(phrase, each) for phrase in phrases for each in begun)

    oracle = text_oracle(seed)
    obey = [each for each in all_outputs(oracle, 0, LIMIT, 0.6) if is_clean(each.tokens)]
    assert_same_numbers(wide_beam(oracle, [ForbiddenWords(phrases, SPELLING)]), obey[:5])


@unhurried
@given(seed=seeds, phrases=st.lists(words, min_size=1, max_size=3))
def test_no_search_writes_a_forbidden_word(seed: int, phrases: list[str]) -> None:
    for found in every_search(text_oracle(seed), [ForbiddenWords(phrases, SPELLING)], seed):
        assert not any(occurs(phrase, text(found.tokens)) for phrase in phrases)


def test_a_word_is_still_allowed_inside_a_longer_one() -> None:
    rule = ForbiddenWords(["b"], SPELLING)
    assert 3 not in rule.forbidden([2])  # "ab"
    assert 3 in rule.forbidden([2, 5])  # "a b"


MARKED = ["", "", " ", "a", "ab", "ด", "ี", "่", "猫", "\u0301", "."]


@given(
    phrases=st.lists(st.text("abดี่猫", min_size=1, max_size=3), min_size=1, max_size=2),
    tokens=st.lists(st.integers(2, len(MARKED) - 1), max_size=8),
)
def test_a_forbidden_word_is_never_written_in_scripts_with_and_without_spaces(
    phrases: list[str], tokens: list[int]
) -> None:
    rule = ForbiddenWords(phrases, [piece.encode() for piece in MARKED])
    written_tokens: list[int] = []
    for token in tokens:
        written_tokens += [token] * (token not in rule.forbidden(written_tokens))
    result = "".join(MARKED[token] for token in written_tokens)
    assert not any(occurs(phrase, result) for phrase in phrases)


@pytest.mark.parametrize("character", ["ü", "é", "日", "😀"])
def test_a_forbidden_word_cannot_be_spelled_as_bytes(character: str) -> None:
    spelling = [b"", b"", f" x{character}".encode(), b" x", b" ", *(bytes([i]) for i in range(256))]
    rule = ForbiddenWords([f"x{character}"], spelling)
    last = 5 + character.encode()[-1]
    assert rule.forbidden([3, *(5 + byte for byte in character.encode()[:-1])]).tolist() == sorted({2, last})
    assert rule.forbidden([]).tolist() == [2]


@exhaustive
@given(seed=seeds, n=st.integers(1, 3))
def test_no_repeat_leaves_the_best_of_all_outputs_that_repeat_nothing(seed: int, n: int) -> None:
    def repeats(tokens: tuple[int, ...]) -> bool:
        grams = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
        return len(set(grams)) < len(grams)

    oracle = text_oracle(seed)
    obey = [each for each in all_outputs(oracle, 0, LIMIT, 0.6) if not repeats(each.tokens)]
    assert_same_numbers(wide_beam(oracle, [NoRepeat(n)]), obey[:5])
    assert not any(repeats(each.tokens) for each in every_search(oracle, [NoRepeat(n)], seed))


@exhaustive
@given(seed=seeds, length=st.integers(0, LIMIT - 1))
def test_a_minimum_length_leaves_the_best_of_all_longer_outputs(seed: int, length: int) -> None:
    oracle = text_oracle(seed)
    obey = [each for each in all_outputs(oracle, 0, LIMIT, 0.6) if len(each.tokens) - 1 >= length]
    assert_same_numbers(wide_beam(oracle, [MinLength(length, EOS)]), obey[:5])


@unhurried
@given(seed=seeds)
def test_rules_add_up(seed: int) -> None:
    rules = [ForcedPrefix("a", SPELLING), ForbiddenWords(["ab"], SPELLING), NoRepeat(1), MinLength(2, EOS)]
    for found in [*wide_beam(text_oracle(seed), rules), *every_search(text_oracle(seed), rules, seed)]:
        assert text(found.tokens).startswith("a")
        assert not occurs("ab", text(found.tokens))
        assert len(set(found.tokens)) == len(found.tokens) >= 3
