"""Checks of one pair: each looks for one kind of fault in its two sides.

What is normal (scripts, the ratio of lengths) is learned from the beginning of the corpus itself, so that no check
needs to know a language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from sixfold.data.formats import Pair
from sixfold.text.scripts import script_without_spaces

PairTest = Callable[[str, str], bool]

COMMON_SCRIPT_SHARE = 0.2  # of a side's letters, for a script to belong there
RATIO_SLACK = 10  # characters: what may differ freely, so that short pairs are not judged by a word


@dataclass(frozen=True, slots=True)
class FaultKind:
    """A kind of fault: its name, what it means and what to do, and whether a clean corpus is without it."""

    name: str
    meaning: str
    is_removed: bool = True


EMPTY = FaultKind("empty side", "One side is blank, so there is nothing to learn: remove these pairs.")
LENGTH_RATIO = FaultKind(
    "length ratio", "One side is much longer than the other, so it is hardly a translation: remove it."
)
IDENTICAL = FaultKind("identical sides", "Source and target are the same text, which teaches copying: remove it.")
WRONG_SCRIPT = FaultKind(
    "wrong script", "A side is in another script than the rest of it, so in another language: remove it."
)
CONTROL = FaultKind(
    "control characters", "Invisible control characters, left over from another format: remove them."
)
DAMAGE = FaultKind(
    "encoding damage", "Text was decoded with the wrong encoding (Ã¤ for ä): convert the files again."
)
DUPLICATE = FaultKind("duplicate pair", "The same pair occurs earlier; a repeat only gives it more weight.")
TEST_PAIR = FaultKind(
    "pair of the test set", "The test set has this pair, which would inflate its score: remove it."
)
TEST_SOURCE = FaultKind(
    "source of the test set", "The test set has this source, which would inflate its score: remove it."
)
MISALIGNED = FaultKind("misaligned", "The lines of the two sides do not belong together.", is_removed=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a good pair."""

    max_words: int = 250
    max_characters: int = 2000  # for languages that write no spaces
    max_ratio: float = 3.0  # of the lengths in characters, after the corpus' own ratio


@dataclass(frozen=True, slots=True)
class Profile:
    """What is normal in a corpus."""

    source_scripts: frozenset[str]
    target_scripts: frozenset[str]
    ratio: float  # target characters to source characters


def learn_profile(pairs: Sequence[Pair]) -> Profile:
    """Learn from a sample what is normal."""
    full = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
    ratio = median(len(pair.target) / len(pair.source) for pair in full) if full else 1.0
    return Profile(
        source_scripts=common_scripts("".join(pair.source for pair in full)),
        target_scripts=common_scripts("".join(pair.target for pair in full)),
        ratio=min(max(ratio, 0.1), 10.0),
    )


def pair_tests(profile: Profile, limits: Limits) -> list[tuple[FaultKind, PairTest]]:
    """Return the tests of a corpus, in the order in which they are reported."""
    source_weights = ScriptWeights(profile.source_scripts)
    target_weights = ScriptWeights(profile.target_scripts)
    return [
        (too_long(limits), partial(either, partial(is_too_long, limits))),
        (LENGTH_RATIO, partial(has_bad_ratio, limits.max_ratio, profile.ratio)),
        (IDENTICAL, is_identical),
        (WRONG_SCRIPT, lambda source, target: source_weights.refuse(source) or target_weights.refuse(target)),
        (CONTROL, partial(either, has_control_characters)),
        (DAMAGE, partial(either, has_encoding_damage)),
    ]


def faults_of(source: str, target: str, tests: Sequence[tuple[FaultKind, PairTest]]) -> list[FaultKind]:
    """Return the faults of a pair; a blank side leaves nothing else to judge."""
    if not source.strip() or not target.strip():
        return [EMPTY]
    return [kind for kind, is_faulty in tests if is_faulty(source, target)]


def too_long(limits: Limits) -> FaultKind:
    """Return the fault of a side that exceeds the limits, which its meaning states."""
    cap = f"{limits.max_words:,} words or {limits.max_characters:,} characters"
    return FaultKind("too long", f"A side has more than {cap}: split it into sentences, or remove it.")


def either(test: Callable[[str], bool], source: str, target: str) -> bool:
    """Apply a test of one side to both."""
    return test(source) or test(target)


def is_too_long(limits: Limits, text: str) -> bool:
    """Return whether a side has too many characters, or too many words."""
    length = len(text)
    if length > limits.max_characters:
        return True
    return length > 2 * limits.max_words and len(text.split()) > limits.max_words


def has_bad_ratio(max_ratio: float, usual_ratio: float, source: str, target: str) -> bool:
    """Return whether one side is far longer, once both are counted in characters of the wordier script."""
    source_length = len(source) * max(1.0, usual_ratio) + RATIO_SLACK
    target_length = len(target) * max(1.0, 1.0 / usual_ratio) + RATIO_SLACK
    return source_length > max_ratio * target_length or target_length > max_ratio * source_length


def is_identical(source: str, target: str) -> bool:
    """Return whether both sides are the same words; the same number is a translation of itself."""
    return source == target and any(map(str.isalpha, source))


# Scripts


class ScriptWeights(dict[str, int]):
    """1 for a letter of a side's own scripts, -1 for any other letter, 0 for what is no letter."""

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
        """Return whether most letters are foreign; one foreign letter (a lone π) is not yet a language."""
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
    """Return the scripts that a side is written in."""
    letters: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            letters[script_of(character)] += count
    enough = COMMON_SCRIPT_SHARE * letters.total()
    return frozenset(script for script, count in letters.items() if count >= enough)


# Characters

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all of C0 and C1 but the tab


def has_control_characters(text: str) -> bool:
    """Return whether a side has control characters other than a tab."""
    return not text.isprintable() and CONTROL_CHARACTERS.search(text) is not None


def damage_pattern() -> re.Pattern[str]:
    """Return the pattern of UTF-8 that was read as Latin 1, as Windows 1252 or as Windows 1251.

    Â, Ã, Ä and Å are letters of real languages (NÃO, MAÇÃ…), so they count only where no language has them:
    between a small letter and what is the second byte of a character.
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
SUSPICIOUS = re.compile("[ÂÃÄÅÐÑâïРС\ufffd]")  # what every damage has: most lines need no closer look


def has_encoding_damage(text: str) -> bool:
    """Return whether a side holds text that was decoded wrongly."""
    return not text.isascii() and SUSPICIOUS.search(text) is not None and DAMAGED.search(text) is not None
