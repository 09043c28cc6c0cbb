"""The phrasebook: English sentences and their German translations, made by our own grammar.

`words` is the dictionary and `grammar` writes a clause in both languages;
`phrases` and `clauses` choose what to say, and this file makes sentences of it. One
English sentence has exactly one German translation, the supply does not end, and a seed decides everything.
`you` is always one friend: du.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from sixfold.data.corpora.files import Pair, Pairs, fill, sizes
from sixfold.data.corpora.phrasebook import words as lexicon
from sixfold.data.corpora.phrasebook.clauses import IT, NEVER_MEANT, NO, Clauses, Plan, be, be_verb, can_stand_in
from sixfold.data.corpora.phrasebook.grammar import (
    ACCUSATIVE,
    BARE,
    DATIVE,
    NOMINATIVE,
    THE,
    THIS,
    A,
    Clause,
    Nominal,
    Predicate,
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
from sixfold.data.corpora.phrasebook.phrases import (
    ALWAYS_PLURAL,
    PEOPLE,
    goals,
    names,
    nouns_of,
    possessives,
    pronouns,
    sights,
    weighted,
)
from sixfold.data.corpora.phrasebook.words import Verb, Words
from sixfold.ticks import Tick, silent

NUM_PAIRS = 60_000
MIN_WORDS, MAX_WORDS = 3, 14

WHO = Nominal("who", "who", ("wer", "wen", "wem"), 2, "pronoun", "m")
RELATIVE = {"m": ("der", "den"), "f": ("die", "die"), "n": ("das", "das"), "p": ("die", "die")}

COMPARED = ("person", "family", "clothes", "vehicle", "transport", "home", "show", "animal")
OWNED = ("vehicle", "device", "container", "home", "print", "clothes", "animal", "thing")
AIMS = ("buy", "visit", "pick ~up", "eat", "drink", "read", "look for", "ask", "look at", "draw", "repair")


def load(num_pairs: int | None = None, seed: int = 1, tick: Tick = silent) -> Pairs:
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


class Author(Clauses):
    """Writes one sentence after another, in both languages."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.patterns = weighted(
            (
                (self.statement, 34),
                (self.yes_no_question, 10),
                (self.question_with_word, 6),
                (self.question_about_thing, 3),
                (self.question_about_person, 4),
                (self.request, 7),
                (self.description, 9),
                (self.comparison, 3.5),
                (self.two_clauses, 7),
                (self.clause_first, 3),
                (self.reported_clause, 3),
                (self.infinitive_clause, 4),
                (self.purpose, 2),
                (self.relative_clause, 2.5),
                (self.location, 3),
                (self.existence, 2),
                (self.belonging, 2),
                (self.price, 2.5),
                (self.age, 2),
                (self.timetable, 3.5),
                (self.birthday, 1),
            )
        )

    def sentence(self) -> Pair:
        """Write one sentence in both languages."""
        return self.draw(self.patterns)()

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
        word = self.pick(lexicon.words(lexicon.QUESTION_WORDS))
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
        clause = Clause(you, self.predicate(Plan(you, "present", negative)), "simple", negative)
        verb = clause.predicate.verb
        if not verb.imperative or (verb.english in NEVER_MEANT and not negative):
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
        word = self.pick(lexicon.words(lexicon.SUBORDINATORS))
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
        tense = self.draw(self.plain_tenses)
        first, second = (Clause(self.human(), self.intransitive(), tense) for _ in range(2))
        if first.predicate.verb == second.predicate.verb:
            return self.coordination()
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
        main = Clause(subject, Predicate(lexicon.verbs(lexicon.GOING)[0], complement=self.pick(goals())), tense)
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
        predicate = Predicate(lexicon.other_verb("belong"), complement=Words(f"to {owner.english_object}", ""))
        clause = Clause(thing, predicate)
        german = Clause(thing, replace(predicate, dative=owner, complement=None))
        if self.chance(0.25):
            return finish(english_question(clause), german_question(german), "?")
        return finish(english_statement(clause), german_statement(german))

    def price(self) -> Pair:
        """The red shirt costs 25 euros. How much does the hat cost?"""
        thing = self.noun_phrase(self.noun("clothes", "device", "dish", "thing"), self.pick((THE, THIS)), 0.25)
        number = 2 + int(self.random() * 30)
        clause = Clause(thing, Predicate(lexicon.other_verb("cost")))
        if self.chance(0.2):
            english = english_question(clause, "how much")
            return finish(english, german_question(clause, "wie viel"), "?")
        return finish(f"{english_statement(clause)} {number} euros", f"{german_statement(clause)} {number} Euro")

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
            noun, verb = self.noun("show"), lexicon.other_verb("start")
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
        date = self.date(self.pick(lexicon.words(lexicon.MONTHS)))
        determiner = self.owner() if self.chance(0.5) else self.pick(possessives()[:4])
        whose = noun_phrase(determiner, lexicon.noun("", ["birthday"], ["der Geburtstag"]))
        return finish(f"{whose.english} is {date.english}", f"{whose.german[NOMINATIVE]} ist {date.german}")


def finish(english: str, german: str, mark: str = ".") -> Pair:
    """Begin with a capital letter and end with a mark."""
    return english[0].upper() + english[1:] + mark, german[0].upper() + german[1:] + mark


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
    return [verb for verb in verbs if verb.english in ("live", "sit", "sleep", "work", "play", "wait", "dance")]


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
def first_subordinators() -> list[Words]:
    """Return the conjunctions that may open a sentence here."""
    return [
        word
        for word in lexicon.words(lexicon.SUBORDINATORS)
        if word.english in ("because", "although", "if", "when", "while")
    ]
