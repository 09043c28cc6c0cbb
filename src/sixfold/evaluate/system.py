"""A system's translations of a test set, by a model or from a file, and their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sixfold.evaluate.metrics import Metric, corpus_metrics


@dataclass(frozen=True)
class System:
    """The translations of a test set, and the perplexity of its references."""

    name: str
    texts: list[str]
    target_language: str = ""
    perplexity: float | None = None  # of the references, per token; None for a file of translations


@dataclass(frozen=True)
class Evaluation:
    """The scores of a system."""

    name: str
    num_sentences: int
    metrics: tuple[Metric, ...]


def evaluate_system(system: System, references: Sequence[str], lowercase: bool = False) -> Evaluation:
    """Compute every metric."""
    metrics = corpus_metrics(system.texts, references, system.target_language, lowercase)
    if system.perplexity is not None:
        metrics = (*metrics, Metric("perplexity", system.perplexity, "per subword token of the references"))
    return Evaluation(system.name, len(references), metrics)
