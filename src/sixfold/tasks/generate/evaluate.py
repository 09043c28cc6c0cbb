"""Evaluate how well a decoder-only model predicts texts of any length, or the answers in conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sixfold.callbacks import OnProgress
from sixfold.data.conversations import Conversations
from sixfold.data.texts import Texts
from sixfold.decode.generate import Generator
from sixfold.decode.text_scoring import bits_per_byte, perplexity
from sixfold.errors import ConfigError, DataError
from sixfold.tasks.generate.processor import TextProcessor

TOKENS_AT_ONCE = 1 << 16  # tokens of the documents that are scored together


@dataclass(frozen=True)
class Document:
    """The tokens of a document, whether each is scored, and the number of bytes of those scored."""

    tokens: list[int]
    is_target: list[bool]
    num_bytes: int


@dataclass(frozen=True)
class TextEvaluation:
    """A model's scores on a test set; of conversations, only the answers are scored."""

    name: str
    num_documents: int
    num_tokens: int  # scored, end tokens included
    num_bytes: int  # of their text
    log_probability: float
    bits_per_byte: float
    perplexity: float | None  # per token; None if it overflows
    context: int  # tokens per window; windows overlap by half


def evaluate_texts(
    generator: Generator, name: str, examples: Texts | Conversations, on_progress: OnProgress
) -> TextEvaluation:
    """Score all documents; a text longer than the context is read in windows that overlap by half."""
    total, documents, tokens, size = 0.0, 0, 0, 0
    for group in grouped(documents_of(generator, examples)):
        scores = generator.token_log_probabilities([each.tokens for each in group])
        for document, numbers in zip(group, scores, strict=True):
            of_targets = [each for each, counts in zip(numbers, document.is_target[1:], strict=True) if counts]
            total, tokens, size = total + sum(of_targets), tokens + len(of_targets), size + document.num_bytes
        on_progress(documents := documents + len(group))
    if not size:
        raise DataError("There is no text to evaluate on.", "Give files that contain text.")
    found = perplexity(total, tokens)
    bits = bits_per_byte(-total, size)
    finite = found if found < float("inf") else None
    return TextEvaluation(name, documents, tokens, size, total, bits, finite, generator.engine.max_positions)


def grouped(documents: Iterator[Document]) -> Iterator[list[Document]]:
    """Group documents to score together."""
    group: list[Document] = []
    for document in documents:
        group.append(document)
        if sum(len(each.tokens) for each in group) >= TOKENS_AT_ONCE:
            yield group
            group = []
    if group:
        yield group


def documents_of(generator: Generator, examples: Texts | Conversations) -> Iterator[Document]:
    """Yield the documents as in training, each after the model's start token."""
    own = generator.processor
    processor = TextProcessor(generator.tokenizer, own.decoder_start, own.chat)
    if isinstance(examples, Texts):
        yield from whole_texts(processor, examples, generator.start_token)
    elif own.chat is None:
        raise ConfigError("These are conversations, and the model has no chat template.", "Give texts.")
    else:
        yield from conversations(processor, examples, generator.start_token)


def whole_texts(processor: TextProcessor, texts: Texts, start: int) -> Iterator[Document]:
    """Yield texts, all of whose tokens are scored."""
    tokens, size = list[int](), 0
    for piece in texts:
        [stretch] = processor.encode([(piece, not piece.is_first)])
        tokens += stretch.columns["tokens"]
        size += len(piece.text.encode())
        if piece.is_last:
            tokens = started(tokens, start)
            yield Document(tokens, [True] * len(tokens), size)
            tokens, size = [], 0


def conversations(processor: TextProcessor, examples: Conversations, start: int) -> Iterator[Document]:
    """Yield conversations, of which the assistant's messages are scored."""
    for conversation in examples:
        columns = processor.encode_conversation(conversation).columns
        tokens = started(columns["tokens"], start)
        added = len(tokens) - len(columns["tokens"])
        is_target = [False] * added + [bool(each) for each in columns["answer"]]
        yield Document(tokens, is_target, sum(columns["sizes"]))


def started(tokens: Sequence[int], start: int) -> list[int]:
    """Return the tokens after the start token."""
    return [*tokens] if tokens[:1] == [start] else [start, *tokens]
