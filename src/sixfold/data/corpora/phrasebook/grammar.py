"""The synchronous grammar: one clause, written out in English and in German.

German clauses follow the field model that grammars of German teach:

    front field   left bracket   middle field              right bracket
    Gestern       hat            sie das Auto nicht        gekauft.
                  weil           sie das Auto nicht        gekauft hat

A statement puts one phrase in front and the finite verb second, a question puts the verb first, and a
subordinate clause moves it to the right bracket, where a separable prefix waits to be joined. English
needs its auxiliaries instead: `does`, `is`, `did`.

Persons are numbered 0 ich, 1 du, 2 er/sie, 3 wir, 4 sie.
"""

from __future__ import annotations

from dataclasses import dataclass

from sixfold.data.corpora.phrasebook.lexicon import ACCUSATIVE, DATIVE, NOMINATIVE, Adjective, Noun, Verb, Words

STRONG = {"m": ("er", "en", "em"), "f": ("e", "e", "er"), "n": ("es", "es", "em"), "p": ("e", "e", "en")}
ENDINGS = {  # by gender, p for plural: nominative, accusative, dative
    "der": {"m": ("er", "en", "em"), "f": ("ie", "ie", "er"), "n": ("as", "as", "em"), "p": ("ie", "ie", "en")},
    "dieser": STRONG,
    "ein": {"m": ("", "en", "em"), "f": ("e", "e", "er"), "n": ("", "", "em"), "p": ("e", "e", "en")},
    "bare": dict.fromkeys("mfnp", ("", "", "")),
    "weak": {"m": ("e", "en", "en"), "f": ("e", "e", "en"), "n": ("e", "e", "en"), "p": ("en", "en", "en")},
    "mixed": {"m": ("er", "en", "en"), "f": ("e", "e", "en"), "n": ("es", "es", "en"), "p": ("en", "en", "en")},
    "strong": STRONG,
}
CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "zu dem": "zum",
    "zu der": "zur",
    "von dem": "vom",
}

BE = ("am", "are", "is", "are", "are")
WAS = ("was", "were", "was", "were", "were")
HAVE = ("have", "have", "has", "have", "have")
DO = ("do", "do", "does", "do", "do")
AUXILIARY = {
    "haben": ("habe", "hast", "hat", "haben", "haben"),
    "sein": ("bin", "bist", "ist", "sind", "sind"),
}
PRETERITE = {  # where other verbs take the perfect
    "haben": ("hatte", "hattest", "hatte", "hatten", "hatten"),
    "sein": ("war", "warst", "war", "waren", "waren"),
}
MODALS = {
    "can": ("kann", "kannst", "kann", "können", "können"),
    "should": ("sollte", "solltest", "sollte", "sollten", "sollten"),
    "may": ("darf", "darfst", "darf", "dürfen", "dürfen"),
    "will": ("werde", "wirst", "wird", "werden", "werden"),
    "have to": ("muss", "musst", "muss", "müssen", "müssen"),
    "want to": ("will", "willst", "will", "wollen", "wollen"),
    "would like to": ("möchte", "möchtest", "möchte", "möchten", "möchten"),
    "had to": ("musste", "musstest", "musste", "mussten", "mussten"),
    "wanted to": ("wollte", "wolltest", "wollte", "wollten", "wollten"),
}


@dataclass(frozen=True, slots=True)
class Determiner:
    """The words before a noun: in English, the German stem, and the endings it takes."""

    english: str
    english_plural: str
    german: str
    endings: str  # der, dieser, ein, or bare for none
    adjective: str  # weak, mixed or strong endings on the adjective that follows
    weight: str  # definite, indefinite, or negated (kein)


@dataclass(frozen=True, slots=True)
class Nominal:
    """A pronoun, a name or a noun phrase, in every case."""

    english: str
    english_object: str
    german: tuple[str, str, str]
    person: int
    weight: str  # pronoun, definite, indefinite or negated: it decides the place in the middle field
    gender: str  # m, f, n, or p for plural


@dataclass(frozen=True, slots=True)
class Predicate:
    """A verb with everything it takes."""

    verb: Verb
    accusative: Nominal | None = None
    dative: Nominal | None = None
    dative_last: bool = False  # explain the question to the man
    companion: Words | None = None  # with my brother, by train
    complement: Words | None = None  # a place, a goal, an object with preposition, an adjective


@dataclass(frozen=True, slots=True)
class Clause:
    """A subject and a predicate in a tense: all that both languages need to know.

    The tenses are `present` (progressive where the verb has one), `simple`, `past`, `perfect`, `likes to`
    (gern) and the English names of the modal verbs.
    """

    subject: Nominal
    predicate: Predicate
    tense: str = "present"
    negative: bool = False
    adverb: Words | None = None
    time: Words | None = None


THE = Determiner("the", "the", "d", "der", "weak", "definite")
THIS = Determiner("this", "these", "dies", "dieser", "weak", "definite")
A = Determiner("a", "a", "ein", "ein", "mixed", "indefinite")
BARE = Determiner("", "", "", "bare", "strong", "indefinite")
NO = Determiner("no", "no", "kein", "ein", "mixed", "negated")
NOT_A = Determiner("a", "any", "kein", "ein", "mixed", "negated")
NOT_ANY = Determiner("any", "any", "kein", "ein", "mixed", "negated")
OWN = {"my": "mein", "your": "dein", "his": "sein", "her": "ihr", "our": "unser", "their": "ihr"}
POSSESSIVES = [Determiner(english, english, OWN[english], "ein", "mixed", "definite") for english in OWN]

PRONOUNS = (
    Nominal("I", "me", ("ich", "mich", "mir"), 0, "pronoun", "m"),
    Nominal("you", "you", ("du", "dich", "dir"), 1, "pronoun", "m"),
    Nominal("he", "him", ("er", "ihn", "ihm"), 2, "pronoun", "m"),
    Nominal("she", "her", ("sie", "sie", "ihr"), 2, "pronoun", "f"),
    Nominal("we", "us", ("wir", "uns", "uns"), 3, "pronoun", "p"),
    Nominal("they", "them", ("sie", "sie", "ihnen"), 4, "pronoun", "p"),
)
YOU = PRONOUNS[1]
IT = Nominal("it", "it", ("es", "es", "ihm"), 2, "pronoun", "n")
WHO = Nominal("who", "who", ("wer", "wen", "wem"), 2, "pronoun", "m")
NOTHING = Words("", "")


# Both languages


def statement(clause: Clause, front: bool = False) -> Words:
    """Write the clause with the subject, or with `front` the time, before the verb."""
    return Words(english_statement(clause, front), german_statement(clause, front))


def question(clause: Clause, word: Words = NOTHING) -> Words:
    """Write the clause as a question, after a question word if there is one."""
    return Words(english_question(clause, word.english), german_question(clause, word.german))


def subordinate(conjunction: Words, clause: Clause) -> Words:
    """Write the clause after a conjunction: because she is tired."""
    english = f"{conjunction.english} {english_statement(clause)}"
    return Words(english, german_subordinate(conjunction.german, clause))


def infinitive(clause: Clause, opener: str = "") -> Words:
    """Write the clause without its subject: to buy a car; the German `opener` may be um."""
    return Words(english_infinitive(clause), german_infinitive(clause, opener))


def complex_sentence(main: Words, side: Words) -> Words:
    """Put a subordinate clause after its main clause; German puts a comma between them."""
    return Words(f"{main.english} {side.english}", f"{main.german}, {side.german}")


def noun_phrase(
    determiner: Determiner, noun: Noun, adjective: Adjective | None = None, plural: bool = False
) -> Nominal:
    """Put a determiner and an adjective before a noun."""
    gender = "p" if plural else noun.gender
    english = english_noun_phrase(determiner, noun, adjective, plural)
    german = (
        german_noun_phrase(determiner, noun, adjective, gender, NOMINATIVE),
        german_noun_phrase(determiner, noun, adjective, gender, ACCUSATIVE),
        german_noun_phrase(determiner, noun, adjective, gender, DATIVE),
    )
    return Nominal(english, english, german, 4 if plural else 2, determiner.weight, gender)


def join(*parts: str) -> str:
    """Join the parts that are there with spaces."""
    return " ".join(part for part in parts if part)


# English


def english_noun_phrase(determiner: Determiner, noun: Noun, adjective: Adjective | None, plural: bool) -> str:
    """Write a noun phrase in English: `an old house`."""
    rest = noun.english_plural if plural else noun.english
    if adjective:
        rest = f"{adjective.positive.english} {rest}"
    word = determiner.english_plural if plural else determiner.english
    return join("an" if word == "a" and rest[0] in "aeiou" else word, rest)


def english_verb_group(verb: Verb, person: int, tense: str) -> tuple[str, str, str]:
    """Return the auxiliary, the verb after it, and the form that needs no auxiliary (empty if none)."""
    base = verb.english
    if base == "be" and tense in ("present", "simple", "past"):
        return (WAS if tense == "past" else BE)[person], "", ""
    if tense == "present" and verb.progressive:
        return BE[person], verb.progressive, ""
    if tense in ("present", "simple"):
        return DO[person], base, verb.third if person == 2 else base
    if tense == "past":
        return "did", base, verb.past
    if tense == "perfect":
        return HAVE[person], verb.participle, ""
    return english_modal_group(base, person, tense)


def english_modal_group(base: str, person: int, tense: str) -> tuple[str, str, str]:
    """Return the verb group of a modal: some take `do`, some are auxiliaries themselves."""
    if tense in ("had to", "wanted to"):
        plain = "have to" if tense == "had to" else "want to"
        return "did", f"{plain} {base}", f"{tense} {base}"
    if tense == "would like to":
        return "would", f"like to {base}", ""
    if tense in ("have to", "want to", "likes to"):
        plain = "like to" if tense == "likes to" else tense
        third = {"have to": "has to", "want to": "wants to", "like to": "likes to"}[plain]
        return DO[person], f"{plain} {base}", f"{third if person == 2 else plain} {base}"
    return tense, base, ""


def english_statement(clause: Clause, front: bool = False) -> str:
    """Write the clause in English; `front` puts the time first."""
    verb, person = clause.predicate.verb, clause.subject.person
    auxiliary, after, alone = english_verb_group(verb, person, clause.tense)
    if clause.tense == "past" and alone == verb.english and person != 2 and not clause.time:
        # `They read it` could be past or present: say `have read`, so that English decides the German.
        auxiliary, after, alone = HAVE[person], verb.participle, ""
    if alone and not clause.negative:
        auxiliary, after = "", alone
    time = clause.time.english if clause.time and front else ""
    return join(
        time, clause.subject.english, negated(auxiliary, clause.negative), english_tail(clause, after, not front)
    )


def negated(auxiliary: str, negative: bool) -> str:
    """Add `not` to an auxiliary."""
    if not negative:
        return auxiliary
    return "cannot" if auxiliary == "can" else f"{auxiliary} not"


def english_tail(clause: Clause, verb: str, with_time: bool = True) -> str:
    """Write what follows subject and auxiliary: adverb, verb, objects, place, time."""
    adverb = clause.adverb.english if clause.adverb else ""
    is_yet = adverb == "yet"
    return join(
        "" if is_yet else adverb,
        english_objects(clause.predicate, verb),
        clause.time.english if clause.time and with_time else "",
        "yet" if is_yet else "",
    )


def english_objects(predicate: Predicate, verb: str) -> str:
    """Write the verb with its objects; a pronoun stands before a particle: `pick him up`."""
    accusative, dative = predicate.accusative, predicate.dative
    direct = accusative.english_object if accusative else ""
    if "~" in verb:
        plain, particle = verb.split(" ~")
        is_pronoun = accusative is not None and accusative.weight == "pronoun"
        verb, direct = (plain, f"{direct} {particle}") if is_pronoun else (f"{plain} {particle}", direct)
    indirect = dative.english_object if dative else ""
    objects = [direct, f"to {indirect}"] if predicate.dative_last else [indirect, direct]
    return join(
        verb,
        *objects,
        predicate.complement.english if predicate.complement else "",
        predicate.companion.english if predicate.companion else "",
    )


def english_question(clause: Clause, word: str = "") -> str:
    """Write the clause as an English question: auxiliary before subject."""
    auxiliary, after, _ = english_verb_group(clause.predicate.verb, clause.subject.person, clause.tense)
    subject = join(clause.subject.english, "not" if clause.negative else "")
    return join(word, auxiliary, subject, english_tail(clause, after))


def english_infinitive(clause: Clause) -> str:
    """Write the clause without subject: `to buy a car today`."""
    return join("to", english_tail(clause, clause.predicate.verb.english))


# German


def german_noun_phrase(
    determiner: Determiner, noun: Noun, adjective: Adjective | None, gender: str, case: int
) -> str:
    """Write a noun phrase in German in one case: `einem alten Haus`."""
    return join(
        determiner.german + ENDINGS[determiner.endings][gender][case],
        adjective.stem + ENDINGS[determiner.adjective][gender][case] if adjective else "",
        german_noun(noun, gender, case),
    )


def german_noun(noun: Noun, gender: str, case: int) -> str:
    """Decline the noun itself: weak masculines and the dative plural take an ending."""
    if gender != "p":
        return noun.german if case == NOMINATIVE else noun.weak
    if case == DATIVE and not noun.german_plural.endswith(("n", "s")):
        return noun.german_plural + "n"
    return noun.german_plural


def after_preposition(preposition: str, nominal: Nominal, case: int) -> str:
    """Write a German preposition and its object, contracted where German contracts: im, zum, vom."""
    article, _, rest = nominal.german[case].partition(" ")
    contraction = CONTRACTIONS.get(f"{preposition} {article}")
    return f"{contraction} {rest}" if contraction and rest else f"{preposition} {nominal.german[case]}"


def german_verb_group(verb: Verb, person: int, tense: str) -> tuple[str, str]:
    """Return the finite verb and what stands in the right bracket of a main clause."""
    if tense in ("past", "perfect"):
        if verb.infinitive in PRETERITE:
            return PRETERITE[verb.infinitive][person], ""
        return AUXILIARY[verb.auxiliary][person], verb.german_participle
    if tense in ("present", "simple", "likes to"):
        return verb.present[person], verb.prefix
    return MODALS[tense][person], verb.prefix + verb.infinitive


def right_bracket(clause: Clause) -> str:
    """Return the verbs at the end of a subordinate clause; a prefix is joined to its verb."""
    verb = clause.predicate.verb
    finite, rest = german_verb_group(verb, clause.subject.person, clause.tense)
    return rest + finite if rest == verb.prefix else f"{rest} {finite}"


def middle_field(clause: Clause, subject: str = "", with_time: bool = True) -> str:
    """Order what stands between the brackets: pronouns, known, when, (not), new, where."""
    accusative, dative = clause.predicate.accusative, clause.predicate.dative
    direct = accusative.german[ACCUSATIVE] if accusative else ""
    weight = accusative.weight if accusative else ""
    is_nicht = clause.negative and weight != "negated"
    return join(
        subject,
        direct if weight == "pronoun" else "",
        dative.german[DATIVE] if dative else "",
        direct if weight == "definite" else "",
        clause.time.german if clause.time and with_time else "",
        clause.adverb.german if clause.adverb else "",
        "nicht" if is_nicht else "",
        "gern" if clause.tense == "likes to" else "",
        direct if weight in ("indefinite", "negated") else "",
        clause.predicate.companion.german if clause.predicate.companion else "",
        clause.predicate.complement.german if clause.predicate.complement else "",
    )


def german_statement(clause: Clause, front: bool = False) -> str:
    """Write the clause with the verb second, after the subject or, with `front`, after the time."""
    subject = clause.subject.german[NOMINATIVE]
    finite, rest = german_verb_group(clause.predicate.verb, clause.subject.person, clause.tense)
    if front and clause.time:
        return join(clause.time.german, finite, middle_field(clause, subject, with_time=False), rest)
    return join(subject, finite, middle_field(clause), rest)


def german_question(clause: Clause, word: str = "") -> str:
    """Write the clause with the verb before the subject, after a question word if there is one."""
    finite, rest = german_verb_group(clause.predicate.verb, clause.subject.person, clause.tense)
    return join(word, finite, middle_field(clause, clause.subject.german[NOMINATIVE]), rest)


def german_subordinate(opener: str, clause: Clause, with_subject: bool = True) -> str:
    """Write the clause with its verbs at the end, after a conjunction or a relative pronoun."""
    subject = clause.subject.german[NOMINATIVE] if with_subject else ""
    return join(opener, middle_field(clause, subject), right_bracket(clause))


def relative_pronoun(nominal: Nominal, case: int) -> str:
    """Return der, die or das, which agrees with what it follows and has a case of its own."""
    return "d" + ENDINGS["der"][nominal.gender][case]


def german_infinitive(clause: Clause, opener: str = "") -> str:
    """Write the clause as an infinitive with zu, which stands inside a separable verb: anzurufen."""
    verb = clause.predicate.verb
    with_zu = f"{verb.prefix}zu{verb.infinitive}" if verb.prefix else f"zu {verb.infinitive}"
    return join(opener, middle_field(clause), with_zu)


def german_imperative(clause: Clause) -> str:
    """Write the clause as a request to one friend: `Mach die Tür auf`."""
    verb = clause.predicate.verb
    return join(verb.imperative, middle_field(clause), verb.prefix)
