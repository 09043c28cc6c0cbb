"""Fixtures of all tests."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

import sixfold
from sixfold.files import cache_folder
from sixfold.kernels import prepare

prepare()  # before any test loads torch
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if WORKER:  # one of several processes of tests: with a core of its own, its threads do not wait for the others'
    CORES = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {CORES[int(WORKER.removeprefix("gw")) % len(CORES)]})
settings.register_profile("sixfold", deadline=None)  # a neighbour on the machine is no fault of ours
settings.load_profile("sixfold")

NUMBER_WORDS = {
    "en": "one two three four five six seven eight nine ten",
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn",
}
SMALL_SETTINGS = (
    "model.layers=1", "model.d_model=64", "model.d_ff=128", "model.heads=4", "model.norm=pre", "model.dropout=0",
    "data.vocabulary=400", "data.valid_pairs=20",
    "train.steps=300", "train.batch_tokens=512", "train.checkpoint_every=150", "train.patience=0",
    "train.schedule=linear_decay", "train.learning_rate=3e-3", "train.warmup_steps=30",
)  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def obey_ctrl_c() -> None:
    """Let children obey Ctrl-C although a shell started these tests in the background, where it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def compiled_cache(tmp_path: Path) -> Path:
    """Return a cache folder with the compiled kernels alone: to compile them again takes long."""
    folder = tmp_path / "cache" / "sixfold"
    folder.mkdir(parents=True)
    for library in cache_folder().glob("*.so"):
        shutil.copy2(library, folder)
    return folder.parent


@pytest.fixture
def seed() -> Iterator[int]:
    """Seed torch differently in every run, so that no lucky draw hides a fault; a failure prints the seed."""
    import torch

    value = int(os.environ.get("SIXFOLD_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"to repeat this: SIXFOLD_TEST_SEED={value}")
    torch.manual_seed(value)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors of a few numbers: a second thread would only be waited for
    yield value
    torch.set_num_threads(num_threads)


@contextmanager
def on_one_core() -> Iterator[None]:
    """Let this process, and what it starts, use one core: small tensors gain little by a second, and lose much
    where it is shared with others.
    """
    import torch

    cores, num_threads = os.sched_getaffinity(0), torch.get_num_threads()
    os.sched_setaffinity(0, {random.choice(sorted(cores))})
    torch.set_num_threads(1)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def one_core() -> Iterator[None]:
    """Use one core in all tests of a file."""
    with on_one_core():
        yield


@dataclass(frozen=True)
class SmallModel:
    """A model that knows its number words from one to ten, and a test set of others' sequences of them."""

    folder: Path
    source: Path
    target: Path


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> SmallModel:
    """Train a small model once for all tests that need one; it makes next to no mistake in its test set."""

    folder, draw = tmp_path_factory.mktemp("small"), random.Random(7)
    rows = sorted({tuple(draw.choices(range(10), k=draw.randint(2, 6))) for _ in range(3000)})
    draw.shuffle(rows)
    for split, part in (("test", rows[:20]), ("train", rows[20:])):
        for language, words in NUMBER_WORDS.items():
            lines = [" ".join(words.split()[number] for number in row) + "\n" for row in part]
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    with on_one_core():
        sixfold.train(folder / "train.en", folder / "train.de", folder / "model", settings=SMALL_SETTINGS)
    return SmallModel(folder / "model", folder / "test.en", folder / "test.de")


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small decoder-only model with a chat template and random weights: it always writes the same nonsense."""
    import torch

    from sixfold.models.decoder_only import GPT, DecoderOnly, DecoderOnlyConfig
    from sixfold.models.folder import ModelInfo, Processor, save_model
    from sixfold.models.weights import weights_of
    from sixfold.text import Tokenizer
    from sixfold.text.chat import ROLE_TOKENS, SIXFOLD_TEMPLATE

    words = " ".join(NUMBER_WORDS.values()).split()
    draw = random.Random(7)
    lines = [" ".join(draw.choices(words, k=8)) for _ in range(500)]
    tokenizer = Tokenizer.learn(lines, 400, special_tokens=ROLE_TOKENS)
    shape = {"layers": 2, "d_model": 64, "d_ff": 128, "heads": 4, "max_positions": 256, "init_std": 0.3}
    config = DecoderOnlyConfig(**GPT, **shape, vocabulary=tokenizer.vocabulary)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = DecoderOnly(config)
    folder = tmp_path_factory.mktemp("chat") / "parrot"
    processor = Processor(special=tokenizer.special, decoder_start=tokenizer.special.bos, chat=SIXFOLD_TEMPLATE)
    info = ModelInfo(kind="decoder_only", task="generate", model=config, processors={"text": processor})
    save_model(folder, info, [weights_of(model)], tokenizer, "# A parrot\n")
    return folder


SERVER = """
import json, sys
from pathlib import Path
from sixfold.serve.server import run
from sixfold.serve.server_settings import ServerSettings, parse_model_spec
options = json.loads(sys.argv[1], object_hook=lambda found: {
    name: tuple(value) if isinstance(value, list) else value for name, value in found.items()
})
models = tuple(map(parse_model_spec, options.pop("models")))
run(ServerSettings(models=models, port=0, **options))
"""
PHRASES = Path(__file__).parent / "compat" / "format-1-phrases"


@dataclass(frozen=True)
class Served:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def workers(self) -> list[int]:
        """The processes that hold its models."""
        pid = self.process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@pytest.fixture(scope="session")
def start_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Return a function that starts a server with some settings; what still runs in the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*models: str | Path, **options: object) -> Served:
        log = tmp_path_factory.mktemp("server") / "log.jsonl"
        content = json.dumps({"models": [str(model) for model in models or (PHRASES,)], **options})
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src"), "OMP_NUM_THREADS": "1"}
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", SERVER, content],
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        started.append(process)
        assert process.stdout
        found = re.search(r":(\d+) ", process.stdout.readline())
        assert found, log.read_text()
        return Served(process, int(found[1]), log)

    yield start
    for process in started:
        with process:
            process.kill()


@pytest.fixture(scope="session")
def writing_server(start_server: Callable[..., Served], chat_model: Path) -> Served:
    """A server as it comes, with a small decoder-only model, for all tests that leave it as it is."""
    return start_server(chat_model)


@pytest.fixture(scope="session")
def server(start_server: Callable[..., Served]) -> Served:
    """A server as it comes, with a small model from English to German, for all tests that leave it as it is."""
    return start_server()
