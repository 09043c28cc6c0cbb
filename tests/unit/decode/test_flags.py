"""Each flag is raised where its fault is, and not where it is not."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold.decode.flags import CONFIDENT, find_flags


def faults(source: str, target: str, **facts: object) -> list[str]:
    """Return the names of the flags."""
    return [flag.fault for flag in find_flags(source, target, **facts)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("The dog sees the house.", "Der Hund Hund Hund sieht das Haus."),
        ("The dog sees.", "Der Hund sieht das, der Hund sieht das."),
        ("A", "ein Mann und ein Mann und ein Mann und"),
        ("x", "я я я я"),
    ],
)
def test_repetition_is_flagged(source: str, target: str) -> None:
    assert "repetition" in faults(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("No, no, no!", "Nein, nein, nein!"),
        ("They walk hand in hand in a street.", "Sie gehen Hand in Hand in einer Straße."),
        ("The ones that they like", "Die, die Kinder mögen"),
        ("Wait ...", "Warte ......"),
        ("", ""),
    ],
)
def test_what_the_source_repeats_or_language_allows_is_no_repetition(source: str, target: str) -> None:
    assert "repetition" not in faults(source, target)


def test_a_copied_source_is_flagged_but_names_and_same_language_tasks_are_not() -> None:
    sentence = "The old man sees a small dog."
    assert faults(sentence, sentence) == ["copied"]
    assert faults(sentence, "Der alte man sees a small dog.") == ["copied"]
    assert faults(sentence, "Der alte Mann sieht einen kleinen Hund.") == []
    assert faults("New York City", "New York City") == []
    assert faults("Two men in New York City today", "Zwei Männer sind heute in New York City") == []
    assert faults(sentence, sentence, is_other_language=False) == []


def test_cuts_are_flagged() -> None:
    assert faults("a", "b", source_is_cut=True) == ["input_cut"]
    assert faults("a", "b", is_cut=True) == ["output_limit"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It costs 25 euros.", "Es kostet 52 Euro."),
        ("3 dogs", "4 Hunde"),
        ("in 1998", "im Jahr"),
        ("1,000 people", "1,001 Menschen"),
        ("3.14", "3,15"),
        ("at 10:30", "um 10.35 Uhr"),
        ("two dogs", "200 Hunde"),
        ("5 and 5", "5 und 6"),
        ("at 3 pm", "um 16 Uhr"),
    ],
)
def test_numbers_that_differ_are_flagged(source: str, target: str) -> None:
    assert faults(source, target) == ["numbers"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It costs 25 euros.", "Es kostet 25 Euro."),
        ("1,000,000.50", "1.000.000,50"),
        ("1,000 people", "1000 Menschen"),
        ("10,000 people", "10 000 Menschen"),
        ("10,000 people", "10\u202f000 Menschen"),
        ("3.14 and 0.5", "3,14 und 0,50"),
        ("the 1st and the 2nd", "der 1. und der 2."),
        ("at 10:30", "um 10.30 Uhr"),
        ("at 3 pm", "um 15 Uhr"),
        ("at 3:45 p.m.", "um 15:45 Uhr"),
        ("12/25/2024", "25.12.2024"),
        ("two dogs", "2 Hunde"),
        ("3 dogs", "drei Hunde"),
        ("٣٥ كتاب", "35 Bücher"),
        ("version 2.10.3", "Version 2.10.3"),
        ("He has 12.", "Er hat 12."),
        ("no number", "keine Zahl"),
    ],
)
def test_numbers_written_as_another_language_does_are_not_flagged(source: str, target: str) -> None:
    assert faults(source, target) == []


def test_only_a_low_probability_is_flagged() -> None:
    assert faults("a", "b", mean_log_probability=math.log(CONFIDENT * 0.9)) == ["low_confidence"]
    assert faults("a", "b", mean_log_probability=math.log(CONFIDENT * 1.1)) == []


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(source: str, target: str) -> None:
    for flag in find_flags(source, target):
        assert flag.message


@given(st.text("0123456789., '€", max_size=20))
def test_numbers_never_differ_from_themselves(text: str) -> None:
    assert "numbers" not in faults(text, text)


@pytest.mark.parametrize("unit", ["a ", "1", "1,", "1 111 ", "3 pm ", "a b c d ", "1.1 "])
def test_time_grows_no_faster_than_the_text(unit: str) -> None:
    def seconds(count: int) -> float:
        text, best = unit * count, 9.0
        for _ in range(3):
            begin = time.process_time()
            find_flags(text, text + "2")
            best = min(best, time.process_time() - begin)
        return best

    count = 100
    while seconds(count) < 0.002:
        count *= 2
    # Three doublings at once: a busy machine weighs less, and quadratic work would take 64 times as long.
    assert min(seconds(8 * count) / seconds(count) for _ in range(3)) <= 2.5**3
