"""A tiny corpus and tiny trainings of it, in processes of their own that a test may kill."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest

import sixfold
from sixfold.files import sha256
from sixfold.tasks.translate import Translate
from sixfold.training.loop import Trainer
from sixfold.training.progress import Silence
from sixfold.training.ranks import Ranks
from sixfold.training.run import make_trainer, starting_model
from sixfold.training.run_folder import RunFolder
from sixfold.training.setup import Request, read_setup

ENGLISH = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
SETTINGS = (
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0.1",
    "data.vocabulary=300", "data.concatenate=0.3",
    "train.steps=60", "train.checkpoint_every=10", "train.warmup_steps=10", "train.batch_tokens=256",
    "train.schedule=linear_decay", "train.learning_rate=0.002", "train.max_grad_norm=1", "train.average=5",
    "train.ema=0.99", "train.dropout_warmup=0.5", "train.valid_sentences=8",
    "train.patience=0",
)  # fmt: skip

TEXT_SETTINGS = (
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0.1",
    "data.vocabulary=300", "data.context=32",
    "train.steps=60", "train.checkpoint_every=5", "train.warmup_steps=10", "train.batch_tokens=256",
    "train.learning_rate=0.002", "train.average=5", "train.ema=0.99", "train.dropout_warmup=0.5",
    "train.valid_tokens=256", "train.patience=0",
)  # fmt: skip

ENCODER_SETTINGS = (
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0.1",
    "data.vocabulary=300", "data.max_tokens=32",
    "train.steps=60", "train.checkpoint_every=5", "train.warmup_steps=10", "train.batch_tokens=256",
    "train.learning_rate=0.002", "train.average=5", "train.ema=0.99", "train.dropout_warmup=0.5",
    "train.patience=0",
)  # fmt: skip

Start = Callable[..., subprocess.Popen[str]]


class Listener(Silence):
    """Remembers what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        """Remember a line."""
        self.lines.append(message)


@dataclass(frozen=True)
class Run:
    """A model folder with its training, and the questions a test asks of it."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.folder / "training" / "checkpoints"

    def saved_steps(self) -> list[int]:
        """Return the steps that have a checkpoint."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.checkpoints.glob("step-*"))

    def has_saved_after(self, step: int) -> bool:
        """Return whether there is a checkpoint of a later step."""
        return self.saved_steps()[-1:] > [step]

    def log(self) -> list[dict[str, object]]:
        """Return the metrics log without its clock, the only thing that two equal runs differ in."""
        lines = (self.folder / "training" / "log.jsonl").read_text(encoding="utf-8").splitlines()
        return [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]

    def losses(self) -> list[float]:
        """Return the loss of every step."""
        return [float(str(record["loss"])) for record in self.log() if record["kind"] == "step"]

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of everything trained: the published weights, the last ones and the optimizer."""
        last = self.checkpoints / f"step-{self.saved_steps()[-1]:08d}"
        files = {"model": self.folder / "weights.safetensors"}
        files |= {name: last / f"{name}.safetensors" for name in ("weights", "optimizer")}
        return {name: sha256(path) for name, path in files.items()}

    def copied(self, folder: Path, up_to: int) -> Run:
        """Return a copy as it would be had the process died after saving that step."""
        shutil.copytree(self.folder, folder)
        copy = Run(folder)
        for step in copy.saved_steps():
            if step > up_to:
                shutil.rmtree(copy.checkpoints / f"step-{step:08d}")
        return copy

    def wait_for(self, is_so: Callable[[], bool], is_alive: Callable[[], bool], seconds: float = 120) -> None:
        """Wait until something is so or the process has ended."""
        end = time.monotonic() + seconds
        while not is_so() and is_alive() and time.monotonic() < end:
            time.sleep(0.002)

    def damage(self, name: str) -> None:
        """Flip a bit in the middle of a file of the folder."""
        data = bytearray((self.folder / name).read_bytes())
        data[len(data) // 2] ^= 4
        (self.folder / name).write_bytes(data)

    def trainer(self, *, resume: bool = True) -> Trainer:
        """Return the trainer of the run before its first step or its next one, standing where it stood."""
        task, run_folder = Translate(), RunFolder(self.folder)
        setup = read_setup(task, run_folder)
        model = starting_model(task, setup, Request(self.folder, resume=resume), "cpu")
        trainer = make_trainer(task, setup, model, run_folder, Ranks(), Silence(), time.monotonic())
        if resume:
            trainer.resume()
        return trainer

    def resume(self, *settings: str) -> list[str]:
        """Go on with the run in this process and return what it said."""
        listener = Listener()
        sixfold.train(None, model=self.folder, resume=True, settings=settings, progress=listener)
        return listener.lines

    def assert_same_as(self, other: Run) -> None:
        """Compare two finished runs bit by bit."""
        assert self.losses() == other.losses()
        assert self.log() == other.log()
        assert self.digests() == other.digests()


@pytest.fixture(scope="session")
def nursery() -> ForkServerContext:
    """Return a context whose processes begin with everything imported, so that to kill many costs little."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.preload"])
    return context


@pytest.fixture(scope="module", autouse=True)
def same_order_of_sums(one_core: None) -> None:
    """Use one core here and in all children, so that all of them add up in the same order."""


@pytest.fixture(scope="session")
def make_run() -> type[Run]:
    """Return the class of runs."""
    return Run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Four hundred pairs of number words."""
    folder, draw = tmp_path_factory.mktemp("corpus"), random.Random(5)
    rows = [[draw.randrange(10) for _ in range(draw.randint(2, 7))] for _ in range(400)]
    for language, words in (("en", ENGLISH), ("de", GERMAN)):
        text = "".join(" ".join(words[number] for number in row) + "\n" for row in rows)
        (folder / f"train.{language}").write_text(text, encoding="utf-8")
    return folder / "train.en", folder / "train.de"


@pytest.fixture(scope="session")
def text_corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Number words as plain text, as documents of which none sees another, and as conversations."""
    folder, draw = tmp_path_factory.mktemp("texts"), random.Random(5)
    sayings = [" ".join(draw.choices(ENGLISH, k=draw.randint(3, 9))) for _ in range(600)]
    rows = [{"prompt": f"after {each}", "response": draw.choice(GERMAN)} for each in sayings]
    contents = {
        "text": "\n".join(sayings),
        "documents": "".join(json.dumps({"text": each}) + "\n" for each in sayings),
        "conversations": "".join(json.dumps(row) + "\n" for row in rows),
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return {name: folder / name for name in contents}


@pytest.fixture(scope="session")
def encoder_corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Number words with labels, with tags, with questions, and as plain text, by the task that learns them."""
    folder, draw = tmp_path_factory.mktemp("encoders"), random.Random(5)
    sayings = [draw.choices(ENGLISH, k=draw.randint(3, 9)) for _ in range(200)]
    asked = [
        {
            "question": "the first?",
            "context": " ".join(words),
            "answers": [{"text": words[0], "answer_start": 0}],
        }
        for words in sayings
    ]
    contents = {
        "classify": "text,label\n" + "".join(f"{' '.join(words)},{words[0]}\n" for words in sayings),
        "tag": "".join("".join(f"{word}\t{word[0]}\n" for word in words) + "\n" for words in sayings),
        "answer": "".join(json.dumps(row) + "\n" for row in asked),
        "fill": "\n".join(" ".join(words) for words in 5 * sayings),  # stretches of it are long
    }
    for name, content in contents.items():
        (folder / name).write_text(content, encoding="utf-8")
    return {name: folder / name for name in contents}


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """What a child needs to find the package."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Return a function that starts `sixfold train`; whatever still runs when the test ends is killed."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "sixfold", "train", *map(str, arguments)]
        options = {"env": environment, **options}
        process = subprocess.Popen(command, text=True, encoding="utf-8", stderr=subprocess.PIPE, **options)
        os.setpriority(os.PRIO_PROCESS, process.pid, 10)  # a test must be in time with its signals
        started.append(process)
        return process

    yield run
    for process in started:
        with process:
            process.kill()


@pytest.fixture(scope="session")
def unbroken(
    tmp_path_factory: pytest.TempPathFactory,
    corpus: tuple[Path, Path],
    environment: dict[str, str],
) -> Run:
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("unbroken") / "model"
    command = [
        sys.executable,
        "-m",
        "sixfold",
        "train",
        *map(str, corpus),
        "-o",
        str(folder),
        *as_options(SETTINGS),
    ]
    subprocess.run(command, env=environment, check=True, capture_output=True, preexec_fn=use_one_core)
    return Run(folder)


def use_one_core() -> None:
    """Leave a child one core, so that it adds up in the order in which all the others do."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def as_options(settings: tuple[str, ...]) -> list[str]:
    """Return settings as the command line takes them."""
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture(scope="session")
def options() -> list[str]:
    """The settings of the unbroken run as the command line takes them."""
    return as_options(SETTINGS)


@pytest.fixture(scope="session")
def text_settings() -> tuple[str, ...]:
    """The settings of a run on text that is quick and leaves nothing out."""
    return TEXT_SETTINGS


@pytest.fixture(scope="session")
def encoder_settings() -> tuple[str, ...]:
    """The settings of a run of an encoder that is quick and leaves nothing out."""
    return ENCODER_SETTINGS


@pytest.fixture(scope="session")
def settings() -> tuple[str, ...]:
    """The settings of the unbroken run."""
    return SETTINGS


def flip(content: bytes, draw: random.Random) -> bytes:
    """Change one bit."""
    data = bytearray(content)
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def cut(content: bytes, draw: random.Random) -> bytes:
    """Cut the end off."""
    return content[: draw.randrange(len(content))]


@pytest.fixture(params=[flip, cut])
def harm(request: pytest.FixtureRequest) -> Callable[[bytes, random.Random], bytes]:
    """Return a way to damage a file."""
    return request.param
