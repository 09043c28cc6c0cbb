"""Scripts that are written without spaces between words, and the languages that are written in them.

Only letters, combining marks and digits matter here: every other character is a word by itself in any script. For
Chinese and Japanese these are all characters whose Unicode script is Han, Hiragana or Katakana, and the few that
all scripts share but only these two languages use, such as the long vowel ー. Tibetan separates syllables, but not
words. Korean writes spaces.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

CHINESE = frozenset({"zh", "zho", "chi", "cmn", "yue", "wuu"})
JAPANESE = frozenset({"ja", "jpn"})


@dataclass(frozen=True)
class Script:
    """A script, or several that one text mixes."""

    name: str  # what the Unicode names of its letters begin with
    languages: frozenset[str]  # ISO 639, of two and of three letters
    ranges: tuple[tuple[str, str], ...]  # first and last character


SCRIPTS = (
    Script("THAI", frozenset({"th", "tha"}), (("\u0e00", "\u0e7f"),)),
    Script("LAO", frozenset({"lo", "lao"}), (("\u0e80", "\u0eff"),)),
    Script("TIBETAN", frozenset({"bo", "bod", "tib", "dz", "dzo"}), (("\u0f00", "\u0fff"),)),
    Script(
        "MYANMAR",
        frozenset({"my", "mya", "bur"}),
        (
            ("\u1000", "\u109f"),
            ("\ua9e0", "\ua9ff"),  # Shan and other languages of Burma
            ("\uaa60", "\uaa7f"),
            ("\U000116d0", "\U000116ff"),
        ),
    ),
    Script("KHMER", frozenset({"km", "khm"}), (("\u1780", "\u17ff"),)),
    Script(
        "CJK",
        CHINESE | JAPANESE,
        (
            ("\u3005", "\u3007"),  # 々, 〆, 〇
            ("\u3021", "\u3029"),  # Suzhou numerals
            ("\u3031", "\u3035"),  # repetition in vertical Japanese
            ("\u3038", "\u303c"),  # more Suzhou numerals, repetition, ます as one sign
            ("\u3040", "\u30ff"),  # Hiragana, Katakana
            ("\u31f0", "\u31ff"),  # Katakana for Ainu
            ("\u3400", "\u4dbf"),  # Han, extension A
            ("\u4e00", "\u9fff"),  # Han
            ("\uf900", "\ufaff"),  # Han, second forms of characters
            ("\uff66", "\uff9f"),  # Katakana of half width
            ("\U00016fe2", "\U00016fe3"),  # Han of old books
            ("\U00016ff0", "\U00016ff1"),  # Han, Vietnamese reading marks
            ("\U0001aff0", "\U0001afff"),  # Katakana, tones of Taiwanese
            ("\U0001b000", "\U0001b16f"),  # Hiragana and Katakana, historic and small
            ("\U00020000", "\U0003ffff"),  # Han, all other extensions
        ),
    ),
)
LANGUAGES_WITHOUT_SPACES = frozenset(language for script in SCRIPTS for language in script.languages)

RANGES = sorted((first, last, script) for script in SCRIPTS for first, last in script.ranges)
FIRSTS = [first for first, _, _ in RANGES]


def script_without_spaces(character: str) -> Script | None:
    """Return the script of a character if it is written without spaces between words."""
    place = bisect_right(FIRSTS, character) - 1
    if place < 0:
        return None
    _, last, script = RANGES[place]
    return script if character <= last else None
