"""The phrasebook's grammar against German written by hand, and the promises of its generator."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.corpora import phrasebook
from sixfold.data.corpora.files import split_of
from sixfold.data.corpora.phrasebook import grammar, lexicon, phrases
from sixfold.data.corpora.phrasebook.grammar import Clause, Nominal, Predicate
from sixfold.data.corpora.phrasebook.lexicon import Noun, Verb, Words
from sixfold.errors import DataError


def verb_named(english: str) -> Verb:
    """Return kennen for `know` and wissen for `know that`."""
    if english.endswith(" that"):
        return lexicon.verb(english.removesuffix(" that"), "saying")
    return next(verb for verb in lexicon.verbs(*lexicon.VERBS) if verb.english == english)


def nominal(english: str) -> Nominal:
    """Read an English noun phrase back: `my old brother`, `Anna`, `him`, `two dogs`."""
    for ready in [*grammar.PRONOUNS, *phrases.names(), grammar.IT]:
        if english in (ready.english, ready.english_object):
            return ready
    return noun_phrase(english.split())


def all_nouns() -> list[Noun]:
    return [noun for group in lexicon.lexicon().nouns.values() for noun in group]


def noun_phrase(words: list[str]) -> Nominal:
    noun = next(noun for noun in all_nouns() if words[-1] in (noun.english, noun.english_plural))
    plural = words[-1] == noun.english_plural
    adjective = lexicon.lexicon().adjectives.get(words[-2]) if len(words) > 1 else None
    return grammar.noun_phrase(determiner(words[0], plural), noun, adjective, plural)


def determiner(word: str, plural: bool) -> grammar.Determiner:
    options = [grammar.THE, grammar.THIS, grammar.A, grammar.NOT_ANY, grammar.NO]
    options += [*grammar.POSSESSIVES, *phrases.owners(), *phrases.numbers()]
    word = "a" if word == "an" else word
    found = [option for option in options if word == (option.english_plural if plural else option.english)]
    return found[0] if found else grammar.BARE


def words_of(english: str | None) -> Words | None:
    return Words(*english.split(" = ")) if english else None


def say(
    subject: str,
    verb: str,
    accusative: str = "",
    dative: str = "",
    *,
    tense: str = "present",
    negative: bool = False,
    time: str = "",
    adverb: str = "",
    place: str = "",
    companion: str = "",
) -> Clause:
    predicate = Predicate(
        verb_named(verb),
        nominal(accusative) if accusative else None,
        nominal(dative) if dative else None,
        dative_last=verb == "explain",
        companion=words_of(companion),
        complement=words_of(place),
    )
    return Clause(nominal(subject), predicate, tense, negative, words_of(adverb), words_of(time))


STATEMENTS = [
    (say("she", "buy", "a car"), "She is buying a car", "Sie kauft ein Auto"),
    (say("I", "see", "the old man"), "I see the old man", "Ich sehe den alten Mann"),
    (say("you", "read", "a book"), "You are reading a book", "Du liest ein Buch"),
    (say("he", "eat", "an apple"), "He is eating an apple", "Er isst einen Apfel"),
    (say("we", "drink", "cold milk"), "We are drinking cold milk", "Wir trinken kalte Milch"),
    (say("they", "drink", "hot tea"), "They are drinking hot tea", "Sie trinken heißen Tee"),
    (say("Anna", "wear", "her red dress"), "Anna is wearing her red dress", "Anna trägt ihr rotes Kleid"),
    (say("the boy", "ask", "Mr Weber"), "The boy is asking Mr Weber", "Der Junge fragt Herrn Weber"),
    (say("I", "know", "the neighbour"), "I know the neighbour", "Ich kenne den Nachbarn"),
    (say("you", "open", "the door"), "You are opening the door", "Du machst die Tür auf"),
    (say("he", "pick ~up", "her"), "He is picking her up", "Er holt sie ab"),
    (
        say("he", "pick ~up", "the child"),
        "He is picking up the child",
        "Er holt das Kind ab",
    ),
    (say("she", "help", dative="the boy"), "She is helping the boy", "Sie hilft dem Jungen"),
    (say("I", "listen to", dative="you"), "I am listening to you", "Ich höre dir zu"),
    (
        say("we", "give", "an umbrella", "our aunt"),
        "We are giving our aunt an umbrella",
        "Wir geben unserer Tante einen Regenschirm",
    ),
    (
        say("the teacher", "explain", "the sentence", "the children"),
        "The teacher is explaining the sentence to the children",
        "Der Lehrer erklärt den Kindern den Satz",
    ),
    (
        say("she", "buy", "the bread", tense="past", time="yesterday = gestern"),
        "She bought the bread yesterday",
        "Sie hat das Brot gestern gekauft",
    ),
    (
        say("she", "buy", "fresh bread", tense="past", time="yesterday = gestern"),
        "She bought fresh bread yesterday",
        "Sie hat gestern frisches Brot gekauft",
    ),
    (
        say("they", "go", tense="past", place="to school = in die Schule"),
        "They went to school",
        "Sie sind in die Schule gegangen",
    ),
    (say("I", "get up", tense="past"), "I got up", "Ich bin aufgestanden"),
    (say("they", "read", "the letter", tense="past"), "They have read the letter", "Sie haben den Brief gelesen"),
    (say("he", "read", "the letter", tense="past"), "He read the letter", "Er hat den Brief gelesen"),
    (say("Paul", "have", "no time", tense="past"), "Paul had no time", "Paul hatte keine Zeit"),
    (
        say("I", "read", "the book", tense="perfect", adverb="already = schon"),
        "I have already read the book",
        "Ich habe das Buch schon gelesen",
    ),
    (
        say("I", "call", "them", tense="perfect", adverb="yet = noch", negative=True),
        "I have not called them yet",
        "Ich habe sie noch nicht angerufen",
    ),
    (
        say("he", "visit", "us", tense="will", time="on 3 May = am 3. Mai"),
        "He will visit us on 3 May",
        "Er wird uns am 3. Mai besuchen",
    ),
    (say("you", "invite", "me", tense="can"), "You can invite me", "Du kannst mich einladen"),
    (say("she", "work", tense="have to"), "She has to work", "Sie muss arbeiten"),
    (say("we", "dance", tense="want to"), "We want to dance", "Wir wollen tanzen"),
    (say("you", "sleep", tense="should"), "You should sleep", "Du solltest schlafen"),
    (say("he", "smoke", tense="may", negative=True), "He may not smoke", "Er darf nicht rauchen"),
    (
        say("I", "order", "soup", tense="would like to"),
        "I would like to order soup",
        "Ich möchte Suppe bestellen",
    ),
    (say("she", "watch television", tense="wanted to"), "She wanted to watch television", "Sie wollte fernsehen"),
    (say("he", "wait", tense="had to", negative=True), "He did not have to wait", "Er musste nicht warten"),
    (say("she", "read", "old books", tense="likes to"), "She likes to read old books",
     "Sie liest gern alte Bücher"),
    (
        say("he", "watch television", tense="likes to", negative=True),
        "He does not like to watch television",
        "Er sieht nicht gern fern",
    ),
    (
        say("you", "travel", place="to Rome = nach Rom", companion="by train = mit dem Zug", negative=True),
        "You are not travelling to Rome by train",
        "Du reist nicht mit dem Zug nach Rom",
    ),
    (say("I", "understand", "the question", negative=True), "I do not understand the question",
     "Ich verstehe die Frage nicht"),
    (say("Anna", "turn ~off", "the radio", negative=True), "Anna is not turning off the radio",
     "Anna schaltet das Radio nicht aus"),
    (
        say("we", "drink", "coffee", tense="simple", adverb="never = nie"),
        "We never drink coffee",
        "Wir trinken nie Kaffee",
    ),
    (
        say("my brother", "visit", "Anna", tense="simple", adverb="often = oft"),
        "My brother often visits Anna",
        "Mein Bruder besucht Anna oft",
    ),
    (
        say("the students", "thank", dative="their old teachers"),
        "The students are thanking their old teachers",
        "Die Studenten danken ihren alten Lehrern",
    ),
    (
        say("Peter's old uncle", "sell", "two big houses"),
        "Peter's old uncle is selling two big houses",
        "Peters alter Onkel verkauft zwei große Häuser",
    ),
    (
        say("this woman", "lose", "an expensive hat", tense="past"),
        "This woman lost an expensive hat",
        "Diese Frau hat einen teuren Hut verloren",
    ),
    (say("the key", "be", place="under the bed = unter dem Bett"), "The key is under the bed",
     "Der Schlüssel ist unter dem Bett"),
    (say("I", "be", tense="past", place="at home = zu Hause", negative=True), "I was not at home",
     "Ich war nicht zu Hause"),
]  # fmt: skip

FRONTED = [
    (
        say("she", "call", "him", tense="past", time="yesterday = gestern"),
        "Yesterday she called him",
        "Gestern hat sie ihn angerufen",
    ),
    (
        say("the film", "start", time="at half past eight = um halb neun"),
        "At half past eight the film starts",
        "Um halb neun fängt der Film an",
    ),
    (
        say("we", "tidy ~up", "the kitchen", tense="have to", time="on Monday = am Montag"),
        "On Monday we have to tidy up the kitchen",
        "Am Montag müssen wir die Küche aufräumen",
    ),
]

QUESTIONS = [
    (say("you", "have", "a dog"), "", "", "Do you have a dog", "Hast du einen Hund"),
    (say("she", "arrive", tense="past"), "", "", "Did she arrive", "Ist sie angekommen"),
    (say("you", "help", dative="me", tense="can"), "", "", "Can you help me", "Kannst du mir helfen"),
    (say("he", "cry"), "why", "warum", "Why is he crying", "Warum weint er"),
    (say("they", "go", tense="want to"), "where", "wohin", "Where do they want to go", "Wohin wollen sie gehen"),
    (say("they", "live"), "where", "wo", "Where do they live", "Wo wohnen sie"),
    (say("you", "visit"), "who", "wen", "Who are you visiting", "Wen besuchst du"),
    (say("you", "thank", tense="past"), "who", "wem", "Who did you thank", "Wem hast du gedankt"),
    (say("the shoes", "cost"), "how much", "wie viel", "How much do the shoes cost", "Wie viel kosten die Schuhe"),
]

SUBORDINATE = [
    ("weil", say("she", "open", "the window"), "weil sie das Fenster aufmacht"),
    ("dass", say("he", "call", "me", tense="past"), "dass er mich angerufen hat"),
    ("obwohl", say("I", "get up", tense="have to"), "obwohl ich aufstehen muss"),
    ("ob", say("they", "come", tense="will", place="home = nach Hause"), "ob sie nach Hause kommen werden"),
    ("wenn", say("it", "rain"), "wenn es regnet"),
    ("bis", say("the bus", "leave"), "bis der Bus abfährt"),
    ("weil", say("we", "have", "no money"), "weil wir kein Geld haben"),
    ("während", say("you", "watch television"), "während du fernsiehst"),
]

INFINITIVES = [
    (say("she", "open", "the box"), "die Kiste aufzumachen"),
    (say("she", "learn", "German"), "Deutsch zu lernen"),
    (say("she", "give", "a gift", "him"), "ihm ein Geschenk zu geben"),
    (say("she", "watch television"), "fernzusehen"),
]

REQUESTS = [
    (say("you", "close", "the window"), "mach das Fenster zu"),
    (say("you", "give", "the key", "me"), "gib mir den Schlüssel"),
    (say("you", "help", dative="us"), "hilf uns"),
    (say("you", "forget", "the tickets", negative=True), "vergiss die Tickets nicht"),
    (say("you", "invite", "them"), "lade sie ein"),
    (say("you", "read", "this letter"), "lies diesen Brief"),
    (say("you", "buy", "any bread", negative=True), "kauf kein Brot"),
]

DECLENSIONS = [  # nominative, accusative, dative
    ("the old man", "der alte Mann", "den alten Mann", "dem alten Mann"),
    ("the old woman", "die alte Frau", "die alte Frau", "der alten Frau"),
    ("the old house", "das alte Haus", "das alte Haus", "dem alten Haus"),
    ("the old houses", "die alten Häuser", "die alten Häuser", "den alten Häusern"),
    ("this red hat", "dieser rote Hut", "diesen roten Hut", "diesem roten Hut"),
    ("this red lamp", "diese rote Lampe", "diese rote Lampe", "dieser roten Lampe"),
    ("this red car", "dieses rote Auto", "dieses rote Auto", "diesem roten Auto"),
    ("these red cars", "diese roten Autos", "diese roten Autos", "diesen roten Autos"),
    ("a young dog", "ein junger Hund", "einen jungen Hund", "einem jungen Hund"),
    ("a young cat", "eine junge Katze", "eine junge Katze", "einer jungen Katze"),
    ("a young horse", "ein junges Pferd", "ein junges Pferd", "einem jungen Pferd"),
    ("young dogs", "junge Hunde", "junge Hunde", "jungen Hunden"),
    ("two young horses", "zwei junge Pferde", "zwei junge Pferde", "zwei jungen Pferden"),
    ("our good friend", "unser guter Freund", "unseren guten Freund", "unserem guten Freund"),
    ("her new bag", "ihre neue Tasche", "ihre neue Tasche", "ihrer neuen Tasche"),
    ("my new picture", "mein neues Bild", "mein neues Bild", "meinem neuen Bild"),
    ("their old sons", "ihre alten Söhne", "ihre alten Söhne", "ihren alten Söhnen"),
    ("fresh cheese", "frischer Käse", "frischen Käse", "frischem Käse"),
    ("fresh milk", "frische Milch", "frische Milch", "frischer Milch"),
    ("fresh bread", "frisches Brot", "frisches Brot", "frischem Brot"),
    ("no cold beer", "kein kaltes Bier", "kein kaltes Bier", "keinem kalten Bier"),
    ("Anna's sick brother", "Annas kranker Bruder", "Annas kranken Bruder", "Annas krankem Bruder"),
    ("the tired student", "der müde Student", "den müden Studenten", "dem müden Studenten"),
    ("the colleague", "der Kollege", "den Kollegen", "dem Kollegen"),
    ("an expensive coat", "ein teurer Mantel", "einen teuren Mantel", "einem teuren Mantel"),
    ("Mr Becker", "Herr Becker", "Herrn Becker", "Herrn Becker"),
    ("they", "sie", "sie", "ihnen"),
]

CONJUGATIONS = [
    ("speak", "spreche sprichst spricht sprechen sprechen"),
    ("drive", "fahre fährst fährt fahren fahren"),
    ("dance", "tanze tanzt tanzt tanzen tanzen"),
    ("work", "arbeite arbeitest arbeitet arbeiten arbeiten"),
    ("draw", "zeichne zeichnest zeichnet zeichnen zeichnen"),
    ("forget", "vergesse vergisst vergisst vergessen vergessen"),
    ("wash", "wasche wäschst wäscht waschen waschen"),
    ("invite", "lade lädst lädt laden laden"),
    ("know that", "weiß weißt weiß wissen wissen"),
    ("like", "mag magst mag mögen mögen"),
    ("be", "bin bist ist sind sind"),
]


FIRST_SENTENCES = [
    ("The colleague does not like to pick up Martin.", "Der Kollege holt Martin nicht gern ab."),
    (
        "A rich waiter would like to repair the old car today.",
        "Ein reicher Kellner möchte das alte Auto heute reparieren.",
    ),
    ("Please look at the bird.", "Bitte schau den Vogel an."),
]


def capitalised(text: str) -> str:
    return text[0].upper() + text[1:]


@pytest.mark.parametrize(("clause", "english", "german"), STATEMENTS, ids=lambda value: str(value)[:40])
def test_a_statement_is_written_as_a_teacher_would(clause: Clause, english: str, german: str) -> None:
    assert capitalised(grammar.english_statement(clause)) == english
    assert capitalised(grammar.german_statement(clause)) == german


@pytest.mark.parametrize(("clause", "english", "german"), FRONTED, ids=lambda value: str(value)[:40])
def test_the_verb_stays_second_behind_a_time(clause: Clause, english: str, german: str) -> None:
    assert capitalised(grammar.english_statement(clause, front=True)) == english
    assert capitalised(grammar.german_statement(clause, front=True)) == german


@pytest.mark.parametrize(("clause", "word", "wort", "english", "german"), QUESTIONS)
def test_a_question_puts_the_verb_before_the_subject(
    clause: Clause, word: str, wort: str, english: str, german: str
) -> None:
    assert capitalised(grammar.english_question(clause, word)) == english
    assert capitalised(grammar.german_question(clause, wort)) == german


@pytest.mark.parametrize(("opener", "clause", "german"), SUBORDINATE)
def test_a_subordinate_clause_ends_with_its_verb(opener: str, clause: Clause, german: str) -> None:
    assert grammar.german_subordinate(opener, clause) == german


@pytest.mark.parametrize(("clause", "german"), INFINITIVES)
def test_zu_stands_inside_a_separable_verb(clause: Clause, german: str) -> None:
    assert grammar.german_infinitive(clause) == german


@pytest.mark.parametrize(("clause", "german"), REQUESTS)
def test_a_request_speaks_to_one_friend(clause: Clause, german: str) -> None:
    assert grammar.german_imperative(clause) == german


@pytest.mark.parametrize(("english", "nominative", "accusative", "dative"), DECLENSIONS)
def test_noun_phrases_decline(english: str, nominative: str, accusative: str, dative: str) -> None:
    assert nominal(english).english == english
    assert nominal(english).german == (nominative, accusative, dative)


@pytest.mark.parametrize(("verb", "forms"), CONJUGATIONS)
def test_verbs_conjugate(verb: str, forms: str) -> None:
    assert verb_named(verb).present == tuple(forms.split())


@pytest.mark.parametrize(
    ("preposition", "english", "case", "german"),
    [
        ("zu", "the doctor", lexicon.DATIVE, "zum Arzt"),
        ("zu", "the woman", lexicon.DATIVE, "zur Frau"),
        ("zu", "my aunt", lexicon.DATIVE, "zu meiner Tante"),
        ("in", "the suitcase", lexicon.DATIVE, "im Koffer"),
        ("in", "the bag", lexicon.ACCUSATIVE, "in die Tasche"),
        ("von", "the dog", lexicon.DATIVE, "vom Hund"),
        ("auf", "him", lexicon.ACCUSATIVE, "auf ihn"),
        ("mit", "us", lexicon.DATIVE, "mit uns"),
    ],
)
def test_prepositions_govern_and_contract(preposition: str, english: str, case: int, german: str) -> None:
    assert grammar.after_preposition(preposition, nominal(english), case) == german


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("one o'clock", "ein Uhr"),
        ("half past twelve", "halb eins"),
        ("half past eight", "halb neun"),
        ("a quarter past one", "Viertel nach eins"),
        ("a quarter to ten", "Viertel vor zehn"),
    ],
)
def test_the_clock_is_read_the_german_way(english: str, german: str) -> None:
    author = phrasebook.Author(1)
    shown = {clock.english: clock.german for clock in (author.clock() for _ in range(2000))}
    assert shown[english] == german
    assert len(shown) == 48


@pytest.fixture(scope="module")
def sample() -> list[tuple[str, str]]:
    return list(islice(phrasebook.sentences(seed=7), 30_000))


def test_one_english_sentence_has_one_german_translation(sample: list[tuple[str, str]]) -> None:
    german: dict[str, str] = {}
    for source, target in [*sample, *islice(phrasebook.sentences(seed=8), 30_000)]:
        assert german.setdefault(source, target) == target


def test_sentences_have_three_to_fourteen_words_and_seven_on_average(sample: list[tuple[str, str]]) -> None:
    lengths = [len(source.split()) for source, _ in sample]
    assert min(lengths) >= 3
    assert max(lengths) <= 14
    assert 6.5 <= sum(lengths) / len(lengths) <= 7.5


def test_sentences_are_clean_lines(sample: list[tuple[str, str]]) -> None:
    for line in (line for pair in sample for line in pair):
        assert line == " ".join(line.split())
        assert line[0].isupper()
        assert line[-1] in ".?"
        assert not set(line) & set("~_|-"), line


def test_every_word_of_the_dictionary_is_used_often(sample: list[tuple[str, str]]) -> None:
    text = " ".join(source.lower() for source, _ in sample)
    for noun in all_nouns():
        assert text.count(f" {noun.english.lower()}") >= 50, noun
    for adjective in lexicon.lexicon().adjectives:
        assert text.count(f" {adjective}") >= 50, adjective


def test_the_same_seed_says_the_same() -> None:
    first, again = (list(islice(phrasebook.sentences(seed=3), 500)) for _ in range(2))
    assert first == again
    assert first != list(islice(phrasebook.sentences(seed=4), 500))


def test_the_first_sentences_of_a_seed_never_change() -> None:
    assert list(islice(phrasebook.sentences(seed=1), 3)) == FIRST_SENTENCES


def test_a_sentence_is_held_out_by_its_text_whatever_the_sizes() -> None:
    small, large = (phrasebook.load(num_pairs, seed=1).splits for num_pairs in (200, 2000))
    assert small["train"] == large["train"][:200]
    assert small["test"] == large["test"][: len(small["test"])]
    for name, pairs in large.items():
        assert {split_of(source) for source, _ in pairs} == {name}
        assert len({source for source, _ in pairs}) == len(pairs)


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_any_seed_writes_sentences(seed: int) -> None:
    for source, target in islice(phrasebook.sentences(seed), 20):
        assert source
        assert target
        assert "\n" not in source + target


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_a_subordinate_clause_has_the_words_of_its_statement(seed: int) -> None:
    clause = phrasebook.Author(seed).clause()
    statement = grammar.german_statement(clause).replace(" ", "")
    subordinate = grammar.german_subordinate("", clause).replace(" ", "")
    assert sorted(statement) == sorted(subordinate)


def test_a_negative_clause_says_nicht_or_kein_once() -> None:
    author = phrasebook.Author(5)
    for clause in (author.clause(negative_chance=1.0) for _ in range(500)):
        words = grammar.german_statement(clause).split()
        assert sum(word == "nicht" or word.startswith("kein") for word in words) == 1
        assert replace(clause, negative=True) == clause


def test_the_words_are_read_when_they_are_first_needed_and_not_before() -> None:
    code = (
        "from sixfold.data.corpora.phrasebook import lexicon, sentences\n"
        "supply = sentences()\n"
        "before = lexicon.lexicon.cache_info().currsize\n"
        "next(supply)\n"
        "print(before, lexicon.lexicon.cache_info().currsize)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 1\n"


def test_every_trait_is_said_of_some_word() -> None:
    words = lexicon.lexicon()
    entries = {
        "nouns": all_nouns(),
        "adjectives": words.adjectives.values(),
        "verbs": lexicon.verbs(*lexicon.VERBS),
    }
    entries["places"] = lexicon.places("place")
    for table, traits in lexicon.TRAITS.items():
        assert {trait for entry in entries[table] for trait in entry.traits} == {*traits}


@pytest.fixture
def words_folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(lexicon.WORDS, tmp_path / "words"))


def replace_in(path: Path, old: str, new: str) -> int:
    """Change one place in a file and return the number of its line."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


def test_words_may_stand_between_blank_lines_and_comments(words_folder: Path) -> None:
    replace_in(words_folder / "nouns.tsv", "animal\tdog", "\n# Animals\n\nanimal\tdog")
    assert lexicon.read_lexicon(words_folder) == lexicon.lexicon()


DAMAGE = [
    ("nouns", "\tmen\t", "\t", "expected 7 fields, found 6: person | man | der Mann"),
    ("nouns", "\tmen\t", "\t\t", "english_plural should be words with single spaces between them; it is ''"),
    ("nouns", "\tmen\t", "\t men\t", "it is ' men'"),
    ("nouns", "person\tman\tmen", "person\t-\tmen", "english should be words"),
    ("nouns", "der Mann\t", "den Mann\t", "with its article: der, die or das; it is 'den Mann'"),
    ("nouns", "\tmen\t", "\t-\t", "german_plural should be a dash if english_plural is one"),
    ("nouns", "person\tman", "persn\tman", "kind should be words from this list: person, family"),
    ("nouns", "person\tman", "person family\tman", "kind should be one of: person, family"),
    ("nouns", "person\twoman", "person\tman", "english should be a word that no other line has"),
    ("nouns", "unowned flying", "unowned flies", "traits should be words from this list: unowned, plural"),
    ("kinds", "mail\tnew old", "mail\tnew odd", "adjectives should be words from this list: old, young"),
    ("adjectives", "\tälter\t", "\t-\t", "german_comparative should be a dash if english_comparative is one"),
    ("verbs", "giving\tsend", "sending\tsend", "groups should be words from this list: transitive"),
    ("verbs", "\thilf\t-\tperson family", "\thilf\t-\t-", "objects should be a dash, except in the groups"),
    ("verbs", "auf accusative", "auf", "preposition should be a preposition and its case, accusative or dative"),
    ("verbs", "\thilf\t-", "\thilf\tmit dative", "should be a dash, except in the group prepositional"),
    ("verbs", "\thilft\t", "\thelfe hilft\t", "present should be the form for er, or the five forms"),
    ("verbs", "hat geholfen", "geholfen", "perfect should be hat or ist with a participle, or a dash"),
    ("verbs", "hat geholfen", "-", "perfect should be a dash if past is one"),
    ("places", "\tauf dem Tisch\t", "\t", "expected 6 fields, found 5"),
    ("phrases", "weekday\tMonday", "wekday\tMonday", "group should be words from this list"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "old", "new", "problem"), DAMAGE)
def test_a_damaged_line_is_named_with_what_it_should_be(
    words_folder: Path, table: str, old: str, new: str, problem: str
) -> None:
    path = words_folder / f"{table}.tsv"
    line = replace_in(path, old, new)
    with pytest.raises(DataError) as error:
        lexicon.read_lexicon(words_folder)
    assert error.value.message.startswith(f"{path}, line {line}: ")
    assert problem in error.value.message
    assert "tabs" in error.value.hint


def test_a_group_that_the_grammar_needs_may_not_be_empty(words_folder: Path) -> None:
    path = words_folder / "phrases.tsv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("month")), encoding="utf-8")
    with pytest.raises(DataError, match="ends without a line whose group is 'month'"):
        lexicon.read_lexicon(words_folder)


@pytest.mark.parametrize("text", ["", "# only comments\n", "kind\tword\nperson\told\n"])
def test_a_table_must_name_its_columns(words_folder: Path, text: str) -> None:
    (words_folder / "kinds.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"kinds\.tsv: .* should name the columns kind, adjectives"):
        lexicon.read_lexicon(words_folder)


def test_a_table_that_is_missing_or_not_utf_8_is_named(words_folder: Path) -> None:
    (words_folder / "verbs.tsv").write_bytes("für".encode("latin-1"))
    with pytest.raises(DataError, match=r"verbs\.tsv: the file cannot be read"):
        lexicon.read_lexicon(words_folder)
    (words_folder / "verbs.tsv").unlink()
    with pytest.raises(DataError, match=r"verbs\.tsv: the file cannot be read"):
        lexicon.read_lexicon(words_folder)


def test_a_table_without_words_is_refused(words_folder: Path) -> None:
    (words_folder / "kinds.tsv").write_text("kind\tadjectives\n", encoding="utf-8")
    with pytest.raises(DataError, match="should have a line for each word"):
        lexicon.read_lexicon(words_folder)


def test_a_verb_that_the_grammar_calls_by_name_must_be_there() -> None:
    with pytest.raises(DataError, match="the grammar needs the verb 'sing' in the group 'going'"):
        lexicon.verb("sing", "going")
