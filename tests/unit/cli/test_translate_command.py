"""`sixfold translate`: one line out for each line in, whatever the line, the locale or the reader."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest


class SmallModel(Protocol):
    """A trained model and its test set (see tests/conftest.py)."""

    folder: Path
    source: Path
    target: Path


Command = Callable[..., tuple[int, str, str]]
Start = Callable[..., "subprocess.Popen[bytes]"]


def decode(*settings: str) -> tuple[str, ...]:
    """Return the arguments that set some options of the search."""
    return tuple(word for setting in settings for word in ("--set", f"decode.{setting}"))


def test_each_line_in_gives_a_line_out(command: Command, small_model: SmallModel) -> None:
    code, out, messages = command("translate", small_model.folder, stdin="one two\nthree four five\n")
    assert (code, out, messages) == (0, "eins zwei\ndrei vier fünf\n", "")


def test_a_file_is_read_as_standard_input_is(command: Command, small_model: SmallModel) -> None:
    text = small_model.source.read_text()
    from_file = command("translate", small_model.folder, small_model.source)
    assert command("translate", small_model.folder, stdin=text) == from_file
    right = zip(from_file[1].splitlines(), small_model.target.read_text().splitlines(), strict=True)
    assert sum(ours == theirs for ours, theirs in right) >= 18  # of 20


def test_empty_and_odd_lines_keep_their_place(command: Command, small_model: SmallModel) -> None:
    lines = ["", "one two", "", "two\u2028one\x0bthree\x0c", "\ufeff", "日本語 😀", " ", "six\r", ""]
    code, out, _ = command("translate", small_model.folder, stdin="".join(line + "\n" for line in lines))
    translated = out.removesuffix("\n").split("\n")
    assert code == 0
    assert len(translated) == len(lines)
    assert translated[1] == "eins zwei"
    assert [translated[0], translated[2], translated[8]] == ["", "", ""]


def test_a_last_line_without_an_end_is_a_line(command: Command, small_model: SmallModel) -> None:
    assert command("translate", small_model.folder, stdin="one two\ntwo one")[1] == "eins zwei\nzwei eins\n"


def test_no_lines_in_give_no_lines_out(command: Command, small_model: SmallModel) -> None:
    assert command("translate", small_model.folder, stdin="") == (0, "", "")


def test_a_line_is_translated_the_same_among_others_and_alone(command: Command, small_model: SmallModel) -> None:
    lines = small_model.source.read_text().splitlines()[:6]
    together = command("translate", small_model.folder, stdin="".join(line + "\n" for line in lines))[1]
    alone = [command("translate", small_model.folder, stdin=line + "\n")[1] for line in lines]
    assert together == "".join(alone)


def test_n_best_gives_as_many_lines_for_each(command: Command, small_model: SmallModel) -> None:
    code, out, _ = command("translate", small_model.folder, "--n-best", "3", stdin="one two\n\nfive six\n")
    lines = out.removesuffix("\n").split("\n")
    assert code == 0
    assert (len(lines), lines[0], lines[6]) == (9, "eins zwei", "fünf sechs")
    assert lines[3:6] == ["", "", ""]
    assert len(set(lines[:3])) == 3


def test_json_has_an_object_a_line_with_scores_best_first(command: Command, small_model: SmallModel) -> None:
    _, out, _ = command("translate", small_model.folder, "--json", "--n-best", "2", stdin="one fünf\n\n")
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["source"] == "one fünf"
    assert "fünf" in out  # as text, not as escapes
    scores = [translation["score"] for translation in first["translations"]]
    assert scores == sorted(scores, reverse=True)
    assert set(first["translations"][0]) >= {
        "text", "score", "log_probability", "num_tokens", "is_cut", "source_is_cut", "tokens",
    }  # fmt: skip
    assert second["translations"][0]["text"] == ""
    assert second["translations"][0]["tokens"] == []


def test_json_has_each_token_with_its_probability_and_alternatives(
    command: Command, small_model: SmallModel
) -> None:
    _, out, _ = command("translate", small_model.folder, "--json", *decode("alternatives=3"), stdin="one two\n")
    [best] = json.loads(out)["translations"]
    assert "".join(each["token"] for each in best["tokens"]) == "▁eins▁zwei</s>"
    total = sum(each["log_probability"] for each in best["tokens"])
    assert total == pytest.approx(best["log_probability"], abs=1e-4)
    for each in best["tokens"]:
        assert len(each["alternatives"]) == 3
        assert each["alternatives"][0]["log_probability"] >= each["log_probability"] - 1e-6


def test_wishes_are_met(command: Command, small_model: SmallModel) -> None:
    def run(*arguments: str) -> list[str]:
        out = command("translate", small_model.folder, *arguments, stdin="one two\nfive six\n")[1]
        return out.removesuffix("\n").split("\n")

    assert not any("zwei" in line for line in run("--forbid", "zwei", "--forbid", "drei"))
    assert all("acht" in line and "neun" in line for line in run("--require", "acht", "--require", "neun"))
    assert all("acht" in line and "neun" in line for line in run(*decode("require=[acht, neun]")))
    assert all(line.startswith("zehn e") for line in run(*decode("prefix=zehn e")))
    assert run("--sample", "1", *decode("top_k=1")) == ["eins zwei", "fünf sechs"]
    assert len(run("--sample", "2", "--n-best", "4", *decode("seed=3"))) == 8
    long = [json.loads(line)["translations"][0] for line in run(*decode("min_length=9", "no_repeat=2"), "--json")]
    assert all(each["num_tokens"] >= 10 for each in long)
    assert all(len(line.split()) < 2 for line in run(*decode("max_length=1")))
    assert run("--with", str(small_model.folder)) == ["eins zwei", "fünf sechs"]


def test_draws_are_the_same_in_chunks_of_any_size(
    command: Command, small_model: SmallModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("translate", small_model.folder, small_model.source, "--sample", "1.5", "--n-best", "2")
    _, whole, _ = command(*arguments)
    monkeypatch.setattr(sys.modules["sixfold.cli.translate"], "LINES_AT_ONCE", 3)
    assert command(*arguments)[1] == whole


def test_a_wider_beam_never_finds_a_less_probable_translation(command: Command, small_model: SmallModel) -> None:
    scores = []
    for beam in ("1", "8"):
        arguments = ("--json", "--beam", beam, *decode("length_penalty=0"))
        _, out, _ = command("translate", small_model.folder, small_model.source, *arguments)
        scores.append([json.loads(line)["translations"][0]["log_probability"] for line in out.splitlines()])
    assert all(wide >= greedy - 1e-4 for greedy, wide in zip(*scores, strict=True))


def test_a_cut_line_is_named(command: Command, small_model: SmallModel) -> None:
    code, out, messages = command(
        "translate", small_model.folder, "--beam", "1", stdin="one\n" + "two " * 1500 + "\n"
    )
    assert code == 0
    assert len(out.splitlines()) == 2
    assert "warning: line 2 is longer than the model's input limit" in messages


def test_a_setting_says_what_the_flag_of_its_name_says(command: Command, small_model: SmallModel) -> None:
    arguments = ("translate", small_model.folder, small_model.source, "--json")
    by_flags = command(*arguments, "--beam", "2", "--n-best", "2", "--forbid", "zwei")
    assert command(*arguments, *decode("beam=2", "n_best=2", "forbid=[zwei]")) == by_flags
    assert by_flags[0] == 0


# What is refused


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("no/such/model",), "There is no model folder no/such/model"),
        ((".",), "is not a model folder"),
    ],
)
def test_what_is_no_model_is_refused_with_a_hint(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, messages = command("translate", *arguments)
    assert (code, out) == (2, "")
    assert messages.startswith("error: ")
    assert message in messages
    assert "\nhint: " in messages
    assert "Traceback" not in messages


def test_a_changed_model_is_refused(command: Command, small_model: SmallModel, tmp_path: Path) -> None:
    shutil.copytree(small_model.folder, tmp_path / "model", ignore=shutil.ignore_patterns("training"))
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    code, out, messages = command("translate", tmp_path / "model", stdin="one\n")
    assert (code, out) == (2, "")
    assert "SHA-256" in messages


@pytest.mark.parametrize(
    "arguments",
    [
        ("--beam", "0"), ("--beam", "1000000000"), ("--n-best", "9"), ("--n-best", "0"),
        decode("length_penalty=-1"), decode("length_penalty=.nan"), ("--device", "abacus"), ("no-such-file",),
        ("--sample", "0"), ("--sample", "-1"), ("--sample", "1", *decode("top_p=0")), decode("top_k=3"),
        ("--sample", "1", "--beam", "4"), decode("seed=1"), decode("min_length=9", "max_length=8"),
        ("--forbid", "zwei", "--require", "zwei"), ("--forbid", "zwei", *decode("prefix=eins zwei")),
        ("--forbid", ""), ("--beam", "1", "--require", "acht"),
        ("--require", "acht neun zehn", *decode("max_length=1")),
        decode("alternatives=2"), ("--json", *decode("alternatives=-1")), ("--with", "no/such/model"),
        decode("max_length=1000000000"), decode("no_repeat=0"), decode("beam=many"), decode("prefix=5"),
        decode("require=acht"), decode("top_k=1.5"), decode("extra_tokens=3"),
    ],
)  # fmt: skip
def test_impossible_options_are_refused(
    command: Command, small_model: SmallModel, arguments: tuple[str, ...]
) -> None:
    code, out, messages = command("translate", small_model.folder, *arguments, stdin="one two\n")
    assert (code, out) == (2, "")
    assert messages.startswith("error: ")


def test_text_that_is_not_utf_8_is_refused_with_its_line(
    command: Command, small_model: SmallModel, tmp_path: Path
) -> None:
    (tmp_path / "text").write_bytes(b"one\ntw\xff\n")
    code, _, messages = command("translate", small_model.folder, tmp_path / "text")
    assert code == 2
    assert "line 2: not UTF-8" in messages


# In a process of its own


def test_the_locale_does_not_matter(start: Start, small_model: SmallModel) -> None:
    with start(
        "translate", small_model.folder, LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    ) as process:
        out, messages = process.communicate("five fünf 日本\r\n".encode(), timeout=120)
    assert process.returncode == 0, messages
    assert out.decode().startswith("fünf")
    assert out.endswith(b"\n")
    assert b"\r" not in out


def test_a_reader_that_goes_away_ends_it_quietly(start: Start, small_model: SmallModel) -> None:
    with start("translate", small_model.folder, "--beam", "1") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"one two\n" * 8000)  # the answers to which no pipe holds
        process.stdin.close()
        assert process.stdout.readline() == b"eins zwei\n"
        process.stdout.close()
        messages = process.stderr.read()
        process.wait(timeout=120)
    assert messages == b""
    assert process.returncode == 141  # as of any tool that a closed pipe ends


def test_a_person_who_types_sees_the_translation_as_it_is_written(small_model: SmallModel) -> None:
    keyboard, terminal = os.openpty()
    arguments = [sys.executable, "-m", "sixfold", "translate", str(small_model.folder), "--beam", "1"]
    with subprocess.Popen(arguments, stdin=terminal, stdout=subprocess.PIPE) as process:
        os.write(keyboard, b"one two\n\nfive six\n\x04")
        out, _ = process.communicate(timeout=250)
    os.close(keyboard)
    os.close(terminal)
    assert process.returncode == 0
    assert out.decode() == "eins zwei\n\nfünf sechs\n"


def test_a_line_of_a_megabyte_is_cut_within_bounds(start: Start, small_model: SmallModel) -> None:
    with start("translate", small_model.folder, *decode("max_length=5")) as process:
        out, messages = process.communicate(
            b"one two\n" + b"one " * 262_144 + b"\n\xc3\xbf\xc2\x80\n", timeout=120
        )
    assert process.returncode == 0
    assert len(out.split(b"\n")) == 4
    assert b"line 2 is longer than the model's input limit" in messages


def test_json_has_the_words_that_belong_together_and_reasons_to_look_twice(
    command: Command, small_model: SmallModel
) -> None:
    _, out, _ = command("translate", small_model.folder, "--json", stdin="one two three\n\n")
    first, empty = (json.loads(line) for line in out.splitlines())
    [best] = first["translations"]
    for link in best["alignment"]:
        assert first["source"][link["source_start"] : link["source_end"]] in {"one", "two", "three"}
        assert best["text"][link["target_start"] : link["target_end"]] in {"eins", "zwei", "drei"}
    assert {link["target_start"] for link in best["alignment"]} == {0, 5, 10}
    assert best["flags"] == []
    assert (empty["translations"][0]["alignment"], empty["translations"][0]["flags"]) == ([], [])
    _, out, _ = command("translate", small_model.folder, "--json", *decode("max_length=1"), stdin="one two 1987\n")
    faults = {flag["fault"] for flag in json.loads(out)["translations"][0]["flags"]}
    assert {"output_limit", "numbers"} <= faults


def test_protected_spans_come_out_as_they_went_in(command: Command, small_model: SmallModel) -> None:
    line = 'one <b>two</b> {name} three, see https://example.org/x?y=1 <a href="z">four %s</a>'
    code, out, _ = command("translate", small_model.folder, "--protect", stdin=f"{line}\n\none two\n")
    first, second, third = out.removesuffix("\n").split("\n")
    assert code == 0
    for span in ("<b>", "</b>", "{name}", "https://example.org/x?y=1", '<a href="z">', "%s", "</a>"):
        assert first.count(span) == 1
    assert (second, third) == ("", "eins zwei")
    code, _, messages = command("translate", small_model.folder, "--protect", "--n-best", "2", stdin="one\n")
    assert code == 2
    assert "--n-best" in messages


def test_tags_stand_around_the_words_they_stood_around(command: Command, small_model: SmallModel) -> None:
    _, out, _ = command("translate", small_model.folder, "--protect", stdin="one <b>two</b> three\n")
    assert out == "eins <b>zwei</b> drei\n"
