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
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True)
class PromptPart:
    """A piece of a prompt: the template's own text may hold special tokens, a message never does."""

    text: str
    is_template: bool
    is_answer: bool = False  # what the assistant writes: its messages and the tokens that end them


@dataclass(frozen=True)
class ChatTemplate:
    """The text before and after a message of each role, and at the start of a conversation."""

    system: tuple[str, str]
    user: tuple[str, str]
    assistant: tuple[str, str]
    begin: str = ""
    default_system: str = ""  # the system message of a conversation that has none; empty: no message
    strips: bool = False  # white space around a message is removed

    def parts(self, messages: Sequence[Message], to_be_answered: bool = True) -> Iterator[PromptPart]:
        """Yield the conversation as text, and the opening of an answer if one is to follow."""
        yield PromptPart(self.begin, True)
        if self.default_system and (not messages or messages[0].role != "system"):
            messages = [Message("system", self.default_system), *messages]
        for message in messages:
            before, after = self.around(message.role)
            is_answer = message.role == "assistant"
            yield PromptPart(before, True)
            yield PromptPart(message.content.strip() if self.strips else message.content, False, is_answer)
            yield PromptPart(after, True, is_answer)
        if to_be_answered:
            yield PromptPart(self.assistant[0], True)

    def around(self, role: Role) -> tuple[str, str]:
        """Return the text before and after a message of a role."""
        return {"system": self.system, "user": self.user, "assistant": self.assistant}[role]


# The template of models trained here on conversations: a message begins with a token that no text can encode to.
ROLE_TOKENS = ("<|system|>", "<|user|>", "<|assistant|>")
SIXFOLD_TEMPLATE = ChatTemplate(
    system=(ROLE_TOKENS[0], ""), user=(ROLE_TOKENS[1], ""), assistant=(ROLE_TOKENS[2], "</s>")
)


def conversation_tokens(
    tokenizer: AnyTokenizer, template: ChatTemplate, messages: Sequence[Message]
) -> tuple[list[int], list[bool]]:
    """Return the token ids of a conversation, and for each whether the assistant writes it."""
    tokens, is_answer = list[int](), list[bool]()
    for is_own, parts in groupby(template.parts(messages, to_be_answered=False), key=lambda part: part.is_answer):
        found = tokenizer.encode_parts([*parts])
        tokens += found
        is_answer += [is_own] * len(found)
    return tokens, is_answer


def prompt_tokens(tokenizer: AnyTokenizer, template: ChatTemplate, messages: Sequence[Message]) -> list[int]:
    """Return the token ids of a conversation and of the opening of an answer."""
    tokens = list[int]()
    for _, parts in groupby(template.parts(messages), key=lambda part: part.is_answer):
        tokens += tokenizer.encode_parts([*parts])
    return tokens
