"""Is B better than A? Paired bootstrap resampling (Koehn, 2004) and an answer in plain words.

Scores and their statistics are sacreBLEU's. The p-value is ours, because sacreBLEU's `--paired-bs` tests in one
direction and picks the direction after looking: of two equally good systems it calls one better about twice as
often as the threshold promises. Here it is two-sided: how often would two equally good systems differ by this
much, in either direction? It comes out about twice sacreBLEU's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sixfold.errors import ConfigError
from sixfold.evaluate.metrics import bleu_tokenizer, refuse_unpaired

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

Scores = NDArray[np.float64]
Tick = Callable[[int], None]

THRESHOLD = 0.05
SMALL_TEST_SET = 300  # sentences; Koehn (2004) finds that only large differences show in fewer


@dataclass(frozen=True)
class Difference:
    """What two systems scored in one metric, and how sure one can be that they differ."""

    metric: str
    first: float
    second: float
    difference: float  # second minus first
    p_value: float  # two-sided
    first_interval: float  # half the width of the 95% interval
    second_interval: float
    difference_interval: float
    signature: str

    @property
    def is_significant(self) -> bool:
        """Whether the difference is larger than chance explains."""
        return self.p_value < THRESHOLD


@dataclass(frozen=True)
class Comparison:
    """Two systems on one test set, metric by metric, and the answer in plain words."""

    names: tuple[str, str]
    num_sentences: int
    samples: int
    seed: int
    differences: tuple[Difference, ...]  # BLEU, chrF
    sentence: str


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    names: tuple[str, str] = ("A", "B"),
    samples: int = 1000,
    seed: int = 12345,
    target_language: str = "",
    lowercase: bool = False,
    tick: Tick = lambda _: None,
) -> Comparison:
    """Compare two systems' translations of the same sentences; `tick` counts samples, over all metrics."""
    from sacrebleu.metrics import BLEU, CHRF

    refuse_unpaired(first, references)
    refuse_unpaired(second, references)
    if samples < 1 or seed < 0:
        raise ConfigError(f"samples must be 1 or more and seed 0 or more, but they are {samples} and {seed}.")
    metrics = {
        "BLEU": BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(target_language), force=True),
        "chrF": CHRF(lowercase=lowercase),
    }
    differences = tuple(
        difference(name, metric, (first, second), references, samples, seed, lambda n, k=k: tick(k * samples + n))
        for k, (name, metric) in enumerate(metrics.items())
    )
    sentence = in_words(names, differences, first == second, len(references), samples)
    return Comparison(names, len(references), samples, seed, differences, sentence)


def difference(
    name: str,
    metric: SacreMetric,
    systems: tuple[Sequence[str], Sequence[str]],
    references: Sequence[str],
    samples: int,
    seed: int,
    tick: Tick,
) -> Difference:
    """Test the difference of two systems in one metric."""
    statistics = [statistics_of(metric, hypotheses, references) for hypotheses in systems]
    first, second = (score(metric, rows) for rows in statistics)
    first_samples, second_samples = resampled_scores(metric, statistics, samples, seed, tick)
    signature = metric.get_signature()
    signature.update("bs", samples)
    signature.update("seed", seed)
    return Difference(
        metric=name,
        first=first,
        second=second,
        difference=second - first,
        p_value=two_sided_p_value(second_samples - first_samples, second - first),
        first_interval=half_interval(first_samples),
        second_interval=half_interval(second_samples),
        difference_interval=half_interval(second_samples - first_samples),
        signature=str(signature),
    )


def statistics_of(metric: SacreMetric, hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """Return the counts of each sentence, whose sums over a corpus decide its score (sentences, counts)."""
    return np.asarray(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)


def score(metric: SacreMetric, statistics: Scores) -> float:
    """Return the corpus score of sentences given by their counts."""
    return float(metric._compute_score_from_stats(list(statistics.sum(axis=0))).score)


def resampled_scores(
    metric: SacreMetric, statistics: Sequence[Scores], samples: int, seed: int, tick: Tick
) -> Scores:
    """Score every system on the same random test sets, drawn with replacement (systems, samples)."""
    # One test set at a time: all of them at once take gigabytes for a large corpus.
    generator = np.random.default_rng(seed)
    num_sentences = len(statistics[0])
    scores = np.empty((len(statistics), samples))
    for sample in range(samples):
        drawn = generator.choice(num_sentences, size=num_sentences, replace=True)
        scores[:, sample] = [score(metric, rows[drawn]) for rows in statistics]
        tick(sample + 1)
    return scores


def two_sided_p_value(sampled_differences: Scores, observed: float) -> float:
    """Return how often chance alone makes a difference this large.

    Chance is the spread of the resampled differences around their mean (Riezler and Maxwell, 2005). The sample
    that was observed counts as one of them, so the result is never 0.
    """
    by_chance = np.abs(sampled_differences - sampled_differences.mean())
    # The margin keeps rounding from telling equal differences apart.
    at_least_as_large = int((by_chance >= abs(observed) - 1e-9).sum())
    return (at_least_as_large + 1) / (len(sampled_differences) + 1)


def half_interval(scores: Scores) -> float:
    """Return half the width of the interval that holds the middle 95% of the scores."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return float(ordered[len(ordered) - cut - 1] - ordered[cut]) / 2


# The answer in plain words.


def in_words(
    names: tuple[str, str],
    differences: Sequence[Difference],
    is_identical: bool,
    num_sentences: int,
    samples: int,
) -> str:
    """Return the answer, how it was found, and a warning if the test set is small."""
    if is_identical:
        return f"{names[0]} and {names[1]} translate all {num_sentences:,} sentences alike."
    answer = "; ".join([verdict(names, differences[0]), *(second_opinion(names, differences))])
    method = f" (Two-sided paired bootstrap, {samples:,} samples; below p = {THRESHOLD} counts as evidence.)"
    small = f" The test set is small ({num_sentences:,} sentences): only large differences can show."
    return f"{answer}.{method}{small if num_sentences < SMALL_TEST_SET else ''}"


def verdict(names: tuple[str, str], found: Difference) -> str:
    """Return what one metric says, without the full stop."""
    if not found.is_significant:
        return f"No evidence that {names[0]} and {names[1]} differ: {numbers(found, found.metric)}"
    better, worse = reversed(names) if found.difference > 0 else names
    return f"{better} is better than {worse}: {numbers(found, found.metric)}"


def second_opinion(names: tuple[str, str], differences: Sequence[Difference]) -> list[str]:
    """Return what the other metrics say, each compared with the first."""
    first = differences[0]
    return [opinion(names, first, other) for other in differences[1:]]


def opinion(names: tuple[str, str], first: Difference, other: Difference) -> str:
    """Return whether a second metric says the same as the first."""
    agrees = other.is_significant == first.is_significant
    if agrees and first.is_significant:
        agrees = (other.difference > 0) == (first.difference > 0)
    if agrees:
        return f"{other.metric} agrees: {numbers(other)}"
    if not other.is_significant:
        return f"{other.metric} gives no evidence: {numbers(other)}"
    return f"but by {other.metric}, {verdict(names, other)}"


def numbers(found: Difference, unit: str = "") -> str:
    """Return a difference, seen from the better side, and its p-value."""
    size = f"{abs(found.difference) if found.is_significant else found.difference:+.1f}"
    return f"{size}{' ' if unit else ''}{unit}, {p_in_words(found.p_value)}"


def p_in_words(p_value: float) -> str:
    """Return a p-value with the digits that matter."""
    if p_value < 0.001:
        return "p < 0.001"
    return f"p = {p_value:.3f}" if p_value < 0.1 else f"p = {p_value:.2f}"
