"""Is B better than A? The paired bootstrap, checked against sacreBLEU and against its definition."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from sixfold.callbacks import no_progress
from sixfold.errors import ConfigError, DataError
from sixfold.evaluate.paired_bootstrap import (
    BootstrapComparison,
    Difference,
    compare,
    in_words,
    p_in_words,
    two_sided_p_value,
)
from sixfold.evaluate.system import System

WORDS = [a + b + c for a in "bdfgkl" for b in "aeiou" for c in "mnrst"]


def sentences(count: int, seed: int) -> list[str]:
    """Return random sentences."""
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=generator.randint(6, 15))) for _ in range(count)]


def damaged(texts: list[str], share: float, seed: int) -> list[str]:
    """Return sentences in which a share of the words is another word."""
    generator = random.Random(seed)
    return [
        " ".join(generator.choice(WORDS) if generator.random() < share else word for word in text.split())
        for text in texts
    ]


REFERENCES = sentences(60, seed=1)
BAD = damaged(REFERENCES, 0.4, seed=2)
GOOD = damaged(REFERENCES, 0.2, seed=3)
AS_BAD = damaged(REFERENCES, 0.4, seed=4)


def compared(
    first: list[str],
    second: list[str],
    samples: int = 1000,
    seed: int = 12345,
    on_progress: Callable[[int], None] = no_progress,
) -> BootstrapComparison:
    """Compare the systems A and B."""
    return compare(System("A", first), System("B", second), REFERENCES, False, samples, seed, on_progress)


def bleu_counts(hypothesis: str, reference: str) -> list[int]:
    """Return matches and totals of 1- to 4-grams, and the two lengths."""
    ours, theirs = hypothesis.split(), reference.split()
    matches, totals = [], []
    for order in range(1, 5):
        counts, others = (
            Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
            for words in (ours, theirs)
        )
        matches.append((counts & others).total())
        totals.append(counts.total())
    return [*matches, *totals, len(ours), len(theirs)]


def bleu_of_counts(rows: list[list[int]]) -> float:
    """Return the corpus BLEU of such counts."""
    *ngrams, ours, theirs = (sum(column) for column in zip(*rows, strict=True))
    logs = [math.log(match / total) for match, total in zip(ngrams[:4], ngrams[4:], strict=True)]
    return 100 * math.exp(min(0, 1 - theirs / ours) + sum(logs) / 4)


def test_bleu_and_its_p_value_follow_their_definition():
    samples, seed = 200, 7
    found = compared(BAD, AS_BAD, samples=samples, seed=seed).differences[0]

    systems = [[bleu_counts(*pair) for pair in zip(texts, REFERENCES, strict=True)] for texts in (BAD, AS_BAD)]
    observed = bleu_of_counts(systems[1]) - bleu_of_counts(systems[0])
    generator = np.random.default_rng(seed)
    drawn = [generator.choice(len(REFERENCES), size=len(REFERENCES)) for _ in range(samples)]
    differences = [
        bleu_of_counts([systems[1][row] for row in rows]) - bleu_of_counts([systems[0][row] for row in rows])
        for rows in drawn
    ]
    mean = sum(differences) / samples
    extreme = sum(abs(difference - mean) >= abs(observed) for difference in differences)

    assert found.difference == pytest.approx(observed)
    assert found.p_value == pytest.approx((extreme + 1) / (samples + 1))


def test_scores_and_intervals_are_those_of_sacrebleu(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    metrics = {"BLEU": BLEU(force=True), "CHRF": CHRF()}
    _, theirs = PairedTest([("A", BAD), ("B", GOOD)], metrics, [REFERENCES], test_type="bs", n_samples=200)()
    ours = compared(BAD, GOOD, samples=200, seed=99)
    for difference, name in zip(ours.differences, ("BLEU", "chrF2"), strict=True):
        first, second = theirs[name]
        assert (difference.first, difference.second) == pytest.approx((first.score, second.score))
        assert difference.first_interval == pytest.approx(first.ci, rel=1e-4)  # theirs sums in float32
        assert difference.second_interval == pytest.approx(second.ci, rel=1e-4)


def test_two_equal_systems_are_called_different_as_often_as_the_threshold_says():
    generator = np.random.default_rng(5)
    observed = generator.normal(size=2000)
    p_values = [two_sided_p_value(generator.normal(loc=mean, size=400), mean) for mean in observed]
    assert 0.03 < np.mean(np.array(p_values) < 0.05) < 0.07


def test_a_seed_decides_everything_whatever_the_environment_says(monkeypatch):
    first = compared(BAD, AS_BAD, samples=50, seed=0)
    monkeypatch.setenv("SACREBLEU_SEED", "none")
    assert compared(BAD, AS_BAD, samples=50, seed=0) == first
    assert compared(BAD, AS_BAD, samples=50, seed=1) != first


def test_swapping_the_systems_turns_the_sign_and_keeps_the_p_value():
    there = compared(BAD, AS_BAD, samples=100).differences[0]
    back = compared(AS_BAD, BAD, samples=100).differences[0]
    assert there.difference == -back.difference
    assert there.p_value == back.p_value


def test_a_clearly_better_system_is_called_better_from_either_side():
    assert compared(BAD, GOOD).sentence.startswith("B is better than A: +")
    assert compared(GOOD, BAD).sentence.startswith("A is better than B: +")


def test_equally_good_systems_show_no_evidence():
    found = compare(System("old", BAD), System("new", AS_BAD), REFERENCES)
    assert found.sentence.startswith("No evidence that old and new differ: new ")
    assert not found.differences[0].is_significant


def test_identical_translations_are_said_to_be_alike():
    found = compared(BAD, list(BAD), samples=50)
    assert found.sentence == "A and B give the same translation for every sentence."
    assert [difference.p_value for difference in found.differences] == [1.0, 1.0]


def test_one_lucky_sentence_is_no_evidence():
    one_mended = [REFERENCES[0], *BAD[1:]]
    assert not compared(BAD, one_mended).differences[0].is_significant


def test_the_signature_shows_the_tokenizer_of_the_language():
    first, second = System("A", BAD, "ja"), System("B", GOOD, "ja")
    found = compare(first, second, REFERENCES, lowercase=True, samples=5)
    assert "tok:char" in found.differences[0].signature
    assert all("case:lc" in difference.signature for difference in found.differences)


def test_progress_counts_the_samples():
    ticks: list[int] = []
    compared(BAD, GOOD, samples=5, on_progress=ticks.append)
    assert ticks == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("first", "second"), [(BAD[1:], GOOD), (BAD, GOOD[1:]), ([], GOOD)])
def test_unequal_lengths_are_refused_with_the_counts(first, second):
    with pytest.raises(DataError, match="translations for 60 references"):
        compared(first, second)


@pytest.mark.parametrize(("samples", "seed"), [(0, 1), (-5, 1), (10, -1)])
def test_impossible_samples_and_seeds_are_refused(samples, seed):
    with pytest.raises(ConfigError, match="samples"):
        compared(BAD, GOOD, samples=samples, seed=seed)


# The words.


def found(metric: str, difference: float, p_value: float) -> Difference:
    """Return a difference of which only these numbers matter."""
    return Difference(metric, 30.0, 30.0 + difference, difference, p_value, 1.0, 1.0, 1.0, "")


def words(bleu: Difference, chrf: Difference, num_sentences: int = 1000) -> str:
    """Return the answer for two differences."""
    return in_words(("A", "B"), [bleu, chrf], False, num_sentences, 1000)


def test_the_answer_names_the_better_one_the_size_and_the_evidence():
    answer = words(found("BLEU", 1.3, 0.003), found("chrF", 0.9, 0.0005))
    assert answer.startswith("B is better than A: +1.3 BLEU, p = 0.003; chrF agrees (+0.9, p < 0.001).")


def test_the_answer_says_when_chrf_cannot_confirm_it():
    answer = words(found("BLEU", -1.3, 0.003), found("chrF", 0.1, 0.8))
    assert answer.startswith("A is better than B: +1.3 BLEU, p = 0.003; chrF gives no evidence (p = 0.80).")


def test_the_answer_says_when_chrf_contradicts():
    answer = words(found("BLEU", 1.3, 0.003), found("chrF", -2.0, 0.004))
    assert "; but A is better than B: +2.0 chrF, p = 0.004." in answer


def test_the_answer_says_when_nothing_was_shown():
    answer = words(found("BLEU", 0.2, 0.41), found("chrF", 0.1, 0.5))
    assert answer.startswith("No evidence that A and B differ: B +0.2 BLEU, p = 0.41; chrF agrees (p = 0.50).")


def test_the_answer_names_the_threshold_and_a_small_test_set():
    evidence = found("BLEU", 1.3, 0.003), found("chrF", 0.9, 0.003)
    assert "p < 0.05 counts as evidence" in words(*evidence)
    assert "small" not in words(*evidence)
    assert "The test set is small (40 sentences)" in words(*evidence, num_sentences=40)


@pytest.mark.parametrize(
    ("p_value", "text"),
    [(0.00099, "p < 0.001"), (0.003, "p = 0.003"), (0.0496, "p = 0.0496"), (0.0504, "p = 0.050"), (1, "p = 1.00")],
)
def test_a_rounded_p_value_stays_on_its_side_of_the_threshold(p_value, text):
    assert p_in_words(p_value) == text
