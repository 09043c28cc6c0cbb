"""The parts of a search, on a vocabulary so small that every output can be counted out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sixfold.decode.constraints import Phrase, Required, constrained_search
from sixfold.decode.ensemble import EnsembleStepper
from sixfold.decode.rules import ForbiddenWords, ForcedPrefix, MinLength, NoRepeat
from sixfold.decode.sampling import Sampler, most_probable, rollout, sample_search
from sixfold.decode.search import NEVER, BeamOptions, Hypothesis, Rule, beam_search, greedy_search
from sixfold.text.spelling import written
from sixfold.text.words import occurs

BOS, EOS = 0, 1
SPELLING = [b"", b"", b" a", b"b", b" ab", b" ", b"c", b"a"]
V, LIMIT = len(SPELLING), 4  # every text of the letters a, b and c can be spelled
WIDE = 300  # more than there are unfinished outputs

seeds = st.integers(0, 2**32 - 1)
words = st.text("abc", min_size=1, max_size=3)
unhurried = settings(max_examples=10, deadline=None)
exhaustive = settings(max_examples=6, deadline=None)


class Oracle:
    """The log-probabilities of the next token: random, but decided by the sentence and its whole prefix."""

    def __init__(self, seed: int, sharpness: float = 1.5) -> None:
        self.seed, self.sharpness = seed, sharpness
        self.known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, sentence: int, prefix: tuple[int, ...]) -> Tensor:
        key = (sentence, *prefix)
        if key not in self.known:
            logits = torch.from_numpy(np.random.default_rng((self.seed, *key)).normal(size=V)) * self.sharpness
            logits[BOS] = NEVER
            self.known[key] = logits.log_softmax(dim=0)
        return self.known[key]


class PrefixStepper:
    """A stepper whose only memory is what a search told it; it starts with one row for each sentence."""

    def __init__(self, oracle: Callable[[int, tuple[int, ...]], Tensor], sentences: Sequence[int] = (0,)) -> None:
        self.oracle, self.sentences = oracle, list(sentences)
        self.prefixes: list[tuple[int, ...]] = [()] * len(self.sentences)

    def step(self, tokens: Tensor) -> Tensor:
        hypotheses = len(self.prefixes) // len(self.sentences)
        self.prefixes = [(*row, token) for row, token in zip(self.prefixes, tokens.tolist(), strict=True)]
        rows = enumerate(self.prefixes)
        return torch.stack([self.oracle(self.sentences[i // hypotheses], prefix[1:]) for i, prefix in rows])

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]
        if sentences is not None:
            self.sentences = [self.sentences[i] for i in sentences.tolist()]


def all_outputs(oracle: Oracle, alpha: float, limit: int = LIMIT) -> list[Hypothesis]:
    """Return every output, best first."""
    found = []
    for length in range(limit):
        for row in itertools.product(range(2, V), repeat=length):
            tokens = (*row, EOS)
            total = sum(float(oracle(0, tokens[:i])[token]) for i, token in enumerate(tokens))
            found.append(Hypothesis(tokens, total, total / ((5 + len(tokens)) / 6) ** alpha))
    return sorted(found, key=lambda each: -each.score)


def text(tokens: Sequence[int]) -> str:
    return written(SPELLING, tokens)


def assert_same(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [each.tokens for each in found] == [each.tokens for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-6)
    totals = [each.log_probability for each in expected]
    assert [each.log_probability for each in found] == pytest.approx(totals, abs=1e-6)


def wide_beam(oracle: Oracle, rules: Sequence[Rule], n_best: int = 5, alpha: float = 0.6) -> list[Hypothesis]:
    options = BeamOptions(WIDE, alpha, n_best)
    [found] = beam_search(PrefixStepper(oracle), torch.tensor([LIMIT]), BOS, EOS, options, rules)
    return found


def every_search(oracle: Oracle, rules: Sequence[Rule], seed: int) -> list[Hypothesis]:
    """Return what narrow searches of all kinds find."""
    limits, sampler = torch.tensor([9]), Sampler(1.0, 0, 1.0, seed, [(0, 0)])
    [narrow] = beam_search(PrefixStepper(oracle), limits, BOS, EOS, BeamOptions(3, 0.6, 3), rules)
    greedy = greedy_search(PrefixStepper(oracle), limits, BOS, EOS, 0.6, rules)
    return [*narrow, *greedy, *sample_search(PrefixStepper(oracle), limits, BOS, EOS, sampler, 0.6, rules)]


# Rules: a wide beam finds the best of all outputs that obey


@exhaustive
@given(seed=seeds, prefix=st.text("abc ", min_size=1, max_size=4).filter(str.strip))
def test_a_forced_prefix_gives_the_best_of_all_outputs_that_begin_with_it(seed: int, prefix: str) -> None:
    oracle = Oracle(seed)
    obey = [
        each
        for each in all_outputs(oracle, 0.6)
        if b"".join(SPELLING[token] for token in each.tokens).startswith(b" " + prefix.encode())
    ]
    assert_same(wide_beam(oracle, [ForcedPrefix(prefix, SPELLING)]), obey[:5])


@unhurried
@given(seed=seeds, prefix=st.text("abc ", min_size=1, max_size=4).filter(str.strip))
def test_every_search_begins_with_its_prefix(seed: int, prefix: str) -> None:
    for found in every_search(Oracle(seed), [ForcedPrefix(prefix, SPELLING)], seed):
        assert text(found.tokens).startswith(prefix)


@exhaustive
@given(seed=seeds, phrases=st.lists(st.one_of(words, st.just("ab a"), st.just("a b")), min_size=1, max_size=3))
def test_forbidden_words_leave_the_best_of_all_outputs_that_never_write_them(
    seed: int, phrases: list[str]
) -> None:
    def is_clean(tokens: tuple[int, ...]) -> bool:
        begun = [text(tokens[:i]) for i in range(len(tokens))]
        return not any(occurs(phrase, each) for phrase in phrases for each in begun)

    oracle = Oracle(seed)
    obey = [each for each in all_outputs(oracle, 0.6) if is_clean(each.tokens)]
    assert_same(wide_beam(oracle, [ForbiddenWords(phrases, SPELLING)]), obey[:5])


@unhurried
@given(seed=seeds, phrases=st.lists(words, min_size=1, max_size=3))
def test_no_search_writes_a_forbidden_word(seed: int, phrases: list[str]) -> None:
    for found in every_search(Oracle(seed), [ForbiddenWords(phrases, SPELLING)], seed):
        assert not any(occurs(phrase, text(found.tokens)) for phrase in phrases)


def test_a_word_is_still_allowed_inside_a_longer_one() -> None:
    rule, nothing = ForbiddenWords(["b"], SPELLING), torch.zeros(1, V)
    after_a = rule(nothing.clone(), torch.tensor([[BOS, 2]]), torch.tensor([0]))
    after_space = rule(nothing.clone(), torch.tensor([[BOS, 2, 5]]), torch.tensor([0]))
    assert after_a[0, 3] == 0  # "ab"
    assert after_space[0, 3] == NEVER  # "a b"


MARKED = ["", "", " ", "a", "ab", "ด", "ี", "่", "猫", "\u0301", "."]


@given(
    phrases=st.lists(st.text("abดี่猫", min_size=1, max_size=3), min_size=1, max_size=2),
    tokens=st.lists(st.integers(2, len(MARKED) - 1), max_size=8),
)
def test_a_forbidden_word_is_never_written_in_scripts_with_and_without_spaces(
    phrases: list[str], tokens: list[int]
) -> None:
    rule = ForbiddenWords(phrases, [piece.encode() for piece in MARKED])
    written_tokens = [BOS]
    for token in tokens:
        masked = rule(torch.zeros(1, len(MARKED)), torch.tensor([written_tokens]), torch.tensor([0]))
        written_tokens += [token] * bool(masked[0, token] == 0)
    result = "".join(MARKED[token] for token in written_tokens)
    assert not any(occurs(phrase, result) for phrase in phrases)


@pytest.mark.parametrize("character", ["ü", "é", "日", "😀"])
def test_a_forbidden_word_cannot_be_spelled_as_bytes(character: str) -> None:
    spelling = [b"", b"", f" x{character}".encode(), b" x", b" ", *(bytes([i]) for i in range(256))]
    rule = ForbiddenWords([f"x{character}"], spelling)
    tokens = [BOS, 3, *(5 + byte for byte in character.encode()[:-1])]
    masked = rule(torch.zeros(1, len(spelling)), torch.tensor([tokens]), torch.tensor([0]))
    last = 5 + character.encode()[-1]
    assert (masked[0] == NEVER).nonzero()[:, 0].tolist() == sorted({2, last})
    first = rule(torch.zeros(1, len(spelling)), torch.tensor([[BOS]]), torch.tensor([0]))
    assert (first[0] == NEVER).nonzero().tolist() == [[2]]


@exhaustive
@given(seed=seeds, n=st.integers(1, 3))
def test_no_repeat_leaves_the_best_of_all_outputs_that_repeat_nothing(seed: int, n: int) -> None:
    def repeats(tokens: tuple[int, ...]) -> bool:
        grams = [tokens[i : i + n] for i in range(len(tokens) - n + 1)]
        return len(set(grams)) < len(grams)

    oracle = Oracle(seed)
    obey = [each for each in all_outputs(oracle, 0.6) if not repeats(each.tokens)]
    assert_same(wide_beam(oracle, [NoRepeat(n)]), obey[:5])
    assert not any(repeats(each.tokens) for each in every_search(oracle, [NoRepeat(n)], seed))


@exhaustive
@given(seed=seeds, length=st.integers(0, LIMIT - 1))
def test_a_minimum_length_leaves_the_best_of_all_longer_outputs(seed: int, length: int) -> None:
    oracle = Oracle(seed)
    obey = [each for each in all_outputs(oracle, 0.6) if len(each.tokens) - 1 >= length]
    assert_same(wide_beam(oracle, [MinLength(length, EOS)]), obey[:5])


@unhurried
@given(seed=seeds)
def test_rules_add_up(seed: int) -> None:
    rules = [ForcedPrefix("a", SPELLING), ForbiddenWords(["ab"], SPELLING), NoRepeat(1), MinLength(2, EOS)]
    for found in [*wide_beam(Oracle(seed), rules), *every_search(Oracle(seed), rules, seed)]:
        assert text(found.tokens).startswith("a")
        assert not occurs("ab", text(found.tokens))
        assert len(set(found.tokens)) == len(found.tokens) >= 3


# Required phrases


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
    options = BeamOptions(beam, 0.6, n_best)
    [found] = constrained_search(PrefixStepper(oracle), torch.tensor([limit]), BOS, EOS, options, required, rules)
    return found


@pytest.mark.parametrize("phrases", [("a",), ("ab", "c"), ("a ab", "ab"), ("abc",), ("a", "ab")])
@exhaustive
@given(seed=seeds)
def test_a_wide_beam_finds_the_best_of_all_outputs_that_contain_the_phrases(
    seed: int, phrases: tuple[str, ...]
) -> None:
    oracle = Oracle(seed)
    obey = [
        each for each in all_outputs(oracle, 0.6) if all(occurs(phrase, text(each.tokens)) for phrase in phrases)
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
    found = run_constrained(Oracle(seed, sharpness=4.0), required, limit, beam, n_best=2)
    assert found
    for each in found:
        assert all(occurs(phrase, text(each.tokens)) for phrase in phrases)
        assert len(each.tokens) <= limit


@unhurried
@given(seed=seeds, beam=st.integers(2, 5))
def test_sentences_are_constrained_together_as_alone(seed: int, beam: int) -> None:
    oracle, limits, options = Oracle(seed), [9, 6, 12], BeamOptions(beam, 0.6, 2)
    required = require("a ab", "c")

    def run(which: list[int]) -> list[list[Hypothesis]]:
        wanted = torch.tensor([limits[i] for i in which])
        return constrained_search(PrefixStepper(oracle, which), wanted, BOS, EOS, options, required)

    assert run([0, 1, 2]) == [run([i])[0] for i in range(3)]


@unhurried
@given(seed=seeds)
def test_required_phrases_obey_the_other_rules(seed: int) -> None:
    rules = [ForcedPrefix("a", SPELLING), ForbiddenWords(["abc"], SPELLING)]
    for found in run_constrained(Oracle(seed), require("ab", "c"), 14, 4, 2, rules):
        assert text(found.tokens).startswith("a")
        assert occurs("ab", text(found.tokens))
        assert occurs("c", text(found.tokens))
        assert not occurs("abc", text(found.tokens))


def test_an_output_that_contains_the_phrase_anyway_is_found_as_without_the_wish() -> None:
    for seed in range(20):
        [best] = beam_search(PrefixStepper(Oracle(seed)), torch.tensor([9]), BOS, EOS, BeamOptions(8, 0.6))
        if occurs("a", text(best[0].tokens)):
            assert run_constrained(Oracle(seed), require("a"), 9, 8)[0].score >= best[0].score - 1e-6


# Sampling


def chi_square(
    counts: Counter[int] | Counter[tuple[int, ...]], expected: dict[object, float], draws: int
) -> float:
    """Return Pearson's statistic; outcomes too rare to count are taken together."""
    common = {key: p for key, p in expected.items() if p * draws >= 5}
    rows = [(counts[key], p * draws) for key, p in common.items()]  # type: ignore[index]
    rare = (draws - sum(seen for seen, _ in rows), draws * (1 - sum(common.values())))
    rows += [rare] if rare[1] >= 1 else []
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in rows) - (len(rows) - 1)


def is_plausible(excess: float, outcomes: int) -> bool:
    """Say whether the statistic is within six standard deviations of its mean."""
    return excess < 6 * math.sqrt(2 * outcomes)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_as_often_as_they_are_probable(seed: int, temperature: float) -> None:
    draws, log_probs = 20_000, (torch.randn(8) * 2).log_softmax(dim=0)
    sampler = Sampler(temperature, 0, 1.0, seed, [(place, 0) for place in range(draws)])
    counts = Counter(sampler(log_probs.expand(draws, -1), range(draws)).tolist())
    probabilities = (log_probs / temperature).softmax(dim=0).tolist()
    assert is_plausible(chi_square(counts, dict(enumerate(probabilities)), draws), 8)


def test_whole_outputs_are_drawn_as_often_as_they_are_probable(seed: int) -> None:
    oracle, draws, limit = Oracle(seed, sharpness=1.0), 4000, 3
    sampler = Sampler(1.0, 0, 1.0, seed, [(0, draw) for draw in range(draws)])
    found = sample_search(PrefixStepper(oracle, [0] * draws), torch.tensor([limit] * draws), BOS, EOS, sampler)
    expected: dict[object, float] = {}
    for each in all_outputs(oracle, 0.0, limit):  # at the limit the end mark is certain, whatever its probability
        last = 0.0 if len(each.tokens) < limit else float(oracle(0, each.tokens[:-1])[EOS])
        expected[each.tokens] = math.exp(each.log_probability - last)
    assert sum(expected.values()) == pytest.approx(1)
    assert is_plausible(chi_square(Counter(each.tokens for each in found), expected, draws), len(expected))
    known = {each.tokens: each.log_probability for each in all_outputs(oracle, 0.0, limit)}
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
    sampler = Sampler(temperature, top_k, top_p, seed, [(place, 0) for place in range(400)])
    kept = sampler.probabilities(log_probs[None])[0]
    assert set(kept.nonzero()[:, 0].tolist()) == set(support)
    drawn = set(sampler(log_probs.expand(400, -1), range(400)).tolist())
    assert drawn <= set(support)


@unhurried
@given(seed=seeds)
def test_a_draw_depends_on_its_place_and_number_alone(seed: int) -> None:
    def draw(places: list[tuple[int, int]]) -> list[Hypothesis]:
        stepper = PrefixStepper(Oracle(seed), [place for place, _ in places])
        limits = torch.tensor([6 + place for place, _ in places])
        return sample_search(stepper, limits, BOS, EOS, Sampler(1.0, 0, 1.0, seed, places))

    places = [(place, number) for place in range(4) for number in range(3)]
    together = draw(places)
    assert together[::-1] == draw(places[::-1])
    assert together == [draw([each])[0] for each in places]
    assert len({each.tokens for each in together}) > 1


def test_seeds_and_places_give_other_draws() -> None:
    def numbers(seed: int, place: int, number: int) -> list[int]:
        sampler, even = Sampler(1.0, 0, 1.0, seed, [(place, number)]), torch.zeros(1, 1000)
        return [int(sampler(even, [0])) for _ in range(5)]

    assert numbers(1, 2, 3) == numbers(1, 2, 3)
    rows = [numbers(*each) for each in itertools.product(range(3), repeat=3)]
    assert len({tuple(row) for row in rows}) == 27


@unhurried
@given(seed=seeds)
def test_choosing_the_most_probable_token_is_greedy_search(seed: int) -> None:
    limits = torch.tensor([7, 3, 5])
    stepper = PrefixStepper(Oracle(seed), [0, 1, 2])
    ours = sample_search(stepper, limits, BOS, EOS, most_probable, 0.6)
    assert ours == greedy_search(PrefixStepper(Oracle(seed), [0, 1, 2]), limits, BOS, EOS, 0.6)
    chosen = list(rollout(PrefixStepper(Oracle(seed), [0, 1, 2]), limits, BOS, EOS, most_probable))
    assert [[each.token for each in chosen if each.sentence == i] for i in range(3)] == [
        list(each.tokens) for each in ours
    ]


# Ensembles


@unhurried
@given(seed=seeds)
def test_steppers_are_averaged_by_their_probabilities(seed: int) -> None:
    one, two = Oracle(seed), Oracle(seed + 1)

    def mean(sentence: int, prefix: tuple[int, ...]) -> Tensor:
        return (one(sentence, prefix).exp() + two(sentence, prefix).exp()).div(2).log()

    limits, options = torch.tensor([6, 4]), BeamOptions(4, 0.6, 3)
    together = EnsembleStepper([PrefixStepper(one, [0, 1]), PrefixStepper(two, [0, 1])])
    found = beam_search(together, limits, BOS, EOS, options)
    for ours, theirs in zip(
        found, beam_search(PrefixStepper(mean, [0, 1]), limits, BOS, EOS, options), strict=True
    ):
        assert_same(ours, theirs)
