"""`sixfold generate`: a prompt is continued as it is written, lines in give lines out, messages are answered."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sixfold.cli.generate import one_line
from sixfold.decode.generate import load
from sixfold.decode.generate_options import GenerateOptions

Command = Callable[..., tuple[int, str, str]]
Start = Callable[..., "subprocess.Popen[bytes]"]
PROMPTS = ["one two", "", "größer 日本", "three four five"]
SHORT = ("--max-tokens", "12")


def test_a_prompt_is_continued_and_line_breaks_are_written(command: Command, chat_model: Path) -> None:
    code, out, messages = command("generate", chat_model, "one two", "--max-tokens", "60", "--seed", "3")
    text = load(chat_model).generate("one two", GenerateOptions(max_tokens=60, seed=3))
    assert (code, out, messages) == (0, text + "\n", "")


def test_each_line_in_gives_a_line_out(command: Command, chat_model: Path, tmp_path: Path) -> None:
    lines, options = "".join(line + "\n" for line in PROMPTS), ("--max-tokens", "60")
    code, out, _ = command("generate", chat_model, *options, stdin=lines)
    expected = load(chat_model).generate(PROMPTS, GenerateOptions(max_tokens=60))
    assert code == 0
    assert out.removesuffix("\n").split("\n") == [*map(one_line, expected)]
    file = tmp_path / "prompts.txt"
    file.write_text(lines)
    assert command("generate", chat_model, "--file", file, *options)[1] == out


def test_a_text_is_one_line_and_can_be_read_back() -> None:
    text = "one\ntwo\\n\r\n\\"
    assert one_line(text) == "one\\ntwo\\\\n\\r\\n\\\\"
    assert one_line(text).encode().decode("unicode_escape") == text


def test_lines_are_answered_the_same_in_chunks_of_any_size(
    command: Command, chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(line + "\n" for line in PROMPTS)
    whole = command("generate", chat_model, *SHORT, "-n", "2", stdin=lines)
    monkeypatch.setattr(sys.modules["sixfold.cli.generate"], "LINES_AT_ONCE", 3)
    assert command("generate", chat_model, *SHORT, "-n", "2", stdin=lines) == whole
    assert len(whole[1].removesuffix("\n").split("\n")) == 8


def test_json_tells_every_token_and_what_else_was_probable(command: Command, chat_model: Path) -> None:
    arguments = ("--json", "-n", "2", *SHORT, "--set", "decode.alternatives=3")
    code, out, _ = command("generate", chat_model, "one two", *arguments)
    [record] = map(json.loads, out.splitlines())
    assert code == 0
    assert record["prompt"] == "one two"
    found = load(chat_model).continuations(["one two"], GenerateOptions(max_tokens=12, samples=2, alternatives=3))
    for text, expected in zip(record["texts"], found[0], strict=True):
        assert text["text"] == expected.text
        assert text["finished"] == expected.finished
        assert [each["log_probability"] for each in text["tokens"]] == expected.log_probabilities
        assert text["log_probability"] == pytest.approx(sum(expected.log_probabilities))
        assert all(len(each["alternatives"]) == 3 for each in text["tokens"])


def test_json_tells_the_tokens_of_the_prompt_too_where_asked(command: Command, chat_model: Path) -> None:
    arguments = ("--json", *SHORT, "--set", "decode.prompt_scores=true")
    code, out, _ = command("generate", chat_model, "one two", *arguments)
    [text] = json.loads(out)["texts"]
    generator = load(chat_model)
    [expected] = generator.token_log_probabilities([generator.encode("one two")])
    assert code == 0
    assert [each["log_probability"] for each in text["prompt_tokens"]] == pytest.approx(expected, abs=1e-4)


def test_a_message_gets_one_answer(command: Command, chat_model: Path) -> None:
    code, out, _ = command("generate", chat_model, "one two", "--chat", "--system", "eins", *SHORT)
    talk = [{"role": "system", "content": "eins"}, {"role": "user", "content": "one two"}]
    assert (code, out) == (0, load(chat_model).chat(talk, GenerateOptions(max_tokens=12)) + "\n")


def test_a_full_context_is_said_and_slides_if_asked(command: Command, chat_model: Path) -> None:
    arguments = ("generate", chat_model, " ".join(["one"] * 253), "--max-tokens", "40", "--temperature", "0")
    code, out, messages = command(*arguments)
    assert code == 0
    assert messages == "warning: the context of 256 tokens is full; add --slide to continue\n"
    code, longer, messages = command(*arguments, "--slide")
    assert code == 0
    assert len(longer) > len(out)
    assert "tokens were dropped" in messages


def test_stop_strings_and_draws_do_what_they_say(command: Command, chat_model: Path) -> None:
    def run(*arguments: str) -> str:
        code, out, _ = command("generate", chat_model, "one two", "--max-tokens", "40", *arguments)
        assert code == 0
        return out.removesuffix("\n")

    greedy = run("--temperature", "0")
    assert run("--top-k", "1") == run("--min-p", "1") == run("--set", "decode.top_p=0.000001") == greedy
    drawn = run("--seed", "4")
    assert drawn == run("--seed", "4") != run("--seed", "5")
    assert run("--seed", "4", "--stop", drawn[3:5]) == drawn[: drawn.index(drawn[3:5])]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one", "--temperature", "-1"), "temperature must be from 0 to 10"),
        (("one", "--stop", ""), "A stop string must have 1 to 200 characters"),
        (("one", "-n", "1000000000"), "samples must be from 1 to 128"),
        (("one", "--max-tokens", "0"), "max_tokens must be from 1"),
        (("one " * 300,), "but the model's context holds 256"),
        (("one", "--file", "x"), "Both a prompt and --file were given"),
        (("one", "--system", "x"), "--system is for conversations"),
        (("one", "--set", "decode.alternatives=3"), "only shown in JSON"),
        (("one", "--set", "decode.prompt_scores=true"), "only shown in JSON"),
        (("--file", "no-such-file"), "no-such-file"),
        (("one", "--set", "decode.tempreature=1"), "Did you mean temperature"),
    ],
)
def test_what_cannot_be_is_refused(
    command: Command, chat_model: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, out, messages = command("generate", chat_model, *arguments)
    assert (code, out) == (2, "")
    assert messages.startswith("error: ")
    assert message in messages
    assert "Traceback" not in messages


def test_a_line_that_is_too_long_is_named(command: Command, chat_model: Path) -> None:
    code, out, messages = command("generate", chat_model, *SHORT, stdin="one\n" + "two " * 300 + "\n")
    assert (code, out) == (2, "")
    assert "Line 2: The prompt has" in messages


def test_a_binary_file_of_prompts_is_refused(command: Command, chat_model: Path, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    code, _, messages = command("generate", chat_model, "--file", tmp_path / "binary")
    assert code == 2
    assert "not UTF-8" in messages


@pytest.mark.parametrize("more", ["--chat", "--json", "--slide"])
def test_a_prompt_that_is_not_utf_8_is_refused(command: Command, chat_model: Path, more: str) -> None:
    code, out, messages = command("generate", chat_model, os.fsdecode(b"one \xff two"), more)
    assert (code, out) == (2, "")
    assert "error: The prompt is not valid Unicode at character 5." in messages


def test_a_full_disk_is_a_plain_error(chat_model: Path, tmp_path: Path) -> None:
    with (tmp_path / "text").open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-m", "sixfold", "generate", chat_model, "one two", "--max-tokens", "60"],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
            stdout=output,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)),
        )
    assert done.returncode == 1
    assert done.stderr == b"error: The output cannot be written: File too large.\n"


def test_a_folder_of_another_task_is_refused_with_the_command_that_fits(
    command: Command, chat_model: Path
) -> None:
    other = Path(__file__).parents[2] / "compat" / "format-2"
    code, _, messages = command("generate", other, "one")
    assert code == 2
    assert f"hint: sixfold translate {other}" in messages
    code, _, messages = command("translate", chat_model, stdin="one\n")
    assert code == 2
    assert f"hint: sixfold generate {chat_model}" in messages


def test_a_reader_may_leave(start: Start, chat_model: Path) -> None:
    process = start("generate", chat_model, "--max-tokens", "3")
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"one\n" * 5000)
    process.stdin.close()
    assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr
    assert b"Traceback" not in process.stderr.read()


def test_ctrl_c_keeps_what_was_written(start: Start, chat_model: Path) -> None:
    process = start("generate", chat_model, "one", "--max-tokens", "1000000", "--slide", "--stop", "never written")
    assert process.stdout
    written = process.stdout.read(20)
    process.send_signal(signal.SIGINT)
    rest, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(written + rest) >= 20
    assert b"Traceback" not in messages


class Terminal:
    """A conversation in a terminal."""

    def __init__(self, *arguments: str | Path) -> None:
        self.side, child = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sixfold", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src"), "TERM": "dumb"},
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        )
        os.close(child)
        self.seen = b""

    def wait_for(self, text: bytes) -> bytes:
        """Read until a text comes; return everything since the last one."""
        while text not in self.seen:
            self.seen += os.read(self.side, 1024)
        found, _, self.seen = self.seen.partition(text)
        return found

    def type(self, text: str) -> None:
        """Type some text."""
        os.write(self.side, text.encode())


def test_a_conversation_goes_on_until_ctrl_d(chat_model: Path) -> None:
    terminal = Terminal("generate", chat_model, "--chat", "--max-tokens", "5")
    assert b"Ctrl-D ends" in terminal.wait_for(b"> ")
    terminal.type("one two\n")
    assert b"one two" in terminal.wait_for(b"> ")
    terminal.type("three\n")
    terminal.wait_for(b"> ")
    terminal.type("\x04")
    assert terminal.process.wait(60) == 0


def test_lines_that_are_typed_are_continued_until_ctrl_d(chat_model: Path) -> None:
    terminal = Terminal("generate", chat_model, "--max-tokens", "5", "--temperature", "0")
    assert b"beginning of a text" in terminal.wait_for(b"> ")
    terminal.type("one two\n")
    expected = load(chat_model).generate("one two", GenerateOptions(max_tokens=5, temperature=0))
    shown = terminal.wait_for(b"> ").decode(errors="replace").replace("\r\n", "\n")
    assert shown.endswith(f"{expected}\n")
    terminal.type("\x04")
    assert terminal.process.wait(60) == 0


def test_ctrl_c_stops_an_answer_and_not_the_conversation(chat_model: Path) -> None:
    terminal = Terminal(
        "generate", chat_model, "--chat", "--max-tokens", "1000000", "--slide", "--temperature", "0"
    )
    terminal.wait_for(b"> ")
    terminal.type("one two\n")
    terminal.wait_for(b"\n")
    os.read(terminal.side, 10)  # the answer has begun
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for(b"> ")
    terminal.type("\x04")
    assert terminal.process.wait(60) == 0
