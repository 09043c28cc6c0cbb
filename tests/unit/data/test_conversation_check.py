"""The check of conversations: it finds what is wrong, and nothing in what is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sixfold.data.checks.conversations import check_conversations
from sixfold.data.checks.report import Count, Report
from sixfold.data.content import Record
from sixfold.data.conversations import Conversations
from sixfold.data.streams import Input
from sixfold.errors import DataError
from sixfold.tasks.generate.check import check

U, A, S = "user", "assistant", "system"


def talk(*messages: tuple[str, str]) -> Record:
    """A record of messages, each a role and what is said."""
    return {"messages": [{"role": role, "content": content} for role, content in messages]}


def pair(prompt: str, response: str) -> Record:
    return {"prompt": prompt, "response": response}


def healthy(count: int = 30) -> list[Record]:
    return [pair(f"What is {n} and {n}?", f"That makes {2 * n}, I should say.") for n in range(count)]


def written(path: Path, *rows: Record | str) -> Conversations:
    """Write rows to a file and open it; text is written as it is."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return Conversations((Input(path),))


def kinds(report: Report) -> dict[str, tuple[int, ...]]:
    """Return where each kind of fault was found."""
    return {finding.kind: finding.lines for finding in report.findings}


def test_healthy_conversations_have_no_findings(tmp_path: Path) -> None:
    several = talk((S, "Be brief."), (U, "Who are you?"), (A, "A model."), (U, "Whose?"), (A, "Yours."))
    report = check_conversations(written(tmp_path / "a.jsonl", *healthy(), several))
    assert report.findings == ()
    assert report.counts == (Count("conversations", 31, 31),)
    assert (report.lengths["prompt"].p99_words, report.lengths["answer"].p99_words) == (5, 6)


@pytest.mark.parametrize(
    ("kind", "row", "is_removed"),
    [
        ("empty message", pair("Why?", " \n"), True),
        ("empty message", pair("", "Because."), True),
        ("order of roles", talk((A, "Hello."), (U, "Hi."), (A, "How are you?")), True),
        ("order of roles", talk((U, "One."), (U, "Two."), (A, "Three.")), True),
        ("no answer at the end", talk((U, "One?"), (A, "Two."), (U, "Three?")), False),
        ("answer repeats the question", pair("Say it again!", "say it  again!"), True),
        ("control characters", pair("Ring!", "\x07"), True),
        ("encoding damage", pair("A cat?", "Ein KÃ¤tzchen."), True),
        ("duplicate conversation", healthy()[3], True),
        ("same prompt, another answer", pair("What is 3 and 3?", "Seven."), False),
        ("unreadable", pair("Why?", None), True),  # type: ignore[arg-type]
        ("unreadable", talk(("robot", "Beep."), (A, "Boop.")), True),
        ("unreadable", talk((U, "Beep."), (S, "Boop."), (A, "Bop.")), True),
        ("unreadable", {"messages": "none"}, True),
        ("unreadable", {"text": "one"}, True),
        ("unreadable", "{", True),
    ],
)
def test_each_fault_is_found_where_it_is(kind: str, row: Record | str, is_removed: bool, tmp_path: Path) -> None:
    report = check_conversations(written(tmp_path / "a.jsonl", *healthy(), row, *healthy(40)[30:]))
    assert kinds(report) == {kind: (31,)}
    assert report.counts == (Count("conversations", 41, 41 - is_removed),)


def test_an_answer_to_many_prompts_is_told_in_its_words(tmp_path: Path) -> None:
    refusals = [pair(f"Question {n}?", "I am sorry, but I cannot help with that.") for n in range(25)]
    report = check_conversations(written(tmp_path / "a.jsonl", *healthy(), *refusals))
    [finding] = report.findings
    assert (finding.kind, finding.count, finding.is_removed) == ("stock answer", 25, False)
    assert "“I am sorry, but I cannot help with that.” (25 times)" in finding.meaning


def test_what_the_test_set_has_is_found_regardless_of_case_and_spacing(tmp_path: Path) -> None:
    train = written(tmp_path / "train.jsonl", *healthy())
    test = written(
        tmp_path / "test.jsonl",
        talk((U, "what is 4  and 4?"), (A, "that makes 8, I SHOULD say.")),
        pair("WHAT IS 9 AND 9?", "Eighteen."),
    )
    report = check_conversations(train, test)
    assert kinds(report) == {"conversation of the test set": (5,), "prompt of the test set": (10,)}
    assert report.counts[0].clean == 28


def test_clean_conversations_are_written_as_they_were_read(tmp_path: Path) -> None:
    rows = [f'{{"prompt": "{n}?",  "response": "{n}!", "note": {n}}}' for n in range(5)]
    conversations = written(tmp_path / "a.jsonl", *rows[:3], pair("?", ""), "{", *rows[3:], rows[0])
    report = check(conversations, None, tmp_path / "clean", lambda _: None)
    assert report.written == (tmp_path / "clean.jsonl",)
    assert (tmp_path / "clean.jsonl").read_text().splitlines() == rows


def test_a_test_set_must_be_of_the_same_kind(tmp_path: Path) -> None:
    from sixfold.data.texts import open_texts

    conversations = written(tmp_path / "a.jsonl", *healthy())
    (tmp_path / "test.txt").write_text("plain text\n")
    with pytest.raises(DataError, match="must both be conversations, or both plain text"):
        check(conversations, open_texts([tmp_path / "test.txt"]), None, lambda _: None)


def test_a_damaged_test_set_is_refused(tmp_path: Path) -> None:
    conversations = written(tmp_path / "a.jsonl", *healthy())
    with pytest.raises(DataError, match=r"test\.jsonl, line 2: not JSON"):
        check_conversations(conversations, written(tmp_path / "test.jsonl", *healthy(1), "{"))
