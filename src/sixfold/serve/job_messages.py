"""The data that the server and its workers exchange."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class JobOptions:
    """What to compute for a sentence; all sentences of a batch have the same options."""

    n_best: int = 1
    has_details: bool = False  # add word alignment and quality warnings
    is_explanation: bool = False  # return the explain page instead of translations


@dataclass(frozen=True)
class SentenceTranslation:
    """One translation of a sentence, or the HTML of its explain page."""

    text: str
    probability: float = 1.0  # geometric mean over the tokens
    is_cut: bool = False  # the source or the translation reached the model's length limit
    flags: list[dict[str, str]] = field(default_factory=list)  # quality warnings: fault and message
    links: list[tuple[int, int, int, int, float]] = field(default_factory=list)  # source span, target span, weight


@dataclass(frozen=True)
class ModelDescription:
    """What a worker reports about its model once it is loaded."""

    source: str  # language
    target: str  # language
    tokenizer: str  # the SentencePiece model, in base64
    longest_source: int  # tokens
