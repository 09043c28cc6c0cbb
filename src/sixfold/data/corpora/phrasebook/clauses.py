"""The phrasebook's clauses: what somebody does, in which tense, how often or when, and whether not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sixfold.data.corpora.phrasebook import lexicon
from sixfold.data.corpora.phrasebook.grammar import (
    BARE,
    IT,
    NO,
    NOT_ANY,
    A,
    Clause,
    Nominal,
    Predicate,
    after_preposition,
    noun_phrase,
)
from sixfold.data.corpora.phrasebook.lexicon import Adjective, Verb, Words
from sixfold.data.corpora.phrasebook.phrases import PAST_TENSES, PEOPLE, Phrases, habitual_times, homes, weighted

MODAL_TENSES = ("can", "should", "may", "have to", "want to", "would like to", "had to", "wanted to")
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


@dataclass(frozen=True, slots=True)
class Plan:
    """What is settled before the verb is chosen."""

    subject: Nominal
    tense: str = "present"
    negative: bool = False

    @property
    def takes_kein(self) -> bool:
        """Return whether something new is negated by kein; before gern it is nicht."""
        return self.negative and self.tense != "likes to"


class Clauses(Phrases):
    """Chooses clauses."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.predicates = weighted(
            (
                (self.transitive, 46),
                (self.with_dative, 6),
                (self.giving, 9),
                (self.explaining, 1.5),
                (lambda _plan: self.intransitive(), 15),
                (lambda _plan: self.staying(), 4),
                (lambda _plan: self.going(), 4),
                (lambda _plan: self.travelling(), 4.5),
                (self.with_preposition, 6),
                (lambda _plan: self.putting(), 2),
                (self.coming, 2),
            )
        )
        self.tenses, self.coming_tenses = weighted(TENSES), weighted(COMING_TENSES)
        self.plain_tenses = weighted((("present", 1), ("past", 1)))

    # Predicates: a verb with its objects

    def predicate(self, plan: Plan) -> Predicate:
        """Choose what the subject does."""
        return self.draw(self.predicates)(plan)

    def transitive(self, plan: Plan) -> Predicate:
        """Choose a verb and its accusative object."""
        return self.action(lexicon.verbs("transitive"), plan)

    def action(self, verbs: Sequence[Verb], plan: Plan) -> Predicate:
        """Choose one of these verbs and its accusative object."""
        verb = self.pick(verbs)
        return Predicate(verb, self.object_of(verb, plan))

    def object_of(self, verb: Verb, plan: Plan) -> Nominal:
        """Choose what fits the verb; kein negates something new, nicht everything else."""
        noun = self.noun(*verb.objects)
        if noun.kind in PEOPLE:
            return self.person_object(plan.subject)
        if noun.kind in ("language", "means"):
            return noun_phrase(NOT_ANY if plan.takes_kein else BARE, noun)
        if verb.english == "like" and not plan.negative and self.chance(0.5):
            return self.noun_phrase(noun, BARE, plural_chance=1.0)
        if "known" in verb.traits or self.chance(0.5):
            return self.known_phrase(noun)
        return self.new_phrase(noun, kein=plan.takes_kein)

    def known_object(self, verb: Verb, subject: Nominal) -> Nominal:
        """Choose a person, or a known thing, that fits the verb."""
        noun = self.noun(*verb.objects)
        return self.person_object(subject) if noun.kind in PEOPLE else self.known_phrase(noun)

    def with_dative(self, plan: Plan) -> Predicate:
        """Choose a verb whose object is a dative: helfen, danken."""
        verb = self.pick(lexicon.verbs("dative"))
        return Predicate(verb, dative=self.known_object(verb, plan.subject))

    def giving(self, plan: Plan) -> Predicate:
        """Choose a verb with a dative and an accusative: geben, zeigen."""
        verb = self.pick(lexicon.verbs("giving"))
        noun = self.noun(*verb.objects)
        known = plan.negative or "plural" in noun.traits or self.chance(0.5)
        gift = self.known_phrase(noun) if known else noun_phrase(A, noun, self.adjective(noun))
        return Predicate(verb, gift, self.person_object(plan.subject))

    def explaining(self, plan: Plan) -> Predicate:
        """Explain something to somebody."""
        verb = self.pick(lexicon.verbs("explaining"))
        matter = self.known_phrase(self.noun(*verb.objects))
        return Predicate(verb, matter, self.person_object(plan.subject), dative_last=True)

    def intransitive(self) -> Predicate:
        """Choose a verb without object, perhaps with a place."""
        verb = self.pick(lexicon.verbs("intransitive"))
        has_place = not verb.prefix and self.chance(0.5)
        companion = None if "alone" in verb.traits else self.companion(0.15)
        return Predicate(verb, companion=companion, complement=self.place() if has_place else None)

    def staying(self) -> Predicate:
        """Stay, sit or live somewhere."""
        verb = self.pick(lexicon.verbs("staying"))
        if verb.english != "live":
            return Predicate(verb, complement=self.place())
        in_town = self.chance(0.6)
        return Predicate(verb, complement=self.town(Words("in", "in")) if in_town else self.pick(homes()))

    def going(self) -> Predicate:
        """Go or run to a place nearby, or to a person."""
        verb = self.pick(lexicon.verbs("going"))
        goal = self.to_person() if self.chance(0.2) else self.goal()
        return Predicate(verb, companion=self.companion(0.15), complement=goal)

    def travelling(self) -> Predicate:
        """Travel, fly or drive to a town or a country."""
        verb = self.pick(lexicon.verbs("travelling"))
        means = self.by_transport() if verb.english == "travel" and self.chance(0.5) else self.companion(0.25)
        return Predicate(verb, companion=means, complement=self.town(Words("to", "nach")))

    def coming(self, plan: Plan) -> Predicate:
        """Come home, or come from somewhere."""
        verb = lexicon.verb("come")
        if plan.tense == "simple" and self.chance(0.6):
            return Predicate(verb, complement=self.town(Words("from", "aus")))
        return Predicate(verb, companion=self.companion(0.2), complement=self.goal())

    def with_preposition(self, plan: Plan) -> Predicate:
        """Choose a verb that takes its object with a preposition: warten auf."""
        verb = self.pick(lexicon.verbs("prepositional"))
        thing = self.known_object(verb, plan.subject)
        german = after_preposition(verb.preposition, thing, verb.case)
        return Predicate(verb, complement=Words(thing.english_object, german))

    def putting(self) -> Predicate:
        """Put something somewhere."""
        thing = self.known_phrase(self.noun("print", "mail", "clothes", "dish"))
        return Predicate(lexicon.verb("put"), thing, complement=self.pick(lexicon.places("spot")).goal)

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
            predicate = self.predicate(Plan(subject, tense, negative))
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
        return replace(clause, adverb=self.pick(lexicon.set_phrases("frequency")))

    def simple_clause(self, subject: Nominal) -> Clause:
        """Choose a clause for if, when and before: the simple present, without a time."""
        return Clause(subject, self.predicate(Plan(subject)), "simple")

    def state(self, subject: Nominal, tense: str) -> Clause:
        """Choose a circumstance that is a reason for many things, now or in the past."""
        place = self.random()
        if place < 0.25:
            clause = Clause(IT, Predicate(self.pick(lexicon.verbs("weather"))))
        elif place < 0.65:
            clause = be(subject, self.quality(self.pick(lexicon.adjectives("feeling"))))
        elif place < 0.8:
            clause = be(subject, self.place())
        elif place < 0.9:
            have = lexicon.verb("have", "transitive")
            clause = Clause(subject, Predicate(have, noun_phrase(NO, self.noun("means"))))
        else:
            clause = Clause(subject, self.intransitive())
        return replace(clause, tense="past" if tense in PAST_TENSES else "present")

    def quality(self, adjective: Adjective) -> Words:
        """Say an adjective, perhaps with very or too."""
        place = self.random()
        if place < 0.7 or "absolute" in adjective.traits:
            return adjective.positive
        return (Words("very", "sehr") if place < 0.85 else Words("too", "zu")) + adjective.positive


def be(subject: Nominal, complement: Words | None = None) -> Clause:
    """Say what or where the subject is."""
    return Clause(subject, Predicate(lexicon.verb("be"), complement=complement))


def is_origin(predicate: Predicate) -> bool:
    """Return whether this says where somebody comes from, which is no habit."""
    return predicate.complement is not None and predicate.complement.english.startswith("from ")


def can_stand_in(verb: Verb, tense: str) -> bool:
    """Return whether the verb has this tense and sounds natural in it."""
    if tense == "present":
        return "momentary" not in verb.traits
    if tense == "simple":
        return "lasting" not in verb.traits
    if not verb.past or (tense in MODAL_TENSES and "unwanted" in verb.traits):
        return False
    return bool(verb.participle and verb.progressive) if tense in ("perfect", "likes to") else True


def time_chance(clause: Clause) -> float:
    """Return how often a clause of this tense says when."""
    if clause.tense == "likes to" or (clause.tense == "present" and not clause.predicate.verb.progressive):
        return 0.0
    return {"present": 0.3, "past": 0.55, "will": 0.5}.get(clause.tense, 0.25)
