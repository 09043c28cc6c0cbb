"""Dates as people write them in many languages, and the same dates in ISO 8601.

`Donnerstag, 1. Mai 2031`, `1 mai 2031`, `2031년 5월 1일` → `2031-05-01`. The locale data are Unicode's CLDR, from
Babel. A source never has two targets: `03/04/2031` is 3 April in London and 4 March in New York, so a date in
digits is kept only if it is the same day in every language that could have written it. Years span exactly one
century, so that two digits name one year.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator
from functools import cache

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus, PairsBySplit, TextPair, fill, sizes
from sixfold.errors import MissingExtraError

NUM_PAIRS = 60_000
FIRST_YEAR, LAST_YEAR = 1950, 2049
STYLES = ("short", "medium", "long", "full")
LOCALES = (
    "en_US", "en_GB", "de", "fr", "es", "it", "nl", "pt", "sv", "da", "nb", "fi", "pl", "cs", "sk",
    "sl", "hu", "ro", "tr", "ru", "uk", "bg", "el", "lt", "lv", "et", "ca", "is", "id", "ja", "zh",
    "ko",
)  # fmt: skip
ABOUT = KnownCorpus(
    "dates",
    f"dates as written in {len(LOCALES)} locales to ISO 8601",
    ("written", "iso"),
    "Unicode-3.0 (the locale data, CLDR)",
    "generated with the PyPI package Babel",
)
FIELD = re.compile(r"y+|M+|d+|'[^']*'")
ONE_READING = "Dates in digits that languages read differently are left out, so that a source has one target."


def load(num_pairs: int | None = None, seed: int = 1, on_progress: OnProgress = no_progress) -> PairsBySplit:
    """Return dates by split; the written date decides its split."""
    return PairsBySplit(fill(dates(seed), sizes(num_pairs or NUM_PAIRS), on_progress), (ONE_READING,))


def dates(seed: int = 1) -> Iterator[TextPair]:
    """Yield written dates with their ISO form, without end; some repeat."""
    number = random.Random(seed).random
    first = datetime.date(FIRST_YEAR, 1, 1).toordinal()
    num_days = datetime.date(LAST_YEAR, 12, 31).toordinal() - first + 1
    while True:
        day = datetime.date.fromordinal(first + int(number() * num_days))
        locale, style = LOCALES[int(number() * len(LOCALES))], STYLES[int(number() * len(STYLES))]
        written = write_date(day, locale, style)
        if written != day.isoformat() and is_certain(written, day):
            yield written, day.isoformat()


def write_date(day: datetime.date, locale: str, style: str) -> str:
    """Write a date as the locale does, with plain spaces."""
    try:
        from babel.dates import format_date
    except ImportError as error:
        raise MissingExtraError("babel", "corpora", "The corpus dates") from error
    return " ".join(str(format_date(day, format=style, locale=locale)).split())


def is_certain(written: str, day: datetime.date) -> bool:
    """Return whether no locale would read the written date as another day."""
    if any(character.isalpha() for character in written):
        return True  # the month's name, or 年 and 월 after a number, leaves no choice
    return readings(written) == {day}


def readings(written: str) -> set[datetime.date]:
    """Return every day that some locale writes this way in digits."""
    days = set()
    for pattern in digit_patterns():
        match = pattern.fullmatch(written)
        day = to_date(match["y"], match["m"], match["d"]) if match else None
        if day:
            days.add(day)
    return days


def to_date(year: str, month: str, day: str) -> datetime.date | None:
    """Return the date, with two-digit years in our century, or None if there is no such day."""
    number = int(year)
    if len(year) == 2:
        number += 1900 if number >= FIRST_YEAR % 100 else 2000
    try:
        return datetime.date(number, int(month), int(day))
    except ValueError:
        return None


@cache
def digit_patterns() -> list[re.Pattern[str]]:
    """Return regular expressions for dates in digits in our locales."""
    from babel import Locale

    formats = {
        str(Locale.parse(name).date_formats[style].pattern) for name in LOCALES for style in ("short", "medium")
    }
    return [digit_pattern(form) for form in sorted(formats) if "MMM" not in form]


def digit_pattern(form: str) -> re.Pattern[str]:
    """Turn a CLDR pattern such as `dd/MM/y` into a regular expression for the dates that it writes."""
    fields = {
        "y": r"(?P<y>\d{4})",
        "yy": r"(?P<y>\d\d)",
        "M": r"(?P<m>[1-9]\d?)",
        "MM": r"(?P<m>\d\d)",
        "d": r"(?P<d>[1-9]\d?)",
        "dd": r"(?P<d>\d\d)",
    }
    pieces, place = [], 0
    for match in FIELD.finditer(form):
        pieces.append(re.escape(form[place : match.start()]))
        pieces.append(fields.get(match[0]) or re.escape(match[0].strip("'")))
        place = match.end()
    return re.compile("".join([*pieces, re.escape(form[place:])]))
