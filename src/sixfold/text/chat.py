"""Chat templates: how a conversation becomes the text that a model continues. Plain text, never code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sixfold.text.any_tokenizer import AnyTokenizer

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """What one side of a conversation said."""

    role: Role
    content: str


@dataclass(frozen=True)
class Part:
    """A stretch of a prompt: a mark of the template may hold special tokens, what people wrote never does."""

    text: str
    is_mark: bool
    is_answer: bool = False  # what the assistant writes: its messages and what ends them


@dataclass(frozen=True)
class ChatTemplate:
    """What stands before and after a message of each role, and before the first of all."""

    system: tuple[str, str]
    user: tuple[str, str]
    assistant: tuple[str, str]
    begin: str = ""
    default_system: str = ""  # the system message of a conversation that has none; empty: no message
    strips: bool = False  # white space around a message is dropped

    def parts(self, messages: Sequence[Message], to_be_answered: bool = True) -> Iterator[Part]:
        """Yield the conversation as text, and what stands before an answer if one is to follow."""
        yield Part(self.begin, True)
        if self.default_system and (not messages or messages[0].role != "system"):
            messages = [Message("system", self.default_system), *messages]
        for message in messages:
            before, after = self.around(message.role)
            is_answer = message.role == "assistant"
            yield Part(before, True)
            yield Part(message.content.strip() if self.strips else message.content, False, is_answer)
            yield Part(after, True, is_answer)
        if to_be_answered:
            yield Part(self.assistant[0], True)

    def around(self, role: Role) -> tuple[str, str]:
        """Return what stands before and after a message of a role."""
        return {"system": self.system, "user": self.user, "assistant": self.assistant}[role]


# Of models that we train on conversations: tokens that no text can spell stand before a message.
MARKS = ("<|system|>", "<|user|>", "<|assistant|>")
OURS = ChatTemplate(system=(MARKS[0], ""), user=(MARKS[1], ""), assistant=(MARKS[2], "</s>"))


def conversation_tokens(
    tokenizer: AnyTokenizer, template: ChatTemplate, messages: Sequence[Message]
) -> tuple[list[int], list[bool]]:
    """Return the tokens of a conversation, and which of them the assistant writes."""
    tokens, is_answer = list[int](), list[bool]()
    for is_own, parts in groupby(template.parts(messages, to_be_answered=False), key=lambda part: part.is_answer):
        found = tokenizer.encode_parts([*parts])
        tokens += found
        is_answer += [is_own] * len(found)
    return tokens, is_answer


def prompt_tokens(tokenizer: AnyTokenizer, template: ChatTemplate, messages: Sequence[Message]) -> list[int]:
    """Return the tokens of a conversation and of what stands before an answer."""
    tokens = list[int]()
    for _, parts in groupby(template.parts(messages), key=lambda part: part.is_answer):
        tokens += tokenizer.encode_parts([*parts])
    return tokens
