"""`sixfold train`: from two text files to a model folder, and what it refuses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

import sixfold
from sixfold.files import sha256


class SmallModel(Protocol):
    """A trained model and its test set (see tests/conftest.py)."""

    folder: Path
    source: Path
    target: Path


Command = Callable[..., tuple[int, str, str]]
TINY = [
    "--set", "model.layers=1", "--set", "model.d_model=16", "--set", "model.heads=2", "--set", "model.d_ff=32",
    "--set", "data.vocabulary=300", "--set", "train.batch_tokens=128", "--set", "train.valid_sentences=4",
    "--set", "train.checkpoint_every=5",
]  # fmt: skip
TEN_STEPS = [*TINY, "--set", "train.steps=10"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A corpus of a hundred pairs in the folder one is in."""
    monkeypatch.chdir(tmp_path)
    words = ("red", "green", "blue", "white", "black")
    lines = [f"{words[i % 5]} {words[i // 5 % 5]} {words[i // 25]}\n" for i in range(100)]
    Path("a.en").write_text("".join(lines))
    Path("a.de").write_text("".join(line.replace("e", "ö") for line in lines))
    return "a.en", "a.de"


def log(folder: str) -> list[dict[str, object]]:
    """Return the journal of a training."""
    return [json.loads(line) for line in Path(folder, "training", "log.jsonl").read_text().splitlines()]


def test_two_files_become_a_model(command: Command, files: tuple[str, str]) -> None:
    code, out, messages = command("train", *files, "-o", "model", *TEN_STEPS)
    assert (code, out) == (0, "")
    for words in (
        "100 pairs",
        "training ",
        "pairs held out",
        "step 5: BLEU",
        "step 10: BLEU",
        "done after 10 steps",
    ):
        assert words in messages
    assert messages.splitlines()[-1] == "translate with: sixfold translate model"
    assert len(sixfold.load("model").translate(["red green"])) == 1


def test_the_folder_says_what_it_is(command: Command, files: tuple[str, str]) -> None:
    command("train", *files, "-o", "model", *TEN_STEPS, "--seed", "3")
    names = {path.name for path in Path("model").iterdir()}
    assert names == {"sixfold.json", "weights.safetensors", "tokenizer.model", "README.md", "training"}
    content = json.loads(Path("model/sixfold.json").read_text())
    assert content["languages"] == {"source": "en", "target": "de"}
    assert content["training"]["seed"] == 3
    assert [file["path"] for file in content["corpus"]["files"]] == ["a.en", "a.de"]
    assert "sixfold translate" in Path("model/README.md").read_text()


def test_the_seed_decides_everything(command: Command, files: tuple[str, str]) -> None:
    for name, seed in (("one", "1"), ("same", "1"), ("other", "2")):
        assert command("train", *files, "-o", name, *TEN_STEPS, "--seed", seed)[0] == 0
    digests = {name: sha256(Path(name, "weights.safetensors")) for name in ("one", "same", "other")}
    assert digests["one"] == digests["same"] != digests["other"]


def test_validation_text_can_be_given(command: Command, files: tuple[str, str]) -> None:
    Path("v.en").write_text("red blue\ngreen\n")
    Path("v.de").write_text("röd bluö\ngröön\n")
    _, _, messages = command("train", *files, "-o", "model", *TEN_STEPS, "--valid", "v.en", "v.de")
    assert "on 100 pairs for 10 steps on cpu, 2 pairs held out" in messages


def test_a_recipe_is_followed_and_settings_win(command: Command, files: tuple[str, str]) -> None:
    Path("tiny.yaml").write_text(
        "model: {layers: 1, d_model: 16, heads: 2, d_ff: 32}\n"
        "data: {vocabulary: 300}\ntrain: {steps: 4, batch_tokens: 128, label_smoothing: 0}\ndecode: {beam: 2}\n"
    )
    code, _, _ = command("train", *files, "-o", "model", "--recipe", "tiny.yaml", "--set", "train.steps=3")
    content = json.loads(Path("model/sixfold.json").read_text())
    assert code == 0
    assert content["decode"]["beam"] == 2
    assert content["training"]["recipe"]["train"]["label_smoothing"] == 0
    assert [record["step"] for record in log("model") if record["kind"] == "step"] == [1, 2, 3]


def test_a_time_budget_is_kept_and_leaves_a_model(command: Command, files: tuple[str, str]) -> None:
    settings = [*TINY, "--set", "train.steps=1000000", "--set", "train.warmup_steps=5"]
    began = time.monotonic()
    _, _, messages = command("train", *files, "-o", "model", *settings, "--minutes", "0.15")
    assert "the time is up" in messages
    assert 8 < time.monotonic() - began < 60  # a busy machine may be late
    rates = [float(str(record["learning_rate"])) for record in log("model") if record["kind"] == "step"]
    assert 0 < rates[-1] < 0.5 * max(rates)  # the schedule fits itself to the time
    assert sixfold.load("model").translate(["red"])


def test_patience_ends_a_run_that_gets_no_better(command: Command, files: tuple[str, str]) -> None:
    Path("v.en").write_text("red blue\n")
    Path("v.de").write_text("nothing like the text it learns from\n")
    settings = [*TINY, "--set", "train.patience=2", "--set", "train.steps=500"]
    _, _, messages = command("train", *files, "-o", "model", *settings, "--valid", "v.en", "v.de")
    assert "the last 2 validations were no better" in messages
    best, *_, last = [record for record in log("model") if record["kind"] == "validation"]
    assert (best["is_best"], last["is_best"]) == (True, False)


def test_left_out_pairs_are_said(command: Command, files: tuple[str, str]) -> None:
    Path("a.en").write_text(Path("a.en").read_text() + "\n" + "red " * 300 + "\n")
    Path("a.de").write_text(Path("a.de").read_text() + "leer\nlang\n")
    _, _, messages = command("train", *files, "-o", "model", *TEN_STEPS)
    assert "warning: left out 1 pairs: one side is empty (the first on line 101)" in messages
    assert "warning: left out 1 pairs: longer than 256 tokens (the first on line 102)" in messages


# Fine-tuning


def test_fine_tuning_keeps_the_model_and_its_tokenizer(
    command: Command, files: tuple[str, str], small_model: SmallModel
) -> None:
    arguments = [
        "--set",
        "train.steps=2",
        "--set",
        "train.learning_rate=1e-9",
        "--set",
        "train.schedule=linear_decay",
    ]
    code, _, _ = command("train", *files, "-o", "tuned", "--init", small_model.folder, *arguments)
    assert code == 0
    assert Path("tuned/tokenizer.model").read_bytes() == (small_model.folder / "tokenizer.model").read_bytes()
    assert sixfold.load("tuned").translate(["one two three"]) == ["eins zwei drei"]


@pytest.mark.parametrize("setting", ["model.d_model=32", "data.vocabulary=500"])
def test_fine_tuning_cannot_change_the_shape(
    command: Command, files: tuple[str, str], small_model: SmallModel, setting: str
) -> None:
    code, _, messages = command("train", *files, "-o", "tuned", "--init", small_model.folder, "--set", setting)
    assert code == 2
    assert setting.partition("=")[0] in messages


def test_a_fine_tuning_says_what_it_chose_and_how_it_compares_with_its_base(
    command: Command, files: tuple[str, str], small_model: SmallModel
) -> None:
    settings = ["--set", "train.steps=2", "--set", "train.valid_sentences=4"]
    code, _, messages = command("train", *files, "-o", "tuned", "--init", small_model.folder, *settings)
    assert code == 0
    for words in (
        "fine-tunes model",
        "learning rate 0.0001: ",
        "step 0: BLEU",
        "on the base's own text",
        "the base",
    ):
        assert words in messages
    assert "word co-occurrence" in messages


# What is refused, and leaves nothing behind


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "There is nothing to train on"),
        (["nowhere", "a.de"], "There is no file nowhere"),
        (["a.en", "--task", "translate"], "was given alone"),
        (["a.en", "a.en"], "as source and as target"),
        (["a.en", "short.de"], "same number of lines"),
        (["short.en", "short.de"], "There are only 3 pairs"),
        (["a.en", "a.de", "--set", "train.stepps=1"], "hint: Did you mean steps?"),
        (["a.en", "a.de", "--set", "train.steps=many"], "train.steps cannot be 'many'"),
        (["a.en", "a.de", "--set", "train.steps"], "--set takes part.key=value"),
        (["a.en", "a.de", "--set", "data.vocabulary=262"], "A vocabulary of 262 is too small"),
        (["a.en", "a.de", "--recipe", "nowhere.yaml"], "There is no recipe nowhere.yaml"),
        (["a.en", "a.de", "--init", "nowhere"], "There is no model folder nowhere"),
        (["a.en", "a.de", "--valid", "nowhere", "a.de"], "There is no file nowhere"),
        (["a.en", "a.de", "--device", "abacus"], "abacus"),
        (["--resume"], "There is no training to resume in model"),
    ],
)
@pytest.mark.usefixtures("files")
def test_what_cannot_be_done_is_refused_and_leaves_nothing_behind(
    command: Command, arguments: list[str], message: str
) -> None:
    Path("short.en").write_text("red\ngreen\nblue\n")
    Path("short.de").write_text("röd\ngröön\nbluö\n")
    code, out, messages = command("train", *arguments, "-o", "model")
    assert (code, out) == (2, "")
    assert messages.startswith("error: ") or "\nerror: " in messages
    assert message in messages
    assert "Traceback" not in messages
    assert not Path("model").exists()


@pytest.mark.parametrize("option", [("--minutes", "-1"), ("--seed", "-1"), ("--minutes", "soon")])
def test_wrong_options_are_refused(command: Command, files: tuple[str, str], option: tuple[str, str]) -> None:
    code, _, messages = command("train", *files, *option)
    assert code == 2
    assert option[0] in messages


def test_learned_positions_too_few_for_the_text_are_refused_before_it_is_encoded(
    command: Command, files: tuple[str, str]
) -> None:
    settings = ["--set", "model.positions=learned", "--set", "model.max_positions=64"]
    code, _, messages = command("train", *files, "-o", "model", *TEN_STEPS, *settings)
    assert code == 2
    assert "hint: Set model.max_positions=257, or data.max_tokens=63." in messages
    assert not Path("model/training/data").exists()
    assert command("train", *files, "-o", "model", *TEN_STEPS, *settings, "--set", "data.max_tokens=63")[0] == 0


def test_a_tmx_file_is_trained_from_its_source_and_the_folder_knows_the_languages(
    command: Command, files: tuple[str, str]
) -> None:
    lines = [Path(file).read_text().splitlines() for file in reversed(files)]
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{de}</seg></tuv><tuv xml:lang="EN-US"><seg>{en}</seg></tuv></tu>'
        for de, en in zip(*lines, strict=True)
    )
    start = '<tmx version="1.4"><header srclang="en-US"/><body>'
    Path("a.tmx").write_text(f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">{start}{units}</body></tmx>')
    code, _, messages = command("train", "a.tmx", "-o", "model", *TEN_STEPS)
    assert code == 0
    assert "100 pairs (EN-US → de), " in messages
    asked = ["--set", "data.languages=[de, en]"]
    assert "100 pairs (de → en), " in command("train", "a.tmx", "-o", "other", *TEN_STEPS, *asked)[2]
    languages = [json.loads(Path(name, "sixfold.json").read_text())["languages"] for name in ("model", "other")]
    assert languages == [{"source": "EN-US", "target": "de"}, {"source": "de", "target": "en"}]


def test_a_dropout_that_leaves_nothing_is_refused(command: Command, files: tuple[str, str]) -> None:
    code, _, messages = command("train", *files, "-o", "model", "--set", "model.dropout=0.9999999999")
    assert code == 2
    assert "model.dropout cannot be 0.9999999999" in messages
    assert "0.999" in messages
