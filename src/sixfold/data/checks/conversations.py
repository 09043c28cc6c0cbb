"""The check of conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.checks.characters import CONTROL, DAMAGE, has_control_characters, has_encoding_damage
from sixfold.data.checks.mixture import Mixture
from sixfold.data.checks.repeats import Repeats
from sixfold.data.checks.report import (
    Batch,
    FaultKind,
    LengthTally,
    Place,
    Report,
    Tally,
    batches_of,
    normalised,
    refuse,
    sorted_findings,
)
from sixfold.data.content import rows_of
from sixfold.data.conversations import Conversation, Conversations, conversation_of
from sixfold.data.hash_sets import Hashes, SeenHashes, contains, hash_texts
from sixfold.errors import DataError

EMPTY = FaultKind("empty message", "Somebody says nothing: an empty answer teaches to answer nothing.")
ROLES = FaultKind(
    "order of roles", "The assistant speaks first, or one side twice in a row: is a message missing?"
)
UNANSWERED = FaultKind(
    "no answer at the end",
    "The last message is not the assistant's, so nothing is learned from it.",
    is_removed=False,
)
ECHO = FaultKind("answer repeats the question", "The answer is what was asked, which teaches copying: remove it.")
DUPLICATE = FaultKind(
    "duplicate conversation", "The same messages occur earlier; a repeat only gives them more weight."
)
OTHER_ANSWER = FaultKind(
    "same prompt, another answer",
    "An earlier conversation answers the same prompt differently: a contradiction, or variety that you want?",
    is_removed=False,
)
TEST_CONVERSATION = FaultKind(
    "conversation of the test set", "The test set has this conversation, which would improve its score: remove it."
)
TEST_PROMPT = FaultKind(
    "prompt of the test set", "The test set has this prompt, which would improve its score: remove it."
)
STOCK_ANSWER = "Answers that are given to many prompts: a model learns to give them to every other one."


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation, and the line of JSON that it was read from."""

    conversation: Conversation
    json: str

    @property
    def prompt(self) -> list[str]:
        """What is said before the assistant speaks first."""
        roles = [message.role for message in self.conversation.messages]
        return self.contents()[: roles.index("assistant")]

    @property
    def answers(self) -> list[str]:
        """What the assistant says."""
        return [message.content for message in self.conversation.messages if message.role == "assistant"]

    def contents(self) -> list[str]:
        """Return what is said."""
        return [message.content for message in self.conversation.messages]


RowBatch = Batch[Row]


def check_conversations(
    conversations: Conversations,
    test: Conversations | None = None,
    on_progress: OnProgress = no_progress,
    keep: Callable[[Row], object] = lambda _: None,
) -> Report:
    """Check every conversation; `on_progress` gets the count so far, `keep` each clean one in its order."""
    check = ConversationCheck(None if test is None else HeldOutConversations(test))
    for batch in batches_of(located(conversations, check.conversations.add_unreadable), num_characters):
        check.mark(batch)
        for row in batch.clean():
            keep(row)
        check.add(batch)
        on_progress(check.conversations.total)
    return check.report(conversations)


def located(
    conversations: Conversations, on_unreadable: Callable[[Place, DataError], object]
) -> Iterator[tuple[Place, Row]]:
    """Yield all conversations with their places; `on_unreadable` gets the records that cannot be read."""
    for source in conversations.inputs:
        for line, text, where in rows_of(source):
            place = Place(source.path, line)
            try:
                row = Row(conversation_of(line, text, where), text)
            except DataError as error:
                on_unreadable(place, error)
                continue
            yield place, row


def num_characters(row: Row) -> int:
    """Return the length of a record."""
    return len(row.json)


class ConversationCheck:
    """What has been found so far."""

    def __init__(self, held_out: HeldOutConversations | None) -> None:
        self.conversations = Tally[Row]("conversations")
        self.held_out = held_out
        self.prompts, self.answers = LengthTally(), LengthTally()
        self.seen, self.seen_prompts, self.repeats, self.mixture = SeenHashes(), SeenHashes(), Repeats(), Mixture()

    def mark(self, batch: RowBatch) -> None:
        """Mark the faults of conversations."""
        for number, row in enumerate(batch.examples):
            if kinds := [*faults_of(row)]:
                batch.faults[number] = kinds
        whole, prompts = exact_hashes(batch)
        came = self.seen.add(whole)
        batch.mark(DUPLICATE, came)
        batch.mark(OTHER_ANSWER, self.seen_prompts.add(prompts) & ~came)
        if self.held_out is not None:
            self.held_out.mark_leaks(batch)

    def add(self, batch: RowBatch) -> None:
        """Count a batch."""
        self.conversations.add(batch)
        self.prompts.add([" ".join(row.prompt) for row in batch.examples])
        self.answers.add([answer for row in batch.examples for answer in row.answers])
        self.repeats.add([" ".join(row.answers) for row in batch.examples], batch.places)
        for place, row in zip(batch.places, batch.examples, strict=True):
            self.mixture.add(place, " ".join(row.contents()), is_end=True)

    def report(self, conversations: Conversations) -> Report:
        """Return what was found."""
        facts, others = self.mixture.told()
        often = self.repeats.finding("stock answer", STOCK_ANSWER, self.conversations.unit)
        return Report(
            counts=(self.conversations.count(),),
            lengths={"prompt": self.prompts.lengths(), "answer": self.answers.lengths()},
            findings=sorted_findings([*self.conversations.findings(), *often, *others]),
            num_files=len(conversations.inputs),
            facts=tuple(facts),
        )


def faults_of(row: Row) -> Iterator[FaultKind]:
    """Yield the faults that a conversation has by itself."""
    contents = row.contents()
    roles = [message.role for message in row.conversation.messages if message.role != "system"]
    if not all(map(str.strip, contents)):
        yield EMPTY
    if any(role != expected for role, expected in zip(roles, ("user", "assistant") * len(roles), strict=False)):
        yield ROLES
    if roles[-1] != "assistant":
        yield UNANSWERED
    if any(
        normalised(said) == normalised(answer) for said, answer in zip(row.prompt[-1:], row.answers, strict=False)
    ):
        yield ECHO
    if any(map(has_control_characters, contents)):
        yield CONTROL
    if any(map(has_encoding_damage, contents)):
        yield DAMAGE


def exact_hashes(batch: RowBatch) -> tuple[Hashes, Hashes]:
    """Return the hashes of conversations, and of what is said before the assistant speaks first."""
    return (
        hash_texts("\0".join(row.contents()) for row in batch.examples),
        hash_texts("\0".join(row.prompt) for row in batch.examples),
    )


class HeldOutConversations:
    """The conversations of a test set, and their prompts, regardless of case and spacing."""

    def __init__(self, test: Conversations) -> None:
        found = [self.hashes(batch) for batch in batches_of(located(test, refuse), num_characters)]
        whole, prompts = zip(*found, strict=True) if found else ((), ())
        none = np.zeros(0, dtype=np.uint64)
        self.whole = np.unique(np.concatenate([*whole, none]))
        self.prompts = np.unique(np.concatenate([*prompts, none]))

    def hashes(self, batch: RowBatch) -> tuple[Hashes, Hashes]:
        """Return the hashes of conversations, and of their prompts."""
        return (
            hash_texts("\0".join(map(normalised, row.contents())) for row in batch.examples),
            hash_texts("\0".join(map(normalised, row.prompt)) for row in batch.examples),
        )

    def mark_leaks(self, batch: RowBatch) -> None:
        """Mark the conversations that the test set has, and those that share only their prompt with it."""
        whole, prompts = self.hashes(batch)
        has_whole = contains(self.whole, whole)
        batch.mark(TEST_CONVERSATION, has_whole)
        batch.mark(TEST_PROMPT, contains(self.prompts, prompts) & ~has_whole)
