"""`sixfold explain` and `sixfold train --watch`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

Command = Callable[..., tuple[int, str, str]]
PHRASES = Path(__file__).parents[2] / "compat" / "format-1-phrases"


def test_a_sentence_becomes_a_page(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, out, err = command("explain", PHRASES, "The dog is tired.", "-o", page)
    assert code == 0, err
    assert out.strip()
    assert str(page) in err
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_heads_can_be_measured_on_a_file_of_sentences(command: Command, tmp_path: Path) -> None:
    sample, page = tmp_path / "sample.txt", tmp_path / "page.html"
    sample.write_text("The dog is tired.\n\nI am here.\n", encoding="utf-8")
    code, _, err = command("explain", PHRASES, "The dog is tired.", "--sample", sample, "-o", page)
    assert code == 0, err
    assert '"num_texts":2' in page.read_text(encoding="utf-8")


def test_a_training_becomes_a_page(command: Command, small_model: object, tmp_path: Path) -> None:
    page = tmp_path / "training.html"
    folder = small_model.folder  # type: ignore[attr-defined]
    code, _, err = command("explain", folder, "--training", "-o", page)
    assert code == 0, err
    assert '"score":' in page.read_text(encoding="utf-8")


def test_a_page_replaces_nothing_but_a_file_of_its_own(command: Command, tmp_path: Path) -> None:
    model, device = tmp_path / "model", tmp_path / "pipe"
    shutil.copytree(PHRASES, model)
    os.mkfifo(device)
    for place in (model / "weights.safetensors", device, tmp_path, tmp_path / "nowhere" / "page.html"):
        code, out, err = command("explain", model, "The dog is tired.", "-o", place)
        assert (code, out) == (2, ""), err
        assert "error: " in err
    assert (model / "weights.safetensors").read_bytes() == (PHRASES / "weights.safetensors").read_bytes()


def test_a_link_is_followed(command: Command, tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to(tmp_path / "page.html")
    assert command("explain", PHRASES, "The dog is tired.", "-o", tmp_path / "link.html")[0] == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "page.html").is_file()


def test_a_damaged_journal_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "model" / "training").mkdir(parents=True)
    (tmp_path / "model" / "training" / "log.jsonl").write_text("{garbage\n")
    code, _, err = command("explain", tmp_path / "model", "--training", "-o", tmp_path / "page.html")
    assert code == 2
    assert "damaged" in err


def test_what_makes_no_sense_is_refused(command: Command, tmp_path: Path) -> None:
    for arguments in (
        ("explain", PHRASES),
        ("explain", PHRASES, "text", "--training"),
        ("explain", PHRASES, "--training", "--beam", "2"),
        ("explain", PHRASES, "two\nlines"),
        ("explain", PHRASES, ""),
        ("explain", PHRASES, "text", "--beam", "40"),
        ("explain", tmp_path, "text"),
        ("explain", tmp_path, "--training"),
    ):
        code, _, err = command(*arguments, "-o", tmp_path / "page.html")
        assert code == 2, arguments
        assert "error: " in err
        assert "Traceback" not in err
    assert not (tmp_path / "page.html").exists()


def test_a_training_can_be_watched(start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    for language in ("en", "de"):
        lines = "".join(f"{word} {other}\n" for word in "abcdefghij" for other in "klmnopqrst")
        (tmp_path / f"train.{language}").write_text(lines)
    settings = (
        "model.layers=1", "model.d_model=16", "model.d_ff=16", "model.heads=2", "data.vocabulary=300",
        "data.valid_pairs=5", "train.steps=100000",
    )  # fmt: skip
    run = start(
        "train", tmp_path / "train.en", tmp_path / "train.de", "-o", tmp_path / "model", "--watch",
        *(part for each in settings for part in ("--set", each)),
    )  # fmt: skip
    try:
        assert run.stderr is not None
        first = run.stderr.readline().decode()
        [address] = re.findall(r"http://127\.0\.0\.1:\d+/", first)
        assert b"<!DOCTYPE html>" in urlopen(address, timeout=20).read()
    finally:
        run.kill()
        run.communicate()
