"""Prepare a corpus: from text to rows of tokens in shards, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from sixfold.callbacks import OnProgress
from sixfold.data.conversations import Conversation, Conversations
from sixfold.data.packing import Packer, Stretch, WholePacker
from sixfold.data.shards import Corpus, ShardWriter
from sixfold.data.texts import Piece
from sixfold.errors import DataError
from sixfold.tasks.generate.held_out import ByDocument, choose_held_out
from sixfold.tasks.generate.processor import TextProcessor
from sixfold.tasks.generate.survey import Examples, Survey, hash_of_conversation
from sixfold.training.task import Given, Prepared

CHUNK = 16  # pieces encoded at a time

Divided = Iterator[tuple[str, Piece, bool]]


class Splits:
    """The writers of both splits."""

    def __init__(self, folder: Path, processor: TextProcessor, context: int, is_whole: bool) -> None:
        self.processor, self.context = processor, context
        kind = WholePacker if is_whole else Packer
        self.packers: dict[str, Packer | WholePacker] = {name: kind(context) for name in ("train", "valid")}
        self.writers = {
            name: ShardWriter(folder / name, processor.columns(is_whole, has_sizes=name == "valid"))
            for name in ("train", "valid")
        }

    def add(self, split: str, stretches: Iterable[Stretch]) -> None:
        """Append stretches to a split."""
        self.writers[split].write(self.packers[split].add(stretches))

    def close(self, given: Given) -> None:
        """Write the rows that are not full; refuse an empty split."""
        for name, packer in self.packers.items():
            is_cut_short = name == "train" and isinstance(packer, Packer)
            self.writers[name].write(packer.full_rest() if is_cut_short else packer.rest())  # type: ignore[union-attr]
            self.writers[name].close()
            if self.writers[name].num_records == 0:
                raise nothing_to(name, given)


def nothing_to(split: str, given: Given) -> DataError:
    """Say that a split is empty, and why."""
    verb = {"train": "train", "valid": "validate"}[split]
    if given.valid is not None:
        files = ", ".join(map(str, {"train": given.train, "valid": given.valid}[split].paths))
        return DataError(f"There is nothing to {verb} on in {files}.", "Give files that hold some text.")
    return DataError(
        f"Nothing is left to {verb} on: what is held out is chosen by a hash of each text, or of each prompt, and "
        "equal ones stay together.",
        "Give text to validate on with --valid FILE, or texts and prompts that differ.",
    )


def prepare(folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
    """Encode all text into shards, and report what was left out; without validation text, hold some out."""
    if given.survey.has_conversations:
        return prepare_conversations(folder, given, on_progress)
    splits = Splits(folder, given.processor, given.recipe.data.context, is_whole=False)
    done = 0
    for chunk in chunks(divided(given), CHUNK):
        encoded = given.processor.encode([(piece, goes_on) for _, piece, goes_on in chunk])
        for (split, *_), stretch in zip(chunk, encoded, strict=True):
            splits.add(split, [stretch])
        on_progress(done := done + sum(map(len, encoded)) // given.recipe.data.context)
    splits.close(given)
    return Prepared(folder)


def divided(given: Given) -> Divided:
    """Yield every piece with its split, and whether it continues the piece before it in that split."""
    if given.valid is None:
        return choose_held_out(given.survey, given.recipe.data.valid_bytes).split(given.train)
    both = (("train", given.train), ("valid", given.valid))
    return ((split, piece, not piece.is_first) for split, pieces in both for piece in pieces)


def prepare_conversations(folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
    """Encode conversations into shards; those longer than a row are left out and counted."""
    context, too_long, done = given.recipe.data.context, list[int](), 0
    splits = Splits(folder, given.processor, context, is_whole=True)
    for split, conversation in divided_conversations(given):
        stretch = given.processor.encode_conversation(conversation)
        if len(stretch) > context + 1:
            too_long.append(conversation.line)
        else:
            splits.add(split, [stretch])
        on_progress(done := done + 1)
    if len(too_long) == done:
        raise DataError(f"Every conversation is longer than {context} tokens.", "Set a larger data.context.")
    splits.close(given)
    return Prepared(folder, tuple(left_out(too_long, context)))


def divided_conversations(given: Given) -> Iterator[tuple[str, Conversation]]:
    """Yield every conversation with its split, chosen by a hash of the first message to the assistant."""
    if given.valid is not None:
        return chain((("train", each) for each in given.train), (("valid", each) for each in given.valid))
    held_out = choose_held_out(given.survey, given.recipe.data.valid_bytes)
    assert isinstance(held_out, ByDocument)
    return (
        ("valid" if hash_of_conversation(each) <= held_out.threshold else "train", each) for each in given.train
    )


def left_out(lines: list[int], context: int) -> Iterator[str]:
    """Return a line on the conversations left out."""
    if lines:
        yield (
            f"left out {len(lines):,} conversations: longer than {context} tokens (the first on line {lines[0]:,})"
        )


def prepare_sample(folder: Path, given: Given, most: int) -> Corpus:
    """Encode a small part of the sample."""
    surveyed: Survey = given.survey
    packer = (WholePacker if surveyed.has_conversations else Packer)(given.recipe.data.context)
    sample = list(islice(surveyed.sample, most))
    stretches = encode_sample(given.processor, sample)
    writer = ShardWriter(folder, given.processor.columns(surveyed.has_conversations, has_sizes=True))
    fitting = (each for each in stretches if isinstance(packer, Packer) or len(each) <= packer.context + 1)
    writer.write(packer.add(fitting))
    writer.write(packer.rest())
    writer.close()
    return Corpus(folder)


def encode_sample(processor: TextProcessor, sample: Iterable[Piece | Conversation]) -> list[Stretch]:
    """Return the tokens of separate examples."""
    pieces = [(each, False) for each in sample if isinstance(each, Piece)]
    conversations = [each for each in sample if isinstance(each, Conversation)]
    return processor.encode(pieces) + [processor.encode_conversation(each) for each in conversations]


def chunks(divided: Divided, size: int) -> Iterator[list[tuple[str, Piece, bool]]]:
    """Group pieces into lists."""
    while chunk := list(islice(divided, size)):
        yield chunk


def refuse_mixed(train: Examples, valid: Examples | None) -> None:
    """Raise if only one of training and validation data is conversations."""
    if valid is not None and isinstance(train, Conversations) != isinstance(valid, Conversations):
        raise DataError("Training and validation data must both be conversations, or both plain text.")
