"""One pass over text or conversations: counts, and an evenly spaced sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sixfold.callbacks import OnProgress
from sixfold.data.conversations import Conversation, Conversations
from sixfold.data.even_sample import EvenSample
from sixfold.data.hash_sets import hash_texts
from sixfold.data.texts import Piece, Texts, stretches_of
from sixfold.errors import DataError

STRETCH_CHARACTERS = 2000  # of the sample
SAMPLE_STRETCHES = 4000
FEWEST_CHARACTERS = 1000
FEWEST_CONVERSATIONS = 10

Examples = Texts | Conversations


@dataclass(frozen=True)
class Survey:
    """The result of the pass, which the plan is based on."""

    num_examples: int  # stretches of text, or conversations
    num_documents: int
    num_characters: int
    num_bytes: int
    smallest_hash: int  # of all documents
    sample: Sequence[Piece | Conversation]
    separation: str  # how documents are separated, in words
    left_out: tuple[Path, ...]
    has_conversations: bool

    @property
    def texts(self) -> list[str]:
        """The texts of the sample."""
        return [text for each in self.sample for text in texts_of(each)]


def texts_of(example: Piece | Conversation) -> list[str]:
    """Return the text of a stretch, or the messages of a conversation."""
    return [example.text] if isinstance(example, Piece) else [message.content for message in example.messages]


def survey(examples: Examples, on_progress: OnProgress) -> Survey:
    """Count the text, and keep a sample."""
    if isinstance(examples, Conversations):
        return survey_conversations(examples, on_progress)
    sample = EvenSample[Piece](SAMPLE_STRETCHES)
    documents = characters = num_bytes = 0
    smallest = 2**64 - 1
    for piece in examples:
        documents += piece.is_first
        characters, num_bytes = characters + len(piece.text), num_bytes + len(piece.text.encode())
        if piece.is_first:
            smallest = min(smallest, hash_of(piece.text))
        for stretch in stretches_of(piece, STRETCH_CHARACTERS):
            sample.offer(stretch)
        on_progress(characters)
    if characters < FEWEST_CHARACTERS:
        raise DataError(
            f"There are only {characters:,} characters; at least {FEWEST_CHARACTERS:,} are needed for training.",
            "To get text for a first try: sixfold corpus wikitext-2",
        )
    return Survey(
        sample.num_offered, documents, characters, num_bytes, smallest, sample.items, examples.separation,
        examples.left_out, has_conversations=False,
    )  # fmt: skip


def survey_conversations(conversations: Conversations, on_progress: OnProgress) -> Survey:
    """Count conversations, and keep a sample."""
    sample = EvenSample[Conversation](SAMPLE_STRETCHES)
    characters = num_bytes = 0
    smallest = 2**64 - 1
    for conversation in conversations:
        for text in texts_of(conversation):
            characters, num_bytes = characters + len(text), num_bytes + len(text.encode())
        smallest = min(smallest, hash_of_conversation(conversation))
        sample.offer(conversation)
        on_progress(characters)
    count = sample.num_offered
    if count < FEWEST_CONVERSATIONS:
        raise DataError(
            f"There are only {count} conversations; at least {FEWEST_CONVERSATIONS} are needed for training."
        )
    return Survey(
        count, count, characters, num_bytes, smallest, sample.items, "", conversations.left_out,
        has_conversations=True,
    )  # fmt: skip


def hash_of(text: str) -> int:
    """Return a 64-bit number that depends on a text alone."""
    return int(hash_texts([text])[0])


def hash_of_conversation(conversation: Conversation) -> int:
    """Return a 64-bit number that depends on the first message to the assistant."""
    [first, *_] = [message.content for message in conversation.messages if message.role != "system"]
    return hash_of(first)
