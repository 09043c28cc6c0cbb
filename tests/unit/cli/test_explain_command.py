"""`sixfold explain` and `sixfold train --watch`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from sixfold.models.folder import load_any_tokenizer, load_info, load_members, save_model
from sixfold.models.weights import weights_of

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


@pytest.mark.parametrize("task", ["translate", "generate"])
def test_a_training_can_be_watched(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, task: str
) -> None:
    files = [tmp_path / f"train.{language}" for language in ("en", "de")]
    for file in files:
        file.write_text("".join(f"{word} {other}\n" for word in "abcdefghij" for other in "klmnopqrst"))
    settings = (
        "model.layers=1", "model.d_model=16", "model.d_ff=16", "model.heads=2", "data.vocabulary=300",
        "train.steps=100000",
    )  # fmt: skip
    run = start(
        "train", *files, "--task", task, "-o", tmp_path / "model", "--watch",
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


def test_a_continuation_is_the_beginning_of_what_generate_writes(
    command: Command, chat_model: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    code, out, err = command("explain", chat_model, "one two", "--max-tokens", "9", "-o", page)
    assert (code, err) == (0, f"{page}: {page.stat().st_size / 1000:,.0f} kB; open it in a browser\n")
    assert out == command("generate", chat_model, "one two", "--max-tokens", "9")[1]
    found = data_of(page)
    assert (found["text"], found["continuation"] + "\n") == ("one two", out)
    assert len(found["tokens"]) - found["num_given"] == 9


def test_settings_and_messages_reach_the_model(command: Command, chat_model: Path, tmp_path: Path) -> None:
    page, greedy = tmp_path / "page.html", ("--set", "decode.temperature=0", "--set", "decode.max_tokens=5")
    code, out, err = command("explain", chat_model, "one", "--chat", *greedy, "-o", page)
    assert code == 0, err
    assert out == command("generate", chat_model, "one", "--chat", *greedy)[1]
    assert data_of(page)["how"].startswith("Greedy")


def test_a_text_is_read_and_not_continued(command: Command, chat_model: Path, tmp_path: Path) -> None:
    page, texts = tmp_path / "page.html", tmp_path / "texts.txt"
    texts.write_text("one two\n\nthree\nfour five\n", encoding="utf-8")
    code, out, err = command("explain", chat_model, "one\ntwo", "--read", "--sample", texts, "-o", page)
    assert code == 0, err
    found = data_of(page)
    assert out == found["how"] + "\n"
    assert found["num_given"] == len(found["tokens"])
    assert found["head_roles"]["num_texts"] == 3


def data_of(page: Path) -> dict[str, Any]:
    """Return the data of a page."""
    [content] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"))
    return json.loads(content)


def test_what_makes_no_sense_for_a_text_is_refused(command: Command, chat_model: Path, tmp_path: Path) -> None:
    long = "one two " * 300
    for arguments, message in (
        (("text", "--beam", "2"), "takes no --beam"),
        (("text", "--read", "--chat"), "takes no --chat"),
        (("text", "--read", "--max-tokens", "4"), "takes no --max-tokens"),
        (("text", "--read", "--set", "decode.seed=4"), "takes no --set"),
        (("text", "--set", "decode.samples=2"), "decode.samples"),
        (("text", "--max-tokens", "0"), "max_tokens"),
        (("", "--read"), "no text to read"),
        ((long,), "context holds 256"),
        ((long, "--read"), "context holds 256"),
        (("--training", "--read"), "takes no --read"),
    ):
        code, _, err = command("explain", chat_model, *arguments, "-o", tmp_path / "page.html")
        assert (code, message in err) == (2, True), (arguments, err)
    code, _, err = command("explain", PHRASES, "text", "--read", "-o", tmp_path / "page.html")
    assert (code, "takes no --read" in err) == (2, True)
    assert not (tmp_path / "page.html").exists()


def test_a_model_of_a_task_without_a_page_is_refused(command: Command, chat_model: Path, tmp_path: Path) -> None:
    info, model = load_info(chat_model), tmp_path / "model"
    weights = [weights_of(each) for each in load_members(chat_model, info)]
    tokenizer = load_any_tokenizer(chat_model, info)
    save_model(model, info.model_copy(update={"task": "imagine"}), weights, tokenizer, "a model\n")
    code, _, err = command("explain", model, "text", "-o", tmp_path / "page.html")
    assert code == 2
    assert "no page for the task 'imagine'" in err
    assert "--training" in err
