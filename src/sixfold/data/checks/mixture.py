"""Detect the scripts and languages of a text from evenly spaced passages.

Languages are told by py3langid where it is installed; scripts need nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from sixfold.data.checks.characters import script_of
from sixfold.data.checks.report import FaultKind, FaultTally, Finding, Place
from sixfold.data.even_sample import EvenSample

PASSAGE_CHARACTERS = 400  # enough to tell a language by
MOST_PASSAGES = 500
FEWEST_LETTERS = 100  # of a passage: tables and code are in no language
SURE = 0.9  # the probability from which a language counts as detected
SHOWN = 4
WORTH_SAYING = 0.01  # of the passages

Tell = Callable[[str], str]  # what a passage is in, or nothing


@dataclass(frozen=True, slots=True)
class Passage:
    """Some consecutive text, and where it begins."""

    place: Place
    text: str


class Mixture:
    """Takes all of a text and keeps some passages of it."""

    def __init__(self) -> None:
        self.sample = EvenSample[Passage](MOST_PASSAGES)
        self.place: Place | None = None  # of the passage that is open
        self.waiting: list[str] = []
        self.length = 0

    def add(self, place: Place, text: str, is_end: bool) -> None:
        """Take more text; at the end of a document a passage ends too."""
        if text:
            self.place = self.place or place
            self.waiting.append(text[:PASSAGE_CHARACTERS])
            self.length += len(self.waiting[-1])
        if self.place is not None and (self.length >= PASSAGE_CHARACTERS or is_end):
            self.sample.offer(Passage(self.place, " ".join(self.waiting)))
            self.place, self.waiting, self.length = None, [], 0

    def told(self) -> tuple[list[str], list[Finding]]:
        """Return the scripts or languages of the text in words, and the passages in another one than most."""
        passages, language_of = self.sample.items, language_teller()
        scripts, in_other_scripts = shares("scripts", passages, script_of_passage)
        if language_of is None:
            note = ["languages: not told, for want of py3langid (pip install py3langid)"] if scripts else []
            return [*scripts, *note], in_other_scripts
        languages, in_other_languages = shares("languages", passages, language_of)
        return [*scripts, *languages], in_other_languages


def shares(what: str, passages: Sequence[Passage], tell: Tell) -> tuple[list[str], list[Finding]]:
    """Return how many passages are in what, and where those are that differ from the most."""
    told = [(passage.place, found) for passage in passages if (found := tell(passage.text))]
    counts = Counter(found for _, found in told)
    if not counts:
        return [], []
    parts = ", ".join(f"{name} {count / len(told):.0%}" for name, count in worth_saying(counts))
    facts = [f"{what}: {parts} (of {len(told):,} evenly spaced passages)"]
    usual, tally = counts.most_common(1)[0][0], FaultTally()
    for place, found in told:
        if found != usual:
            tally.add(place)
    if tally.count < max(2, WORTH_SAYING * len(told)):
        return facts, []
    kind = FaultKind(
        f"mixed {what}",
        f"Of {len(told):,} passages examined, these are not in the most frequent {what.rstrip('s')}: a small "
        "model learns one better than several.",
        is_removed=False,
    )
    return facts, [tally.finding(kind, "passages")]


def worth_saying(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """Yield the most frequent, without those that occur by chance."""
    for name, count in counts.most_common(SHOWN):
        if count >= WORTH_SAYING * counts.total():
            yield name, count


def script_of_passage(text: str) -> str:
    """Return the script of most letters, or nothing where there are few."""
    letters: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            letters[script_of(character)] += count
    return letters.most_common(1)[0][0].capitalize() if letters.total() >= FEWEST_LETTERS else ""


@cache
def language_teller() -> Tell | None:
    """Return what tells the language of a text, if it is installed."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def tell(text: str) -> str:
        if sum(map(str.isalpha, text)) < FEWEST_LETTERS:
            return ""
        language, probability = identifier.classify(text)
        return str(language) if probability >= SURE else ""

    return tell
