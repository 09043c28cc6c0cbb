"""The lexicon: the tables in `words/`, read and checked when they are first needed.

Every English form has one German form: `you` is always familiar and singular (du), a `friend` is always a Freund,
`open` is always aufmachen. So the German is a function of the English. The words and their order decide what a
seed generates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from sixfold.data.corpora.phrasebook.tables import Row, damaged, named, read_table

Entry = TypeVar("Entry")

WORDS = Path(__file__).with_name("words")
COLUMNS = {  # of each table; a question mark allows a dash
    "kinds": "kind adjectives?",
    "nouns": "kind english english_plural? german german_plural? german_weak? traits?",
    "adjectives": "english english_comparative? german german_comparative? german_stem? traits?",
    "verbs": "groups english third progressive? past? participle? "
    "infinitive present perfect? imperative? preposition? objects? traits?",
    "places": "group english english_goal german german_goal traits?",
    "phrases": "group english german",
}
TRAITS = {
    "nouns": ("unowned", "plural", "several", "flying"),
    "adjectives": ("absolute", "feeling", "judgement"),
    "verbs": ("known", "momentary", "unwanted", "lasting", "alone", "aim", "where"),
    "places": ("home", "sight"),
}
WITH_OBJECT = ("transitive", "dative", "giving", "explaining", "prepositional")
WITHOUT_OBJECT = ("intransitive", "staying", "going", "travelling", "saying", "intending", "weather")
VERBS = (*WITH_OBJECT, *WITHOUT_OBJECT, "departing", "other")
PLACES = ("place", "spot")
NAMES = ("woman", "man", "surname", "town", "country")
TIMES = ("weekday", "month", "soon", "past", "habitual", "frequency")
PHRASES = (*NAMES, *TIMES, "here", "number", "question", "opening_conjunction", "conjunction")

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
CASES = {"accusative": ACCUSATIVE, "dative": DATIVE}
GENDERS = {"der": "m", "die": "f", "das": "n"}
AUXILIARIES = {"hat": "haben", "ist": "sein"}


@dataclass(frozen=True, slots=True)
class Words:
    """The same words in both languages."""

    english: str
    german: str

    def __add__(self, other: Words) -> Words:
        """Append words, with a space between."""
        return Words(f"{self.english} {other.english}".strip(), f"{self.german} {other.german}".strip())


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun with the forms that its declension needs; without plural it is a mass noun."""

    kind: str
    english: str
    english_plural: str
    german: str
    german_plural: str
    weak: str
    gender: str
    traits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective; `stem` takes the endings, and an empty comparative is never used."""

    positive: Words
    comparative: Words
    stem: str
    traits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages; an empty form is never used."""

    english: str
    third: str
    progressive: str
    past: str
    participle: str
    prefix: str
    infinitive: str
    present: tuple[str, ...]
    auxiliary: str
    german_participle: str
    imperative: str
    preposition: str
    case: int  # of the object after the preposition
    objects: tuple[str, ...]
    traits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place as where one is and as where one goes: at home, home."""

    where: Words
    goal: Words
    traits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All words by kind or group; `fitting` are the adjectives that may be said of a kind of noun."""

    nouns: dict[str, list[Noun]]
    adjectives: dict[str, Adjective]
    fitting: dict[str, list[Adjective]]
    verbs: dict[str, list[Verb]]
    places: dict[str, list[Place]]
    phrases: dict[str, list[Words]]


# What the rest of the phrasebook asks for


@cache
def lexicon() -> Lexicon:
    """Return the lexicon, which the first call reads."""
    return read_lexicon(WORDS)


@cache
def nouns(*kinds: str) -> list[Noun]:
    """Return the nouns of these kinds."""
    return [noun for kind in kinds for noun in lexicon().nouns[kind]]


@cache
def described_kinds() -> tuple[str, ...]:
    """Return the kinds of noun that have adjectives."""
    return tuple(kind for kind, adjectives in lexicon().fitting.items() if adjectives)


def fitting_adjectives(kind: str) -> list[Adjective]:
    """Return what may be said of a kind of noun."""
    return lexicon().fitting[kind]


@cache
def adjectives(trait: str) -> list[Adjective]:
    """Return the adjectives with a trait."""
    return [adjective for adjective in lexicon().adjectives.values() if trait in adjective.traits]


@cache
def verbs(*groups: str) -> list[Verb]:
    """Return the verbs of these groups."""
    return [verb for group in groups for verb in lexicon().verbs[group]]


@cache
def verb(english: str, group: str = "other") -> Verb:
    """Return one verb of a group by its English infinitive."""
    found = [verb for verb in verbs(group) if verb.english == english]
    if not found:
        raise damaged("verbs.tsv", f"the grammar needs the verb {english!r} in the group {group!r}")
    return found[0]


@cache
def places(group: str, trait: str = "") -> list[Place]:
    """Return the places of a group, or those of them with a trait."""
    return [place for place in lexicon().places[group] if not trait or trait in place.traits]


@cache
def set_phrases(*groups: str) -> list[Words]:
    """Return the words and set phrases of these groups."""
    return [words for group in groups for words in lexicon().phrases[group]]


# Reading


def read_lexicon(folder: Path) -> Lexicon:
    """Read and check all tables of a folder."""
    table = {name: read_table(folder / f"{name}.tsv", columns.split()) for name, columns in COLUMNS.items()}
    adjectives = {english: read_adjective(row) for english, row in named(table["adjectives"]).items()}
    kinds = named(table["kinds"], "kind")
    fitting = {kind: row.several("adjectives", adjectives) for kind, row in kinds.items()}
    return Lexicon(
        nouns=grouped(list(named(table["nouns"]).values()), "kind", kinds, partial(read_noun, kinds=kinds)),
        adjectives=adjectives,
        fitting={kind: [adjectives[word] for word in words] for kind, words in fitting.items()},
        verbs=grouped(table["verbs"], "groups", VERBS, partial(read_verb, kinds=kinds)),
        places=grouped(table["places"], "group", PLACES, read_place),
        phrases=grouped(table["phrases"], "group", PHRASES, read_phrase),
    )


def grouped(
    rows: Sequence[Row], column: str, groups: Collection[str], read: Callable[[Row], Entry]
) -> dict[str, list[Entry]]:
    """Read the lines of each group; none may be without words, and every line has known groups."""
    members: dict[str, list[Row]] = {group: [] for group in groups}
    for row in rows:
        for group in row.several(column, groups):
            members[group].append(row)
    for group, lines in members.items():
        if not lines:
            raise damaged(rows[-1].place, f"the table ends without a line whose {column} is {group!r}")
    return {group: [read(row) for row in named(lines).values()] for group, lines in members.items()}


def require_both(row: Row, english: str, german: str) -> None:
    """Raise if one language has a form that the other has not."""
    if bool(row[english]) != bool(row[german]):
        raise row.error(german, f"a dash if {english} is one, and otherwise a word")


def read_noun(row: Row, kinds: Collection[str]) -> Noun:
    """Read a noun, whose article tells its gender."""
    require_both(row, "english_plural", "german_plural")
    article, _, singular = row["german"].partition(" ")
    if article not in GENDERS or not singular:
        raise row.error("german", "a noun with its article: der, die or das")
    return Noun(
        kind=row.one("kind", kinds),
        english=row["english"],
        english_plural=row["english_plural"],
        german=singular,
        german_plural=row["german_plural"],
        weak=row["german_weak"] or singular,
        gender=GENDERS[article],
        traits=row.several("traits", TRAITS["nouns"]),
    )


def read_adjective(row: Row) -> Adjective:
    """Read an adjective."""
    require_both(row, "english_comparative", "german_comparative")
    return Adjective(
        positive=Words(row["english"], row["german"]),
        comparative=Words(row["english_comparative"], row["german_comparative"]),
        stem=row["german_stem"] or row["german"],
        traits=row.several("traits", TRAITS["adjectives"]),
    )


def read_verb(row: Row, kinds: Collection[str]) -> Verb:
    """Read a verb; its objects are kinds of nouns."""
    prefix, _, infinitive = row["infinitive"].rpartition("|")
    preposition, case = read_preposition(row)
    auxiliary, participle = read_perfect(row)
    objects = row.several("objects", kinds)
    if bool(objects) != any(group in WITH_OBJECT for group in row["groups"].split()):
        raise row.error("objects", f"a dash, except in the groups {', '.join(WITH_OBJECT)}")
    return Verb(
        english=row["english"],
        third=row["third"],
        progressive=row["progressive"],
        past=row["past"],
        participle=row["participle"],
        prefix=prefix,
        infinitive=infinitive,
        present=read_present(row, infinitive),
        auxiliary=auxiliary,
        german_participle=participle,
        imperative=row["imperative"],
        preposition=preposition,
        case=case,
        objects=objects,
        traits=row.several("traits", TRAITS["verbs"]),
    )


def read_present(row: Row, infinitive: str) -> tuple[str, ...]:
    """Return the present tense for ich, du, er, wir, sie: as it stands there, or made from the er-form."""
    forms = tuple(row["present"].split())
    if len(forms) == 5:
        return forms
    if len(forms) != 1:
        raise row.error("present", "the form for er, or the five forms for ich, du, er, wir and sie")
    stem = forms[0].removesuffix("t")
    second = stem + ("t" if stem.endswith(("s", "ß", "z")) else "st")  # du liest, du tanzt, but du kaufst
    return (infinitive.removesuffix("n"), second, forms[0], infinitive, infinitive)


def read_perfect(row: Row) -> tuple[str, str]:
    """Return the auxiliary's infinitive and the participle."""
    require_both(row, "past", "perfect")
    auxiliary, _, participle = row["perfect"].partition(" ")
    if row["perfect"] and not (auxiliary in AUXILIARIES and participle):
        raise row.error("perfect", "hat or ist with a participle, or a dash")
    return AUXILIARIES.get(auxiliary, ""), participle


def read_preposition(row: Row) -> tuple[str, int]:
    """Return the preposition that a prepositional verb takes, and the case after it."""
    preposition, _, case = row["preposition"].partition(" ")
    if "prepositional" in row["groups"].split():
        if case not in CASES:
            raise row.error("preposition", f"a preposition and its case, {' or '.join(CASES)}")
    elif preposition:
        raise row.error("preposition", "a dash, except in the group prepositional")
    return preposition, CASES.get(case, NOMINATIVE)


def read_place(row: Row) -> Place:
    """Read a place and the way to it."""
    goal = Words(row["english_goal"], row["german_goal"])
    return Place(read_phrase(row), goal, row.several("traits", TRAITS["places"]))


def read_phrase(row: Row) -> Words:
    """Read words that never change."""
    return Words(row["english"], row["german"])
