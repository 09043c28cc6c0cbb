"""`sixfold check`, as a person runs it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sixfold.cli import main

Run = Callable[..., tuple[int, str, str]]
INTERRUPTED = """
import os, signal
from sixfold.cli import main
from sixfold.data.checks import pairs as check

check_pairs = check.check_pairs

def interrupted(*arguments, keep):
    def keep_and_press_ctrl_c(pair):
        keep(pair)
        print(len(os.listdir()), "files", flush=True)
        signal.raise_signal(signal.SIGINT)

    return check_pairs(*arguments, keep=keep_and_press_ctrl_c)

check.check_pairs = interrupted
main()
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `sixfold check` and returns its exit code, output and messages."""

    def check(*arguments: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sixfold", "check", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return check


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A corpus of five pairs: one is blank, one repeats the first."""
    (tmp_path / "train.en").write_text("a cat sleeps\na dog runs\n\na bird sings\na cat sleeps\n")
    (tmp_path / "train.de").write_text(
        "eine Katze schläft\nein Hund rennt\nleer\nein Vogel singt\neine Katze schläft\n"
    )
    return tmp_path / "train.en", tmp_path / "train.de"


def test_it_prints_a_table_and_a_verdict_and_ends_well(run: Run, files: tuple[Path, Path]) -> None:
    code, out, _ = run(*files)
    assert code == 0
    assert "empty side" in out
    assert "duplicate pair" in out
    assert out.splitlines()[-1] == "5 pairs, 2 of them (40.00%) with a fault; 3 are clean."


def test_it_says_so_when_there_is_nothing_to_say(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a cat sleeps\teine Katze schläft\n")
    _, out, _ = run(tmp_path / "a.tsv")
    assert out.splitlines()[-1] == "1 pair, and no faults were found."


def test_json_is_one_object(run: Run, files: tuple[Path, Path]) -> None:
    _, out, _ = run(*files, "--json")
    report = json.loads(out)
    assert (report["num_pairs"], report["num_clean"]) == (5, 3)
    assert {finding["kind"]: finding["lines"] for finding in report["findings"]} == {
        "duplicate pair": [5],
        "empty side": [3],
    }


def test_the_test_set_is_looked_for(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "test.en").write_text("A dog  runs\n")
    (tmp_path / "test.de").write_text("Ein Hund rennt\n")
    _, out, _ = run(*files, "--test", tmp_path / "test.en", tmp_path / "test.de", "--json")
    assert {"pair of the test set"} <= {finding["kind"] for finding in json.loads(out)["findings"]}


def test_clean_files_are_written_and_counted(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, messages = run(*files, "--write-clean", tmp_path / "clean")
    assert code == 0
    assert "kept 3 of 5 pairs" in messages
    assert (tmp_path / "clean.en").read_text() == "a cat sleeps\na dog runs\na bird sings\n"
    assert (tmp_path / "clean.de").read_text() == "eine Katze schläft\nein Hund rennt\nein Vogel singt\n"


def test_one_file_is_cleaned_into_a_tsv_file(run: Run, tmp_path: Path) -> None:
    lines = [{"source": "a\tcat", "target": "eine Katze"}, {"source": "", "target": "leer"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(tmp_path / "a.jsonl", "--write-clean", tmp_path / "clean")
    assert (tmp_path / "clean.tsv").read_text() == "a cat\teine Katze\n"


def test_it_says_which_keys_were_read_and_reads_those_that_are_asked_for(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"question": "one", "answer": "eins", "note": "?"}\n' * 2)
    code, _, messages = run(tmp_path / "a.jsonl")
    assert code == 2
    assert "found question, answer, note" in messages
    assert "--set 'data.languages=[question, answer]'" in messages
    code, output, _ = run(tmp_path / "a.jsonl", "--set", "data.languages=[answer, question]")
    assert code == 0
    assert "source (answer): 1.0 words on average" in output
    assert "target (question): 1.0 words on average" in output


def test_it_reads_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a cat\teine Katze\n")))
    assert run("-")[0] == 0


def test_unreadable_input_ends_with_two_and_a_hint(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "short.de").write_text("eine Katze schläft\n")
    for arguments in (
        (files[0], tmp_path / "none"),
        (files[0], files[0]),
        (files[0], tmp_path / "short.de"),
    ):
        code, out, messages = run(*arguments)
        assert (code, out) == (2, "")
        assert messages.startswith("error: ")
        assert "\nhint: " in messages


def test_clean_files_are_not_left_when_the_input_is_bad(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    files[1].write_bytes(files[1].read_bytes() + b"\xff\n")
    files[0].write_bytes(files[0].read_bytes() + b"one more\n")
    before = sorted(tmp_path.iterdir())
    assert run(*files, "--write-clean", tmp_path / "clean")[0] == 2
    assert sorted(tmp_path.iterdir()) == before


def test_an_input_is_never_overwritten(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    before = files[0].read_bytes()
    code, _, messages = run(*files, "--write-clean", tmp_path / "train")
    assert code == 2
    assert "would replace its own input" in messages
    assert files[0].read_bytes() == before


def test_a_folder_that_is_not_there_is_named(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, messages = run(*files, "--write-clean", tmp_path / "none" / "clean")
    assert code == 2
    assert f"There is no folder {tmp_path / 'none'}" in messages


# Plain text and conversations


def test_plain_text_is_known_as_train_knows_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("A cat sleeps.\nA bell \x07 rings.\n")
    code, out, _ = run(tmp_path / "book.txt")
    assert code == 0
    assert "documents: one per file" in out
    assert out.splitlines()[-1] == "2 lines, 1 of them (50.00%) with a fault; 1 is clean. 1 document, clean."
    (tmp_path / "other.txt").write_text("A dog runs.\nA bird sings.\n")
    _, out, _ = run(tmp_path / "book.txt", tmp_path / "other.txt")  # two files are a pair
    assert out.splitlines()[-1].startswith("2 pairs")
    _, out, _ = run(tmp_path / "book.txt", tmp_path / "other.txt", "--task", "generate", "--json")
    report = json.loads(out)
    assert (report["task"], report["num_lines"], report["num_clean"]) == ("generate", 4, 3)
    assert (report["num_documents"], report["num_clean_documents"]) == (2, 2)
    assert report["findings"][0]["files"] == [str(tmp_path / "book.txt")]


def test_conversations_are_checked_against_a_test_set_and_written(run: Run, tmp_path: Path) -> None:
    rows = [json.dumps({"prompt": f"{number}?", "response": f"{number}!"}) for number in range(5)]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    (tmp_path / "test.jsonl").write_text(rows[3])
    code, out, messages = run(
        tmp_path / "a.jsonl", "--test", tmp_path / "test.jsonl", "--write-clean", tmp_path / "clean"
    )
    assert code == 0
    assert "conversation of the test set" in out
    assert f"kept 4 of 5 conversations: {tmp_path / 'clean.jsonl'}" in messages
    assert (tmp_path / "clean.jsonl").read_text().splitlines() == [*rows[:3], rows[4]]


def test_what_separates_documents_can_be_said_and_what_is_for_others_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n\nthree\n")
    _, out, _ = run(tmp_path / "a.txt", "--set", "data.documents=blank_lines", "--json")
    assert json.loads(out)["num_documents"] == 3
    code, _, messages = run(tmp_path / "a.txt", "--set", "data.languages=[en, de]")
    assert code == 2
    assert "data.languages does not apply to the task generate" in messages


def test_data_for_several_tasks_is_refused_with_the_commands(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one", "german": "eins"}\n')
    code, _, messages = run(tmp_path / "a.jsonl")
    assert code == 2
    assert f"sixfold check {tmp_path / 'a.jsonl'} --task translate" in messages
    assert f"sixfold check {tmp_path / 'a.jsonl'} --task generate" in messages


def test_no_input_is_overwritten_by_clean_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    code, _, messages = run(tmp_path / "a.txt", "--write-clean", tmp_path / "a")
    assert code == 2
    assert "would replace its own input" in messages


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_interrupted_check_leaves_no_files(tmp_path: Path) -> None:
    for name, words in (("a.en", "sentence number"), ("a.de", "Satz Nummer")):
        (tmp_path / name).write_text("".join(f"{words} {number}\n" for number in range(1000)))
    arguments = ["check", "a.en", "a.de", "--write-clean", "clean"]
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], cwd=tmp_path, capture_output=True)
    assert done.stdout == b"4 files\n"
    assert done.returncode == 130
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.de", "a.en"]
