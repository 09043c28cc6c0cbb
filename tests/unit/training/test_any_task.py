"""Training knows no translation: a made-up task trains, validates, publishes and resumes like any other.

It learns which colour a fruit has, from lines such as "apple red".
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from pydantic import BaseModel
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from sixfold.callbacks import OnProgress
from sixfold.data.batches import Sizes
from sixfold.data.shards import Corpus, Record, Records, ShardWriter
from sixfold.models.folder import Json, ModelInfo
from sixfold.nn import BlockConfig
from sixfold.settings import Overrides
from sixfold.training.base import Base
from sixfold.training.progress import Silence
from sixfold.training.recipe import Plan, Recipe, TrainConfig, make_recipe
from sixfold.training.run import Outcome, run
from sixfold.training.setup import Request
from sixfold.training.task import Batch, Check, Given, Inputs, Opening, Prepared, Published, Sample, Scores

FRUITS = {"apple": "red", "banana": "yellow", "cherry": "red", "lime": "green", "lemon": "yellow", "kiwi": "green"}


class Nothing(BaseModel):
    """A part of a recipe in which there is nothing to choose."""


class ColourRecipe(Recipe):
    """The choices of a run."""

    data: Nothing = Nothing()
    model: BlockConfig = BlockConfig(d_model=8, d_ff=8, heads=2)
    train: TrainConfig = TrainConfig(
        steps=40, batch_tokens=4, checkpoint_every=10, schedule="linear_decay", learning_rate=0.5, warmup_steps=4
    )
    decode: Nothing = Nothing()


class Table(list[list[str]]):
    """Examples of a fruit and its colour, and the files that they are from."""

    def __init__(self, paths: Inputs) -> None:
        self.paths = [Path(path) for path in paths]
        super().__init__(line.split() for path in self.paths for line in path.read_text().splitlines())
        self.num_examples = len(self)


class ColourLearner:
    """What the loop sees."""

    most_initialised, num_validated = 0, len(FRUITS)

    def __init__(self, words: list[str]) -> None:
        self.words = words  # the number of a word is its place

    def new_model(self) -> nn.Module:
        return nn.Embedding(len(self.words), len(self.words))  # a fruit in, a logit for each word out

    def initialise(self, model: nn.Module, corpus: Corpus) -> None:
        pass

    def sizes(self, corpus: Corpus) -> Sizes:
        return corpus.lengths

    def collate(self, records: Records, seed: int) -> Batch:
        del seed
        tensors = {name: torch.tensor([int(each[name][0]) for each in records.values]) for name in ("in", "out")}
        return Batch(tensors, len(records.ids), records.ids)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return F.cross_entropy(model(batch.tensors["in"]), batch.tensors["out"], reduction="sum")

    def validator(self, corpus: Corpus, most: int | None = None) -> ColourValidator:
        records = [corpus.record(number) for number in range(min(len(corpus), most or len(corpus)))]
        inputs, outputs = (torch.tensor([int(each[name][0]) for each in records]) for name in ("in", "out"))
        return ColourValidator(self.words, inputs, outputs)


class ColourValidator:
    """How often the colour is right."""

    trained_share = 1.0

    def __init__(self, words: list[str], inputs: Tensor, outputs: Tensor) -> None:
        self.words, self.inputs, self.outputs = words, inputs, outputs

    @torch.no_grad()
    def loss(self, model: nn.Module, check: Check) -> float:
        check()
        return float(F.cross_entropy(model(self.inputs), self.outputs))

    @torch.no_grad()
    def measure(self, model: nn.Module, check: Check) -> Scores:
        check()
        answers = model(self.inputs).argmax(dim=-1)
        accuracy = 100 * float((answers == self.outputs).float().mean())
        shown = (self.words[int(side[0])] for side in (self.inputs, answers, self.outputs))
        return Scores("accuracy", accuracy, 0.0, "first answer", Sample(*shown))


class ColourTask:
    """How a run is set up, and what a person gets: a table."""

    name, read_in, examples, recipe = "colour", "fruits", "fruits", ColourRecipe

    def detect(self, inputs: Inputs) -> bool:
        return len(inputs) == 1

    def read(self, inputs: Inputs, overrides: Overrides) -> Table:
        del overrides
        return Table(inputs)

    def survey(self, examples: Table, seed: int, on_progress: OnProgress) -> Table:
        del seed, on_progress
        return examples

    def propose(self, survey: Table, overrides: Overrides, device: str, core_speed: float) -> Plan:
        del device, core_speed
        return Plan(make_recipe(ColourRecipe, overrides), (f"{len(survey)} fruits",), ())

    def accepts(self, base: ModelInfo) -> bool:
        del base
        return False

    def inherit(self, base: Base, examples: Table, overrides: Overrides) -> Overrides:
        raise NotImplementedError

    def propose_fine_tuning(self, survey: Table, base: Base, overrides: Overrides) -> Plan:
        raise NotImplementedError

    def fit(self, survey: Table, recipe: ColourRecipe, base: Base | None) -> list[str]:
        del recipe, base
        return sorted({word for pair in survey for word in pair})

    def continues(self, base: Base, processor: list[str]) -> bool:
        raise NotImplementedError

    def save_processor(self, folder: Path, processor: list[str]) -> list[Path]:
        (folder / "words.json").write_text(json.dumps(processor))
        return [folder / "words.json"]

    def load_processor(self, folder: Path) -> list[str]:
        return json.loads((folder / "words.json").read_text())

    def prepare(self, folder: Path, given: Given, on_progress: OnProgress) -> Prepared:
        del on_progress
        for split, pairs in (("train", given.train), ("valid", given.valid or given.train)):
            writer = ShardWriter(folder / split, {"in": "<u2", "out": "<u2"})
            numbers = [[given.processor.index(word) for word in pair] for pair in pairs]
            writer.write(Record({"in": [fruit], "out": [colour]}, 1) for fruit, colour in numbers)
            writer.close()
        return Prepared(folder)

    def prepare_sample(self, folder: Path, given: Given, most: int) -> Corpus:
        del most
        return self.prepare(folder, given, lambda _: None).train()

    def facts(self, examples: Table, base: Base | None) -> dict[str, Json]:
        del base
        return {"fruits": len(examples)}

    def learner(self, recipe: ColourRecipe, processor: list[str]) -> ColourLearner:
        del recipe
        return ColourLearner(processor)

    def publish(self, folder: Path, published: Published) -> None:
        save_file(published.members[0], folder / "table.safetensors")
        (folder / "words.json").write_text(json.dumps(published.processor))

    def open(self, opening: Opening) -> dict[str, str]:
        words = json.loads((opening.folder / "words.json").read_text())
        best = load_file(opening.folder / "table.safetensors")["weight"].argmax(dim=-1)
        return {word: words[int(number)] for word, number in zip(words, best, strict=True)}


@pytest.fixture
def fruits(tmp_path: Path) -> Path:
    """A file of fruits."""
    path = tmp_path / "fruits.txt"
    path.write_text("".join(f"{fruit} {colour}\n" for fruit, colour in FRUITS.items()))
    return path


def train(folder: Path, *inputs: Path, resume: bool = False) -> Outcome:
    """Train, or go on."""
    return run(ColourTask(), Request(folder, inputs, resume=resume), Silence())


def test_a_made_up_task_is_trained_and_its_best_model_is_published(tmp_path: Path, fruits: Path) -> None:
    outcome = train(tmp_path / "model", fruits)
    assert (outcome.step, outcome.score_name, outcome.score) == (40, "accuracy", 100.0)
    table = ColourTask().open(Opening(tmp_path / "model"))
    assert {fruit: table[fruit] for fruit in FRUITS} == FRUITS


def test_a_made_up_task_is_resumed_with_the_same_bits(tmp_path: Path, fruits: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(whole, fruits)
    shutil.copytree(whole, broken)
    for step in (30, 40):
        shutil.rmtree(broken / "training" / "checkpoints" / f"step-{step:08d}")
    train(broken, resume=True)
    last = Path("training", "checkpoints", "step-00000040")
    for name in ("weights.safetensors", "optimizer.safetensors"):
        assert (broken / last / name).read_bytes() == (whole / last / name).read_bytes()
