"""The phrasebook: English sentences and their German translations, made by our own grammar.

`phrasebook_words` is the dictionary, `phrasebook_grammar` writes a clause in both languages, and this
file decides what is said. One English sentence has exactly one German translation, the supply does not
end, and a seed decides everything. `you` is always one friend: du.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import TypeVar

from sixfold.data.corpora import phrasebook_words as lexicon
from sixfold.data.corpora.files import Pair, Pairs, Tick, fill, no_tick, sizes
from sixfold.data.corpora.phrasebook_grammar import (
    ACCUSATIVE,
    BARE,
    CASE_AFTER,
    DATIVE,
    NOMINATIVE,
    NOT_A,
    NOT_ANY,
    THE,
    THIS,
    A,
    Clause,
    Determiner,
    Nominal,
    Predicate,
    after_preposition,
    english_infinitive,
    english_objects,
    english_question,
    english_statement,
    german_imperative,
    german_infinitive,
    german_question,
    german_statement,
    german_subordinate,
    join,
    noun_phrase,
)
from sixfold.data.corpora.phrasebook_words import Adjective, Noun, Verb, Words

Option = TypeVar("Option")

NUM_PAIRS = 60_000
MIN_WORDS, MAX_WORDS = 3, 14

NO = Determiner("no", "no", "kein", "ein", "mixed", "negated")
IT = Nominal("it", "it", ("es", "es", "ihm"), 2, "pronoun", "n")
WHO = Nominal("who", "who", ("wer", "wen", "wem"), 2, "pronoun", "m")
RELATIVE = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das"), "p": ("die", "die")}

PEOPLE = ("person", "family")
NOBODYS = ("man", "woman", "boy", "girl", "waiter", "policeman")  # we do not say `her man`
OWNED_BY_NOBODY = ("building", "show", "transport")
ALWAYS_PLURAL = ("shoe",)
NEVER_INDEFINITE = (
    "like",
    "know",
    "understand",
    "forget",
    "look at",
    "clean",
    "tidy ~up",
    "turn ~on",
    "turn ~off",
)
NEVER_NOW = ("find", "lose", "forget")  # they happen in a moment: often, yesterday, but not at present
NEVER_MEANT = ("lose", "forget")  # nobody wants to
ALONE = ("sleep", "wake up", "fall asleep", "get up", "come back")
NEVER_HABITUAL = ("need", "have", "like", "know", "understand", "trust", "live")
COMPARED = ("person", "family", "clothes", "vehicle", "transport", "home", "show", "animal")
STATES = ("tired", "sick", "hungry", "happy", "sad")
AIMS = ("buy", "visit", "pick ~up", "eat", "drink", "read", "look for", "ask", "look at", "draw", "repair")
MODAL_TENSES = ("can", "should", "may", "have to", "want to", "would like to", "had to", "wanted to")
PAST_TENSES = ("past", "had to", "wanted to")

TENSES = (  # how often a verb with all its forms stands in which tense
    ("present", 30),
    ("simple", 13),
    ("past", 24),
    ("perfect", 4),
    ("will", 7),
    ("likes to", 4),
    *((modal, 2.6) for modal in MODAL_TENSES),
)
COMING_TENSES = (("will", 3), ("can", 1), ("should", 1), ("have to", 1), ("want to", 1), ("would like to", 1))


def load(num_pairs: int | None = None, seed: int = 1, tick: Tick = no_tick) -> Pairs:
    """Return train, val and test pairs; a sentence is held out by its own text, whatever the sizes."""
    return Pairs(
        fill(sentences(seed), sizes(num_pairs or NUM_PAIRS), tick),
        ("Made by the grammar in this package: one English sentence has one German translation (you = du).",),
    )


def sentences(seed: int = 1) -> Iterator[Pair]:
    """Yield pairs without end; some come more than once."""
    author = Author(seed)
    while True:
        english, german = author.sentence()
        if MIN_WORDS <= english.count(" ") + 1 <= MAX_WORDS:
            yield english, german


class Author:
    """Decides what is said, one sentence after another."""

    def __init__(self, seed: int) -> None:
        # Only random() is used: its sequence is promised to stay the same in later versions of Python.
        self.random = random.Random(seed).random
        self.patterns = weighted(
            (
                (self.statement, 34),
                (self.yes_no_question, 10),
                (self.question_with_word, 6),
                (self.question_about_thing, 3),
                (self.question_about_person, 4),
                (self.request, 7),
                (self.description, 9),
                (self.comparison, 3),
                (self.two_clauses, 9),
                (self.clause_first, 4),
                (self.reported_clause, 4),
                (self.infinitive_clause, 4),
                (self.purpose, 2),
                (self.relative_clause, 3),
                (self.location, 3),
                (self.existence, 2),
                (self.belonging, 2),
                (self.price, 2.5),
                (self.age, 2),
                (self.timetable, 3.5),
                (self.birthday, 1),
            )
        )
        self.predicates = weighted(
            (
                (self.transitive, 46),
                (self.with_dative, 6),
                (self.giving, 9),
                (self.explaining, 1.5),
                (self.intransitive, 15),
                (self.staying, 4),
                (self.going, 4),
                (self.travelling, 4.5),
                (self.with_preposition, 6),
                (self.putting, 2),
                (self.coming, 2),
            )
        )
        self.tenses, self.coming_tenses = weighted(TENSES), weighted(COMING_TENSES)
        self.plain_tenses = weighted((("present", 1), ("past", 1)))

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

    def sentence(self) -> Pair:
        """Write one sentence in both languages."""
        return self.draw(self.patterns)()

    # Nominals

    def human(self) -> Nominal:
        """Choose a person as subject."""
        place = self.random()
        if place < 0.52:
            return self.pick(pronouns())
        if place < 0.66:
            return self.pick(names())
        if place < 0.83:
            return self.relative()
        noun = self.noun("person")
        return self.noun_phrase(noun, A) if self.chance(0.2) else self.known_phrase(noun)

    def asked(self) -> Nominal:
        """Choose a person to ask about: seldom oneself."""
        subject = self.human()
        return subject if subject.person not in (0, 3) else self.human()

    def relative(self) -> Nominal:
        """Choose a member of the family: my brother, Anna's old aunt."""
        noun = self.noun("family")
        determiner = self.owner() if self.chance(0.2) else self.possessive()
        plural = noun.english in ("brother", "sister", "son", "daughter") and self.chance(0.2)
        return noun_phrase(determiner, noun, self.adjective(noun, 0.08), plural)

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
        return noun_phrase(determiner, noun, self.adjective(noun), plural)

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

    # Predicates: each returns the verb with its objects

    def predicate(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Choose what the subject does."""
        return self.draw(self.predicates)(subject, tense, negative)

    def transitive(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Choose a verb and its accusative object."""
        verb = self.pick(lexicon.verbs(lexicon.TRANSITIVE))
        return Predicate(verb, self.object_of(verb, subject, tense, negative))

    def action(self, subject: Nominal, verbs: Sequence[Verb]) -> Predicate:
        """Choose one of these verbs and its accusative object."""
        verb = self.pick(verbs)
        return Predicate(verb, self.object_of(verb, subject, "present", negative=False))

    def object_of(self, verb: Verb, subject: Nominal, tense: str, negative: bool) -> Nominal:
        """Choose what fits the verb; kein negates something new, nicht everything else."""
        noun = self.noun(*verb.objects)
        if noun.kind in PEOPLE:
            return self.person_object(subject)
        if noun.kind in ("language", "means"):
            return noun_phrase(NOT_ANY if negative and tense != "likes to" else BARE, noun)
        if verb.english == "like" and not negative and self.chance(0.5):
            return self.noun_phrase(noun, BARE, plural_chance=1.0)
        if verb.english in NEVER_INDEFINITE or self.chance(0.5):
            return self.known_phrase(noun)
        return self.new_phrase(noun, kein=negative and tense != "likes to")

    def with_dative(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Choose a verb whose object is a dative: helfen, danken."""
        verb = self.pick(lexicon.verbs(lexicon.DATIVE))
        noun = self.noun(*verb.objects)
        person = self.person_object(subject) if noun.kind in PEOPLE else self.known_phrase(noun)
        return Predicate(verb, dative=person)

    def giving(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Choose a verb with a dative and an accusative: geben, zeigen."""
        verb = self.pick(lexicon.verbs(lexicon.GIVING))
        noun = self.noun(*verb.objects)
        known = negative or noun.english in ALWAYS_PLURAL or self.chance(0.5)
        gift = self.known_phrase(noun) if known else noun_phrase(A, noun, self.adjective(noun))
        return Predicate(verb, gift, self.person_object(subject))

    def explaining(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Explain something to somebody."""
        verb = self.pick(lexicon.verbs(lexicon.EXPLAINING))
        matter = self.known_phrase(self.noun(*verb.objects))
        return Predicate(verb, matter, self.person_object(subject), dative_last=True)

    def intransitive(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Choose a verb without object, perhaps with a place."""
        verb = self.pick(lexicon.verbs(lexicon.INTRANSITIVE))
        has_place = not verb.prefix and self.chance(0.5)
        companion = None if verb.english in ALONE else self.companion(0.15)
        return Predicate(verb, companion=companion, complement=self.place() if has_place else None)

    def staying(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Stay, sit or live somewhere."""
        verb = self.pick(lexicon.verbs(lexicon.STAYING))
        if verb.english != "live":
            return Predicate(verb, complement=self.place())
        return Predicate(verb, complement=self.town("in", "in") if self.chance(0.6) else self.pick(homes()))

    def going(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Go or run to a place nearby, or to a person."""
        verb = self.pick(lexicon.verbs(lexicon.GOING))
        goal = self.to_person() if self.chance(0.2) else self.pick(goals())
        return Predicate(verb, companion=self.companion(0.15), complement=goal)

    def travelling(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Travel, fly or drive to a town or a country."""
        verb = self.pick(lexicon.verbs(lexicon.TRAVELLING))
        means = self.by_transport() if verb.english == "travel" and self.chance(0.5) else self.companion(0.25)
        return Predicate(verb, companion=means, complement=self.town("to", "nach"))

    def coming(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Come home, or come from somewhere."""
        verb = lexicon.other_verb("come")
        if tense == "simple" and self.chance(0.6):
            return Predicate(verb, complement=self.town("from", "aus"))
        return Predicate(verb, companion=self.companion(0.2), complement=self.pick(goals()))

    def with_preposition(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Choose a verb that takes its object with a preposition: warten auf."""
        verb = self.pick(lexicon.verbs(lexicon.WITH_PREPOSITION))
        noun = self.noun(*verb.objects)
        thing = self.person_object(subject) if noun.kind in PEOPLE else self.known_phrase(noun)
        german = after_preposition(verb.preposition, thing, CASE_AFTER[verb.preposition])
        return Predicate(verb, complement=Words(thing.english_object, german))

    def putting(self, subject: Nominal, tense: str, negative: bool) -> Predicate:
        """Put something somewhere: the accusative says where to."""
        thing = self.known_phrase(self.noun("print", "mail", "clothes", "dish"))
        return Predicate(lexicon.other_verb("put"), thing, complement=self.spot(ACCUSATIVE))

    # Places and companions

    def place(self) -> Words:
        """Choose where something happens."""
        return self.pick(here()) if self.chance(0.15) else self.pick(places())

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

    # Times

    def time(self, tense: str, with_clock: bool = True) -> Words:
        """Choose a time that fits the tense."""
        if tense in PAST_TENSES:
            return self.pick(past_words()) if self.chance(0.5) else self.day()
        if with_clock and self.chance(0.2):
            return self.clock("at", "um")
        return self.pick(coming_words()) if self.chance(0.55) else self.day()

    def day(self) -> Words:
        """Choose a weekday, a month or a date: on 3 May."""
        place = self.random()
        if place < 0.35:
            return self.weekday()
        month = self.pick(months())
        if place < 0.5:
            return Words(f"in {month.english}", f"im {month.german}")
        return self.date(month)

    def weekday(self) -> Words:
        """Choose a day of the week: on Monday."""
        day = self.pick(weekdays())
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

    # Clauses

    def clause(
        self,
        subject: Nominal | None = None,
        negative_chance: float = 0.15,
        tenses: Sequence[tuple[str, float]] = (),
    ) -> Clause:
        """Choose who does what, when, and whether not."""
        subject = subject or self.human()
        while True:
            tense, negative = self.draw(tenses or self.tenses), self.chance(negative_chance)
            predicate = self.predicate(subject, tense, negative)
            if can_stand_in(predicate.verb, tense):
                return self.with_adverbs(Clause(subject, predicate, tense, negative))

    def with_adverbs(self, clause: Clause) -> Clause:
        """Add the adverb or the time that the tense calls for."""
        tense = clause.tense
        if tense == "simple":
            return clause if is_origin(clause.predicate) else self.habit(clause)
        if tense == "perfect":
            word = Words("yet", "noch") if clause.negative else Words("already", "schon")
            return replace(clause, adverb=word)
        has_time = self.chance(time_chance(clause))
        # Not `um vier vier Kameras`: a clock time and a number do not stand side by side.
        with_clock = clause.predicate.accusative is None or clause.predicate.accusative.weight != "indefinite"
        return replace(clause, time=self.time(tense, with_clock)) if has_time else clause

    def habit(self, clause: Clause) -> Clause:
        """Say how often, which is why English takes the simple present."""
        if clause.negative or self.chance(0.4):
            return replace(clause, time=self.pick(habitual_times()))
        return replace(clause, adverb=self.pick(frequencies()))

    def simple_clause(self, subject: Nominal) -> Clause:
        """Choose a clause for if, when and before: the simple present, without a time."""
        predicate = self.predicate(subject, "present", False)
        return Clause(subject, predicate, "simple")

    def state(self, subject: Nominal, tense: str) -> Clause:
        """Choose a circumstance that is a reason for many things, now or in the past."""
        place = self.random()
        if place < 0.25:
            clause = Clause(IT, Predicate(lexicon.other_verb(self.pick(("rain", "snow")))))
        elif place < 0.65:
            clause = be(subject, self.quality(lexicon.adjectives()[self.pick(STATES)]))
        elif place < 0.8:
            clause = be(subject, self.place())
        elif place < 0.9:
            clause = Clause(subject, Predicate(have_verb(), noun_phrase(NO, self.noun("means"))))
        else:
            clause = Clause(subject, self.intransitive(subject, tense, False))
        return replace(clause, tense="past" if tense in PAST_TENSES else "present")

    def quality(self, adjective: Adjective) -> Words:
        """Say an adjective, perhaps with very or too."""
        place = self.random()
        has_degrees = adjective.english_comparative or adjective.english in STATES
        if place < 0.7 or not has_degrees:
            return Words(adjective.english, adjective.german)
        english, german = ("very", "sehr") if place < 0.85 else ("too", "zu")
        return Words(f"{english} {adjective.english}", f"{german} {adjective.german}")

    # Sentence patterns: each writes one sentence in both languages

    def statement(self) -> Pair:
        """She bought a car yesterday. Yesterday she bought a car."""
        clause = self.clause()
        is_missing_habit = clause.tense == "simple" and clause.negative  # not `Every day we do not cry`
        front = clause.time is not None and not is_missing_habit and self.chance(0.35)
        return finish(english_statement(clause, front), german_statement(clause, front))

    def yes_no_question(self) -> Pair:
        """Did she buy a car yesterday?"""
        clause = self.clause(self.asked(), negative_chance=0.05)
        return finish(english_question(clause), german_question(clause), "?")

    def question_with_word(self) -> Pair:
        """When is she buying the car? Where does he live?"""
        if self.chance(0.35):
            return self.question_of_place()
        word = self.pick(question_words())
        clause = replace(self.clause(self.asked(), negative_chance=0.0), time=None)
        if word.english == "when" and clause.adverb:
            clause = replace(clause, adverb=None, tense="present")
        return finish(english_question(clause, word.english), german_question(clause, word.german), "?")

    def question_of_place(self) -> Pair:
        """Where asks wo, and with a verb of motion wohin."""
        subject, tense = self.asked(), self.pick(("present", "past", "will", "want to", "would like to"))
        going = lexicon.verbs(lexicon.GOING) + lexicon.verbs(lexicon.TRAVELLING)
        moves = self.chance(0.5)
        clause = Clause(subject, Predicate(self.pick(going if moves else verbs_of_place())), tense)
        if self.chance(0.3):
            moves, clause = (
                False,
                Clause(self.known_phrase(self.noun("thing", "building")), Predicate(be_verb())),
            )
        word = "wohin" if moves else "wo"
        return finish(english_question(clause, "where"), german_question(clause, word), "?")

    def question_about_person(self) -> Pair:
        """Who is calling you? Who are you calling? Who are you helping? Wer, wen or wem."""
        if self.chance(0.4):
            clause = self.clause(WHO, negative_chance=0.05)
            return finish(english_statement(clause), german_statement(clause), "?")
        subject, tense = self.asked(), self.pick(("present", "past", "will", "can", "have to", "want to"))
        verb = self.pick(verbs_with_person())
        is_dative = verb in lexicon.verbs(lexicon.DATIVE)
        clause = Clause(subject, Predicate(verb), tense if can_stand_in(verb, tense) else "present")
        english = english_question(clause, "who").replace("~", "")
        return finish(english, german_question(clause, "wem" if is_dative else "wen"), "?")

    def question_about_thing(self) -> Pair:
        """What is she buying? How many apples is she buying?"""
        verb, tense = (
            self.pick(verbs_with_thing()),
            self.pick(("present", "past", "will", "can", "have to", "want to")),
        )
        clause = Clause(self.asked(), Predicate(verb), tense)
        noun = self.noun(*verb.objects)
        english, german = "what", "was"
        if noun.english_plural and self.chance(0.5):
            things = noun_phrase(BARE, noun, self.adjective(noun), plural=True)
            english, german = f"how many {things.english}", f"wie viele {things.german[ACCUSATIVE]}"
        question = english_question(clause, english).replace("~", "")
        return finish(question, german_question(clause, german), "?")

    def request(self) -> Pair:
        """Please open the door. Do not open the door."""
        you, negative = pronouns()[1], self.chance(0.3)
        clause = Clause(you, self.predicate(you, "present", negative), "simple", negative)
        verb = clause.predicate.verb
        if not verb.imperative:
            return self.request()
        opener = ("do not", "") if negative else ("please", "bitte")
        english = english_objects(clause.predicate, verb.english)
        return finish(join(opener[0], english), join(opener[1], german_imperative(clause)))

    def description(self) -> Pair:
        """The old house is very expensive."""
        noun = self.noun(*lexicon.ADJECTIVES_OF)
        if noun.kind in PEOPLE:
            subject = self.human()
            adjective = self.pick(lexicon.adjectives_of("person"))
        else:
            subject = noun_phrase(self.known(noun), noun, None, self.is_plural(noun, 0.2))
            adjective = self.pick(lexicon.adjectives_of(noun.kind))
        tense = "past" if self.chance(0.3) else "present"
        clause = replace(be(subject, self.quality(adjective)), tense=tense, negative=self.chance(0.15))
        if self.chance(0.3):
            return finish(english_question(clause), german_question(clause), "?")
        return finish(english_statement(clause), german_statement(clause))

    def comparison(self) -> Pair:
        """The train is faster than the bus. Paul is as old as my brother."""
        kind = self.pick(COMPARED)
        first, second = self.compared(kind), self.compared(kind)
        if first.english.split()[-1] == second.english.split()[-1]:
            return self.comparison()
        options = [adjective for adjective in lexicon.adjectives_of(kind) if adjective.english_comparative]
        adjective, other = self.pick(options), second.german[NOMINATIVE]
        if self.chance(0.3):
            english, german = f"as {adjective.english} as", f"so {adjective.german} wie"
        else:
            english, german = f"{adjective.english_comparative} than", f"{adjective.german_comparative} als"
        clause = be(first, Words(f"{english} {second.english}", f"{german} {other}"))
        return finish(english_statement(clause), german_statement(clause))

    def compared(self, kind: str) -> Nominal:
        """Choose something to compare, without an adjective of its own."""
        if kind in PEOPLE and self.chance(0.3):
            return self.pick(names())
        noun = self.noun(kind)
        determiner = self.possessive() if kind == "family" else self.known(noun)
        return noun_phrase(determiner, noun, None, noun.english in ALWAYS_PLURAL)

    def two_clauses(self) -> Pair:
        """She is staying at home because she is tired."""
        if self.chance(0.25):
            return self.coordination()
        word = self.pick(subordinators())
        is_state = word.english in ("because", "although", "while")
        main = self.clause(negative_chance=0.1, tenses=self.tenses_before(word))
        subject = self.pronoun_for(main.subject) if self.chance(0.7) else self.human()
        side = self.state(subject, main.tense) if is_state else self.simple_clause(subject)
        english = f"{english_statement(main)} {word.english} {english_statement(side)}"
        return finish(english, f"{german_statement(main)}, {german_subordinate(word.german, side)}")

    def tenses_before(self, conjunction: Words) -> Sequence[tuple[str, float]]:
        """Return the tenses that a main clause may have beside a clause with this conjunction."""
        if conjunction.english in ("because", "although"):
            return self.tenses
        return self.plain_tenses if conjunction.english == "while" else self.coming_tenses

    def coordination(self) -> Pair:
        """She is sleeping and he is working."""
        first, second = self.clause(negative_chance=0.1), self.clause(negative_chance=0.1)
        english, german = self.pick(((" and", " und"), (", but", ", aber")))
        return finish(
            f"{english_statement(first)}{english} {english_statement(second)}",
            f"{german_statement(first)}{german} {german_statement(second)}",
        )

    def clause_first(self) -> Pair:
        """If it is raining, we stay at home: the clause in front, then the verb."""
        word, subject = self.pick(first_subordinators()), self.human()
        main = self.clause(self.pronoun_for(subject), negative_chance=0.1, tenses=self.tenses_before(word))
        side = self.state(subject, main.tense)
        english = f"{word.english} {english_statement(side)}, {english_statement(main)}"
        return finish(english, f"{german_subordinate(word.german, side)}, {german_question(main)}")

    def reported_clause(self) -> Pair:
        """I think that she is sick. He does not know whether she is coming."""
        subject, side = self.human(), self.clause(negative_chance=0.1)
        if self.chance(0.35):
            verb, negative = lexicon.other_verb("know_that"), self.chance(0.7)
            english, german = self.pick((("whether", "ob"), ("why", "warum"), ("when", "wann")))
            side = replace(side, time=None, negative=False) if english == "when" else side
        else:
            verb, negative = lexicon.other_verb(self.pick(("think", "know_that", "say", "hope"))), False
            english, german = "that", "dass"
        main = Clause(subject, Predicate(verb), "present", negative)
        return finish(
            f"{english_statement(main)} {english} {english_statement(side)}",
            f"{german_statement(main)}, {german_subordinate(german, side)}",
        )

    def infinitive_clause(self) -> Pair:
        """She is trying to open the door. It is difficult to find a flat."""
        if self.chance(0.35):
            adjective = lexicon.adjectives()[self.pick(("difficult", "important", "good"))]
            main, doer = be(IT, Words(adjective.english, adjective.german)), self.pick(pronouns())
        else:
            doer = self.human()
            verb = lexicon.other_verb(self.pick(("try", "promise", "hope", "forget")))
            main = Clause(doer, Predicate(verb), self.pick(("present", "present", "past")))
        side = Clause(doer, self.action(doer, verbs_of_action()))
        return finish(
            f"{english_statement(main)} {english_infinitive(side)}",
            f"{german_statement(main)}, {german_infinitive(side)}",
        )

    def purpose(self) -> Pair:
        """He is going to the market to buy apples: um ... zu."""
        subject, tense = self.human(), self.pick(("present", "past", "will", "have to", "want to"))
        main = Clause(
            subject, Predicate(lexicon.verbs(lexicon.GOING)[0], complement=self.pick(goals())), tense
        )
        side = Clause(subject, self.action(subject, verbs_of_aim()))
        return finish(
            f"{english_statement(main)} {english_infinitive(side)}",
            f"{german_statement(main)}, {german_infinitive(side, 'um')}",
        )

    def relative_clause(self) -> Pair:
        """I know the woman who lives here. This is the book that he is reading."""
        if self.chance(0.4):
            return self.object_relative()
        subject, noun, plural = self.human(), self.noun("person"), self.chance(0.2)
        person = noun_phrase(THE, noun, None, plural)
        main = Clause(subject, Predicate(self.pick(verbs_with_accusative_person()), person))
        side = self.clause(person, negative_chance=0.1)
        relative = replace(side, subject=replace(person, english="who"))
        german = german_subordinate(RELATIVE[person.gender][NOMINATIVE], relative, with_subject=False)
        return finish(
            f"{english_statement(main)} {english_statement(relative)}", f"{german_statement(main)}, {german}"
        )

    def object_relative(self) -> Pair:
        """This is the book that he is reading: the relative pronoun is an accusative."""
        verb = self.pick(lexicon.verbs(lexicon.TRANSITIVE))
        noun = self.noun(*verb.objects)
        if noun.kind in PEOPLE or not noun.english_plural:
            return self.object_relative()
        thing = noun_phrase(THE, noun, self.adjective(noun), self.chance(0.25))
        tense = self.pick(("present", "past", "past", "want to", "can"))
        side = Clause(self.human(), Predicate(verb), tense if can_stand_in(verb, tense) else "present")
        opening = ("these are", "das sind") if thing.person == 4 else ("this is", "das ist")
        english = f"{opening[0]} {thing.english} that {english_statement(side)}".replace("~", "")
        german = german_subordinate(RELATIVE[thing.gender][ACCUSATIVE], side)
        return finish(english, f"{opening[1]} {thing.german[NOMINATIVE]}, {german}")

    def location(self) -> Pair:
        """The key is under the bed. Anna is at home."""
        if self.chance(0.4):
            clause = be(self.human(), self.place())
        else:
            clause = be(self.known_phrase(self.noun("thing", "animal", "dish", "print")), self.spot(DATIVE))
        clause = replace(clause, tense="past" if self.chance(0.3) else "present", negative=self.chance(0.15))
        if self.chance(0.25):
            return finish(english_question(clause), german_question(clause), "?")
        return finish(english_statement(clause), german_statement(clause))

    def existence(self) -> Pair:
        """Is there a hotel in the village? There is no hotel here."""
        where, noun = self.pick(sights()), self.noun("building")
        if where.english.endswith(noun.english):
            return self.existence()
        place = self.random()
        thing = noun_phrase(NO if place < 0.3 else A, noun, self.adjective(noun, 0.35))
        if place < 0.6:
            german = f"{where.german} gibt es {thing.german[ACCUSATIVE]}"
            return finish(f"there is {thing.english} {where.english}", german)
        german = f"gibt es {where.german} {thing.german[ACCUSATIVE]}"
        return finish(f"is there {thing.english} {where.english}", german, "?")

    def belonging(self) -> Pair:
        """The bicycle belongs to my sister."""
        thing = noun_phrase(self.pick((THE, THIS)), noun := self.noun(*OWNED), self.adjective(noun), False)
        owner = self.person_object(thing)
        predicate = Predicate(
            lexicon.other_verb("belong"), complement=Words(f"to {owner.english_object}", "")
        )
        clause = Clause(thing, predicate)
        german = Clause(thing, replace(predicate, dative=owner, complement=None))
        if self.chance(0.25):
            return finish(english_question(clause), german_question(german), "?")
        return finish(english_statement(clause), german_statement(german))

    def price(self) -> Pair:
        """The red shirt costs 25 euros. How much does the hat cost?"""
        thing = self.noun_phrase(
            self.noun("clothes", "device", "dish", "thing"), self.pick((THE, THIS)), 0.25
        )
        number = 2 + int(self.random() * 30)
        clause = Clause(thing, Predicate(lexicon.other_verb("cost")))
        if self.chance(0.2):
            english = english_question(clause, "how much")
            return finish(english, german_question(clause, "wie viel"), "?")
        return finish(
            f"{english_statement(clause)} {number} euros", f"{german_statement(clause)} {number} Euro"
        )

    def age(self) -> Pair:
        """My sister is 25 years old. How old is your sister?"""
        subject = self.human()
        if self.chance(0.2):
            clause = be(subject, None)
            return finish(english_question(clause, "how old"), german_question(clause, "wie alt"), "?")
        number = 2 + int(self.random() * 30)
        clause = be(subject, Words(f"{number} years old", f"{number} Jahre alt"))
        return finish(english_statement(clause), german_statement(clause))

    def timetable(self) -> Pair:
        """The train leaves at half past eight. When does the film start?"""
        if self.chance(0.5):
            verb = lexicon.other_verb(self.pick(("leave", "arrive")))
            noun = self.pick(
                nouns_of(("transport",))[: 2 if verb.english == "leave" else 3]
            )  # planes do not abfahren
        else:
            noun, verb = self.noun("show"), lexicon.other_verb(self.pick(("start", "end")))
        clause = Clause(noun_phrase(self.pick((THE, THIS)), noun), Predicate(verb))
        if self.chance(0.15):
            return finish(english_question(clause, "when"), german_question(clause, "wann"), "?")
        clause = replace(clause, time=self.clock("at", "um") if self.chance(0.7) else self.weekday())
        return finish(english_statement(clause), german_statement(clause))

    def birthday(self) -> Pair:
        """My birthday is on 3 May. It is half past eight."""
        if self.chance(0.1):
            shown = self.clock("", "")
            return finish(f"it is {shown.english}", f"es ist {shown.german}")
        date = self.date(self.pick(months()))
        determiner = self.owner() if self.chance(0.5) else self.pick(possessives()[:4])
        whose = noun_phrase(determiner, lexicon.noun("", ["birthday"], ["der Geburtstag"]))
        return finish(f"{whose.english} is {date.english}", f"{whose.german[NOMINATIVE]} ist {date.german}")


OWNED = ("vehicle", "device", "container", "home", "print", "clothes", "animal", "thing")


def weighted(options: Sequence[tuple[Option, float]]) -> list[tuple[Option, float]]:
    """Turn weights into rising limits from 0 to 1."""
    total = sum(weight for _, weight in options)
    limits = accumulate(weight / total for _, weight in options)
    return [(option, limit) for (option, _), limit in zip(options, [*limits][:-1] + [1.0], strict=True)]


def finish(english: str, german: str, mark: str = ".") -> Pair:
    """Begin with a capital letter and end with a mark."""
    return english[0].upper() + english[1:] + mark, german[0].upper() + german[1:] + mark


def be_verb() -> Verb:
    """Return to be, sein."""
    return lexicon.other_verb("be")


def be(subject: Nominal, complement: Words | None) -> Clause:
    """Say what or where the subject is."""
    return Clause(subject, Predicate(be_verb(), complement=complement))


@cache
def have_verb() -> Verb:
    """Return to have, haben."""
    return next(verb for verb in lexicon.verbs(lexicon.TRANSITIVE) if verb.english == "have")


def is_origin(predicate: Predicate) -> bool:
    """Return whether this says where somebody comes from, which is no habit."""
    return predicate.complement is not None and predicate.complement.english.startswith("from ")


def can_stand_in(verb: Verb, tense: str) -> bool:
    """Return whether the verb has this tense and sounds natural in it."""
    if tense == "present":
        return verb.english not in NEVER_NOW
    if tense == "simple":
        return verb.english not in NEVER_HABITUAL
    if not verb.past or (tense in MODAL_TENSES and verb.english in NEVER_MEANT):
        return False
    return bool(verb.participle and verb.progressive) if tense in ("perfect", "likes to") else True


def time_chance(clause: Clause) -> float:
    """Return how often a clause of this tense says when."""
    if clause.tense == "likes to" or (clause.tense == "present" and not clause.predicate.verb.progressive):
        return 0.0
    return {"present": 0.3, "past": 0.55, "will": 0.5}.get(clause.tense, 0.25)


@cache
def nouns_of(kinds: tuple[str, ...]) -> list[Noun]:
    """Return the nouns of these kinds."""
    return [noun for kind in kinds for noun in lexicon.nouns()[kind]]


@cache
def verbs_with_person() -> list[Verb]:
    """Return the verbs that take a person as object, without preposition."""
    return [*verbs_with_accusative_person(), *lexicon.verbs(lexicon.DATIVE)]


@cache
def verbs_with_accusative_person() -> list[Verb]:
    """Return the verbs that take a person as accusative object."""
    return [verb for verb in lexicon.verbs(lexicon.TRANSITIVE) if "person" in verb.objects]


@cache
def verbs_of_place() -> list[Verb]:
    """Return the verbs of which one may ask where."""
    verbs = lexicon.verbs(lexicon.STAYING) + lexicon.verbs(lexicon.INTRANSITIVE)
    return [
        verb for verb in verbs if verb.english in ("live", "sit", "sleep", "work", "play", "wait", "dance")
    ]


@cache
def verbs_with_thing() -> list[Verb]:
    """Return the verbs whose object is always a thing, and which one can be busy with."""
    return [verb for verb in verbs_of_action() if not {"person", "language", "room"} & {*verb.objects}]


@cache
def verbs_of_action() -> list[Verb]:
    """Return the transitive verbs that one can be busy with."""
    return [verb for verb in lexicon.verbs(lexicon.TRANSITIVE) if verb.progressive]


@cache
def verbs_of_aim() -> list[Verb]:
    """Return the transitive verbs that one goes somewhere for."""
    return [verb for verb in lexicon.verbs(lexicon.TRANSITIVE) if verb.english in AIMS]


@cache
def pronouns() -> list[Nominal]:
    """Return I, you, he, she, we and they."""
    persons, genders = (0, 1, 2, 2, 3, 4), ("m", "m", "m", "f", "p", "p")
    return [
        Nominal(english[0], english[1], (german[0], german[1], german[2]), person, "pronoun", gender)
        for (english, german), person, gender in zip(
            lexicon.rows(lexicon.PRONOUNS), persons, genders, strict=True
        )
    ]


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
def homes() -> list[Words]:
    """Return where one can live, besides towns and countries."""
    return [place for place in places() if place.english in lexicon.HOMES.split(", ")] + here()


@cache
def sights() -> list[Words]:
    """Return where one can find a hotel or a museum."""
    towns_only = [Words(f"in {town.english}", f"in {town.german}") for town in lexicon.words(lexicon.TOWNS)]
    return (
        [place for place in places() if place.english in lexicon.SIGHTS.split(", ")] + towns_only + here()[:1]
    )


@cache
def goals() -> list[Words]:
    """Return where one can go."""
    return [Words(english[1], german[1]) for english, german in lexicon.rows(lexicon.PLACES)]


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


@cache
def here() -> list[Words]:
    """Return here and there."""
    return lexicon.words(lexicon.HERE)


@cache
def weekdays() -> list[Words]:
    """Return Monday to Sunday."""
    return lexicon.words(lexicon.WEEKDAYS)


@cache
def months() -> list[Words]:
    """Return January to December."""
    return lexicon.words(lexicon.MONTHS)


def days_in(month: Words) -> int:
    """Return how many days every such month has."""
    if month.english == "February":
        return 28
    return 30 if month.english in ("April", "June", "September", "November") else 31


@cache
def habitual_times() -> list[Words]:
    """Return times that come again: every day, every Monday."""
    days = [Words(f"every {day.english}", f"jeden {day.german}") for day in weekdays()]
    return lexicon.words(lexicon.HABITUAL) * 2 + days


@cache
def past_words() -> list[Words]:
    """Return yesterday and its kind."""
    return lexicon.words(lexicon.PAST)


@cache
def coming_words() -> list[Words]:
    """Return today, tomorrow and their kind."""
    return lexicon.words(lexicon.SOON)


@cache
def frequencies() -> list[Words]:
    """Return often to never."""
    return lexicon.words(lexicon.FREQUENCY)


@cache
def question_words() -> list[Words]:
    """Return when and why."""
    return lexicon.words(lexicon.QUESTION_WORDS)


@cache
def subordinators() -> list[Words]:
    """Return the conjunctions that send the German verb to the end."""
    return lexicon.words(lexicon.SUBORDINATORS)


@cache
def first_subordinators() -> list[Words]:
    """Return the conjunctions that may open a sentence here."""
    return [
        word for word in subordinators() if word.english in ("because", "although", "if", "when", "while")
    ]
