"""Whatever stands in a text file, a command does its work or names the file; it never shows a traceback."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sixfold.cli import main
from sixfold.data.checks.pairs import check_pairs
from sixfold.data.readers import open_pairs, read_lines
from sixfold.text import Tokenizer

pytestmark = pytest.mark.timeout(300)

MODEL = Path(__file__).parents[1] / "compat" / "format-1"
FEW_STEPS = ["data.vocabulary=400", "model.layers=1", "model.d_model=16", "model.d_ff=16", "model.heads=2",
             "train.steps=1", "train.batch_tokens=256", "train.valid_sentences=2"]  # fmt: skip
GOOD = b"".join(b"one two three %d\n" % number for number in range(30))

Outcome = tuple[int, str, str]


def run(*arguments: str | Path) -> Outcome:
    """Run the command line here and return its exit code, output and messages; only SystemExit may leave it."""
    out, messages = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["sixfold", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b""))))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", messages)
        with pytest.raises(SystemExit) as stopped:
            main()
    shown = []
    for stream in (out, messages):
        stream.flush()
        shown.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return int(stopped.value.code or 0), shown[0], shown[1]


def commands(folder: Path, source: Path, target: Path) -> dict[str, list[str | Path]]:
    """Return every command that takes text, with these texts."""
    few = [word for setting in FEW_STEPS for word in ("--set", setting)]
    return {
        "translate": ["translate", MODEL, source, "--beam", "1"],
        "score": ["score", MODEL, source, target],
        "evaluate": ["evaluate", MODEL, source, target, "--beam", "1"],
        "evaluate file": ["evaluate", target, source, target],
        "check": ["check", source, target],
        "check test": ["check", target, source, "--test", source, target],
        "plan": ["plan", source, target, *few],
        "train": ["train", source, target, "-o", folder / "model", *few],
    }


COMMANDS = list(commands(Path(), Path(), Path()))
OF_TWO = [name for name in COMMANDS if name != "translate"]


def assert_civil(outcome: Outcome) -> None:
    """Look at how a command ended."""
    code, _, messages = outcome
    assert code in (0, 1, 2)
    assert code == 0 or "error: " in messages
    assert "Traceback" not in messages


# A collection of files that have broken other software

FILES: dict[str, bytes] = {
    "empty": b"",
    "newline": b"\n",
    "latin 1": GOOD + "größer\n".encode("latin-1"),
    "utf-16": GOOD.decode().encode("utf-16"),
    "surrogate": GOOD + b"a\xed\xa0\x80b\n",
    "overlong": GOOD + b"\xc0\xaf\n",
    "cut character": GOOD + b"gr\xc3",
    "bom": b"\xef\xbb\xbf" + GOOD,
    "crlf": GOOD.replace(b"\n", b"\r\n"),
    "nul": GOOD + b"a\0b\n\0\n",
    "odd breaks": GOOD + "a\u2028b\x0bc\x0cd\x85e\u2029f\x1cg\rh\n".encode(),
    "escapes": GOOD + b"\x1b[2J\x1b]0;title\x07\n",
    "marks": GOOD + ("a" + "\u0301" * 500 + "\u202e\u2066 \ufeff\n").encode(),
    "private": GOOD + "\U0010ffff \ufffe \ue000\n".encode(),
    "blank lines": GOOD + b"\n \n\t\n  \n",
    "binary": GOOD + bytes(range(256)) * 4,
    "gzip cut short": gzip.compress(GOOD * 50)[:-40],
    "gzip with a wrong sum": gzip.compress(GOOD)[:-8] + b"\0" * 8,
    "gzip in name only": b"\x1f\x8b" + GOOD,
    "xz cut short": lzma.compress(GOOD * 50)[:-30],
    "long line": GOOD + b"word " * 40_000 + b"\n",
    "one word of 200 kB": GOOD + b"w" * 200_000 + b"\n",
}


@pytest.mark.parametrize("name", FILES)
def test_no_command_shows_a_traceback_for_any_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "odd").write_bytes(FILES[name])
    (tmp_path / "good").write_bytes(GOOD)
    swapped = commands(tmp_path / "swapped", tmp_path / "good", tmp_path / "odd")
    for command, arguments in commands(tmp_path, tmp_path / "odd", tmp_path / "good").items():
        for words in (arguments, swapped[command]) if command in ("score", "check") else (arguments,):
            outcome = run(*words)
            assert_civil(outcome)
            assert "odd" in outcome[2] or "odd" not in str(words) or outcome[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "model") == ["good", "odd"]


ENDS = [
    b"\n",
    b"\r\n",
    b"\xe2\x80\xa8",
    b"\x0b",
    b"\x0c",
    b"\xc2\x85",
    b"\r",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"",
]
LINES = st.binary(max_size=12) | st.text(max_size=8).map(lambda text: text.encode("utf-8", "surrogatepass"))
TEXTS = st.lists(st.tuples(LINES, st.sampled_from(ENDS)), max_size=8).map(
    lambda parts: b"".join(line + end for line, end in parts)
)
EXAMPLES = {"translate": 120, "score": 100, "evaluate file": 80, "check": 200}  # 500 in all


def num_lines(content: bytes) -> int:
    """Count as `wc -l` does, and a last line without its end."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    return content.count(b"\n") + (content[-1:] not in (b"", b"\n"))


@pytest.mark.parametrize("command", EXAMPLES)
def test_any_bytes_give_an_error_of_ours_or_as_many_lines_as_went_in(tmp_path: Path, command: str) -> None:
    @settings(max_examples=EXAMPLES[command], suppress_health_check=list(HealthCheck))
    @given(source=TEXTS, target=TEXTS)
    def check(source: bytes, target: bytes) -> None:
        (tmp_path / "source").write_bytes(source)
        (tmp_path / "target").write_bytes(target)
        outcome = run(*commands(tmp_path, tmp_path / "source", tmp_path / "target")[command])
        assert_civil(outcome)
        if outcome[0] == 0 and command in ("translate", "score"):
            assert outcome[1].count("\n") == num_lines(source)

    check()


# Plain text and conversations

FEW_STEPS_ON_TEXT = [*(setting for setting in FEW_STEPS if "valid" not in setting),
                     "data.context=32", "train.valid_tokens=64"]  # fmt: skip
PROSE = b"".join(b"one two three %d four five six seven\n" % number for number in range(60))


def text_commands(folder: Path, text: Path, model: Path) -> dict[str, list[str | Path]]:
    """Return every command that takes text of which there is no translation."""
    few = [word for setting in FEW_STEPS_ON_TEXT for word in ("--set", setting)]
    return {
        "check": ["check", text, "--task", "generate"],
        "check test": ["check", folder / "prose", "--task", "generate", "--test", text],
        "train": ["train", text, "-o", folder / "model", "--task", "generate", *few],
        "valid": ["train", folder / "prose", "--valid", text, "-o", folder / "model", "--task", "generate", *few],
        "evaluate": ["evaluate", model, text],
        "score": ["score", model, text],
        "generate": ["generate", model, "--file", text, "--max-tokens", "3"],
    }


@pytest.mark.parametrize("name", FILES)
def test_no_command_for_text_shows_a_traceback_for_any_file(tmp_path: Path, chat_model: Path, name: str) -> None:
    (tmp_path / "prose").write_bytes(PROSE)
    (tmp_path / "odd").write_bytes(FILES[name])
    for arguments in text_commands(tmp_path, tmp_path / "odd", chat_model).values():
        outcome = run(*arguments)
        assert_civil(outcome)
        named = (
            "odd",
            "Line ",
            "There are only",
            "no text",
            "not text",
            "nothing to",
        )  # the file, a line of it, or that nothing is in it
        assert outcome[0] == 0 or any(each in outcome[2] for each in named)
        shutil.rmtree(tmp_path / "model", ignore_errors=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["odd", "prose"]


VALUES = st.sampled_from(["one", "", " \n", "\0", "\u2028", None, 3, True, [], {}, "\ud800", "\ufeff"])
MESSAGES = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(["system", "user", "assistant", "robot", None]), "content": VALUES}
)
ROWS = st.one_of(
    st.fixed_dictionaries({}, optional={"text": VALUES, "prompt": VALUES, "response": VALUES}),
    st.fixed_dictionaries({"prompt": VALUES, "response": VALUES}),
    st.fixed_dictionaries({"messages": st.lists(MESSAGES, max_size=4) | VALUES}),
)
JSON_LINES = st.lists(ROWS.map(json.dumps) | st.sampled_from(["", "{", "[]", "null", '"one"']), max_size=12)


@pytest.mark.parametrize("command", ["check", "check test", "evaluate", "train"])
def test_any_json_lines_give_an_error_of_ours_or_are_read(tmp_path: Path, chat_model: Path, command: str) -> None:
    good = [json.dumps({"prompt": f"what is {number}?", "response": f"{number}!"}) for number in range(20)]
    (tmp_path / "prose").write_text("\n".join(good))

    @settings(max_examples=40 if command == "train" else 60, suppress_health_check=list(HealthCheck))
    @given(rows=JSON_LINES, has_good_ones=st.booleans())
    def check(rows: list[str], has_good_ones: bool) -> None:
        (tmp_path / "rows.jsonl").write_text("\n".join([*good[: 20 * has_good_ones], *rows]))
        assert_civil(run(*text_commands(tmp_path, tmp_path / "rows.jsonl", chat_model)[command]))
        shutil.rmtree(tmp_path / "model", ignore_errors=True)

    check()


@pytest.mark.parametrize("command", ["check", "generate"])
def test_any_bytes_are_text_or_refused(tmp_path: Path, chat_model: Path, command: str) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(text=TEXTS)
    def check(text: bytes) -> None:
        (tmp_path / "text").write_bytes(text)
        outcome = run(*text_commands(tmp_path, tmp_path / "text", chat_model)[command])
        assert_civil(outcome)
        if outcome[0] == 0 and command == "generate":
            assert outcome[1].count("\n") == num_lines(text)

    check()


# Two files that do not belong together, and files that are none


@pytest.mark.parametrize("command", OF_TWO)
@pytest.mark.parametrize(("source", "target"), [(30, 29), (29, 30)])
def test_files_of_different_lengths_are_refused_with_both_counts(
    tmp_path: Path, command: str, source: int, target: int
) -> None:
    for name, number in (("source", source), ("target", target)):
        (tmp_path / name).write_bytes(b"one two\n" * number)
    code, out, messages = run(*commands(tmp_path, tmp_path / "source", tmp_path / "target")[command])
    assert (code, out) == (2, "")
    assert {"29", "30"} <= {word.strip(",.") for word in messages.split()}
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("command", ["score", "check", "plan", "train"])
def test_one_file_given_twice_is_refused(tmp_path: Path, command: str) -> None:
    (tmp_path / "text").write_bytes(GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "text")
    for other in ("text", "link"):
        code, _, messages = run(*commands(tmp_path, tmp_path / "text", tmp_path / other)[command])
        assert code == 2
        assert "was given as source and as target" in messages


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["missing", "folder"])
def test_a_missing_file_or_a_folder_is_named(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / "good").write_bytes(GOOD)
    (tmp_path / "folder").mkdir()
    code, out, messages = run(*commands(tmp_path, tmp_path / name, tmp_path / "good")[command])
    assert (code, out) == (2, "")
    assert name in messages
    assert "Traceback" not in messages


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_without_permission_is_named(tmp_path: Path, command: str) -> None:
    (tmp_path / "good").write_bytes(GOOD)
    (tmp_path / "secret").write_bytes(GOOD)
    (tmp_path / "secret").chmod(0)
    code, _, messages = run(*commands(tmp_path, tmp_path / "secret", tmp_path / "good")[command])
    assert code == 2
    assert "secret may not be read" in messages


# Time


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A tokenizer that knows a little of everything."""
    return Tokenizer.load(MODEL / "tokenizer.model")


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of a work, the least of three."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


@pytest.mark.parametrize("unit", ["a", " ", "\u2581", "ä", "0", ".", "a\u0301", "one two ", "\u2028", "( "])
@pytest.mark.parametrize("work", ["encode", "decode", "read", "check"])
def test_twice_the_text_takes_twice_the_time(tmp_path: Path, tokenizer: Tokenizer, unit: str, work: str) -> None:
    def measure(num_units: int) -> float:
        text = unit * num_units
        (tmp_path / "text").write_text(text + "\n" + text + "\n", encoding="utf-8", newline="")
        (tmp_path / "other").write_text("short\n" + text + "x\n", encoding="utf-8", newline="")
        ids = tokenizer.encode(text)
        works: dict[str, Callable[[], object]] = {
            "encode": lambda: tokenizer.encode(text),
            "decode": lambda: tokenizer.decode(ids),
            "read": lambda: list(read_lines(tmp_path / "text")),
            "check": lambda: check_pairs(open_pairs(tmp_path / "text", tmp_path / "other")),
        }
        return seconds(works[work])

    size = 5_000 // len(unit)
    measure(size)
    # Three doublings at once: a busy machine weighs less, and quadratic work would take 64 times as long.
    assert measure(8 * size) <= 2.5**3 * measure(size) + 0.02
