"""What the characters of a text tell: its scripts, control characters, and damage by a wrong encoding."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

from sixfold.data.checks.report import FaultKind
from sixfold.text.scripts import script_without_spaces

COMMON_SCRIPT_SHARE = 0.2  # of the letters, for a script to belong there

CONTROL = FaultKind(
    "control characters", "Invisible control characters, left over from another format: remove them."
)
DAMAGE = FaultKind(
    "encoding damage", "Text was decoded with the wrong encoding (Ã¤ for ä): convert the files again."
)

# Scripts


class ScriptWeights(dict[str, int]):
    """1 for a letter of a text's own scripts, -1 for any other letter, 0 for what is no letter."""

    def __init__(self, own: frozenset[str]) -> None:
        super().__init__()
        self.own = own
        self.ascii_is_own = "LATIN" in own or not own

    def __missing__(self, character: str) -> int:
        weight = 0
        if character.isalpha():
            weight = 1 if script_of(character) in self.own else -1
        self[character] = weight
        return weight

    def refuse(self, text: str) -> bool:
        """Return whether most letters are of other scripts; a single one, such as π, does not count."""
        if self.ascii_is_own and text.isascii():
            return False
        return bool(self.own) and sum(map(self.__getitem__, text)) <= -2


def script_of(letter: str) -> str:
    """Return the script of a letter, the first word of its Unicode name; the three of Japanese are one."""
    if (script := script_without_spaces(letter)) is not None:
        return script.name
    name = unicodedata.name(letter, "UNNAMED").removeprefix("FULLWIDTH ").removeprefix("HALFWIDTH ")
    return re.split("[ -]", name, maxsplit=1)[0]


def common_scripts(text: str) -> frozenset[str]:
    """Return the scripts that a text is written in."""
    letters: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            letters[script_of(character)] += count
    enough = COMMON_SCRIPT_SHARE * letters.total()
    return frozenset(script for script, count in letters.items() if count >= enough)


# Characters

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all of C0 and C1 but the tab


def has_control_characters(text: str) -> bool:
    """Return whether a text has control characters other than a tab."""
    return not text.isprintable() and CONTROL_CHARACTERS.search(text) is not None


def damage_pattern() -> re.Pattern[str]:
    """Return a pattern for UTF-8 that was decoded as Latin 1, as Windows 1252 or as Windows 1251.

    Â, Ã, Ä and Å are letters of real languages (NÃO, MAÇÃ…), so they count only where no language has them:
    between a lowercase letter and a character that stands for a continuation byte.
    """
    second_bytes = bytes(range(0x80, 0xC0))
    western = re.escape(second_bytes.decode("cp1252", errors="ignore") + second_bytes[:32].decode("latin-1"))
    cyrillic = re.escape(second_bytes.decode("cp1251", errors="ignore"))
    never_before_a_letter = re.sub("[’‘“”„‚…–—«»‹›\xa0]", "", western)
    return re.compile(
        "\ufffd|ï¿½|ï»¿|â€|â‚¬|â„¢"
        f"|[a-z][ÂÃÄÅ][{western}]|[ÂÃÄÅ][{never_before_a_letter}][a-z]"
        r"|(?<![^\W\d_])Â[£§°©®«»¿¡¢¥\xa0]"
        f"|(?:[ÐÑ][{western}]){{2}}|(?:[РС][{cyrillic}]){{3}}"
    )


DAMAGED = damage_pattern()
SUSPICIOUS = re.compile("[ÂÃÄÅÐÑâïРС\ufffd]")  # in all damaged text, but in few other lines


def has_encoding_damage(text: str) -> bool:
    """Return whether a text holds text that was decoded wrongly."""
    return not text.isascii() and SUSPICIOUS.search(text) is not None and DAMAGED.search(text) is not None
