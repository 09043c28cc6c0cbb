"""The data that the server and its workers exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TOO_LONG = "The prompt is too long"  # begins the error that OpenAI's clients know by a code


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
class TranslatorDescription:
    """What a worker reports about a translation model once it is loaded."""

    source: str  # language
    target: str  # language
    tokenizer: str  # the SentencePiece model, in base64
    longest_source: int  # tokens


@dataclass(frozen=True)
class GeneratorDescription:
    """What a worker reports about a decoder-only model once it is loaded."""

    max_positions: int  # the most tokens of a prompt and its continuation together
    has_chat: bool  # whether it was trained on conversations


@dataclass(frozen=True)
class TextRequest:
    """What to continue: prompts, each a text or its tokens, or the messages of a conversation."""

    prompts: list[str | list[int]] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)  # role and content
    options: dict[str, Any] = field(default_factory=dict)  # of `GenerateOptions`, by name


@dataclass(frozen=True)
class Accepted:
    """What a worker says of a request that it begins: its prompts in text and tokens."""

    prompts: list[str]
    prompt_tokens: list[list[int]]


@dataclass(frozen=True)
class TokenRecord:
    """A token that was written, or one that could have been."""

    id: int
    spelling: str  # its bytes, one character each (Latin-1); a token that is no text has none
    log_probability: float | None  # the model's own; the first token of a prompt has none

    @property
    def bytes(self) -> bytes:
        """The bytes that it writes."""
        return self.spelling.encode("latin-1")


@dataclass(frozen=True)
class WrittenToken(TokenRecord):
    """A token with the most probable ones of its place, if they were asked for."""

    alternatives: list[TokenRecord] = field(default_factory=list)


@dataclass(frozen=True)
class Written:
    """What one step added to one text: samples of the first prompt are numbered first."""

    index: int
    text: str  # may be empty, where a character or a stop string may have begun
    tokens: list[WrittenToken] = field(default_factory=list)
    finished: str = ""  # why the text ends: end, stop or length
    cached_tokens: int = 0  # tokens of the prompt that an earlier request left in memory; told once a prompt
    prompt: list[WrittenToken] = field(default_factory=list)  # its tokens, where asked for; told once a text
