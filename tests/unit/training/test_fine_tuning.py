"""Fine-tuning: a model that is trained further is measured first, and never replaced by a worse one."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
import torch

import sixfold
from sixfold.data.corpora import fetch
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.evaluate.metrics import bleu
from sixfold.files import BLANK, seal, sha256
from sixfold.models.folder import load_info
from sixfold.tasks.translate import Translate
from sixfold.training.base import load_base, read_base
from sixfold.training.progress import Silence
from sixfold.training.run import Outcome, say_outcome

pytestmark = [pytest.mark.usefixtures("one_core"), pytest.mark.timeout(300)]

PHRASES = Path(__file__).parents[2] / "compat" / "format-1-phrases"
WORDS = {
    "en": ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"],
}
TINY = (
    "model.layers=1", "model.d_model=16", "model.heads=2", "model.d_ff=32", "data.vocabulary=300",
    "train.steps=20", "train.batch_tokens=128", "train.checkpoint_every=20", "train.learning_rate=3e-3",
)  # fmt: skip
SHORT = ("train.steps=10", "train.checkpoint_every=5", "train.batch_tokens=128", "train.valid_sentences=8")
LOST = "cannot be measured"


class Listener(Silence):
    """Remembers what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        """Remember a line."""
        self.lines.append(message)


def number_words(folder: Path, count: int, languages: tuple[str, str] = ("en", "de")) -> tuple[Path, Path]:
    """Write so many pairs of number words, by digits drawn from a seed."""
    draw = random.Random(count)
    rows = [draw.choices(range(10), k=draw.randint(2, 6)) for _ in range(count)]
    paths = [folder / f"numbers.{language}" for language in languages]
    for path, language in zip(paths, WORDS, strict=True):
        path.write_text("".join(" ".join(WORDS[language][each] for each in row) + "\n" for row in rows))
    return paths[0], paths[1]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two hundred pairs of number words."""
    return number_words(tmp_path_factory.mktemp("numbers"), 200)


@pytest.fixture(scope="module")
def base(numbers: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of number words that has learned little."""
    folder = tmp_path_factory.mktemp("base") / "tiny"
    sixfold.train(*numbers, folder, settings=(*TINY, "decode.beam=3", "decode.length_penalty=0.9"))
    return folder


def fine_tune(base: Path, pairs: tuple[Path, Path], folder: Path, *settings: str) -> tuple[Outcome, list[str]]:
    """Fine-tune a model for a few steps; return how it ended and what was said."""
    listener = Listener()
    outcome = sixfold.train(*pairs, folder, init=base, settings=(*SHORT, *settings), progress=listener)
    return outcome, listener.lines


def log(folder: Path) -> list[dict[str, object]]:
    """Return the metrics log without its clock."""
    lines = (folder / "training" / "log.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]


# Promise 53


def test_fine_tuning_on_500_lines_costs_at_most_2_bleu_on_the_bases_own_test_set(tmp_path: Path) -> None:
    fetch("phrasebook", tmp_path / "own", num_pairs=3000)  # with 300 pairs to test on
    source, target = ((tmp_path / "own" / f"test.{side}").read_text().splitlines() for side in ("en", "de"))
    settings = ("train.checkpoint_every=50",)
    outcome = sixfold.train(*number_words(tmp_path, 500), tmp_path / "tuned", init=PHRASES, settings=settings)

    before, after = (
        bleu(sixfold.load(folder).translate(source), target).value for folder in (PHRASES, tmp_path / "tuned")
    )
    assert len(source) == 300
    assert before > 25
    assert after >= before - 2
    assert outcome.comparison is not None
    assert not outcome.comparison.is_base
    assert outcome.comparison.score > outcome.comparison.base_score


# The base is measured first


def test_the_base_is_scored_first_on_the_new_text_and_on_its_own(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path
) -> None:
    outcome, _ = fine_tune(base, numbers, tmp_path / "tuned")
    first, *_ = (record for record in log(tmp_path / "tuned") if record["kind"] == "validation")
    assert (first["step"], first["weights"], first["is_best"]) == (0, "base", True)
    assert first["own_score"] is not None
    assert outcome.comparison is not None
    assert outcome.comparison.base_score == first["score"]
    assert outcome.comparison.base_own_score == first["own_score"]
    assert f"the base: {first['own_score']:.1f}" in say_outcome(outcome) or outcome.comparison.is_base


def test_where_the_bases_training_folder_is_gone_it_says_that_forgetting_cannot_be_measured(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(base, tmp_path / "alone", ignore=shutil.ignore_patterns("training"))
    outcome, said = fine_tune(tmp_path / "alone", numbers, tmp_path / "tuned")
    assert any(LOST in line for line in said)
    assert outcome.comparison is not None
    assert outcome.comparison.own_score is None


def test_validation_text_that_another_tokenizer_prepared_is_not_the_bases_own(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(base, tmp_path / "mixed", ignore=shutil.ignore_patterns("training"))
    other = (*TINY, "data.vocabulary=290", "train.steps=1", "train.valid_sentences=1")
    sixfold.train(*numbers, tmp_path / "other", settings=other)
    shutil.copytree(tmp_path / "other" / "training", tmp_path / "mixed" / "training")
    _, said = fine_tune(tmp_path / "mixed", numbers, tmp_path / "tuned")
    assert any(LOST in line for line in said)


def test_a_model_that_gets_worse_is_not_published_and_the_bases_weights_stay(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path
) -> None:
    nonsense = tmp_path / "nonsense.en", tmp_path / "nonsense.de"
    nonsense[0].write_text("".join(f"{number}\n" for number in range(50)))
    nonsense[1].write_text("a a a a a a a\n" * 50)
    outcome = sixfold.train(
        *nonsense, tmp_path / "tuned", init=base, valid=numbers,
        settings=(*SHORT, "train.learning_rate=0.05", "train.average=1"),
    )  # fmt: skip
    assert outcome.comparison is not None
    assert outcome.comparison.is_base
    assert "holds the base's weights, unchanged" in say_outcome(outcome)
    tuned, own = (sixfold.load(folder).models[0].state_dict() for folder in (tmp_path / "tuned", base))
    assert all(torch.equal(tuned[name], own[name]) for name in own)
    assert "no model was better" in (tmp_path / "tuned" / "README.md").read_text()


# What is kept and remembered


def test_the_folder_names_its_base_and_keeps_its_search_and_languages(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path
) -> None:
    pairs = tmp_path / "pairs.tsv"
    sides = (path.read_text().splitlines() for path in numbers)
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)))
    sixfold.train(pairs, model=tmp_path / "tuned", init=base, settings=(*SHORT, "decode.beam=5"))
    info, digest = load_info(tmp_path / "tuned"), sha256(base / "weights.safetensors")
    assert info.training["base"] == {"name": "tiny", "sha256": [digest]}
    assert (info.decode["beam"], info.decode["length_penalty"]) == (5, 0.9)
    assert (info.languages.source, info.languages.target) == ("en", "de")
    card = (tmp_path / "tuned" / "README.md").read_text()
    assert "tiny" in card
    assert digest in card


def test_members_of_an_ensemble_are_fine_tuned_side_by_side(numbers: tuple[Path, Path], tmp_path: Path) -> None:
    sixfold.train(*numbers, tmp_path / "two", settings=(*TINY, "model.ensemble=2", "train.steps=2"))
    fine_tune(tmp_path / "two", numbers, tmp_path / "tuned")
    base = load_info(tmp_path / "tuned").training["base"]
    assert len(sixfold.load(tmp_path / "tuned").models) == 2
    assert isinstance(base, dict)
    assert base["sha256"] == [sha256(tmp_path / "two" / f"weights{part}.safetensors") for part in ("", "-2")]


def test_a_time_budget_is_kept(base: Path, numbers: tuple[Path, Path], tmp_path: Path) -> None:
    settings = ("train.valid_sentences=2",)
    outcome = sixfold.train(*numbers, tmp_path / "tuned", init=base, minutes=0.05, settings=settings)
    assert outcome.finished == "the time is up"
    assert outcome.comparison is not None


# Resuming


@pytest.mark.parametrize("up_to", [0, 5])
def test_a_fine_tuning_goes_on_with_the_same_bits_even_if_its_base_is_gone(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path, up_to: int
) -> None:
    shutil.copytree(base, tmp_path / "gone")
    fine_tune(tmp_path / "gone", numbers, tmp_path / "whole")
    shutil.rmtree(tmp_path / "gone")
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    for path in (tmp_path / "broken" / "training" / "checkpoints").iterdir():
        if int(path.name.removeprefix("step-")) > up_to:
            shutil.rmtree(path)
    sixfold.train(None, model=tmp_path / "broken", resume=True)
    assert log(tmp_path / "broken") == log(tmp_path / "whole")
    last = Path("training", "checkpoints", "step-00000010")
    for name in ("weights.safetensors", last / "weights.safetensors", last / "optimizer.safetensors"):
        assert sha256(tmp_path / "broken" / name) == sha256(tmp_path / "whole" / name)


# What is refused


def test_a_model_of_another_task_is_refused_with_both_names(base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "other", ignore=shutil.ignore_patterns("training"))
    path = tmp_path / "other" / "sixfold.json"
    content = json.loads(path.read_text()) | {"task": "classify"}
    content["files"]["sixfold.json"]["sha256"] = BLANK
    path.write_bytes(seal(json.dumps(content)))
    with pytest.raises(ConfigError, match="'classify', and this data is for 'translate'"):
        read_base(tmp_path / "other", Translate())


def test_text_in_other_languages_is_refused_and_text_in_the_wrong_order_too(
    base: Path, numbers: tuple[Path, Path], tmp_path: Path
) -> None:
    french = number_words(tmp_path, 20, ("en", "fr"))
    with pytest.raises(ConfigError, match="translates en → de, but this text is en → fr"):
        fine_tune(base, french, tmp_path / "tuned")
    with pytest.raises(ConfigError, match="this text is de → en") as refused:
        fine_tune(base, (numbers[1], numbers[0]), tmp_path / "tuned")
    assert "in the other order" in refused.value.hint
    assert not (tmp_path / "tuned").exists()


def test_a_base_that_changes_while_it_is_read_is_refused(base: Path) -> None:
    remembered = {"name": "tiny", "sha256": ["of other weights"]}
    with pytest.raises(ModelFolderError, match="changed while it was read"):
        load_base(read_base(base, Translate()), remembered)
