"""From raw pairs to a prepared corpus: what is held out, what is left out, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.data.readers import Pair, Pairs, open_pairs
from sixfold.data.shards import Corpus
from sixfold.errors import DataError
from sixfold.tasks.translate.prepare import learn_tokenizer, prepare, prepare_sample, survey
from sixfold.tasks.translate.recipe import DataConfig, TranslateRecipe
from sixfold.text import Tokenizer
from sixfold.training.task import Given, Prepared

WORDS = ("red", "green", "blue", "one", "two", "three", "house", "tree")


class PairsInMemory(Pairs):
    """Pairs that need no file."""

    paths = ()

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = [Pair(source, target, line) for line, (source, target) in enumerate(pairs, start=1)]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.pairs)


def sentences(count: int) -> list[tuple[str, str]]:
    """Return that many different pairs."""
    words = [" ".join(WORDS[(number >> shift) % 8] for shift in (0, 3, 6)) for number in range(count)]
    return [(f"{text} {number}", f"{number} {text}") for number, text in enumerate(words)]


def given_for(pairs: list[tuple[str, str]], valid: list[tuple[str, str]] | None = None, **options: int) -> Given:
    """Return what pairs are prepared with: a small vocabulary."""
    recipe = TranslateRecipe(data=DataConfig(vocabulary=320, **options))  # type: ignore[arg-type]
    several = PairsInMemory(pairs)
    surveyed = survey(several, seed=1)
    tokenizer = learn_tokenizer(surveyed.sample, recipe.data)
    held_out = PairsInMemory(valid) if valid is not None else None
    return Given(several, held_out, surveyed, recipe, tokenizer)


def prepared(
    folder: Path, pairs: list[tuple[str, str]], valid: list[tuple[str, str]] | None = None, **options: int
) -> tuple[Prepared, Tokenizer]:
    """Prepare pairs."""
    given = given_for(pairs, valid, **options)
    return prepare(folder, given), given.processor


def texts(corpus: Corpus, tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Return the pairs of a split as text."""
    records = [corpus.record(number) for number in range(len(corpus))]
    return [(tokenizer.decode(r["source"].tolist()), tokenizer.decode(r["target"].tolist())) for r in records]


# What is held out


def test_every_pair_is_in_exactly_one_split(tmp_path: Path) -> None:
    pairs = sentences(300)
    data, tokenizer = prepared(tmp_path, pairs)
    assert sorted(texts(data.train(), tokenizer) + texts(data.valid(), tokenizer)) == sorted(pairs)
    assert data.warnings == ()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 39), max_size=60), st.integers(1, 30))
def test_no_source_of_the_held_out_split_is_in_train(
    tmp_path_factory: pytest.TempPathFactory, repeated: list[int], valid_pairs: int
) -> None:
    pairs = sentences(40)
    pairs += [(pairs[number][0], f"another {number}") for number in repeated]
    data, tokenizer = prepared(tmp_path_factory.mktemp("data"), pairs, valid_pairs=valid_pairs)
    train, valid = texts(data.train(), tokenizer), texts(data.valid(), tokenizer)
    assert train
    assert valid
    assert not {source for source, _ in train} & {source for source, _ in valid}


def test_about_as_many_are_held_out_as_were_asked_for(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, sentences(4000), valid_pairs=150)
    assert 100 < len(data.valid()) < 200


def test_at_most_a_twentieth_of_a_small_corpus_is_held_out(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, sentences(400), valid_pairs=1000)
    assert 5 < len(data.valid()) < 45


def test_the_same_pairs_are_held_out_in_any_order(tmp_path: Path) -> None:
    pairs = sentences(200)
    first, tokenizer = prepared(tmp_path / "a", pairs)
    second, _ = prepared(tmp_path / "b", pairs[::-1])
    assert sorted(texts(first.valid(), tokenizer)) == sorted(texts(second.valid(), tokenizer))


def test_with_validation_text_nothing_is_held_out(tmp_path: Path) -> None:
    pairs, valid = sentences(60), [("red blue", "blue red")]
    data, tokenizer = prepared(tmp_path, pairs, valid)
    assert texts(data.train(), tokenizer) == pairs
    assert texts(data.valid(), tokenizer) == valid


# What is left out


def test_empty_and_too_long_pairs_are_counted_with_their_first_line(tmp_path: Path) -> None:
    pairs = sentences(60)
    pairs[6], pairs[11], pairs[30] = ("", "two"), ("three", ""), ("red tree " * 50, "three")
    data, _ = prepared(tmp_path, pairs, max_tokens=40)
    assert len(data.train()) + len(data.valid()) == 57
    assert data.warnings == (
        "left out 2 pairs: one side is empty (the first on line 7)",
        "left out 1 pairs: longer than 40 tokens (the first on line 31)",
    )


def test_validation_text_in_the_other_direction_is_refused(tmp_path: Path) -> None:
    given = given_for(sentences(20), sentences(5))
    given.train.sides, given.valid.sides = ("en", "de"), ("de", "en")
    with pytest.raises(DataError, match="text is en → de, but the validation text is de → en"):
        prepare(tmp_path, given)


def test_validation_pairs_that_are_left_out_are_counted_apart(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, sentences(60), [("red", "blue"), ("", "two")])
    assert data.warnings == ("left out 1 validation pairs: one side is empty (the first on line 2)",)


def test_a_pair_knows_the_line_it_came_from(tmp_path: Path) -> None:
    pairs = [("", ""), *sentences(60)]
    data, tokenizer = prepared(tmp_path, pairs)
    train = data.train()
    lines = train.lines(np.arange(len(train), dtype=np.uint32))
    assert [pairs[line - 1] for line in lines] == texts(train, tokenizer)


@pytest.mark.parametrize("seed_of_text", range(12))
def test_an_empty_pair_is_never_all_that_is_held_out(tmp_path: Path, seed_of_text: int) -> None:
    pairs = [(f"{source} {seed_of_text}", target) for source, target in sentences(12)]
    data, _ = prepared(tmp_path, [*pairs, ("", "two")])
    assert len(data.valid()) >= 1


# What is refused


def test_fewer_than_ten_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There are only 9 pairs") as raised:
        prepared(tmp_path, sentences(9))
    assert "sixfold corpus" in raised.value.hint
    prepared(tmp_path, sentences(10))


def test_pairs_that_are_all_empty_or_too_long_are_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train split: left out 20 pairs: longer than 1 tokens"):
        prepared(tmp_path, sentences(20), max_tokens=1)


def test_validation_text_that_is_all_empty_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"valid split: left out 1 validation pairs: one side is empty"):
        prepared(tmp_path, sentences(20), [("", "")])


def test_pairs_that_all_have_one_source_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="all pairs have the same source"):
        prepared(tmp_path, [("red", f"blue {number}") for number in range(20)])


def test_files_of_unequal_length_are_refused_with_their_counts(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\n" * 30)
    (tmp_path / "a.de").write_text("eins\n" * 29)
    with pytest.raises(DataError, match=r"a\.en has 30, .*a\.de has 29"):
        survey(open_pairs(tmp_path / "a.en", tmp_path / "a.de"), seed=1)


# A sample of them, to measure with


def test_a_sample_is_no_larger_than_it_may_be_and_holds_pairs_of_the_text(tmp_path: Path) -> None:
    pairs = sentences(60)
    given = given_for([("", "two"), *pairs])
    found = texts(prepare_sample(tmp_path / "some", given, most=20), given.processor)
    assert len(found) == 19  # one of the first twenty is empty
    assert set(found) < set(pairs)
    assert len(prepare_sample(tmp_path / "all", given, most=1000)) == 60


def test_a_sample_in_which_nothing_is_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Every pair is empty or longer than 1 tokens"):
        prepare_sample(tmp_path, given_for(sentences(20), max_tokens=1), most=20)
