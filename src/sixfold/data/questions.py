"""Questions with their answers in a text: SQuAD's JSON (1.1 and 2.0), or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sixfold.data.content import Record, format_of_content, json_text, records_of, refuse_binary
from sixfold.data.streams import FileOrInput, Input, find_input, first_bytes, naming
from sixfold.errors import DataError

LARGEST_FILE = 1 << 30  # bytes: SQuAD's JSON is one value, which must fit into memory
FORMS = (
    "Give SQuAD's JSON, or JSON Lines: "
    '{"question": …, "context": …, "answers": [{"text": …, "answer_start": 0}]}; '
    "an empty list means that the text does not answer the question."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the character of its context where it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a text, and its answers there; none where the text does not answer it."""

    id: str
    question: str
    context: str
    answers: tuple[Answer, ...]
    line: int  # or the number of the question in SQuAD's JSON, counted from 1
    num_moved: int = 0  # answers that stood elsewhere than was said


@dataclass(frozen=True)
class Questions:
    """Questions that can be read again and again: every `iter()` starts from the beginning."""

    inputs: tuple[Input, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The input files in order; standard input is `-`."""
        return tuple(source.path for source in self.inputs)

    @property
    def parts(self) -> Sequence[Questions]:
        """The questions of each file on their own."""
        return [Questions((source,)) for source in self.inputs]

    @property
    def described(self) -> str:
        """What is answered."""
        return "questions with answers in a text"

    def __iter__(self) -> Iterator[Question]:
        for source in self.inputs:
            yield from questions_of(source)


def open_questions(inputs: Iterable[FileOrInput]) -> Questions:
    """Open files of questions."""
    found = tuple(find_input(path) for path in inputs)
    for source in found:
        refuse_binary(source)
    return Questions(found)


def questions_of(source: Input) -> Iterator[Question]:
    """Yield the questions of a file."""
    if is_squad(source):
        yield from questions_of_squad(source)
        return
    for line, record, where in records_of(source):
        yield question_of(record, json_text(record, "context", where), line, where)


def is_squad(source: Input) -> bool:
    """Return whether a file is one JSON value, and not a record on each line."""
    return format_of_content(first_bytes(source)) != "jsonl" or "data" in first_keys(source)


def first_keys(source: Input) -> set[str]:
    """Return the keys of the record on the first line."""
    record = next((record for _, record, _ in records_of(source)), {})
    return set(record)


def questions_of_squad(source: Input) -> Iterator[Question]:
    """Yield the questions of SQuAD's JSON: data, paragraphs, qas."""
    number = 0
    for article_number, article in enumerate(items(parsed(source), "data", source.name), start=1):
        where = f"{source.name}, article {article_number:,}"
        for paragraph_number, paragraph in enumerate(items(article, "paragraphs", where), start=1):
            place = f"{where}, paragraph {paragraph_number:,}"
            context = json_text(paragraph, "context", place)
            for record in items(paragraph, "qas", place):
                number += 1
                yield question_of(record, context, number, f"{place}, question {number:,}")


def parsed(source: Input) -> Record:
    """Return the JSON object that a file holds."""
    with naming(source.name), source.open() as file:
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise DataError(f"{source.name} is larger than {LARGEST_FILE >> 30} GiB.", "Write it as JSON Lines.")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{source.name}: not JSON ({error}).", FORMS) from error
    if not isinstance(value, dict):
        raise DataError(f"{source.name}: expected a JSON object with 'data'.", FORMS)
    return value


def items(record: Record, name: str, where: str) -> list[Record]:
    """Return a list of objects in a record."""
    found = record.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise DataError(f"{where}: {name!r} must be a list of objects.", FORMS)
    return found


def question_of(record: Record, context: str, line: int, where: str) -> Question:
    """Return a question; an answer that stands elsewhere in its context than it says is found there."""
    question = json_text(record, "question", where)
    given = [] if record.get("is_impossible") is True else given_answers(record, where)
    found = [placed(answer, context, where) for answer in given]
    moved = sum(new.start != old.start for new, old in zip(found, given, strict=True))
    return Question(str(record.get("id", line)), question, context, tuple(found), line, moved)


def given_answers(record: Record, where: str) -> list[Answer]:
    """Return the answers as they are written: a list of objects, or an object of two lists."""
    answers = record.get("answers", [])
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, list) and isinstance(starts, list) and len(texts) == len(starts):
            answers = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if not isinstance(answers, list) or not all(isinstance(each, dict) for each in answers):
        raise DataError(f"{where}: 'answers' must be a list of objects.", FORMS)
    return [answer_of(each, where) for each in answers]


def answer_of(record: Record, where: str) -> Answer:
    """Return one answer."""
    text, start = json_text(record, "text", where), record.get("answer_start")
    if type(start) is not int or start < 0 or not text.strip():
        raise DataError(f"{where}: an answer must have a text and the character where it begins.", FORMS)
    return Answer(text, start)


def placed(answer: Answer, context: str, where: str) -> Answer:
    """Return the answer where it stands in its context, nearest to where it is said to be."""
    if context.startswith(answer.text, answer.start):
        return answer
    places = list(occurrences(answer.text, context))
    if not places:
        raise DataError(
            f"{where}: the answer {answer.text!r:.60} does not occur in its context.",
            "An answer is a stretch of the context, letter for letter.",
        )
    return Answer(answer.text, min(places, key=lambda place: abs(place - answer.start)))


def occurrences(text: str, context: str) -> Iterator[int]:
    """Yield every place of a context where a text begins."""
    place = context.find(text)
    while place >= 0:
        yield place
        place = context.find(text, place + 1)
