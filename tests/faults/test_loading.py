"""A damaged or hostile model folder is refused by name: nothing is executed or followed or fills the memory."""

from __future__ import annotations

import io
import json
import pickle
import random
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

import sixfold
from sixfold.cli import harmless
from sixfold.errors import ConfigError, ModelFolderError, RequestError, SixfoldError
from sixfold.files import sha256
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.recipe import parse_settings, read_recipe

if TYPE_CHECKING:
    from conftest import Run

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "compat" / "format-1"
FILES = ["sixfold.json", "weights.safetensors", "tokenizer.model"]
NUM_DAMAGES = 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder as it is written today."""
    from sixfold.models.folder import load_info, load_members, load_tokenizer, save_model
    from sixfold.models.weights import weights_of

    info = load_info(STORED)
    weights = [weights_of(model) for model in load_members(STORED, info)]
    save_model(tmp_path / "model", info, weights, load_tokenizer(STORED, info), "# A card\n")
    return tmp_path / "model"


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and its digest, as a hostile author would."""
    (folder / name).write_bytes(content)
    config = json.loads((folder / "sixfold.json").read_bytes())
    config["files"].pop("sixfold.json", None)
    config["files"][name] = {"sha256": sha256(folder / name)}
    (folder / "sixfold.json").write_text(json.dumps(config))


# Damage


def test_fifty_damages_of_fifty_are_detected_and_the_file_is_named(
    folder: Path, seed: int, harm: Callable[[bytes, random.Random], bytes]
) -> None:
    draw, contents = random.Random(seed), {name: (folder / name).read_bytes() for name in FILES}
    for number in range(NUM_DAMAGES):
        name = FILES[number % len(FILES)]
        (folder / name).write_bytes(harm(contents[name], draw))
        with pytest.raises(ModelFolderError, match=str(folder / name)):
            sixfold.load(folder, "cpu")
        (folder / name).write_bytes(contents[name])
    sixfold.load(folder, "cpu")


def test_a_configuration_changed_on_purpose_can_be_used_without_its_digest(folder: Path) -> None:
    path = folder / "sixfold.json"
    content = json.loads(path.read_bytes())
    content["decode"]["beam"] = 2
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFolderError, match="changed or damaged") as refused:
        sixfold.load(folder, "cpu")
    assert 'delete "sixfold.json" from its "files"' in refused.value.hint
    del content["files"]["sixfold.json"]
    path.write_text(json.dumps(content))
    assert sixfold.load(folder, "cpu").decode.beam == 2


def test_mutated_folders_are_refused_or_work_and_take_no_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """benchmarks/faults.py tries two thousand of them."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from faults import mutate

    draw, refused = random.Random(seed), 0
    sixfold.load(folder, "cpu").translate(["one"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(60):
        mutated = folder.with_name(str(number))
        shutil.copytree(folder, mutated)
        mutate(mutated, draw)
        try:
            sixfold.load(mutated, "cpu").translate(["one two"], beam=1)
        except ModelFolderError:
            refused += 1
    assert refused > 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024  # KiB


# Code


class Payload:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return Path.write_text, (self.mark, "executed")


def payloads(mark: Path) -> list[bytes]:
    """Return pickles in the forms in which models have carried them."""
    made = [pickle.dumps(Payload(mark), protocol) for protocol in range(6)]
    for is_zip in (True, False):
        stream = io.BytesIO()
        torch.save({"weights": Payload(mark)}, stream, _use_new_zipfile_serialization=is_zip)
        made.append(stream.getvalue())
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", made[0])
        archive.writestr("../../escaped.py", b"raise SystemExit")
    header = json.dumps({"__metadata__": {"pickle": made[0].hex()}}).encode()
    safetensors = len(header).to_bytes(8, "little") + header + made[2]
    numpy = b"\x93NUMPY\x01\x00F\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }" + b" " * 9 + made[2]
    return [*made, stream.getvalue(), safetensors, numpy]


def test_no_pickle_in_a_model_folder_is_ever_executed(folder: Path, tmp_path: Path) -> None:
    mark, tried = tmp_path / "mark", 0
    assert pickle.loads(payloads(tmp_path / "control")[0]) is not None  # a payload does what it should
    assert (tmp_path / "control").exists()
    contents = {name: (folder / name).read_bytes() for name in FILES}
    for payload in payloads(mark):
        for name in ("weights.safetensors", "tokenizer.model"):
            forge(folder, name, payload)
            with pytest.raises(ModelFolderError):
                sixfold.load(folder, "cpu")
            for restored, content in contents.items():
                (folder / restored).write_bytes(content)
            tried += 1
        (folder / "sixfold.json").write_bytes(payload)
        with pytest.raises(ModelFolderError, match=r"sixfold\.json"):
            sixfold.load(folder, "cpu")
        (folder / "sixfold.json").write_bytes(contents["sixfold.json"])
        for name in ("pytorch_model.bin", "weights.pt", "modeling.py", "__init__.py", "sixfold.py"):
            (folder / name).write_bytes(payload)
        sixfold.load(folder, "cpu").translate(["one"], beam=1)
    assert tried >= 20
    assert not mark.exists()


def test_no_pickle_in_a_training_folder_is_ever_executed(tmp_path: Path, unbroken: Run) -> None:
    run, mark, refusals = unbroken.copied(tmp_path / "model", up_to=50), tmp_path / "mark", []
    places = [path for path in (run.folder / "training").rglob("*") if path.is_file() and path.name != "lock"]
    assert len(places) > 10
    for number, place in enumerate(places):
        content = place.read_bytes()
        place.write_bytes(payloads(mark)[number % len(payloads(mark))])
        try:
            run.resume("train.steps=1")
        except SixfoldError as error:
            refusals.append(error.message)
        place.write_bytes(content)
    assert len(refusals) >= 6  # a damaged checkpoint is not refused: the one before is taken
    assert all(str(run.folder) in message for message in refusals)
    assert not mark.exists()


def test_nothing_in_the_source_could_execute_what_it_reads() -> None:
    forbidden = (
        "pickle",
        "marshal",
        "torch.load",
        "exec(",
        "eval(",
        "compile(",
        "extractall",
        "yaml.load",
        "dill",
    )
    allowed = {".eval()", "ast.literal_eval(", "re.compile(", "torch.compile(", ".compile("}
    for path in (ROOT / "src").rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            code = line.partition("#")[0]
            for words in allowed:
                code = code.replace(words, "")
            found = [word for word in forbidden if word in code and f'"{word}' not in code]
            assert not found or is_prose(line), f"{path}:{number}: {line}"


def is_prose(line: str) -> bool:
    """Whether a line is a sentence about the thing and not the thing."""
    return line.strip().startswith(('"""', "#")) or line.strip().endswith(".") or "(" not in line


# Links and paths


@pytest.mark.parametrize("name", ["lock", "log.jsonl", "run.json"])
def test_a_link_in_a_training_folder_is_not_written_through(tmp_path: Path, unbroken: Run, name: str) -> None:
    run, precious = unbroken.copied(tmp_path / "model", up_to=50), tmp_path / "precious"
    precious.write_text("precious")
    (run.folder / "training" / name).unlink()
    (run.folder / "training" / name).symlink_to(precious)
    with pytest.raises(RequestError, match="is a link"):
        run.resume()
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("name", FILES)
def test_publishing_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path, unbroken: Run, name: str) -> None:
    run, precious = unbroken.copied(tmp_path / "model", up_to=50), tmp_path / "precious"
    precious.write_text("precious")
    (run.folder / name).unlink()
    (run.folder / name).symlink_to(precious)
    shutil.rmtree(run.checkpoints / "step-00000040")
    run.resume("train.average=1")
    assert precious.read_text() == "precious"


# Recipes

TAGS = [
    "train: {{steps: !!python/object/apply:os.system ['touch {mark}']}}",
    "train: {{steps: !!python/object/new:subprocess.Popen [['touch', '{mark}']]}}",
    "!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{mark}']]",
    "train: !!python/name:os.system",
    "train: {{steps: !!python/module:antigravity }}",
    "train: {{steps: !touch {mark}}}",
    "!!map {{train: {{steps: !!python/tuple [1]}}}}",
]


@pytest.mark.parametrize("text", TAGS)
def test_a_tag_in_a_recipe_is_refused_and_does_nothing(tmp_path: Path, text: str) -> None:
    recipe, mark = tmp_path / "recipe.yaml", tmp_path / "mark"
    recipe.write_text(text.format(mark=mark))
    with pytest.raises(ConfigError, match=r"recipe\.yaml"):
        read_recipe(TranslateRecipe, str(recipe))
    with pytest.raises(ConfigError):
        parse_settings([f"train.steps={text.format(mark=mark)}"], TranslateRecipe.known())
    assert not mark.exists()


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text", [BOMB, "train: {steps: [" + BOMB.replace("\n", ", ") + "]}", "[" * 50_000, "train: " + "{a: " * 5000]
)
def test_a_recipe_that_grows_without_end_is_refused_in_bounded_time_and_memory(tmp_path: Path, text: str) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    (tmp_path / "en").write_text("one\n" * 30)
    (tmp_path / "de").write_text("eins\n" * 30)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "from sixfold.cli import main; main()"
    )
    words = ["plan", tmp_path / "en", tmp_path / "de", "--recipe", tmp_path / "recipe.yaml"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr[-500:]
    assert done.stderr.startswith("error: ")
    assert len(done.stderr) < 10_000


def test_a_value_that_refers_to_itself_many_times_over_is_named_shortly() -> None:
    from sixfold.training.recipe import make_recipe

    bomb: object = "x"
    for _ in range(40):
        bomb = [bomb, bomb]
    with pytest.raises(ConfigError, match=r"train\.steps cannot be") as refused:
        make_recipe(TranslateRecipe, {"train": {"steps": bomb}})
    assert len(refused.value.message) < 1000


# The terminal


def test_what_a_hostile_file_says_cannot_command_the_terminal_nor_fill_it(folder: Path) -> None:
    config = json.loads((folder / "sixfold.json").read_bytes())
    config.update({"format": 999, "sixfold": "\x1b]0;owned\x07\r\x9b31m" + "9" * 10**6})
    (folder / "sixfold.json").write_text(json.dumps(config))
    with pytest.raises(ModelFolderError) as refused:
        sixfold.load(folder, "cpu")
    shown = harmless(refused.value.hint)
    assert not set("\x1b\x07\r\x9b") & set(shown)
    assert len(shown) < 5000
    assert harmless("größer 日本\nnext") == "größer 日本\nnext"
