"""Tests of the tasks of encoder-only models: they learn something small, and answer with it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import sixfold
from sixfold.callbacks import no_progress
from sixfold.cli.label_scores import labels_texts
from sixfold.data.labelled import LabelledText, open_labelled
from sixfold.data.tables import is_number
from sixfold.errors import ConfigError, DataError, ModelFolderError
from sixfold.evaluate.metrics import Metric
from sixfold.tasks.understand.classifier import Classifier
from sixfold.tasks.understand.classify import Classify, choice_of
from sixfold.tasks.understand.evaluate import UnderstandEvaluation, compared, evaluate_classifier
from sixfold.tasks.understand.filler import Filler
from sixfold.tasks.understand.survey import Survey, choose_held_out
from sixfold.tasks.understand.tagger import Tagger

COLOURS, ANIMALS = ("red", "green", "blue", "grey"), ("cat", "dog", "cow", "hen")
TINY = ["model.preset=encoder-tiny", "model.layers=1", "model.norm=pre", "data.vocabulary=400", "train.average=1"]
TINY += ["train.learning_rate=3e-3", "train.batch_tokens=512", "train.warmup_steps=10", "model.dropout=0"]
STEPS = ["train.steps=80", "train.checkpoint_every=40"]


def sentences(count: int) -> Iterator[tuple[str, str, str]]:
    """Yield sentences with their colour and their animal."""
    draw = random.Random(1)
    for number in range(count):
        colour, animal = draw.choice(COLOURS), draw.choice(ANIMALS)
        yield f"number {number} is a {colour} {animal} .", colour, animal


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    folder = tmp_path_factory.mktemp("classify")
    rows = "".join(f"{text},{animal}\n" for text, _, animal in sentences(300))
    (folder / "animals.csv").write_text(f"text,label\n{rows}")
    sixfold.train(folder / "animals.csv", folder / "model", settings=[*TINY, *STEPS], progress=False)
    return Classifier.load(folder / "model")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Tagger:
    folder = tmp_path_factory.mktemp("tag")
    kinds = {**dict.fromkeys(COLOURS, "B-COLOUR"), **dict.fromkeys(ANIMALS, "B-ANIMAL")}
    rows = ["".join(f"{word}\t{kinds.get(word, 'O')}\n" for word in text.split()) for text, *_ in sentences(300)]
    (folder / "words.conll").write_text("\n".join(rows))
    sixfold.train(folder / "words.conll", folder / "model", settings=[*TINY, *STEPS], progress=False)
    return Tagger.load(folder / "model")


def test_a_classifier_learns_labels_and_says_how_sure_it_is(classifier: Classifier) -> None:
    found = classifier.classify(["number 7 is a blue cow .", "a grey hen"])
    assert [each.labels[0].name for each in found] == ["cow", "hen"]
    for each in found:
        assert sum(label.probability for label in each.probabilities) == pytest.approx(1)
        assert [label.name for label in each.probabilities] != sorted(ANIMALS, reverse=True)
    assert classifier.labels.names == tuple(sorted(ANIMALS))
    assert isinstance(classifier.info.scores["validation"], dict)
    assert classifier.labels.temperature == classifier.info.scores["validation"]["temperature"]


def test_a_tagger_finds_entities_where_they_stand_in_the_raw_text(tagger: Tagger) -> None:
    text = "number 3  is a red,dog ."
    [found] = tagger.tag([text])
    assert [(each.label, each.text) for each in found.entities] == [("COLOUR", "red"), ("ANIMAL", "dog")]
    assert all(text[each.start : each.end] == each.text for each in (*found.entities, *found.words))


def test_an_entity_is_what_stands_at_its_place_in_any_text(tagger: Tagger) -> None:
    draw = random.Random()
    signs = [
        "red",
        "dog",
        " ",
        "  ",
        ",",
        "é",
        "e\u0301",
        "🙂",
        "中",
        "\u200d",
        "\u2028",
        "İ",
        "ß",
        "\t",
        "א",
        "\x07",
    ]
    texts = ["".join(draw.choices(signs, k=draw.randrange(12))) for _ in range(500)]
    for text, found in zip(texts, tagger.tag(texts), strict=True):
        assert all(text[each.start : each.end] == each.text for each in (*found.entities, *found.words))


def test_an_answer_does_not_depend_on_company_or_order(classifier: Classifier, tagger: Tagger) -> None:
    texts = [text for text, *_ in sentences(40)]
    alone = [classifier.classify([text])[0] for text in texts]
    assert classifier.classify(texts[::-1])[::-1] == alone
    assert tagger.tag(texts)[7] == tagger.tag([texts[7]])[0]


def test_a_filler_fills_gaps_and_gives_a_start_to_a_classifier(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(text for text, *_ in sentences(400)))
    settings = [*TINY, "train.steps=150", "train.checkpoint_every=75", "data.max_tokens=32"]
    sixfold.train(tmp_path / "text.txt", tmp_path / "base", "fill", settings=settings, progress=False)
    filler = Filler.load(tmp_path / "base")
    found = filler.fill("number 38 is a red [MASK] . number 39 [MASK] a blue cat .", top=3)
    assert [len(choices) for choices in found.gaps] == [3, 3]
    for choices in found.gaps:
        assert choices[0].text in found.text
        assert 1 >= choices[0].probability >= choices[1].probability >= choices[2].probability > 0
    assert filler.info.scores["validation"]["score"] < 30  # of 400 tokens
    rows = "".join(f"{text},{animal}\n" for text, _, animal in sentences(300))
    (tmp_path / "animals.csv").write_text(f"text,label\n{rows}")
    sixfold.train(
        tmp_path / "animals.csv", tmp_path / "model", init=tmp_path / "base", progress=False,
        settings=[*STEPS, "train.learning_rate=3e-3"],
    )  # fmt: skip
    model = Classifier.load(tmp_path / "model")
    assert model.tokenizer.model == filler.tokenizer.model
    assert model.classify(["number 7 is a blue cow ."])[0].labels[0].name == "cow"


def test_a_folder_of_another_task_is_refused_with_the_command_that_fits(
    tmp_path: Path, classifier: Classifier
) -> None:
    del classifier, tmp_path
    with pytest.raises(ModelFolderError, match="translate"):
        Tagger.load(Path(__file__).parents[3] / "compat" / "format-2")


def test_a_validation_label_that_training_does_not_have_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "a,x\nb,y\n" * 10)
    (tmp_path / "valid.csv").write_text("text,label\na,x\nb,z\n")
    with pytest.raises(DataError, match="Line 3 of the validation examples, 'b', has the label 'z'"):
        sixfold.train(
            tmp_path / "train.csv", tmp_path / "model", valid=tmp_path / "valid.csv", settings=TINY, progress=False
        )


NUMBERS = "".join(f"text {number},{number / 3}\n" for number in range(20))


@pytest.mark.parametrize(
    ("train", "valid", "message"),
    [
        ("a,x\nb,y\n" * 10, '{"text": "a", "label": ["x", "y"]}', "has 2 labels, not one"),
        (NUMBERS, '{"text": "a", "label": "high"}', "has 'high', not a number"),
    ],
)
def test_validation_texts_that_are_labelled_otherwise_are_refused(
    tmp_path: Path, train: str, valid: str, message: str
) -> None:
    (tmp_path / "train.csv").write_text(f"text,label\n{train}")
    (tmp_path / "valid.jsonl").write_text(f"{valid}\n")
    with pytest.raises(DataError, match=f"Line 1 of the validation examples, 'a', {message}"):
        sixfold.train(
            tmp_path / "train.csv", tmp_path / "model", valid=tmp_path / "valid.jsonl", settings=TINY,
            progress=False,
        )  # fmt: skip


def looked_at(tmp_path: Path, labels: list[str]) -> Survey[LabelledText]:
    """Return what a survey finds in texts with these labels."""
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(f'{{"text": "text {place}", "label": {each}}}\n' for place, each in enumerate(labels)))
    return Classify().survey(open_labelled([path]), 1, no_progress)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["[]"] * 20, "No text has a label"),
        (['"x"'] * 20, "All texts have the label 'x'"),
        ([f'"c{number}"' for number in range(1001)], "There are 1,001 different labels"),
    ],
)
def test_labels_that_nothing_can_be_learned_from_are_refused(
    tmp_path: Path, labels: list[str], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        choice_of(looked_at(tmp_path, labels), "auto")


def test_a_number_too_large_to_count_with_is_a_name() -> None:
    assert is_number("1e300")
    assert not is_number("1e999")


def test_of_whole_amounts_no_more_is_held_out_than_asked_for(tmp_path: Path) -> None:
    surveyed = looked_at(tmp_path, [str(number // 2) for number in range(300)])
    assert choice_of(surveyed, "auto") == "number"
    assert len(choose_held_out(surveyed, 0.1, 2000)) == 30


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["good", "bad"], "The model knows none of these labels, such as 'bad'; it knows: cat, cow, dog, hen"),
        (["cat", ["cat", "dog"]], "Line 2, 'a text', has 2 labels; the model gives a text one"),
    ],
)
def test_texts_that_are_labelled_otherwise_are_not_scored(
    tmp_path: Path, classifier: Classifier, labels: list[object], message: str
) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps({"text": "a text", "label": each}) + "\n" for each in labels))
    with pytest.raises(DataError, match=message):
        evaluate_classifier(classifier, "model", open_labelled([path]), no_progress)


def test_only_what_is_measured_alike_is_compared() -> None:
    accuracy, numbers = (
        UnderstandEvaluation(name, 1, (Metric(name, 0.0, ""),)) for name in ("accuracy", "Pearson correlation")
    )
    with pytest.raises(ConfigError, match="accuracy is measured by accuracy, Pearson"):
        compared(accuracy, numbers)
    with pytest.raises(ConfigError, match="cannot compare models that predict numbers"):
        compared(numbers, numbers)


def test_evaluate_refuses_encoders_that_it_does_not_score(tmp_path: Path, classifier: Classifier) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for task in ("answer", "fill"):
        info = classifier.info.model_copy(update={"task": task, "files": {}})
        (folder / "sixfold.json").write_text(info.model_dump_json())
        with pytest.raises(ConfigError, match=f"the task '{task}', which `evaluate` does not score"):
            labels_texts(folder)
