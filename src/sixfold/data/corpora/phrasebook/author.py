"""The phrasebook's sentences: statements, questions, requests and the other patterns, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from sixfold.data.corpora.files import TextPair
from sixfold.data.corpora.phrasebook import lexicon
from sixfold.data.corpora.phrasebook.clauses import Clauses, Plan, be, can_stand_in
from sixfold.data.corpora.phrasebook.grammar import (
    BARE,
    IT,
    NO,
    POSSESSIVES,
    PRONOUNS,
    THE,
    THIS,
    WHO,
    YOU,
    A,
    Clause,
    Nominal,
    Predicate,
    complex_sentence,
    english_objects,
    english_statement,
    german_imperative,
    german_question,
    german_subordinate,
    infinitive,
    noun_phrase,
    question,
    relative_pronoun,
    statement,
    subordinate,
)
from sixfold.data.corpora.phrasebook.lexicon import ACCUSATIVE, NOMINATIVE, Noun, Verb, Words
from sixfold.data.corpora.phrasebook.phrases import PEOPLE, names, owners, sights, weighted

COMPARED = ("person", "family", "clothes", "vehicle", "transport", "home", "show", "animal")
OWNED = ("vehicle", "device", "container", "home", "print", "clothes", "animal", "thing")
ASKED_TENSES = ("present", "past", "will", "can", "have to", "want to")
WITH_STATE = ("because", "although", "while")  # conjunctions whose clause says how somebody is


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

    def sentence(self) -> TextPair:
        """Write one sentence in both languages."""
        return self.draw(self.patterns)()

    def said_or_asked(self, clause: Clause, asked_chance: float) -> TextPair:
        """Write the clause as a statement or, with this probability, as a question."""
        is_question = self.chance(asked_chance)
        return finish(question(clause), "?") if is_question else finish(statement(clause))

    def statement(self) -> TextPair:
        """She bought a car yesterday. Yesterday she bought a car."""
        clause = self.clause()
        is_missing_habit = clause.tense == "simple" and clause.negative  # not `Every day we do not cry`
        return finish(statement(clause, clause.time is not None and not is_missing_habit and self.chance(0.35)))

    # Questions and requests

    def yes_no_question(self) -> TextPair:
        """Did she buy a car yesterday?"""
        return finish(question(self.clause(self.asked(), negative_chance=0.05)), "?")

    def question_with_word(self) -> TextPair:
        """When is she buying the car? Where does he live?"""
        if self.chance(0.35):
            return self.question_of_place()
        word = self.pick(lexicon.set_phrases("question"))
        clause = replace(self.clause(self.asked(), negative_chance=0.0), time=None)
        if word.english == "when" and clause.adverb:
            clause = replace(clause, adverb=None, tense="present")
        return finish(question(clause, word), "?")

    def question_of_place(self) -> TextPair:
        """Where asks wo, and with a verb of motion wohin."""
        subject, tense = self.asked(), self.pick(("present", "past", "will", "want to", "would like to"))
        moves = self.chance(0.5)
        verb = self.pick(lexicon.verbs("going", "travelling") if moves else verbs_of_place())
        clause = Clause(subject, Predicate(verb), tense)
        if self.chance(0.3):
            moves, clause = False, be(self.known_phrase(self.noun("thing", "building")))
        return finish(question(clause, Words("where", "wohin" if moves else "wo")), "?")

    def question_about_person(self) -> TextPair:
        """Who is calling you? Who are you calling? Who are you helping? Wer, wen or wem."""
        if self.chance(0.4):
            return finish(statement(self.clause(WHO, negative_chance=0.05)), "?")
        subject, tense = self.asked(), self.pick(ASKED_TENSES)
        verb = self.pick(verbs_with_accusative_person() + lexicon.verbs("dative"))
        clause = Clause(subject, Predicate(verb), tense if can_stand_in(verb, tense) else "present")
        return finish(question(clause, Words("who", "wem" if verb in lexicon.verbs("dative") else "wen")), "?")

    def question_about_thing(self) -> TextPair:
        """What is she buying? How many apples is she buying?"""
        verb, tense = self.pick(verbs_with_thing()), self.pick(ASKED_TENSES)
        clause = Clause(self.asked(), Predicate(verb), tense)
        noun = self.noun(*verb.objects)
        if not (noun.english_plural and self.chance(0.5)):
            return finish(question(clause, Words("what", "was")), "?")
        things = noun_phrase(BARE, noun, self.adjective(noun), plural=True)
        how_many = Words("how many", "wie viele") + Words(things.english, things.german[ACCUSATIVE])
        return finish(question(clause, how_many), "?")

    def request(self) -> TextPair:
        """Please open the door. Do not open the door."""
        negative = self.chance(0.3)
        clause = Clause(YOU, self.predicate(Plan(YOU, "present", negative)), "simple", negative)
        verb = clause.predicate.verb
        if not verb.imperative or ("unwanted" in verb.traits and not negative):
            return self.request()
        opener = Words("do not", "") if negative else Words("please", "bitte")
        return finish(opener + Words(english_objects(clause.predicate, verb.english), german_imperative(clause)))

    # How something is

    def description(self) -> TextPair:
        """The old house is very expensive."""
        noun = self.noun(*lexicon.described_kinds())
        if noun.kind in PEOPLE:
            subject = self.human()
            adjective = self.pick(lexicon.fitting_adjectives("person"))
        else:
            subject = noun_phrase(self.known(noun), noun, None, self.is_plural(noun, 0.2))
            adjective = self.pick(lexicon.fitting_adjectives(noun.kind))
        tense = "past" if self.chance(0.3) else "present"
        clause = replace(be(subject, self.quality(adjective)), tense=tense, negative=self.chance(0.15))
        return self.said_or_asked(clause, 0.3)

    def comparison(self) -> TextPair:
        """The train is faster than the bus. Paul is as old as my brother."""
        kind = self.pick(COMPARED)
        first, second = self.compared(kind), self.compared(kind)
        if first.english.split()[-1] == second.english.split()[-1]:
            return self.comparison()
        options = [option for option in lexicon.fitting_adjectives(kind) if option.comparative.english]
        adjective, other = self.pick(options), Words(second.english, second.german[NOMINATIVE])
        if self.chance(0.3):
            degree = Words("as", "so") + adjective.positive + Words("as", "wie")
        else:
            degree = adjective.comparative + Words("than", "als")
        return finish(statement(be(first, degree + other)))

    def compared(self, kind: str) -> Nominal:
        """Choose something to compare, without an adjective of its own."""
        if kind in PEOPLE and self.chance(0.3):
            return self.pick(names())
        noun = self.noun(kind)
        determiner = self.pick(POSSESSIVES) if kind == "family" else self.known(noun)
        return noun_phrase(determiner, noun, None, "plural" in noun.traits)

    # Sentences of two clauses

    def two_clauses(self) -> TextPair:
        """She is staying at home because she is tired."""
        if self.chance(0.25):
            return self.coordination()
        word = self.pick(lexicon.set_phrases("opening_conjunction", "conjunction"))
        main = self.clause(negative_chance=0.1, tenses=self.tenses_before(word))
        subject = self.pronoun_for(main.subject) if self.chance(0.7) else self.human()
        is_state = word.english in WITH_STATE
        side = self.state(subject, main.tense) if is_state else self.simple_clause(subject)
        return finish(complex_sentence(statement(main), subordinate(word, side)))

    def tenses_before(self, conjunction: Words) -> Sequence[tuple[str, float]]:
        """Return the tenses that a main clause may have beside a clause with this conjunction."""
        if conjunction.english in ("because", "although"):
            return self.tenses
        return self.plain_tenses if conjunction.english == "while" else self.coming_tenses

    def coordination(self) -> TextPair:
        """She is sleeping and he is working."""
        tense = self.draw(self.plain_tenses)
        first, second = (Clause(self.human(), self.intransitive(), tense) for _ in range(2))
        if first.predicate.verb == second.predicate.verb:
            return self.coordination()
        english, german = self.pick(((" and", " und"), (", but", ", aber")))
        before, after = statement(first), statement(second)
        return finish(Words(before.english + english, before.german + german) + after)

    def clause_first(self) -> TextPair:
        """If it is raining, we stay at home: the clause in front, then the verb."""
        word, subject = self.pick(lexicon.set_phrases("opening_conjunction")), self.human()
        main = self.clause(self.pronoun_for(subject), negative_chance=0.1, tenses=self.tenses_before(word))
        side = subordinate(word, self.state(subject, main.tense))
        main_clause = Words(english_statement(main), german_question(main))
        return finish(Words(f"{side.english},", f"{side.german},") + main_clause)

    def reported_clause(self) -> TextPair:
        """I think that she is sick. He does not know whether she is coming."""
        subject, side = self.human(), self.clause(negative_chance=0.1)
        if self.chance(0.35):
            verb, negative = lexicon.verb("know", "saying"), self.chance(0.7)
            word = self.pick((Words("whether", "ob"), Words("why", "warum"), Words("when", "wann")))
            side = replace(side, time=None, negative=False) if word.english == "when" else side
        else:
            verb, negative, word = self.pick(lexicon.verbs("saying")), False, Words("that", "dass")
        main = Clause(subject, Predicate(verb), "present", negative)
        return finish(complex_sentence(statement(main), subordinate(word, side)))

    def infinitive_clause(self) -> TextPair:
        """She is trying to open the door. It is difficult to find a flat."""
        if self.chance(0.35):
            main = be(IT, self.pick(lexicon.adjectives("judgement")).positive)
            doer = self.pick(PRONOUNS)
        else:
            doer = self.human()
            verb = self.pick(lexicon.verbs("intending"))
            main = Clause(doer, Predicate(verb), self.pick(("present", "present", "past")))
        side = Clause(doer, self.action(verbs_of_action(), Plan(doer)))
        return finish(complex_sentence(statement(main), infinitive(side)))

    def purpose(self) -> TextPair:
        """He is going to the market to buy apples: um ... zu."""
        subject, tense = self.human(), self.pick(("present", "past", "will", "have to", "want to"))
        main = Clause(subject, Predicate(lexicon.verb("go", "going"), complement=self.goal()), tense)
        side = Clause(subject, self.action(verbs_of_aim(), Plan(subject)))
        return finish(complex_sentence(statement(main), infinitive(side, "um")))

    def relative_clause(self) -> TextPair:
        """I know the woman who lives here. This is the book that he is reading."""
        if self.chance(0.4):
            return self.object_relative()
        subject, noun, plural = self.human(), self.noun("person"), self.chance(0.2)
        person = noun_phrase(THE, noun, None, plural)
        main = Clause(subject, Predicate(self.pick(verbs_with_accusative_person()), person))
        side = replace(self.clause(person, negative_chance=0.1), subject=replace(person, english="who"))
        german = german_subordinate(relative_pronoun(person, NOMINATIVE), side, with_subject=False)
        return finish(complex_sentence(statement(main), Words(english_statement(side), german)))

    def object_relative(self) -> TextPair:
        """This is the book that he is reading: the relative pronoun is an accusative."""
        verb = self.pick(lexicon.verbs("transitive"))
        noun = self.noun(*verb.objects)
        if noun.kind in PEOPLE or not noun.english_plural:
            return self.object_relative()
        thing = noun_phrase(THE, noun, self.adjective(noun), self.chance(0.25))
        tense = self.pick(("present", "past", "past", "want to", "can"))
        side = Clause(self.human(), Predicate(verb), tense if can_stand_in(verb, tense) else "present")
        opening = Words("these are", "das sind") if thing.person == 4 else Words("this is", "das ist")
        main = opening + Words(thing.english, thing.german[NOMINATIVE])
        pronoun = Words("that", relative_pronoun(thing, ACCUSATIVE))
        return finish(complex_sentence(main, subordinate(pronoun, side)))

    # Where, whose, how much, how old, when

    def location(self) -> TextPair:
        """The key is under the bed. Anna is at home."""
        if self.chance(0.4):
            clause = be(self.human(), self.place())
        else:
            thing = self.known_phrase(self.noun("thing", "animal", "dish", "print"))
            clause = be(thing, self.pick(lexicon.places("spot")).where)
        clause = replace(clause, tense="past" if self.chance(0.3) else "present", negative=self.chance(0.15))
        return self.said_or_asked(clause, 0.25)

    def existence(self) -> TextPair:
        """Is there a hotel in the village? There is no hotel here."""
        where, noun = self.pick(sights()), self.noun("building")
        if where.english.endswith(noun.english):
            return self.existence()
        place = self.random()
        thing = noun_phrase(NO if place < 0.3 else A, noun, self.adjective(noun, 0.35))
        english, german = f"{thing.english} {where.english}", thing.german[ACCUSATIVE]
        if place < 0.6:
            return finish(Words(f"there is {english}", f"{where.german} gibt es {german}"))
        return finish(Words(f"is there {english}", f"gibt es {where.german} {german}"), "?")

    def belonging(self) -> TextPair:
        """The bicycle belongs to my sister."""
        thing = noun_phrase(self.pick((THE, THIS)), noun := self.noun(*OWNED), self.adjective(noun))
        owner = self.person_object(thing)
        clause = Clause(thing, Predicate(lexicon.verb("belong"), dative=owner, dative_last=True))
        return self.said_or_asked(clause, 0.25)

    def price(self) -> TextPair:
        """The red shirt costs 25 euros. How much does the hat cost?"""
        thing = self.noun_phrase(self.noun("clothes", "device", "dish", "thing"), self.pick((THE, THIS)), 0.25)
        number = self.number()
        clause = Clause(thing, Predicate(lexicon.verb("cost")))
        if self.chance(0.2):
            return finish(question(clause, Words("how much", "wie viel")), "?")
        return finish(statement(clause) + Words(f"{number} euros", f"{number} Euro"))

    def age(self) -> TextPair:
        """My sister is 25 years old. How old is your sister?"""
        subject = self.human()
        if self.chance(0.2):
            return finish(question(be(subject), Words("how old", "wie alt")), "?")
        number = self.number()
        return finish(statement(be(subject, Words(f"{number} years old", f"{number} Jahre alt"))))

    def number(self) -> int:
        """Choose a number of euros or years."""
        return 2 + int(self.random() * 30)

    def timetable(self) -> TextPair:
        """The train leaves at half past eight. When does the film start?"""
        if self.chance(0.5):
            verb = self.pick(lexicon.verbs("departing"))
            noun = self.pick(vehicles_that(verb))
        else:
            noun, verb = self.noun("show"), lexicon.verb("start")
        clause = Clause(noun_phrase(self.pick((THE, THIS)), noun), Predicate(verb))
        if self.chance(0.15):
            return finish(question(clause, Words("when", "wann")), "?")
        time = Words("at", "um") + self.clock() if self.chance(0.7) else self.weekday()
        return finish(statement(replace(clause, time=time)))

    def birthday(self) -> TextPair:
        """My birthday is on 3 May. It is half past eight."""
        if self.chance(0.1):
            return finish(Words("it is", "es ist") + self.clock())
        date = self.date(self.pick(lexicon.set_phrases("month")))
        determiner = self.pick(owners()) if self.chance(0.5) else self.pick(POSSESSIVES[:4])
        whose = noun_phrase(determiner, lexicon.nouns("birthday")[0])
        return finish(Words(f"{whose.english} is", f"{whose.german[NOMINATIVE]} ist") + date)


def finish(words: Words, mark: str = ".") -> TextPair:
    """Begin with a capital letter and end with a mark."""
    english, german = words.english, words.german
    return english[0].upper() + english[1:] + mark, german[0].upper() + german[1:] + mark


def vehicles_that(verb: Verb) -> list[Noun]:
    """Return what has a timetable with this verb: a plane arrives, but only trains and buses abfahren."""
    transport = lexicon.nouns("transport")
    return [noun for noun in transport if "flying" not in noun.traits] if verb.english == "leave" else transport


@cache
def verbs_with_accusative_person() -> list[Verb]:
    """Return the verbs that take a person as accusative object."""
    return [verb for verb in lexicon.verbs("transitive") if "person" in verb.objects]


@cache
def verbs_of_place() -> list[Verb]:
    """Return the verbs of which one may ask where."""
    return [verb for verb in lexicon.verbs("staying", "intransitive") if "where" in verb.traits]


@cache
def verbs_of_action() -> list[Verb]:
    """Return the transitive verbs that one can be busy with."""
    return [verb for verb in lexicon.verbs("transitive") if verb.progressive]


@cache
def verbs_with_thing() -> list[Verb]:
    """Return the verbs whose object is always a thing, and which one can be busy with."""
    return [verb for verb in verbs_of_action() if not {"person", "language", "room"} & {*verb.objects}]


@cache
def verbs_of_aim() -> list[Verb]:
    """Return the transitive verbs that one goes somewhere for."""
    return [verb for verb in lexicon.verbs("transitive") if "aim" in verb.traits]
