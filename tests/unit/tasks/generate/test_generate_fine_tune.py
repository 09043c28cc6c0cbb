"""Fine-tuning a model that goes on with text: what it keeps of its base, and that it is never published worse."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import sixfold
from sixfold.errors import ConfigError
from sixfold.files import sha256
from sixfold.models.folder import load_info
from sixfold.training.progress import Silence

pytestmark = pytest.mark.usefixtures("one_core")

ENGLISH = "one two three four five six seven eight nine ten"
SETTINGS = (
    "model.layers=1", "model.d_model=32", "model.d_ff=64", "model.heads=2", "model.dropout=0",
    "data.vocabulary=400", "data.context=32", "train.steps=150", "train.batch_tokens=512",
    "train.checkpoint_every=75", "train.learning_rate=5e-3", "train.valid_tokens=512",
)  # fmt: skip


class Listener(Silence):
    """Remembers what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)


def sayings(words: str, count: int) -> list[str]:
    draw = random.Random(7)
    return [" ".join(draw.choices(words.split(), k=draw.randint(3, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of English number words."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "text").write_text("\n".join(sayings(ENGLISH, 800)))
    sixfold.train(folder / "text", folder / "model", settings=SETTINGS, progress=False)
    return folder / "model"


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations in which the answer is always the same."""
    path = tmp_path_factory.mktemp("talk") / "talk.jsonl"
    rows = [{"prompt": each, "response": "seven or eight"} for each in sayings(ENGLISH, 200)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_model_of_text_learns_to_answer_and_keeps_its_tokenizer(base: Path, talk: Path, tmp_path: Path) -> None:
    listener = Listener()
    quick = ("train.learning_rate=1e-2", "train.steps=120", "train.batch_tokens=512", "train.max_forgetting=0")
    outcome = sixfold.train(talk, tmp_path / "model", init=base, settings=quick, progress=listener)
    assert any(line.startswith("fine-tunes") for line in listener.lines)
    info, own = load_info(tmp_path / "model"), load_info(base)
    assert info.model == own.model.model_copy(update={"dropout": info.model.dropout})
    assert sha256(tmp_path / "model" / "tokenizer.model") == sha256(base / "tokenizer.model")
    assert own.processors["text"].chat is None
    assert info.processors["text"].chat is not None
    assert outcome.comparison is not None
    assert outcome.score < outcome.comparison.base_score
    assert outcome.comparison.own_score is not None  # what it cost on the base's own text
    greedy = sixfold.GenerateOptions(temperature=0)
    assert sixfold.load(tmp_path / "model").chat("one two", greedy).split()[0] == "seven"


def test_a_model_that_gets_worse_is_not_published(base: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("\n".join(sayings(ENGLISH, 400)))
    ruinous = ("train.learning_rate=1", "train.steps=5", "train.warmup_steps=1", "train.checkpoint_every=5")
    outcome = sixfold.train(tmp_path / "text", tmp_path / "model", init=base, settings=ruinous, progress=False)
    assert outcome.comparison is not None
    assert outcome.comparison.is_base
    assert sha256(tmp_path / "model" / "weights.safetensors") == sha256(base / "weights.safetensors")


@pytest.mark.parametrize("setting", ["model.layers=2", "data.vocabulary=500", "data.subwords=bytes"])
def test_what_the_base_decides_cannot_be_set(base: Path, talk: Path, tmp_path: Path, setting: str) -> None:
    with pytest.raises(ConfigError):
        sixfold.train(talk, tmp_path / "model", init=base, settings=[setting], progress=False)
    assert not (tmp_path / "model").exists()
