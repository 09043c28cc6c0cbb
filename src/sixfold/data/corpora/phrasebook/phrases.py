"""The phrasebook's phrases: who, what, where and when, chosen by chance and written in both languages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import TypeVar

from sixfold.data.corpora.phrasebook import lexicon
from sixfold.data.corpora.phrasebook.grammar import (
    BARE,
    NOT_A,
    NOT_ANY,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THIS,
    A,
    Determiner,
    Nominal,
    after_preposition,
    noun_phrase,
)
from sixfold.data.corpora.phrasebook.lexicon import ACCUSATIVE, DATIVE, Adjective, Noun, Words

Option = TypeVar("Option")

PEOPLE = ("person", "family")
PAST_TENSES = ("past", "had to", "wanted to")
SUBJECT_PRONOUNS = PRONOUNS * 2 + PRONOUNS[:2]  # I and you more often: no noun shares their verb forms
COMPANY = ("with", "mit", DATIVE), ("with", "mit", DATIVE), ("without", "ohne", ACCUSATIVE)


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
            return self.pick(SUBJECT_PRONOUNS)
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
        determiner = self.pick(owners()) if self.chance(0.2) else self.pick(POSSESSIVES)
        plural = "several" in noun.traits and self.chance(0.2)
        adjective = self.adjective(noun, 0.08) if determiner in POSSESSIVES else None
        return noun_phrase(determiner, noun, adjective, plural)

    def noun(self, *kinds: str) -> Noun:
        """Choose a noun of these kinds."""
        return self.pick(lexicon.nouns(*kinds))

    def adjective(self, noun: Noun, probability: float = 0.24) -> Adjective | None:
        """Choose an adjective that fits the noun, or none."""
        options = lexicon.fitting_adjectives(noun.kind)
        return self.pick(options) if options and self.chance(probability) else None

    def noun_phrase(self, noun: Noun, determiner: Determiner, plural_chance: float = 0.2) -> Nominal:
        """Write a noun with this determiner, perhaps with an adjective, perhaps in the plural."""
        plural = determiner is not A and self.is_plural(noun, plural_chance)
        adjective = None if determiner in owners() else self.adjective(noun)
        return noun_phrase(determiner, noun, adjective, plural)

    def is_plural(self, noun: Noun, probability: float) -> bool:
        """Decide whether to speak of more than one."""
        return bool(noun.english_plural) and ("plural" in noun.traits or self.chance(probability))

    def known_phrase(self, noun: Noun, plural_chance: float = 0.2) -> Nominal:
        """Write a noun as something known: the, this, my, Anna's."""
        return self.noun_phrase(noun, self.known(noun), plural_chance)

    def known(self, noun: Noun) -> Determiner:
        """Choose a determiner that makes a noun known."""
        place = self.random() * (0.65 if "unowned" in noun.traits else 1.0)
        if place < 0.65:
            return THE if place < 0.5 else THIS
        return self.pick(owners()) if place > 0.94 else self.pick(POSSESSIVES)

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
        return self.pick([pronoun for pronoun in PRONOUNS if pronoun.person not in near])

    def pronoun_for(self, nominal: Nominal) -> Nominal:
        """Return the pronoun that takes up a nominal again; anyone where he or she is not certain."""
        index = {0: 0, 1: 1, 3: 4, 4: 5}.get(nominal.person, {"m": 2, "f": 3}.get(nominal.gender, -1))
        return PRONOUNS[index] if index >= 0 else self.pick(PRONOUNS)

    # Where, and with whom

    def place(self) -> Words:
        """Choose where something happens."""
        if self.chance(0.15):
            return self.pick(lexicon.set_phrases("here"))
        return self.pick(lexicon.places("place")).where

    def goal(self) -> Words:
        """Choose where somebody goes."""
        return self.pick(lexicon.places("place")).goal

    def town(self, preposition: Words) -> Words:
        """Choose a town or country after a preposition."""
        return preposition + self.pick(lexicon.set_phrases("town", "country"))

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
        english, german, case = self.pick(COMPANY)
        return Words(f"{english} {person.english}", after_preposition(german, person, case))

    # When

    def time(self, tense: str, with_clock: bool = True) -> Words:
        """Choose a time that fits the tense."""
        if tense in PAST_TENSES:
            return self.pick(lexicon.set_phrases("past")) if self.chance(0.5) else self.day()
        if with_clock and self.chance(0.2):
            return Words("at", "um") + self.clock()
        return self.pick(lexicon.set_phrases("soon")) if self.chance(0.55) else self.day()

    def day(self) -> Words:
        """Choose a weekday, a month or a date: on 3 May."""
        place = self.random()
        if place < 0.35:
            return self.weekday()
        month = self.pick(lexicon.set_phrases("month"))
        return Words("in", "im") + month if place < 0.5 else self.date(month)

    def weekday(self) -> Words:
        """Choose a day of the week: on Monday."""
        return Words("on", "am") + self.pick(lexicon.set_phrases("weekday"))

    def date(self, month: Words) -> Words:
        """Choose a day of the month."""
        day = 1 + int(self.random() * days_in(month))
        return Words(f"on {day}", f"am {day}.") + month

    def clock(self) -> Words:
        """Choose a time of day: half past eight is halb neun, on the way to nine."""
        hours = lexicon.set_phrases("number")
        hour = int(self.random() * 12)
        this, following = hours[hour], hours[(hour + 1) % 12]
        return self.pick(
            (
                Words(f"{this.english} o'clock", f"{'ein' if hour == 0 else this.german} Uhr"),
                Words(f"half past {this.english}", f"halb {following.german}"),
                Words("a quarter past", "Viertel nach") + this,
                Words("a quarter to", "Viertel vor") + this,
            )
        )


def weighted(options: Sequence[tuple[Option, float]]) -> list[tuple[Option, float]]:
    """Turn weights into rising limits from 0 to 1."""
    total = sum(weight for _, weight in options)
    limits = accumulate(weight / total for _, weight in options)
    return [(option, limit) for (option, _), limit in zip(options, [*[*limits][:-1], 1.0], strict=True)]


@cache
def names() -> list[Nominal]:
    """Return first names, and surnames with Mr and Mrs: Herr is weak, den Herrn."""
    surnames = lexicon.set_phrases("surname")
    return [
        *(name_phrase(name, "f") for name in lexicon.set_phrases("woman")),
        *(name_phrase(name, "m") for name in lexicon.set_phrases("man")),
        *(name_phrase(Words("Mrs", "Frau") + name, "f") for name in surnames),
        *(name_phrase(Words("Mr", "Herr") + name, "m", f"Herrn {name.german}") for name in surnames),
    ]


def name_phrase(name: Words, gender: str, weak: str = "") -> Nominal:
    """Return a name as a nominal; it stands where known things stand."""
    other = weak or name.german
    return Nominal(name.english, name.english, (name.german, other, other), 2, "definite", gender)


@cache
def owners() -> list[Determiner]:
    """Return the names as owners: Anna's, Annas, with strong endings after it."""
    return [
        Determiner(f"{name.english}'s", f"{name.english}'s", f"{name.german}s", "bare", "strong", "definite")
        for name in lexicon.set_phrases("woman", "man")
    ]


@cache
def numbers() -> list[Determiner]:
    """Return two to twelve."""
    return [
        Determiner(number.english, number.english, number.german, "bare", "strong", "indefinite")
        for number in lexicon.set_phrases("number")[1:]
    ]


@cache
def homes() -> list[Words]:
    """Return where one can live, besides towns and countries."""
    return [place.where for place in lexicon.places("place", "home")] + lexicon.set_phrases("here")


@cache
def sights() -> list[Words]:
    """Return where one can find a hotel or a museum."""
    in_town = [Words("in", "in") + town for town in lexicon.set_phrases("town")]
    here = lexicon.set_phrases("here")[:1]
    return [place.where for place in lexicon.places("place", "sight")] + in_town + here


@cache
def habitual_times() -> list[Words]:
    """Return times that come again: every day, every Monday."""
    days = [Words("every", "jeden") + day for day in lexicon.set_phrases("weekday")]
    return lexicon.set_phrases("habitual") * 2 + days


def days_in(month: Words) -> int:
    """Return how many days every such month has."""
    if month.english == "February":
        return 28
    return 30 if month.english in ("April", "June", "September", "November") else 31
