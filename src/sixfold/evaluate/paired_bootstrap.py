"""Is B better than A? Paired bootstrap resampling (Koehn, 2004), with the answer in words.

Scores and their statistics are sacreBLEU's. The p-value is ours, because sacreBLEU's `--paired-bs` is a one-sided
test whose side is chosen after seeing the scores: it calls one of two equally good systems better about twice as
often as the threshold promises. Ours is two-sided: how often would two equally good systems differ by this much,
in either direction? It is about twice sacreBLEU's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sixfold.callbacks import OnProgress, no_progress
from sixfold.errors import ConfigError
from sixfold.evaluate.metrics import bleu_tokenizer, refuse_unpaired
from sixfold.evaluate.system import System

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric

Scores = NDArray[np.float64]

NAMES = {"BLEU": "BLEU", "CHRF": "chrF"}
THRESHOLD = 0.05
SMALL_TEST_SET = 300  # sentences: Koehn (2004) shows that this many can be enough


@dataclass(frozen=True)
class Difference:
    """The scores of two systems in one metric, and the significance of their difference."""

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
        """Whether the difference is significant."""
        return self.p_value < THRESHOLD


@dataclass(frozen=True)
class BootstrapComparison:
    """The comparison of two systems on one test set, by metric and in words."""

    names: tuple[str, str]
    num_sentences: int
    samples: int
    seed: int
    differences: tuple[Difference, ...]  # BLEU, chrF
    sentence: str


def compare(
    first: System,
    second: System,
    references: Sequence[str],
    lowercase: bool = False,
    samples: int = 1000,
    seed: int = 12345,
    on_progress: OnProgress = no_progress,
) -> BootstrapComparison:
    """Compare two systems' translations of the same sentences in BLEU and chrF; `on_progress` counts samples."""
    for system in (first, second):
        refuse_unpaired(system.texts, references)
    if samples < 1 or seed < 0:
        raise ConfigError(f"samples must be 1 or more and seed 0 or more, but they are {samples} and {seed}.")
    metrics = metrics_for(second.target_language, lowercase)
    statistics = [
        [statistics_of(metric, system.texts, references) for system in (first, second)] for metric in metrics
    ]
    resampled = resampled_scores(metrics, statistics, samples, seed, on_progress)
    differences = tuple(map(difference, metrics, statistics, resampled))
    names = (first.name, second.name)
    sentence = in_words(names, differences, first.texts == second.texts, len(references), samples)
    return BootstrapComparison(names, len(references), samples, seed, differences, sentence)


def metrics_for(target_language: str, lowercase: bool) -> list[SacreMetric]:
    """Return sacreBLEU's metrics; the first decides the answer."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return [
        BLEU(lowercase=lowercase, tokenize=bleu_tokenizer(target_language), force=True),
        CHRF(lowercase=lowercase),
    ]


def statistics_of(metric: SacreMetric, hypotheses: Sequence[str], references: Sequence[str]) -> Scores:
    """Return each sentence's sufficient statistics (sentences, counts), which are summed for a corpus score."""
    return np.asarray(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)


def score(metric: SacreMetric, statistics: Scores) -> float:
    """Return the corpus score of sentences from their statistics."""
    return float(metric._compute_score_from_stats(list(statistics.sum(axis=0))).score)


def resampled_scores(
    metrics: Sequence[SacreMetric],
    statistics: Sequence[Sequence[Scores]],
    samples: int,
    seed: int,
    on_progress: OnProgress,
) -> Scores:
    """Score both systems on the same random test sets, drawn with replacement (metrics, systems, samples)."""
    # One resampled test set at a time: all of them together would take gigabytes for a large corpus.
    generator = np.random.default_rng(seed)
    num_sentences = len(statistics[0][0])
    scores = np.empty((len(metrics), len(statistics[0]), samples))
    for sample in range(samples):
        drawn = generator.choice(num_sentences, size=num_sentences, replace=True)
        for index, metric in enumerate(metrics):
            scores[index, :, sample] = [score(metric, rows[drawn]) for rows in statistics[index]]
        on_progress(sample + 1)
    return scores


def difference(metric: SacreMetric, statistics: Sequence[Scores], resampled: Scores) -> Difference:
    """Test the difference of two systems in one metric; `resampled` is (systems, samples)."""
    first, second = (score(metric, rows) for rows in statistics)
    sampled_differences = resampled[1] - resampled[0]
    return Difference(
        metric=NAMES[type(metric).__name__],
        first=first,
        second=second,
        difference=second - first,
        p_value=two_sided_p_value(sampled_differences, second - first),
        first_interval=half_interval(resampled[0]),
        second_interval=half_interval(resampled[1]),
        difference_interval=half_interval(sampled_differences),
        signature=str(metric.get_signature()),
    )


def two_sided_p_value(sampled_differences: Scores, observed: float) -> float:
    """Return how often a difference this large arises by chance.

    The resampled differences, shifted to mean 0, are the null distribution (Riezler and Maxwell, 2005). The
    observed sample counts as one of them, so the result is never 0.
    """
    by_chance = np.abs(sampled_differences - sampled_differences.mean())
    # The margin makes differences equal that differ only by rounding.
    at_least_as_large = int((by_chance >= abs(observed) - 1e-9).sum())
    return (at_least_as_large + 1) / (len(sampled_differences) + 1)


def half_interval(scores: Scores) -> float:
    """Return half the width of the central 95% interval of the scores."""
    ordered = np.sort(scores)
    cut = len(ordered) // 40
    return float(ordered[len(ordered) - cut - 1] - ordered[cut]) / 2


# The answer in words.


def in_words(
    names: tuple[str, str],
    differences: Sequence[Difference],
    is_identical: bool,
    num_sentences: int,
    samples: int,
) -> str:
    """Return the answer, how it was found, and a warning if the test set is small."""
    if is_identical:
        return f"{names[0]} and {names[1]} give the same translation for every sentence."
    main, *others = differences
    answer = "; ".join([verdict(names, main), *(opinion(names, main, other) for other in others)])
    method = f" (Two-sided paired bootstrap, {samples:,} samples; p < {THRESHOLD} counts as evidence.)"
    small = f" The test set is small ({num_sentences:,} sentences): it can only show large differences."
    return f"{answer}.{method}{small if num_sentences < SMALL_TEST_SET else ''}"


def verdict(names: tuple[str, str], found: Difference) -> str:
    """Return the verdict of one metric, without the full stop."""
    first, second = names
    size, p_value = found.difference, p_in_words(found.p_value)
    if not found.is_significant:
        return f"No evidence that {first} and {second} differ: {second} {size:+.1f} {found.metric}, {p_value}"
    better, worse = (second, first) if size > 0 else (first, second)
    return f"{better} is better than {worse}: {abs(size):+.1f} {found.metric}, {p_value}"


def opinion(names: tuple[str, str], main: Difference, other: Difference) -> str:
    """Return whether a second metric agrees with the main one."""
    p_value = p_in_words(other.p_value)
    if not other.is_significant:
        return f"{other.metric} {'gives no evidence' if main.is_significant else 'agrees'} ({p_value})"
    if main.is_significant and (other.difference > 0) == (main.difference > 0):
        return f"{other.metric} agrees ({abs(other.difference):+.1f}, {p_value})"
    return f"but {verdict(names, other)}"


def p_in_words(p_value: float) -> str:
    """Return a p-value with enough digits that rounding does not carry it across the threshold."""
    if p_value < 0.001:
        return "p < 0.001"
    digits = 3 if p_value < 0.1 else 2
    while (round(p_value, digits) < THRESHOLD) != (p_value < THRESHOLD):
        digits += 1
    return f"p = {p_value:.{digits}f}"
