"""What the server asks of its workers, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """What is asked of a sentence; only sentences of one kind are translated together."""

    n_best: int = 1
    has_evidence: bool = False  # with the alignment of words, and what is suspicious
    is_explained: bool = False  # the page that shows what the model did, instead of a translation


@dataclass(frozen=True)
class Found:
    """One translation of one sentence, or the page that explains it."""

    text: str
    probability: float = 1.0  # of a token, on average (geometric)
    is_cut: bool = False
    flags: list[dict[str, str]] = field(default_factory=list)
    links: list[tuple[int, int, int, int, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Description:
    """What a worker says of its model when it is ready."""

    source: str
    target: str
    tokenizer: str  # SentencePiece's bytes in base64
    longest_source: int  # tokens
