"""The corpus doctor: it finds what is wrong, and nothing in what is right."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.checks import report as reports
from sixfold.data.checks.characters import has_encoding_damage
from sixfold.data.checks.clean import pair_paths, writing_pairs
from sixfold.data.checks.pairs import Limits, check_pairs
from sixfold.data.checks.report import Count, Finding, Report
from sixfold.data.hash_sets import SeenHashes, hash_texts
from sixfold.data.readers import Pair, Pairs, open_pairs
from sixfold.errors import WorkError

Sides = tuple[str, str]

SHARED = Path(os.environ.get("SIXFOLD_DATA", Path(__file__).parents[4] / "shared" / "data"))


def corpus(folder: Path, pairs: list[Sides]) -> Pairs:
    folder.mkdir(exist_ok=True)
    for name, side in (("a.en", 0), ("a.de", 1)):
        (folder / name).write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())
    return open_pairs(folder / "a.en", folder / "a.de")


def sentence(words: list[str], length: int, chance: random.Random) -> str:
    return " ".join(chance.choices(words, k=length)) + "."


ENGLISH = ["the", "cats", "a", "house", "walks", "sleeps", "under", "small", "tree", "with", "friends", "ball"]
GERMAN = [
    "die",
    "Katzen",
    "ein",
    "Häuser",
    "läuft",
    "schläft",
    "unter",
    "kleine",
    "Baum",
    "mit",
    "Freunde",
    "Bälle",
]


def healthy(count: int, seed: int = 0) -> list[Sides]:
    """Pairs that differ in their words and are long or short together, as translations are."""
    chance = random.Random(seed)
    lengths = [chance.randint(4, 24) for _ in range(count)]
    return [
        (sentence(ENGLISH, length, chance), sentence(GERMAN, max(3, length + chance.randint(-2, 2)), chance))
        for length in lengths
    ]


def found(report: Report, kind: str) -> Finding | None:
    return next((finding for finding in report.findings if finding.kind == kind), None)


def clean(pairs: Pairs, test: Pairs | None = None) -> list[Pair]:
    """Return the clean pairs of a corpus."""
    kept: list[Pair] = []
    check_pairs(pairs, test, keep=kept.append)
    return kept


def test_a_healthy_corpus_has_no_findings(tmp_path: Path) -> None:
    report = check_pairs(corpus(tmp_path, healthy(3000)))
    assert report.findings == ()
    assert report.counts == (Count("pairs", total=3000, clean=3000),)


@pytest.mark.parametrize(
    ("kind", "pair"),
    [
        ("empty side", ("", "etwas")),
        ("empty side", ("something", " \t\u00a0")),
        ("too long", ("word " * 251, "Wort " * 251)),
        ("too long", ("x" * 2001, "y" * 2001)),
        ("length ratio", ("no", "das ist ein viel zu langer Satz für ein so kurzes Wort, nicht wahr?")),
        ("identical sides", ("left as it was", "left as it was")),
        ("wrong script", ("the cat", "кошка спит")),
        ("wrong script", ("猫が寝ています", "die Katze")),
        ("control characters", ("the\x00cat", "die Katze")),
        ("control characters", ("the cat", "die\x1bKatze")),
        ("control characters", ("the cat", "die\x85Katze")),
        ("encoding damage", ("the cats", "die KÃ¤tzchen")),
        ("encoding damage", ("the cat\ufffds ball", "der Ball")),
    ],
)
def test_each_fault_is_found_where_it_is_and_is_removed(kind: str, pair: Sides, tmp_path: Path) -> None:
    pairs = healthy(500)
    pairs[122] = pair
    report = check_pairs(corpus(tmp_path, pairs))
    assert [(finding.kind, finding.count, finding.lines) for finding in report.findings] == [(kind, 1, (123,))]
    assert report.counts[0].clean == 499


@pytest.mark.parametrize(
    "pair",
    [
        ("12.5 %", "12.5 %"),
        ("Yes.", "Ja, das ist so."),
        ("the letter π", "der Buchstabe π"),
        ("a tab\tinside", "ein Tab\tdrin"),
        ("“Quotes” – and… dashes", "„Anführung“ – und…\u00a0Striche"),
    ],
)
def test_what_is_right_is_not_found(pair: Sides, tmp_path: Path) -> None:
    assert check_pairs(corpus(tmp_path, [*healthy(500), pair])).findings == ()


def test_a_source_may_have_several_targets(tmp_path: Path) -> None:
    pairs = [("the same source sentence", target) for _, target in healthy(50)]
    assert check_pairs(corpus(tmp_path, pairs)).findings == ()


def test_only_the_first_few_lines_of_a_fault_are_told(tmp_path: Path) -> None:
    pairs = [*healthy(100), *[("", "leer")] * 50]
    finding = found(check_pairs(corpus(tmp_path, pairs)), "empty side")
    assert finding is not None
    assert (finding.count, finding.lines) == (50, (101, 102, 103, 104, 105))


def test_lines_are_told_with_their_files(tmp_path: Path) -> None:
    for side in ("en", "de"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "1").write_text(f"one {side}\ntwo {side}\n")
        (tmp_path / side / "2").write_text(f"three {side}\n\n")
    finding = found(check_pairs(open_pairs(tmp_path / "en", tmp_path / "de")), "empty side")
    assert finding is not None
    assert (finding.lines, finding.files) == ((2,), (str(tmp_path / "en" / "2"),))


def test_limits_can_be_chosen(tmp_path: Path) -> None:
    pairs = corpus(tmp_path, [("one two three", "eins zwei drei"), ("four", "vier")])
    assert check_pairs(pairs, limits=Limits(max_words=2)).counts[0].clean == 1
    assert check_pairs(pairs, limits=Limits(max_characters=10)).counts[0].clean == 1


# What is normal is learned


def test_a_language_without_spaces_has_its_own_ratio_and_scripts(tmp_path: Path) -> None:
    chance = random.Random(0)
    pairs = [
        (
            sentence(["the", "children", "travel"], length, chance),
            "孩子們旅行去了北京看朋友和他們的家人"[: length + 2],
        )
        for length in chance.choices(range(3, 15), k=400)
    ]
    pairs = list(dict.fromkeys(pairs))
    assert check_pairs(corpus(tmp_path, pairs)).findings == ()
    wrong = [*pairs, ("the children travel to see the friends of their whole family", "the children")]
    assert [finding.kind for finding in check_pairs(corpus(tmp_path, wrong)).findings] == ["wrong script"]


def test_japanese_may_use_any_of_its_scripts_alone(tmp_path: Path) -> None:
    pairs = [(f"this is sentence number {number}", f"これは文の番号{number}です") for number in range(100)]
    pairs += [("a coffee machine", "コーヒーマシン"), ("Tokyo prefecture", "東京都")]
    assert check_pairs(corpus(tmp_path, pairs)).findings == ()


def test_a_side_may_be_written_in_two_scripts(tmp_path: Path) -> None:
    pairs = [(f"good day number {number}", f"dobar dan broj {number}") for number in range(50)]
    pairs += [(f"good night number {number}", f"лаку ноћ број {number}") for number in range(50)]
    assert check_pairs(corpus(tmp_path, pairs)).findings == ()


# Encoding damage

REAL_TEXTS = [
    "NÃO É PARA AMANHÃ… A MAÇû, “A IRMÔ — CORAÇÃO ÀS VEZES",
    "Voilà… «là» où l’âme s’élève; 20 € à 30 °C, c’est ça, œuvre, ÂME, HÔTEL",
    "„Ä“ ist ein Umlaut; Ärger, Öl, Übung, größer, 5 §, ÄÖÜ…",
    "Åse på Ål; Åland… SÅ™",
    "Zażółć gęślą jaźń; ŁÓDŹ, ĄĆĘ",
    "Съешь ещё этих мягких булок; РСФСР, Россия, СССР, «Рим»",
    "Ñandú, ÑOÑO, ¿Ñ?; ÐÞ Íslandi, Ðð",
    "Tâm hồn Việt Nam; CHÂU Á, Â, VÂN",
    "Ça coûte 10 £; ÇA…; Şişli, ĞÜŞ, İstanbul",
]


@pytest.mark.parametrize("text", REAL_TEXTS)
def test_letters_of_real_languages_are_no_damage(text: str) -> None:
    assert not has_encoding_damage(text)


@settings(max_examples=100, deadline=None)
@given(
    word=st.sampled_from(
        ["größer", "Mädchen", "für", "été", "français", "niño", "coração", "łódź", "ząb", "šest"]
    ),
    around=st.text(st.characters(categories=("L", "Zs", "P"), max_codepoint=0x7F)),
    codec=st.sampled_from(["latin-1", "cp1252"]),
)
def test_utf8_that_was_read_as_latin_is_found(word: str, around: str, codec: str) -> None:
    damaged = word.encode().decode(codec, errors="replace")
    assert has_encoding_damage(f"{around} {damaged} {around}")


@pytest.mark.parametrize("codec", ["latin-1", "cp1252", "cp1251"])
def test_cyrillic_that_was_read_as_something_else_is_found(codec: str) -> None:
    assert has_encoding_damage("Съешь ещё этих мягких булок".encode().decode(codec, errors="replace"))


@pytest.mark.parametrize("text", ["itâ€™s", "20Â°C", "Â£5", "ï»¿the", "ten â‚¬", "ï¿½", "Ã©tÃ©"])
def test_usual_damages_are_found(text: str) -> None:
    assert has_encoding_damage(text)


# Duplicates and leakage


@settings(max_examples=50, deadline=None)
@given(batches=st.lists(st.lists(st.integers(0, 30).map(str)), max_size=20))
def test_hashes_know_what_was_seen_as_a_set_does(batches: list[list[str]]) -> None:
    hashes, known = SeenHashes(), set[str]()
    for batch in batches:
        expected = [text in known or text in batch[:place] for place, text in enumerate(batch)]
        assert hashes.add(hash_texts(batch)).tolist() == expected
        known.update(batch)


def test_a_hash_takes_eight_bytes_and_the_arrays_stay_few() -> None:
    seen, chance = SeenHashes(), np.random.default_rng(0)
    for _ in range(100):
        assert not seen.add(chance.integers(0, 2**64, 1000, dtype=np.uint64)).any()
    assert sum(level.nbytes for level in seen.levels) == 800_000
    assert len(seen.levels) <= 8


def test_duplicates_are_found_across_batches_and_the_first_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "BATCH_EXAMPLES", 100)
    pairs = healthy(450)
    pairs[333] = pairs[12]
    pairs[440] = pairs[12]
    pairs[441] = (pairs[12][0].upper(), pairs[12][1])
    report = check_pairs(corpus(tmp_path, pairs))
    assert [(finding.kind, finding.lines) for finding in report.findings] == [("duplicate pair", (334, 441))]
    assert [pair.line for pair in clean(corpus(tmp_path, pairs))].count(13) == 1


def test_what_the_test_set_has_is_found_regardless_of_case_and_spacing(tmp_path: Path) -> None:
    pairs = healthy(300)
    test = healthy(50, seed=1)
    pairs[10] = (test[3][0].upper(), f" {test[3][1].replace(' ', '  ')}")
    pairs[20] = (test[4][0], pairs[20][1])
    pairs[30] = (pairs[30][0], test[5][1])
    training, held_out = corpus(tmp_path / "train", pairs), corpus(tmp_path / "test", test)
    report = check_pairs(training, held_out)
    assert {finding.kind: finding.lines for finding in report.findings} == {
        "pair of the test set": (11,),
        "source of the test set": (21,),
    }
    assert {11, 21}.isdisjoint(pair.line for pair in clean(training, held_out))


# Alignment


def misaligned(pairs: list[Sides], folder: Path) -> Finding | None:
    return found(check_pairs(corpus(folder, pairs)), "misaligned")


def repaired(sources: list[str], targets: list[str]) -> list[Sides]:
    return list(zip(sources, targets, strict=False))


@pytest.mark.parametrize("gap", [1, 2, 7, 30])
@pytest.mark.parametrize("lacking", ["source", "target"])
def test_a_missing_line_is_noticed_near_where_it_is(gap: int, lacking: str, tmp_path: Path) -> None:
    sources, targets = map(list, zip(*healthy(3000), strict=True))
    sides = {"source": sources, "target": targets}
    del sides[lacking][1000 : 1000 + gap]
    finding = misaligned(repaired(sources, targets), tmp_path)
    assert finding is not None
    assert finding.count >= 1700
    assert abs(finding.lines[0] - 1000) <= 100
    assert f"the {lacking} lacks" in finding.meaning
    assert not finding.is_removed


def test_a_corpus_shifted_from_its_first_line_is_noticed(tmp_path: Path) -> None:
    sources, targets = zip(*healthy(1000), strict=True)
    finding = misaligned(repaired(list(sources), list(targets[1:])), tmp_path)
    assert finding is not None
    assert "a line late" in finding.meaning


def test_a_shuffled_side_is_noticed(tmp_path: Path) -> None:
    sources, targets = map(list, zip(*healthy(5000), strict=True))
    random.Random(1).shuffle(targets)
    finding = misaligned(repaired(sources, targets), tmp_path)
    assert finding is not None
    assert "source and target are unrelated" in finding.meaning


def test_a_corpus_sorted_by_length_is_aligned(tmp_path: Path) -> None:
    assert misaligned(sorted(healthy(5000), key=lambda pair: len(pair[0])), tmp_path) is None


def test_targets_of_one_length_are_aligned(tmp_path: Path) -> None:
    pairs = [(source, f"{number:08d}") for number, (source, _) in enumerate(healthy(3000))]
    assert misaligned(pairs, tmp_path) is None


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared corpora are not here: set SIXFOLD_DATA")
@pytest.mark.parametrize(("name", "num_faulty"), [("multi30k", 5), ("tatoeba-en-de", 0)])
def test_real_corpora_are_nearly_clean_and_never_called_misaligned(name: str, num_faulty: int) -> None:
    report = check_pairs(open_pairs(SHARED / name / "train.en.gz", SHARED / name / "train.de.gz"))
    assert report.counts[0].total - report.counts[0].clean == num_faulty
    assert found(report, "misaligned") is None


# The whole


def test_clean_pairs_are_those_without_a_fault_in_their_order(tmp_path: Path) -> None:
    pairs = corpus(tmp_path, [*healthy(100), ("", "x"), *healthy(50, seed=1), ("same", "same")])
    kept: list[Pair] = []
    report = check_pairs(pairs, keep=kept.append)
    assert [pair.line for pair in kept] == [*range(1, 101), *range(102, 152)]
    assert len(kept) == report.counts[0].clean == 150


def test_lengths_are_those_that_numpy_computes(tmp_path: Path) -> None:
    pairs = healthy(777)
    report = check_pairs(corpus(tmp_path, pairs))
    for statistics, side in ((report.lengths["source"], 0), (report.lengths["target"], 1)):
        words = [len(pair[side].split()) for pair in pairs]
        characters = [len(pair[side]) for pair in pairs]
        assert statistics.mean_words == round(float(np.mean(words)), 1)
        assert statistics.p99_words == np.percentile(words, 99, method="inverted_cdf")
        assert statistics.mean_characters == round(float(np.mean(characters)), 1)
        assert statistics.p99_characters == np.percentile(characters, 99, method="inverted_cdf")


def test_the_tick_tells_how_many_pairs_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "BATCH_EXAMPLES", 100)
    ticks: list[int] = []
    check_pairs(corpus(tmp_path, healthy(250)), on_progress=ticks.append)
    assert ticks == [100, 200, 250]


@pytest.mark.parametrize(
    "text", ["Ã" * 500_000, "РС" * 250_000, "a Ð" * 200_000, "\x00" * 500_000, "猫" * 500_000]
)
def test_a_hostile_line_takes_no_longer_than_its_length(text: str, tmp_path: Path) -> None:
    pairs = corpus(tmp_path, [*healthy(10), (text, text[:-1])])
    began = time.process_time()
    assert found(check_pairs(pairs), "too long") is not None
    assert time.process_time() - began < 2


# Writing


@settings(max_examples=50, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r\t\ufeff"))] * 2),
        min_size=1,
    ),
    num_files=st.sampled_from([1, 2]),
)
def test_written_pairs_are_read_again(
    pairs: list[Sides], num_files: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("written")
    paths = [folder / "a.tsv"] if num_files == 1 else [folder / "a.en", folder / "a.de"]
    with writing_pairs(paths) as write:
        for line, (source, target) in enumerate(pairs, start=1):
            write(Pair(source, target, line))
    again = open_pairs(*paths)
    assert [(pair.source, pair.target) for pair in again] == pairs


def test_nothing_is_left_of_what_was_not_finished(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("old\n")

    def write_a_part() -> None:
        with writing_pairs([tmp_path / "a.en", tmp_path / "a.de"]) as write:
            write(Pair("new", "neu", 1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_a_part()
    assert [path.name for path in tmp_path.iterdir()] == ["a.en"]
    assert (tmp_path / "a.en").read_text() == "old\n"


def test_a_full_disk_is_an_error_of_ours(tmp_path: Path) -> None:
    def write_to_a_full_disk() -> None:
        with writing_pairs([tmp_path / "a.tsv"]):
            raise OSError(28, "No space left on device")

    with pytest.raises(WorkError, match="No space left"):
        write_to_a_full_disk()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "target", "names"),
    [
        ("train.en", "train.de", ["clean.en", "clean.de"]),
        ("data/train.en.gz", "data/train.de.xz", ["clean.en", "clean.de"]),
        ("v1.2.en.txt", "v1.2.de.txt", ["clean.en.txt", "clean.de.txt"]),
        ("source.txt", "target.txt", ["clean.source", "clean.target"]),
        ("english", "german", ["clean.source", "clean.target"]),
        ("both.jsonl.gz", None, ["clean.tsv"]),
        ("-", None, ["clean.tsv"]),
    ],
)
def test_clean_files_are_named_after_the_originals(source: str, target: str | None, names: list[str]) -> None:
    paths = pair_paths(Path("out/clean"), Path(source), Path(target) if target else None)
    assert [path.name for path in paths] == names
    assert {path.parent for path in paths} == {Path("out")}
