"""The data that the server and its workers exchange."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

TOO_LONG = "The prompt is too long"  # the beginning of an error with a code of its own in OpenAI's API


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

    max_positions: int  # maximum tokens of a prompt and its continuation together
    has_chat: bool  # whether it was trained on conversations


@dataclass(frozen=True)
class TextRequest:
    """A request to generate text: prompts, each a text or its tokens, or the messages of a conversation."""

    prompts: list[str | list[int]] = field(default_factory=list)
    messages: list[dict[str, str]] = field(default_factory=list)  # role and content
    options: dict[str, Any] = field(default_factory=dict)  # of `GenerateOptions`, by name


@dataclass(frozen=True)
class Accepted:
    """The event that a request has begun, with its prompts as text and tokens."""

    prompts: list[str]
    prompt_tokens: list[list[int]]


@dataclass(frozen=True)
class TokenRecord:
    """A generated token, or an alternative."""

    id: int
    spelling: str  # its bytes, one character each (Latin-1); none for special tokens
    log_probability: float | None  # the model's; None for the first token of a prompt

    @property
    def bytes(self) -> bytes:
        """The bytes of the token."""
        return self.spelling.encode("latin-1")


@dataclass(frozen=True)
class WrittenToken(TokenRecord):
    """A token with the most probable alternatives at its position, if requested."""

    alternatives: list[TokenRecord] = field(default_factory=list)


@dataclass(frozen=True)
class Written:
    """What one step added to one text; texts are numbered prompt by prompt."""

    index: int
    text: str  # empty while a character or a stop string may be incomplete
    tokens: list[WrittenToken] = field(default_factory=list)
    finished: str = ""  # why the text ends: end, stop or length
    cached_tokens: int = 0  # tokens of the prompt that were cached; sent once per prompt
    prompt: list[WrittenToken] = field(
        default_factory=list
    )  # the prompt's tokens, if requested; sent once per text
