"""Tests of labelled texts: tables and folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.callbacks import no_progress
from sixfold.data.checks.report import CheckRequest
from sixfold.data.labelled import Columns, LabelledText, open_labelled
from sixfold.errors import DataError
from sixfold.tasks.understand.classify import Classify


def read(path: Path, **columns: str) -> list[LabelledText]:
    return list(open_labelled([path], Columns(**columns)))


@pytest.mark.parametrize(
    ("name", "content", "text", "label"),
    [
        ("a.csv", 'text,label\n"hello, ""you""\nthere",good\nbye,bad\n', 'hello, "you"\nthere', "good"),
        ("b.csv", "id;review;stars\n1;a great film;5\n2;awful;1\n", "a great film", "5"),
        ("c.tsv", 'a "great film\tpos\nnot so good\tneg\ngreat\tpos\nbad film\tneg\n', 'a "great film', "pos"),
        ("d.jsonl", '{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n', "a", "1"),
        (
            "e.csv",
            "utterance,klass\nturn on the light,x\nturn on the lamp,x\nturn it off,y\n",
            "turn on the light",
            "x",
        ),
    ],
)
def test_text_and_label_are_found_by_name_and_by_content(
    tmp_path: Path, name: str, content: str, text: str, label: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    first = read(tmp_path / name)[0]
    assert (first.text, first.labels) == (text, (label,))


def test_two_texts_are_judged_together(tmp_path: Path) -> None:
    path = tmp_path / "nli.tsv"
    path.write_text("premise\thypothesis\tlabel\nit rains\tit is wet\tentailment\n", encoding="utf-8")
    assert read(path) == [LabelledText("it rains", "it is wet", ("entailment",), 2)]


def test_a_text_can_have_several_labels_or_none(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "labels": ["x", "y"]}\n{"text": "b", "labels": []}\n')
    (tmp_path / "b.csv").write_text("text,labels\na,x|y\nb,\n")
    assert [each.labels for each in read(tmp_path / "a.jsonl")] == [("x", "y"), ()]
    assert [each.labels for each in read(tmp_path / "b.csv", separator="|")] == [("x", "y"), ()]


def test_folders_are_named_after_their_class(tmp_path: Path) -> None:
    for place, text in (
        ("good/1.txt", "fine"),
        ("bad/1.txt", "poor"),
        ("bad/2.txt", "awful"),
        ("note", "left out"),
    ):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    found = open_labelled([tmp_path])
    assert [(each.text, *each.labels) for each in found] == [("poor", "bad"), ("awful", "bad"), ("fine", "good")]
    assert found.left_out == (tmp_path / "note",)


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", 'text,label\n"never closed,good\n', {}, "line 2: not a row of CSV"),
        ("b.csv", "text,label\na,b,c\n", {}, "line 2: found 3 columns, where the table has 2"),
        ("c.csv", "text,label\na,\n", {}, "line 2: the label is empty"),
        ("d.csv", "text,label\na,b\n", {"label": "lable"}, "has no column 'lable'"),
        ("e.csv", "text,text\na,b\n", {}, "two columns have the same name"),
        ("f.jsonl", '{"text": null, "label": "a"}\n', {}, "line 1: 'text' must be text"),
        ("g.csv", "", {}, "is empty"),
        ("h.csv", "label\na\nb\n", {}, "has one column"),
        ("i.csv", "text,label\n\x00\x00,a\n", {}, "NUL"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, name: str, content: str, columns: dict[str, str], message: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read(tmp_path / name, **columns)


def test_the_check_finds_contradictions_repeats_leaks_and_labels_that_look_alike(tmp_path: Path) -> None:
    rows = ["a good film,positive"] * 2 + [
        "A good  film,negative",
        "fine,positive",
        ",positive",
        "odd\x07,postive",
    ]
    rows += [f"text {number},positive" for number in range(30)]
    (tmp_path / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "test.csv").write_text("text,label\nFine,negative\nother,negative\n", encoding="utf-8")
    request = CheckRequest([tmp_path / "train.csv"], [tmp_path / "test.csv"], {}, None)
    report = Classify().check(request, no_progress)
    found = {finding.kind: finding.lines for finding in report.findings}
    assert found == {
        "duplicate": (3,),
        "same text, another label": (4,),
        "text of the test set": (5,),
        "empty text": (6,),
        "control characters": (7,),
    }
    assert report.facts[-1] == "are these one label? 'positive' (34) and 'postive' (1)"
    assert (report.counts[0].total, report.counts[0].clean) == (36, 32)
