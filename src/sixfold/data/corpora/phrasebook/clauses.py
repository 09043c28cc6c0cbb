"""The phrasebook's clauses: what somebody does, in which tense, how often or when, and whether not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sixfold.data.corpora.phrasebook import words as lexicon
from sixfold.data.corpora.phrasebook.grammar import (
    ACCUSATIVE,
    BARE,
    CASE_AFTER,
    NOT_ANY,
    A,
    Clause,
    Determiner,
    Nominal,
    Predicate,
    after_preposition,
    noun_phrase,
)
from sixfold.data.corpora.phrasebook.phrases import (
    ALWAYS_PLURAL,
    PAST_TENSES,
    PEOPLE,
    Phrases,
    goals,
    habitual_times,
    homes,
    weighted,
)
from sixfold.data.corpora.phrasebook.words import Adjective, Verb, Words

NO = Determiner("no", "no", "kein", "ein", "mixed", "negated")
IT = Nominal("it", "it", ("es", "es", "ihm"), 2, "pronoun", "n")

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
NEVER_MEANT = ("lose", "forget", "need")  # nobody wants to
NEVER_HABITUAL = ("need", "have", "like", "know", "understand", "live")
ALONE = ("sleep", "wake up", "fall asleep", "get up", "come back")
WITHOUT_DEGREES = ("broken", "empty", "full", "red", "blue", "green", "black", "white")
STATES = ("tired", "sick", "hungry", "happy", "sad")

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
                (whatever_the_plan(self.intransitive), 15),
                (whatever_the_plan(self.staying), 4),
                (whatever_the_plan(self.going), 4),
                (whatever_the_plan(self.travelling), 4.5),
                (self.with_preposition, 6),
                (whatever_the_plan(self.putting), 2),
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
        verb = self.pick(lexicon.verbs(lexicon.TRANSITIVE))
        return Predicate(verb, self.object_of(verb, plan))

    def action(self, subject: Nominal, verbs: Sequence[Verb]) -> Predicate:
        """Choose one of these verbs and its accusative object."""
        verb = self.pick(verbs)
        return Predicate(verb, self.object_of(verb, Plan(subject)))

    def object_of(self, verb: Verb, plan: Plan) -> Nominal:
        """Choose what fits the verb; kein negates something new, nicht everything else."""
        noun = self.noun(*verb.objects)
        if noun.kind in PEOPLE:
            return self.person_object(plan.subject)
        if noun.kind in ("language", "means"):
            return noun_phrase(NOT_ANY if plan.takes_kein else BARE, noun)
        if verb.english == "like" and not plan.negative and self.chance(0.5):
            return self.noun_phrase(noun, BARE, plural_chance=1.0)
        if verb.english in NEVER_INDEFINITE or self.chance(0.5):
            return self.known_phrase(noun)
        return self.new_phrase(noun, kein=plan.takes_kein)

    def with_dative(self, plan: Plan) -> Predicate:
        """Choose a verb whose object is a dative: helfen, danken."""
        verb = self.pick(lexicon.verbs(lexicon.DATIVE))
        noun = self.noun(*verb.objects)
        person = self.person_object(plan.subject) if noun.kind in PEOPLE else self.known_phrase(noun)
        return Predicate(verb, dative=person)

    def giving(self, plan: Plan) -> Predicate:
        """Choose a verb with a dative and an accusative: geben, zeigen."""
        verb = self.pick(lexicon.verbs(lexicon.GIVING))
        noun = self.noun(*verb.objects)
        known = plan.negative or noun.english in ALWAYS_PLURAL or self.chance(0.5)
        gift = self.known_phrase(noun) if known else noun_phrase(A, noun, self.adjective(noun))
        return Predicate(verb, gift, self.person_object(plan.subject))

    def explaining(self, plan: Plan) -> Predicate:
        """Explain something to somebody."""
        verb = self.pick(lexicon.verbs(lexicon.EXPLAINING))
        matter = self.known_phrase(self.noun(*verb.objects))
        return Predicate(verb, matter, self.person_object(plan.subject), dative_last=True)

    def intransitive(self) -> Predicate:
        """Choose a verb without object, perhaps with a place."""
        verb = self.pick(lexicon.verbs(lexicon.INTRANSITIVE))
        has_place = not verb.prefix and self.chance(0.5)
        companion = None if verb.english in ALONE else self.companion(0.15)
        return Predicate(verb, companion=companion, complement=self.place() if has_place else None)

    def staying(self) -> Predicate:
        """Stay, sit or live somewhere."""
        verb = self.pick(lexicon.verbs(lexicon.STAYING))
        if verb.english != "live":
            return Predicate(verb, complement=self.place())
        return Predicate(verb, complement=self.town("in", "in") if self.chance(0.6) else self.pick(homes()))

    def going(self) -> Predicate:
        """Go or run to a place nearby, or to a person."""
        verb = self.pick(lexicon.verbs(lexicon.GOING))
        goal = self.to_person() if self.chance(0.2) else self.pick(goals())
        return Predicate(verb, companion=self.companion(0.15), complement=goal)

    def travelling(self) -> Predicate:
        """Travel, fly or drive to a town or a country."""
        verb = self.pick(lexicon.verbs(lexicon.TRAVELLING))
        means = self.by_transport() if verb.english == "travel" and self.chance(0.5) else self.companion(0.25)
        return Predicate(verb, companion=means, complement=self.town("to", "nach"))

    def coming(self, plan: Plan) -> Predicate:
        """Come home, or come from somewhere."""
        verb = lexicon.other_verb("come")
        if plan.tense == "simple" and self.chance(0.6):
            return Predicate(verb, complement=self.town("from", "aus"))
        return Predicate(verb, companion=self.companion(0.2), complement=self.pick(goals()))

    def with_preposition(self, plan: Plan) -> Predicate:
        """Choose a verb that takes its object with a preposition: warten auf."""
        verb = self.pick(lexicon.verbs(lexicon.WITH_PREPOSITION))
        noun = self.noun(*verb.objects)
        thing = self.person_object(plan.subject) if noun.kind in PEOPLE else self.known_phrase(noun)
        german = after_preposition(verb.preposition, thing, CASE_AFTER[verb.preposition])
        return Predicate(verb, complement=Words(thing.english_object, german))

    def putting(self) -> Predicate:
        """Put something somewhere: the accusative says where to."""
        thing = self.known_phrase(self.noun("print", "mail", "clothes", "dish"))
        return Predicate(lexicon.other_verb("put"), thing, complement=self.spot(ACCUSATIVE))

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
        return replace(clause, adverb=self.pick(lexicon.words(lexicon.FREQUENCY)))

    def simple_clause(self, subject: Nominal) -> Clause:
        """Choose a clause for if, when and before: the simple present, without a time."""
        predicate = self.predicate(Plan(subject))
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
            clause = Clause(subject, self.intransitive())
        return replace(clause, tense="past" if tense in PAST_TENSES else "present")

    def quality(self, adjective: Adjective) -> Words:
        """Say an adjective, perhaps with very or too."""
        place = self.random()
        if place < 0.7 or adjective.english in WITHOUT_DEGREES:
            return Words(adjective.english, adjective.german)
        english, german = ("very", "sehr") if place < 0.85 else ("too", "zu")
        return Words(f"{english} {adjective.english}", f"{german} {adjective.german}")


def whatever_the_plan(make: Callable[[], Predicate]) -> Callable[[Plan], Predicate]:
    """Make a choice that needs no plan look like the others."""
    return lambda _plan: make()


def be(subject: Nominal, complement: Words | None) -> Clause:
    """Say what or where the subject is."""
    return Clause(subject, Predicate(be_verb(), complement=complement))


def be_verb() -> Verb:
    """Return to be, sein."""
    return lexicon.other_verb("be")


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
