"""The check of plain text: it finds what is wrong in lines and in documents, and nothing in what is right."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.checks import mixture
from sixfold.data.checks.passages import PASSAGE_WORDS
from sixfold.data.checks.repeats import OFTEN
from sixfold.data.checks.report import Batch, Count, Finding, Report
from sixfold.data.checks.texts import DocumentReader, Line, check_texts, lines_of_pieces
from sixfold.data.streams import Input
from sixfold.data.texts import Piece, TextFile, Texts, open_texts
from sixfold.errors import DataError
from sixfold.tasks.generate.check import check

MARK = "<|endoftext|>"
VOCABULARY = [
    "".join(random.Random(number).choices("abdefgiklmnoprstu", k=3 + number % 7)) for number in range(2000)
]


def prose(num_lines: int, seed: int = 0, words: int = 11) -> list[str]:
    """Lines of words that occur nowhere else in this order."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(VOCABULARY, k=words)) + "\n" for _ in range(num_lines)]


def written(folder: Path, *texts: str | list[str], name: str = "text") -> Texts:
    """Write each text to a file and open them all."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{name}{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text("".join(text), encoding="utf-8", newline="")
    return open_texts(paths)


def kinds(report: Report) -> dict[str, tuple[int, tuple[int, ...]]]:
    """Return how often and where each kind of fault was found."""
    return {finding.kind: (finding.count, finding.lines) for finding in report.findings}


def found(report: Report, kind: str) -> Finding | None:
    return next((finding for finding in report.findings if finding.kind == kind), None)


def test_healthy_text_has_no_findings(tmp_path: Path) -> None:
    report = check_texts(written(tmp_path, prose(300), prose(200, seed=1)))
    assert report.findings == ()
    assert report.counts == (Count("lines", 500, 500), Count("documents", 2, 2))


LONG = "word " * 2500


@pytest.mark.parametrize(
    ("kind", "line", "num_removed"),
    [
        ("control characters", "a bell \x07 rings", 1),
        ("control characters", "a NUL \0 stands here", 1),
        ("encoding damage", "die KÃ¤tzchen schlafen", 1),
        ("very long line", LONG, 0),
        ("mark inside a document", MARK, 0),
    ],
)
def test_each_fault_of_a_line_is_found_where_it_is(kind: str, line: str, num_removed: int, tmp_path: Path) -> None:
    lines = prose(5000)  # the mark is not told by the beginning of the file
    lines[4321] = f"{line}\n"
    report = check_texts(written(tmp_path, lines))
    assert kinds(report) == {kind: (1, (4322,))}
    assert report.counts[0].clean == 5000 - num_removed


def test_a_repeated_paragraph_is_found_and_a_short_refrain_is_not(tmp_path: Path) -> None:
    lines = prose(300, words=30)
    lines[200] = lines[7]
    lines[100] = lines[110] = "Nevermore, he said.\n"
    assert kinds(check_texts(written(tmp_path, lines))) == {"repeated paragraph": (1, (201,))}


def test_boilerplate_is_told_with_its_words_and_stays(tmp_path: Path) -> None:
    lines = prose(2000)
    lines[::50] = ["Share this article with your friends\n"] * 40
    finding = found(report := check_texts(written(tmp_path, lines)), "boilerplate")
    assert finding is not None
    assert (finding.count, finding.is_removed) == (40, False)
    assert "“Share this article with your friends” (40 times)" in finding.meaning
    assert report.counts[0].clean == 2000
    lines[OFTEN * 50 - 50 :: 50] = prose(40 - OFTEN + 1, seed=3)
    assert check_texts(written(tmp_path, lines)).findings == ()


def test_documents_that_repeat_or_are_empty_are_found_across_files(tmp_path: Path) -> None:
    first, second = prose(30), prose(30, seed=1)
    again = "".join(first).upper().replace("\n", "\n\n")  # case and spacing do not matter
    report = check_texts(written(tmp_path, first, second, again, " \n\n"))
    assert kinds(report) == {"duplicate document": (1, (1,)), "empty document": (1, (1,))}
    assert [finding.files for finding in report.findings] == [
        (str(tmp_path / "text2.txt"),),
        (str(tmp_path / "text3.txt"),),
    ]
    assert report.counts[1] == Count("documents", 4, 2)


def test_nothing_between_two_marks_is_an_empty_document(tmp_path: Path) -> None:
    text = [f"{MARK}\n", *prose(3), f"{MARK}\n", f"{MARK}\n", *prose(3, seed=1), f"{MARK}\n"]
    report = check_texts(written(tmp_path, text))
    assert kinds(report) == {"empty document": (1, (5,))}  # after the mark on that line
    assert report.facts[0] == f"documents: separated by lines that are {MARK}"


def test_records_that_cannot_be_read_are_counted_and_the_first_is_quoted(tmp_path: Path) -> None:
    rows = [json.dumps({"text": line}) for line in prose(30)]
    rows[4:7] = ['{"text": null}', "no JSON", '{"text": "\\ud800"}']
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    finding = found(report := check_texts(open_texts([tmp_path / "a.jsonl"])), "unreadable")
    assert finding is not None
    assert (finding.count, finding.lines, finding.unit) == (3, (5, 6, 7), "documents")
    assert "a.jsonl, line 5: 'text' must be text, found None." in finding.meaning
    assert report.counts == (Count("lines", 27, 27), Count("documents", 30, 27))


# What the test set has


def test_a_document_of_the_test_set_is_found_whatever_its_case_and_spacing(tmp_path: Path) -> None:
    held_out = "An apple a day keeps\nthe doctor away"  # too short for a passage
    texts = written(tmp_path, prose(20), "an  APPLE a day\nkeeps the doctor away\n")
    report = check_texts(texts, written(tmp_path, held_out, name="test"))
    assert kinds(report) == {"document of the test set": (1, (1,))}


def test_a_passage_of_the_test_set_is_found_whatever_its_lines_and_signs(tmp_path: Path) -> None:
    held_out = prose(50, seed=1, words=200)
    words = held_out[20].split()[40 : 40 + PASSAGE_WORDS]
    leak = f"{' '.join(words[:4]).title()}\n“{' '.join(words[4:9])}”,\n{' '.join(words[9:])}!\n"
    texts = written(tmp_path, [*prose(100), leak, *prose(100, seed=2)])
    report = check_texts(texts, written(tmp_path, held_out, name="test"))
    assert kinds(report) == {"passage of the test set": (3, (101, 102, 103))}
    one_less = " ".join(words[1:])
    texts = written(tmp_path, [*prose(100), f"{one_less}\n", *prose(100, seed=2)])
    assert check_texts(texts, written(tmp_path, held_out, name="test")).findings == ()


def test_a_passage_does_not_run_from_one_document_into_the_next(tmp_path: Path) -> None:
    [line] = prose(1, words=PASSAGE_WORDS)
    words = line.split()
    test = written(tmp_path, line, name="test")
    split = written(tmp_path, " ".join(words[:6]), " ".join(words[6:]))
    assert check_texts(split, test).findings == ()
    test = written(tmp_path, " ".join(words[:6]), " ".join(words[6:]), name="test")
    assert check_texts(written(tmp_path, line), test).findings == ()


def test_characters_are_the_words_of_a_script_without_spaces(tmp_path: Path) -> None:
    test = written(tmp_path, "孩子們旅行去了北京看朋友和他們的家人", name="test")
    report = check_texts(written(tmp_path, "昨天孩子們旅行去了北京看朋友和他們。\n今天\n"), test)
    assert kinds(report) == {"passage of the test set": (1, (1,))}


# Scripts and languages

ENGLISH = "The old man looked at the sea and said nothing for a long while, because there was nothing to say. "
GERMAN = "Der alte Mann sah auf das Meer hinaus und sagte lange Zeit nichts, weil es nichts zu sagen gab. "
RUSSIAN = "Старик долго смотрел на море и ничего не говорил, потому что говорить было уже не о чем. "


def mixed(folder: Path) -> Texts:
    """Twenty English documents and two German and a Russian one."""
    return written(folder, *[f"{n} {ENGLISH * 5}" for n in range(20)], GERMAN * 5, f"2 {GERMAN * 5}", RUSSIAN * 5)


def test_a_mixture_of_languages_is_told_and_not_removed(tmp_path: Path) -> None:
    finding = found(report := check_texts(mixed(tmp_path)), "mixed languages")
    assert finding is not None
    assert [Path(file).name for file in finding.files] == ["text20.txt", "text21.txt", "text22.txt"]
    assert (finding.unit, finding.is_removed) == ("passages", False)
    assert report.facts[1:] == (
        "scripts: Latin 96%, Cyrillic 4% (of 23 evenly spaced passages)",
        "languages: en 87%, de 9%, ru 4% (of 23 evenly spaced passages)",
    )


def test_without_py3langid_scripts_are_told_and_the_lack_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    monkeypatch.setattr(mixture, "language_teller", mixture.language_teller.__wrapped__)
    assert mixture.language_teller() is None
    report = check_texts(written(tmp_path, *[f"{n} {ENGLISH * 5}" for n in range(20)], *[RUSSIAN * 5] * 3))
    assert report.facts[-1] == "languages: not told, for want of py3langid (pip install py3langid)"
    assert found(report, "mixed scripts")


def test_tables_and_programs_are_in_no_language(tmp_path: Path) -> None:
    report = check_texts(written(tmp_path, "".join(f"{n} += 12; {n * 7919} >> 3\n" for n in range(2000))))
    assert [fact for fact in report.facts if fact.startswith("languages")] == []


# Long lines and many documents


@pytest.mark.parametrize("length", [9_000, 70_000, 500_000])
def test_a_line_that_comes_in_parts_is_one_line(tmp_path: Path, length: int) -> None:
    line = "".join(prose(length // 50)).replace("\n", " ")
    report = check_texts(written(tmp_path, [*prose(9), f"{line}\n", *prose(9, seed=1)]))
    assert report.counts == (Count("lines", 19, 19), Count("documents", 1, 1))
    assert kinds(report) == ({"very long line": (1, (10,))} if len(line) >= 10_000 else {})


@settings(max_examples=50, deadline=None)
@given(
    text=st.lists(st.sampled_from(["a", "B ", " ", "\n", "\n\n", "c d", "é", "\u2028"]), max_size=40),
    cuts=st.lists(st.integers(0, 80), max_size=4),
)
def test_lines_and_digests_do_not_depend_on_how_a_document_is_cut(text: list[str], cuts: list[int]) -> None:
    whole = "".join(text)
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    parts = [whole[begin:end] for begin, end in pairwise(places)]
    pieces = [Piece(part, 1, not n, n == len(parts) - 1) for n, part in enumerate(parts)]

    def read(pieces: list[Piece]) -> tuple[list[Line], int]:
        lines = [*lines_of_pieces(TextFile(Input(Path("-")), is_records=True, mark=""), pieces)]
        batch = Batch([line for _, line in lines], [place for place, _ in lines])
        [document] = DocumentReader().ended(batch).examples
        return batch.examples, document.digest

    assert read(pieces) == read([Piece(whole, 1)])
    assert "".join(line.text for line in read(pieces)[0]) == whole


CHILD = """
import resource, sys
from sixfold.data.checks.texts import check_texts
from sixfold.data.texts import open_texts
texts = open_texts(sys.argv[1:])
check_texts(open_texts([sys.argv[1]]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = check_texts(texts)
print(report.counts[0].total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_grows_neither_with_a_line_nor_with_a_document(tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("".join(prose(1000)))
    with gzip.open(tmp_path / "line.txt.gz", "wb", compresslevel=1) as file:
        for _ in range(40):
            file.write(b"one long line " * 75_000)  # 42 MB
    with gzip.open(tmp_path / "document.txt.gz", "wb", compresslevel=1) as file:
        for _ in range(40):
            file.write(b"the same line of a document that is as long\n" * 24_000)
    files = ["small.txt", "line.txt.gz", "document.txt.gz"]
    done = subprocess.run([sys.executable, "-c", CHILD, *files], cwd=tmp_path, capture_output=True, text=True)
    num_lines, grown = map(int, done.stdout.split())
    assert num_lines == 1000 + 1 + 960_000
    assert grown < 40_000  # kB


# Writing


def cleaned(folder: Path, texts: Texts, test: Texts | None = None) -> str:
    """Return what `--write-clean` writes."""
    report = check(texts, test, folder / "clean", lambda _: None)
    [path] = report.written
    return path.read_text(encoding="utf-8")


def test_clean_text_is_without_what_is_removed_and_otherwise_as_it_was(tmp_path: Path) -> None:
    lines = prose(50)
    dirty = [*lines[:10], "a \x07 bell\n", *lines[10:30], "KÃ¤tzchen\n", *lines[30:]]
    assert cleaned(tmp_path, written(tmp_path, dirty)) == "".join(lines)


def test_documents_are_written_with_marks_between_them_and_read_again(tmp_path: Path) -> None:
    first, second, last = prose(5), prose(5, seed=1), "no line break at the end"
    texts = written(tmp_path, first, second, first, last)
    text = cleaned(tmp_path, texts)
    assert text == f"{MARK}\n{''.join(first)}{MARK}\n{''.join(second)}{MARK}\n{last}\n"
    again = open_texts([tmp_path / "clean.txt"])
    assert [piece.text for piece in again] == ["".join(first), "".join(second), f"{last}\n"]


def test_records_stay_records(tmp_path: Path) -> None:
    documents = ["".join(prose(3, seed=n)) + 'with "quotes"\tand ünïcode \\n' for n in range(4)]
    rows = [{"text": each} for each in (*documents, documents[0], "", "the KÃ¤tzchen")]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = cleaned(tmp_path, open_texts([tmp_path / "a.jsonl"]))
    assert [json.loads(line)["text"] for line in text.splitlines()] == documents


def test_a_document_that_turns_out_not_to_be_clean_is_taken_back(tmp_path: Path) -> None:
    """Whether it is clean is known at its end, when much of it has been written."""
    long = prose(20_000)
    short = prose(5, seed=1)
    assert cleaned(tmp_path, written(tmp_path, long, short, long)) == (
        f"{MARK}\n{''.join(long)}{MARK}\n{''.join(short)}"
    )


def test_nothing_is_left_where_the_text_cannot_be_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes("".join(prose(20_000)).encode() + b"\xff\n")
    with pytest.raises(DataError, match=r"bad\.txt, line 20,001: not UTF-8"):
        cleaned(tmp_path, open_texts([tmp_path / "bad.txt"]))
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]
