"""Quality warnings about translations, in words. A translation without a warning may still be wrong."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sixfold.text.words import words

LONGEST_UNIT = 16  # maximum words of a repeated phrase
SHORT_UNIT, FEWEST_REPEATS = 2, 3  # phrases this short may occur twice in a row: hand in hand in …
COPIED_WORDS, COPIED_SHARE = 4, 0.6  # consecutive words as in the source, and the fraction of the translation
SPELLED_OUT = 12  # up to this number languages often write words
CONFIDENT = 0.4  # the geometric mean probability per token below which a translation is doubtful

# Digits, grouped by characters that languages use in numbers; a plain space groups only by three.
NUMBER = re.compile(r"\d++(?:[.,'’\u00a0\u202f]\d++)*+")
GROUPED_BY_SPACES = re.compile(r"(?<![\d.,])(\d{1,3})((?: \d{3})++)(?!\d)")
AFTERNOON = re.compile(r"(?<!\d)(1[01]|0?[1-9])((?:[:.]\d\d)?\s?p\.?m\b)", re.IGNORECASE)

Fault = Literal["repetition", "copied", "input_cut", "output_limit", "numbers", "low_confidence"]


@dataclass(frozen=True)
class Flag:
    """A quality warning."""

    fault: Fault
    message: str


def find_flags(
    source: str,
    target: str,
    mean_log_probability: float = 0.0,
    is_cut: bool = False,
    source_is_cut: bool = False,
    is_other_language: bool = True,
) -> list[Flag]:
    """Return the warnings about a translation; `is_other_language` says that it should not copy the source."""
    found = []
    if source_is_cut:
        found.append(Flag("input_cut", "The input is longer than the model reads at once; its end is missing."))
    if is_cut:
        found.append(Flag("output_limit", "The translation reached its length limit before the model ended it."))
    if repeated := repeated_phrase(source, target):
        found.append(Flag("repetition", f"It repeats itself: {repeated}"))
    if is_other_language and is_copied(source, target):
        found.append(Flag("copied", "Much of it is the source, word for word."))
    if message := number_difference(source, target):
        found.append(Flag("numbers", message))
    if target and (probability := math.exp(mean_log_probability)) < CONFIDENT:
        found.append(Flag("low_confidence", f"The model is unsure: {probability:.0%} per token on average."))
    return found


def repeated_phrase(source: str, target: str) -> str:
    """Return a phrase that the target repeats more often in a row than the source."""
    source_words, target_words = word_texts(source), word_texts(target)
    for size in range(1, LONGEST_UNIT + 1):
        end, count = longest_run(target_words, size)
        fewest = FEWEST_REPEATS if size <= SHORT_UNIT else 2
        if count >= fewest and count > longest_run(source_words, size)[1]:
            return " ".join(target_words[end - size : end])
    return ""


def longest_run(items: Sequence[str], size: int) -> tuple[int, int]:
    """Return where the longest run of a repeated phrase of this size ends, and its number of repetitions."""
    best_end, best, matching = 0, 0, 0
    for place in range(size, len(items)):
        matching = matching + 1 if items[place] == items[place - size] else 0
        if matching > best:
            best_end, best = place + 1, matching
    return best_end, best // size + 1


def word_texts(text: str) -> list[str]:
    """Return the words of a text that have letters or digits, in lowercase."""
    return [text[start:end].casefold() for start, end in words(text) if text[start].isalnum()]


def is_copied(source: str, target: str) -> bool:
    """Whether most of the target is copied from the source, in stretches of several words.

    A text of fewer words may well be a name, which is the same in any language.
    """
    given, written = ([word for word in word_texts(text) if not word.isdecimal()] for text in (source, target))
    known = {tuple(given[i : i + COPIED_WORDS]) for i in range(len(given) - COPIED_WORDS + 1)}
    copied: set[int] = set()
    for i in range(len(written) - COPIED_WORDS + 1):
        if tuple(written[i : i + COPIED_WORDS]) in known:
            copied.update(range(i, i + COPIED_WORDS))
    return bool(copied) and len(copied) >= COPIED_SHARE * len(written)


def number_difference(source: str, target: str) -> str:
    """Return how the numbers differ, or an empty string if they agree in some reading.

    Points, commas and spaces are read as any language uses them, and times with and without "pm". Number words
    are not read: a small number that stands on one side only may be a word on the other.
    """
    missing, added = unmatched(numbers(source), numbers(target))
    if not is_different(missing, added):
        return ""
    for read in (single_numbers, numbers_by_24_hours):
        if not is_different(*unmatched(read(source), read(target))):
            return ""
    sides = (("source", missing), ("translation", added))
    return "Numbers differ: " + "; ".join(f"only the {side} has {', '.join(row)}" for side, row in sides if row)


def unmatched(source: Counter[str], target: Counter[str]) -> tuple[list[str], list[str]]:
    """Return what only the source has and what only the target has."""
    return sorted((source - target).elements()), sorted((target - source).elements())


def is_different(missing: list[str], added: list[str]) -> bool:
    """Whether unmatched numbers cannot be number words on the other side."""
    return bool(missing and added) or any(not is_small(number) for number in missing + added)


def is_small(number: str) -> bool:
    """Whether languages often write this number as a word."""
    return len(number) <= 2 and number.isdecimal() and int(number) <= SPELLED_OUT


def numbers(text: str) -> Counter[str]:
    """Return the numbers of a text in a normal form, whatever their separators."""
    joined = GROUPED_BY_SPACES.sub(lambda found: found[1] + found[2].replace(" ", ""), text)
    return Counter(plain(found.group()) for found in NUMBER.finditer(joined))


def numbers_by_24_hours(text: str) -> Counter[str]:
    """Return the numbers of a text after "3 pm" is read as 15 and "3:30" as 3 and 30."""
    return single_numbers(AFTERNOON.sub(lambda found: f"{int(found[1]) + 12}{found[2]}", text))


def single_numbers(text: str) -> Counter[str]:
    """Return the numbers of a text with every separator between them, as in dates and times."""
    return Counter(plain(digits) for digits in re.findall(r"\d+", text))


def plain(number: str) -> str:
    """Return a number with a decimal point, if it has decimals, and no other separators."""
    *groups, last = re.split(r"\D", "".join(map(western, number)))
    is_grouped = all(len(group) == 3 for group in [*groups[1:], last]) and groups and groups[0].lstrip("0")
    if not groups or (is_grouped and len(groups[0]) <= 3):
        return "".join([*groups, last]).lstrip("0") or "0"
    whole, decimals = "".join(groups).lstrip("0") or "0", last.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def western(sign: str) -> str:
    """Return a digit of any script as an ASCII digit, and other characters unchanged."""
    return str(unicodedata.digit(sign)) if sign.isdecimal() else sign
