"""Tagged texts: a tag for each word, from CoNLL columns or JSON Lines, and where each word stands in the text.

Entities are written B-PER I-PER O (BIO); BIOES is read as BIO. Tags without a prefix, such as parts of speech, are
each word's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

from sixfold.data.content import (
    Record,
    files_below,
    format_of_content,
    format_of_name,
    json_text,
    records_of,
    refuse_binary,
)
from sixfold.data.streams import FileOrInput, Input, find_input, first_bytes, lines_of
from sixfold.errors import DataError
from sixfold.text.words import Span, words

OUTSIDE = "O"
UNIVERSAL_COLUMNS, UNIVERSAL_TAG = 10, 3  # CoNLL-U has ten columns; the fourth is the part of speech
DOCUMENT_START = "-DOCSTART-"
JSON_FORMS = (
    'Write {"text": …, "spans": [{"start": 0, "end": 4, "label": "PER"}]} or {"tokens": […], "tags": […]}.'
)


@dataclass(frozen=True, slots=True)
class Entity:
    """A labelled stretch: of words in a sequence of tags, or of characters in a text."""

    start: int
    end: int  # the one after the last
    label: str


@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text, where its words stand, and the tag of each."""

    text: str
    words: tuple[Span, ...]
    tags: tuple[str, ...]
    line: int
    num_repaired: int = 0  # tags that could not follow those before them
    num_widened: int = 0  # spans that began or ended inside a word


@dataclass(frozen=True)
class TaggedTexts:
    """Tagged texts that can be read again and again: every `iter()` starts from the beginning."""

    inputs: tuple[Input, ...]
    left_out: tuple[Path, ...] = ()  # files of folders that are not text

    @property
    def paths(self) -> tuple[Path, ...]:
        """The input files in order; standard input is `-`."""
        return tuple(source.path for source in self.inputs)

    @property
    def parts(self) -> Sequence[TaggedTexts]:
        """The texts of each file on their own."""
        return [TaggedTexts((source,)) for source in self.inputs]

    @property
    def described(self) -> str:
        """How texts are tagged."""
        return "a tag for each word"

    def __iter__(self) -> Iterator[TaggedText]:
        for source in self.inputs:
            is_json = "jsonl" in (format_of_name(source.path), format_of_content(first_bytes(source)))
            yield from records_with_tags(source) if is_json else sentences(source)


def open_tagged(inputs: Iterable[FileOrInput]) -> TaggedTexts:
    """Open files of tagged text, or folders of them."""
    found = list[Input]()
    for path in inputs:
        if isinstance(path, Input) or not Path(path).is_dir():
            found.append(find_input(path))
        else:
            found += [Input(file) for file in files_below(Path(path)) if file.stat().st_size]
    for source in found:
        refuse_binary(source)
    if not found:
        raise DataError("There are no files of tagged text.", "Give files with a word and its tag on each line.")
    return TaggedTexts(tuple(found))


# CoNLL columns


def sentences(source: Input) -> Iterator[TaggedText]:
    """Yield the sentences of a file with a word and its tag on each line, and a blank line after each sentence."""
    rows, begin = list[tuple[str, str]](), 1
    num_columns = 0
    for line, text in enumerate(lines_of(source), start=1):
        cells = cells_of_line(text)
        if not cells or cells[0] == DOCUMENT_START:
            if rows:
                yield sentence(rows, begin)
            rows = []
            continue
        if is_comment(text, cells):
            continue
        num_columns = num_columns or len(cells)
        if len(cells) != num_columns or num_columns < 2:
            raise wrong_columns(source, line, len(cells), num_columns)
        if not rows:
            begin = line
        if num_columns == UNIVERSAL_COLUMNS and not cells[0].isdecimal():
            continue  # CoNLL-U counts words; 1-2 and 1.1 are not words of the text
        rows.append(word_and_tag(cells))
    if rows:
        yield sentence(rows, begin)


def is_comment(text: str, cells: Sequence[str]) -> bool:
    """Return whether a line says something about a sentence, as CoNLL-U does: `# text = …`."""
    return text.startswith("#") and "\t" not in text and len(cells) != 2


def cells_of_line(text: str) -> list[str]:
    """Return the columns of a line: divided by tabs, or by blanks where there is no tab."""
    if "\t" in text:
        return [cell.strip() for cell in text.split("\t")] if text.strip() else []
    return text.split()


def word_and_tag(cells: Sequence[str]) -> tuple[str, str]:
    """Return the word and its tag: the last column, or the part of speech in CoNLL-U."""
    if len(cells) == UNIVERSAL_COLUMNS:
        return cells[1], cells[UNIVERSAL_TAG]
    return cells[0], cells[-1]


def wrong_columns(source: Input, line: int, found: int, expected: int) -> DataError:
    """Return the error for a line that is no word with its tag."""
    wanted = f"{expected} columns, as on the lines before" if expected > 1 else "a word and its tag"
    counted = "1 column" if found == 1 else f"{found} columns"
    return DataError(
        f"{source.name}, line {line:,}: found {counted}, expected {wanted}.",
        "Write a word, a tab and its tag on each line, and a blank line after each sentence.",
    )


def sentence(rows: Sequence[tuple[str, str]], line: int) -> TaggedText:
    """Return the text of a sentence, its words joined by single spaces."""
    found, place = list[Span](), 0
    for word, _ in rows:
        found.append((place, place + len(word)))
        place += len(word) + 1
    tags, num_repaired = in_bio([tag for _, tag in rows])
    return TaggedText(" ".join(word for word, _ in rows), tuple(found), tags, line, num_repaired)


# JSON Lines


def records_with_tags(source: Input) -> Iterator[TaggedText]:
    """Yield the texts of JSON Lines, with spans of characters or with a tag for each token."""
    for line, record, where in records_of(source):
        if "tokens" in record:
            yield tagged_tokens(record, line, where)
        else:
            yield tagged_spans(record, line, where)


def tagged_tokens(record: Record, line: int, where: str) -> TaggedText:
    """Return the text of `{"tokens", "tags"}`."""
    tokens, tags = record["tokens"], record.get("tags", record.get("ner_tags", record.get("labels")))
    if not is_list_of_texts(tokens) or not is_list_of_texts(tags):
        raise DataError(f"{where}: 'tokens' and 'tags' must be lists of texts.", JSON_FORMS)
    if len(tokens) != len(tags):
        raise DataError(f"{where}: {len(tokens)} tokens, but {len(tags)} tags.", JSON_FORMS)
    for token in tokens:
        json_text({"tokens": token}, "tokens", where)
    return sentence(list(zip(tokens, tags, strict=True)), line)


def is_list_of_texts(value: object) -> TypeGuard[list[str]]:
    """Return whether a value of JSON is a list of texts."""
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def tagged_spans(record: Record, line: int, where: str) -> TaggedText:
    """Return the text of `{"text", "spans"}` with a tag for each of its words."""
    text = json_text(record, "text", where)
    spans = record.get("spans", record.get("entities"))
    if not isinstance(spans, list):
        raise DataError(f"{where}: 'spans' must be a list.", JSON_FORMS)
    entities = sorted((entity_of(each, len(text), where) for each in spans), key=lambda each: each.start)
    for left, right in pairwise(entities):
        if right.start < left.end:
            raise DataError(
                f"{where}: the spans {left.start}–{left.end} and {right.start}–{right.end} overlap.",
                "A word has one tag: keep one of the two.",
            )
    return with_tags(text, entities, line)


def entity_of(span: object, length: int, where: str) -> Entity:
    """Return a span as `{"start", "end", "label"}` or `[start, end, label]` says it."""
    parts = [span.get(name) for name in ("start", "end", "label")] if isinstance(span, dict) else span
    if isinstance(parts, list) and len(parts) == 3:
        start, end, label = parts
        if type(start) is int and type(end) is int and isinstance(label, str) and 0 <= start < end <= length:
            return Entity(start, end, label)
    raise DataError(f"{where}: {span!r:.60} is no span of this text ({length:,} characters).", JSON_FORMS)


def with_tags(text: str, entities: Sequence[Entity], line: int) -> TaggedText:
    """Return a text with BIO tags of the words that its entities touch; those that cut a word are widened."""
    found = words(text)
    tags, widened = [OUTSIDE] * len(found), 0
    for entity in entities:
        inside = [place for place, (start, end) in enumerate(found) if start < entity.end and end > entity.start]
        if not inside:
            continue  # a span of blanks
        tags[inside[0]] = f"B-{entity.label}"
        for place in inside[1:]:
            tags[place] = f"I-{entity.label}"
        stripped = text[entity.start : entity.end]
        first = entity.start + len(stripped) - len(stripped.lstrip())
        last = entity.end - (len(stripped) - len(stripped.rstrip()))
        widened += (found[inside[0]][0], found[inside[-1]][1]) != (first, last)
    return TaggedText(text, tuple(found), tuple(tags), line, num_widened=widened)


# Tags


def in_bio(tags: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return tags in BIO, and how many had to be repaired; tags without prefixes stay as they are.

    I-X that does not go on with an X begins one: B-X. E-X and S-X of BIOES are I-X and B-X.
    """
    if not all(tag == OUTSIDE or (tag[:2] in ("B-", "I-", "E-", "S-") and tag[2:]) for tag in tags):
        return tuple(tags), 0
    has_ends = any(tag[:2] in ("E-", "S-") for tag in tags)
    found, repaired, open_label = list[str](), 0, ""
    for tag in tags:
        prefix, label = tag[:1], tag[2:]
        goes_on = prefix in "IE" and label == open_label and bool(label)
        repaired += prefix in "IE" and not goes_on
        found.append(tag if tag == OUTSIDE else f"{'I' if goes_on else 'B'}-{label}")
        open_label = "" if has_ends and prefix in "ES" else label
    return tuple(found), repaired


def entities_of(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of BIO tags as stretches of words; I-X that goes on with nothing begins an entity."""
    found = list[Entity]()
    for place, tag in enumerate(tags):
        prefix, label = tag[:2], tag[2:]
        if prefix == "I-" and found and found[-1].end == place and found[-1].label == label:
            found[-1] = Entity(found[-1].start, place + 1, label)
        elif prefix in ("B-", "I-"):
            found.append(Entity(place, place + 1, label))
    return found


def are_entities(labels: Iterable[str]) -> bool:
    """Return whether tags mark entities, so that stretches are scored and not single words."""
    return all(label == OUTSIDE or label[:2] in ("B-", "I-") for label in labels)
