"""The phrasebook's phrases: who, what, where and when, chosen by chance and written in both languages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import TypeVar

from sixfold.data.corpora.phrasebook import words as lexicon
from sixfold.data.corpora.phrasebook.grammar import (
    BARE,
    CASE_AFTER,
    DATIVE,
    NOT_A,
    NOT_ANY,
    THE,
    THIS,
    A,
    Determiner,
    Nominal,
    after_preposition,
    join,
    noun_phrase,
)
from sixfold.data.corpora.phrasebook.words import Adjective, Noun, Words

Option = TypeVar("Option")

PEOPLE = ("person", "family")
NOBODYS = ("man", "woman", "boy", "girl", "waiter", "policeman")  # we do not say `her man`
OWNED_BY_NOBODY = ("building", "show", "transport")
ALWAYS_PLURAL = ("shoe",)
PAST_TENSES = ("past", "had to", "wanted to")


class Phrases:
    """Chooses phrases; a seed decides which."""

    def __init__(self, seed: int) -> None:
        # Only random() is used: its sequence is promised to stay the same in later versions of Python.
        self.random = random.Random(seed).random

    def pick(self, options: Sequence[Option]) -> Option:
        """Choose one of equally likely options."""
        return options[int(self.random() * len(options))]

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def draw(self, options: Sequence[tuple[Option, float]]) -> Option:
        """Choose by weight from what `weighted` returned."""
        place = self.random()
        return next(option for option, limit in options if place < limit)

    # Who and what

    def human(self) -> Nominal:
        """Choose a person as subject."""
        place = self.random()
        if place < 0.52:
            return self.pick(subject_pronouns())
        if place < 0.66:
            return self.pick(names())
        if place < 0.83:
            return self.relative()
        noun = self.noun("person")
        return self.noun_phrase(noun, A) if self.chance(0.2) else self.known_phrase(noun, 0.3)

    def asked(self) -> Nominal:
        """Choose a person to ask about: seldom oneself."""
        subject = self.human()
        return subject if subject.person not in (0, 3) else self.human()

    def relative(self) -> Nominal:
        """Choose a member of the family: my brother, Anna's old aunt."""
        noun = self.noun("family")
        determiner = self.owner() if self.chance(0.2) else self.possessive()
        plural = noun.english in ("brother", "sister", "son", "daughter") and self.chance(0.2)
        adjective = self.adjective(noun, 0.08) if determiner.endings == "ein" else None
        return noun_phrase(determiner, noun, adjective, plural)

    def noun(self, *kinds: str) -> Noun:
        """Choose a noun of these kinds."""
        return self.pick(nouns_of(kinds))

    def adjective(self, noun: Noun, probability: float = 0.24) -> Adjective | None:
        """Choose an adjective that fits the noun, or none."""
        options = lexicon.adjectives_of(noun.kind)
        return self.pick(options) if options and self.chance(probability) else None

    def possessive(self) -> Determiner:
        """Choose my, your, his, her, our or their."""
        return self.pick(possessives())

    def owner(self) -> Determiner:
        """Choose a name as owner: Anna's."""
        return self.pick(owners())

    def noun_phrase(self, noun: Noun, determiner: Determiner, plural_chance: float = 0.2) -> Nominal:
        """Write a noun with this determiner, perhaps with an adjective, perhaps in the plural."""
        plural = determiner is not A and self.is_plural(noun, plural_chance)
        adjective = None if determiner in owners() else self.adjective(noun)
        return noun_phrase(determiner, noun, adjective, plural)

    def is_plural(self, noun: Noun, probability: float) -> bool:
        """Decide whether to speak of more than one."""
        return bool(noun.english_plural) and (noun.english in ALWAYS_PLURAL or self.chance(probability))

    def known_phrase(self, noun: Noun, plural_chance: float = 0.2) -> Nominal:
        """Write a noun as something known: the, this, my, Anna's."""
        return self.noun_phrase(noun, self.known(noun), plural_chance)

    def known(self, noun: Noun) -> Determiner:
        """Choose a determiner that makes a noun known."""
        unowned = noun.english in NOBODYS or noun.kind in OWNED_BY_NOBODY
        place = self.random() * (0.65 if unowned else 1.0)
        if place < 0.65:
            return THE if place < 0.5 else THIS
        return self.owner() if place > 0.94 else self.possessive()

    def new_phrase(self, noun: Noun, kein: bool) -> Nominal:
        """Write a noun as something new: a house, houses, two houses, milk; with `kein`, not one of them."""
        is_mass = not noun.english_plural
        if is_mass:
            return noun_phrase(NOT_ANY if kein else BARE, noun, self.adjective(noun))
        plural = self.is_plural(noun, 0.3)
        if kein:
            return noun_phrase(NOT_A, noun, self.adjective(noun), plural)
        if plural and self.chance(0.5):
            return noun_phrase(self.pick(numbers()), noun, self.adjective(noun), plural=True)
        return noun_phrase(BARE if plural else A, noun, self.adjective(noun), plural)

    def person_object(self, subject: Nominal) -> Nominal:
        """Choose a person as object, never the subject itself."""
        if self.chance(0.4):
            return self.other_pronoun(subject)
        if self.chance(0.25):
            return self.pick([name for name in names() if name is not subject])
        return self.relative() if self.chance(0.55) else self.known_phrase(self.noun("person"), 0.15)

    def other_pronoun(self, subject: Nominal) -> Nominal:
        """Choose a pronoun that does not point back at the subject: never `I see me` or `we see me`."""
        near = {0: (0, 3), 3: (0, 3), 1: (1,)}.get(subject.person, ())
        return self.pick([pronoun for pronoun in pronouns() if pronoun.person not in near])

    def pronoun_for(self, nominal: Nominal) -> Nominal:
        """Return the pronoun that takes up a nominal again; anyone where he or she is not certain."""
        index = {0: 0, 1: 1, 3: 4, 4: 5}.get(nominal.person, {"m": 2, "f": 3}.get(nominal.gender, -1))
        return pronouns()[index] if index >= 0 else self.pick(pronouns())

    # Where, and with whom

    def place(self) -> Words:
        """Choose where something happens."""
        return self.pick(lexicon.words(lexicon.HERE)) if self.chance(0.15) else self.pick(places())

    def spot(self, case: int) -> Words:
        """Choose a place at a piece of furniture, in the case that the verb asks for."""
        preposition, noun = self.pick(spots())
        phrase = noun_phrase(THE, noun)
        german = after_preposition(preposition.german, phrase, case)
        return Words(f"{preposition.english} {phrase.english}", german)

    def town(self, english: str, german: str) -> Words:
        """Choose a town or country after a preposition."""
        town = self.pick(towns())
        return Words(f"{english} {town.english}", f"{german} {town.german}")

    def to_person(self) -> Words:
        """Choose a person to go to: zum Arzt, zu meiner Tante."""
        person = self.relative() if self.chance(0.6) else self.known_phrase(self.noun("person"), 0.0)
        return Words(f"to {person.english}", after_preposition("zu", person, DATIVE))

    def by_transport(self) -> Words:
        """Choose a means of transport: by train."""
        noun = self.noun("transport", "vehicle")
        return Words(f"by {noun.english}", after_preposition("mit", noun_phrase(THE, noun), DATIVE))

    def companion(self, probability: float) -> Words | None:
        """Choose somebody to do it with or without, or nobody."""
        if not self.chance(probability):
            return None
        person = self.relative() if self.chance(0.6) else self.pick(names())
        english, german = self.pick((("with", "mit"), ("with", "mit"), ("without", "ohne")))
        return Words(f"{english} {person.english}", after_preposition(german, person, CASE_AFTER[german]))

    # When

    def time(self, tense: str, with_clock: bool = True) -> Words:
        """Choose a time that fits the tense."""
        if tense in PAST_TENSES:
            return self.pick(lexicon.words(lexicon.PAST)) if self.chance(0.5) else self.day()
        if with_clock and self.chance(0.2):
            return self.clock("at", "um")
        return self.pick(lexicon.words(lexicon.SOON)) if self.chance(0.55) else self.day()

    def day(self) -> Words:
        """Choose a weekday, a month or a date: on 3 May."""
        place = self.random()
        if place < 0.35:
            return self.weekday()
        month = self.pick(lexicon.words(lexicon.MONTHS))
        if place < 0.5:
            return Words(f"in {month.english}", f"im {month.german}")
        return self.date(month)

    def weekday(self) -> Words:
        """Choose a day of the week: on Monday."""
        day = self.pick(lexicon.words(lexicon.WEEKDAYS))
        return Words(f"on {day.english}", f"am {day.german}")

    def date(self, month: Words) -> Words:
        """Choose a day of the month."""
        day = 1 + int(self.random() * days_in(month))
        return Words(f"on {day} {month.english}", f"am {day}. {month.german}")

    def clock(self, english: str, german: str) -> Words:
        """Choose a time of day: half past eight is halb neun, on the way to nine."""
        hour = 1 + int(self.random() * 12)
        this, following = hour_words()[hour], hour_words()[hour % 12 + 1]
        shown = self.pick(
            (
                Words(f"{this.english} o'clock", f"{'ein' if hour == 1 else this.german} Uhr"),
                Words(f"half past {this.english}", f"halb {following.german}"),
                Words(f"a quarter past {this.english}", f"Viertel nach {this.german}"),
                Words(f"a quarter to {this.english}", f"Viertel vor {this.german}"),
            )
        )
        return Words(join(english, shown.english), join(german, shown.german))


def weighted(options: Sequence[tuple[Option, float]]) -> list[tuple[Option, float]]:
    """Turn weights into rising limits from 0 to 1."""
    total = sum(weight for _, weight in options)
    limits = accumulate(weight / total for _, weight in options)
    return [(option, limit) for (option, _), limit in zip(options, [*[*limits][:-1], 1.0], strict=True)]


@cache
def nouns_of(kinds: tuple[str, ...]) -> list[Noun]:
    """Return the nouns of these kinds."""
    return [noun for kind in kinds for noun in lexicon.nouns()[kind]]


@cache
def pronouns() -> list[Nominal]:
    """Return I, you, he, she, we and they."""
    persons, genders = (0, 1, 2, 2, 3, 4), ("m", "m", "m", "f", "p", "p")
    return [
        Nominal(english[0], english[1], (german[0], german[1], german[2]), person, "pronoun", gender)
        for (english, german), person, gender in zip(lexicon.rows(lexicon.PRONOUNS), persons, genders, strict=True)
    ]


@cache
def subject_pronouns() -> list[Nominal]:
    """Return the pronouns with I and you more often, because no noun shares their verb forms."""
    return pronouns() * 2 + pronouns()[:2]


@cache
def names() -> list[Nominal]:
    """Return first names, and surnames with Mr and Mrs: Herr is weak, den Herrn."""
    women = [name_phrase(name, name, name, "f") for name in lexicon.WOMEN.split()]
    men = [name_phrase(name, name, name, "m") for name in lexicon.MEN.split()]
    surnames = lexicon.SURNAMES.split()
    mrs = [name_phrase(f"Mrs {name}", f"Frau {name}", f"Frau {name}", "f") for name in surnames]
    mr = [name_phrase(f"Mr {name}", f"Herr {name}", f"Herrn {name}", "m") for name in surnames]
    return women + men + mrs + mr


def name_phrase(english: str, nominative: str, other: str, gender: str) -> Nominal:
    """Return a name as a nominal; it stands where known things stand."""
    return Nominal(english, english, (nominative, other, other), 2, "definite", gender)


@cache
def possessives() -> list[Determiner]:
    """Return my to their; German endings are those of ein."""
    return [
        Determiner(entry.english, entry.english, entry.german, "ein", "mixed", "definite")
        for entry in lexicon.words(lexicon.POSSESSIVES)
    ]


@cache
def owners() -> list[Determiner]:
    """Return the names as owners: Anna's, Annas, with strong endings after it."""
    return [
        Determiner(f"{name}'s", f"{name}'s", f"{name}s", "bare", "strong", "definite")
        for name in (lexicon.WOMEN + " " + lexicon.MEN).split()
    ]


@cache
def numbers() -> list[Determiner]:
    """Return two to twelve."""
    return [
        Determiner(entry.english, entry.english, entry.german, "bare", "strong", "indefinite")
        for entry in lexicon.words(lexicon.NUMBERS)
    ]


@cache
def hour_words() -> dict[int, Words]:
    """Return the words of the hours from one to twelve."""
    return dict(enumerate([Words("one", "eins"), *lexicon.words(lexicon.NUMBERS)], start=1))


@cache
def places() -> list[Words]:
    """Return where one can be."""
    return [Words(english[0], german[0]) for english, german in lexicon.rows(lexicon.PLACES)]


@cache
def goals() -> list[Words]:
    """Return where one can go."""
    return [Words(english[1], german[1]) for english, german in lexicon.rows(lexicon.PLACES)]


@cache
def homes() -> list[Words]:
    """Return where one can live, besides towns and countries."""
    return [place for place in places() if place.english in lexicon.HOMES.split(", ")] + lexicon.words(
        lexicon.HERE
    )


@cache
def sights() -> list[Words]:
    """Return where one can find a hotel or a museum."""
    in_town = [Words(f"in {town.english}", f"in {town.german}") for town in lexicon.words(lexicon.TOWNS)]
    return (
        [place for place in places() if place.english in lexicon.SIGHTS.split(", ")]
        + in_town
        + lexicon.words(lexicon.HERE)[:1]
    )


@cache
def spots() -> list[tuple[Words, Noun]]:
    """Return each two-way preposition with the furniture it goes with."""
    return [
        (preposition, lexicon.noun_named()[name])
        for pair, names in lexicon.SPOTS.items()
        for preposition in lexicon.words(pair)
        for name in names.split()
    ]


@cache
def towns() -> list[Words]:
    """Return towns and countries."""
    return lexicon.words(lexicon.TOWNS) + lexicon.words(lexicon.COUNTRIES)


def days_in(month: Words) -> int:
    """Return how many days every such month has."""
    if month.english == "February":
        return 28
    return 30 if month.english in ("April", "June", "September", "November") else 31


@cache
def habitual_times() -> list[Words]:
    """Return times that come again: every day, every Monday."""
    days = [Words(f"every {day.english}", f"jeden {day.german}") for day in lexicon.words(lexicon.WEEKDAYS)]
    return lexicon.words(lexicon.HABITUAL) * 2 + days
