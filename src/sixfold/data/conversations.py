"""Conversations from JSON Lines: `{"prompt", "response"}`, or `{"messages": [{"role", "content"}, …]}`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from sixfold.data.content import Record, json_text, parse_record, rows_of
from sixfold.data.streams import Input
from sixfold.errors import DataError
from sixfold.text.chat import Message, Role

FORMS = 'Write {"prompt": …, "response": …} or {"messages": [{"role": …, "content": …}, …]}.'


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages, and their line in the file, counted from 1."""

    messages: tuple[Message, ...]
    line: int


@dataclass(frozen=True)
class Conversations:
    """Conversations that can be read again and again: every `iter()` starts from the beginning."""

    inputs: tuple[Input, ...]
    left_out: tuple[Path, ...] = ()  # files of folders that are not text

    @property
    def paths(self) -> tuple[Path, ...]:
        """The input files in order; standard input is `-`."""
        return tuple(source.path for source in self.inputs)

    def __iter__(self) -> Iterator[Conversation]:
        for source in self.inputs:
            for line, text, where in rows_of(source):
                yield conversation_of(line, text, where)


def conversation_of(line: int, text: str, where: str) -> Conversation:
    """Return the conversation of a line of JSON."""
    return Conversation(messages_of(parse_record(text, where), where), line)


def messages_of(record: Record, where: str) -> tuple[Message, ...]:
    """Return the messages of a record, at least one of them by the assistant."""
    if "messages" not in record:
        prompt, response = (json_text(record, name, where) for name in ("prompt", "response"))
        return Message("user", prompt), Message("assistant", response)
    found = record["messages"]
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DataError(f"{where}: 'messages' must be a list of objects.", FORMS)
    messages = tuple(message_of(each, where) for each in found)
    if not any(message.role == "assistant" for message in messages):
        raise DataError(f"{where}: no message of the assistant has text, so there is nothing to learn.", FORMS)
    if any(message.role == "system" for message in messages[1:]):
        raise DataError(f"{where}: a system message may only come first.", FORMS)
    return messages


def message_of(record: Record, where: str) -> Message:
    """Return one message."""
    for role in get_args(Role):
        if record.get("role") == role:
            return Message(role, json_text(record, "content", where))
    raise DataError(
        f"{where}: 'role' must be {', '.join(get_args(Role))}, found {record.get('role')!r:.40}.", FORMS
    )
