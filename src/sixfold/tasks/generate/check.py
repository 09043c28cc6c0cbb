"""The check of text and of conversations before a training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sixfold.callbacks import OnProgress
from sixfold.data.checks.clean import refuse_overwriting, text_path, writing_rows, writing_texts
from sixfold.data.checks.conversations import check_conversations
from sixfold.data.checks.report import Report
from sixfold.data.checks.texts import check_texts
from sixfold.data.conversations import Conversations
from sixfold.data.texts import Texts
from sixfold.errors import DataError
from sixfold.tasks.generate.survey import Examples


def check(examples: Examples, test: Examples | None, prefix: Path | None, on_progress: OnProgress) -> Report:
    """Check text or conversations; with a prefix, write what is clean to a file whose name begins so."""
    if isinstance(examples, Texts) and not isinstance(test, Conversations):
        return checked_texts(examples, test, prefix, on_progress)
    if isinstance(examples, Conversations) and not isinstance(test, Texts):
        return checked_conversations(examples, test, prefix, on_progress)
    raise DataError("The text and the test set must both be conversations, or both plain text.")


def checked_texts(texts: Texts, test: Texts | None, prefix: Path | None, on_progress: OnProgress) -> Report:
    """Check text."""
    if prefix is None:
        return check_texts(texts, test, on_progress)
    path = text_path(prefix, texts)
    refuse_overwriting([path], texts.paths)
    with writing_texts(path, texts) as write:
        return replace(check_texts(texts, test, on_progress, write), written=(path,))


def checked_conversations(
    conversations: Conversations, test: Conversations | None, prefix: Path | None, on_progress: OnProgress
) -> Report:
    """Check conversations."""
    if prefix is None:
        return check_conversations(conversations, test, on_progress)
    path = prefix.with_name(f"{prefix.name}.jsonl")
    refuse_overwriting([path], conversations.paths)
    with writing_rows(path) as keep:
        return replace(check_conversations(conversations, test, on_progress, keep), written=(path,))
