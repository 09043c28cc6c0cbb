"""From two text files to a model folder: the whole of `sixfold train`."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from sixfold.data.readers import Pairs, open_pairs
from sixfold.decode.memory import is_out_of_memory
from sixfold.errors import ConfigError, RequestError, TrainingError
from sixfold.files import BLANK, is_sealed, make_folder, seal, sha256, write_atomically, writing
from sixfold.kernels import attention as attention_kernel
from sixfold.kernels import mkl
from sixfold.machine import choose_device, num_cores, raise_malloc_thresholds, return_freed_memory
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig, count_parameters
from sixfold.models.ensemble import make_ensemble, members_of
from sixfold.models.folder import (
    Json,
    Languages,
    ModelInfo,
    load_info,
    load_members,
    load_tokenizer,
    save_model,
    weight_files,
)
from sixfold.models.weights import set_weights, weights_of
from sixfold.text import Tokenizer
from sixfold.training.card import model_card
from sixfold.training.checkpoint import Tensors, refuse_not_finite
from sixfold.training.loop import RunState, Trainer
from sixfold.training.pace import pace_for
from sixfold.training.plan import choose
from sixfold.training.prepare import (
    Prepared,
    fingerprint,
    learn_tokenizer,
    prepare,
    refuse_changed_input,
    survey,
    write_fingerprint,
)
from sixfold.training.progress import Progress, Silence, duration
from sixfold.training.ranks import Ranks, joined_ranks
from sixfold.training.recipe import ModelConfig, Recipe, Wishes, make_recipe, merge, parse_settings, read_recipe
from sixfold.training.signals import deferred
from sixfold.training.start import start_from_words

LOCK = "lock"  # held while a run goes on

Source = str | Path


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    step: int
    seconds: float
    finished: str  # why it ended; empty if it was stopped and can be resumed
    bleu: float  # of the published model, greedy, on held-out sentences
    loss: float


@dataclass(frozen=True)
class Setup:
    """Everything decided before the first step, and kept for resuming."""

    recipe: Recipe
    seed: int
    languages: tuple[str, str]
    tokenizer: Tokenizer
    data: Prepared
    corpus: list[dict[str, Json]]


def train(
    source: Source | None,
    target: Source | None = None,
    model: Source = "model",
    *,
    valid: tuple[Source, Source] | None = None,
    recipe: str | None = None,
    settings: Sequence[str] = (),
    minutes: float = 0.0,
    seed: int | None = None,
    resume: bool = False,
    init: Source | None = None,
    device: str = "auto",
    progress: Progress | None = None,
) -> Outcome:
    """Train a model from pairs of text and write it to the folder `model`.

    Whatever is not asked for is chosen from the corpus and the machine. The folder holds the best model so far
    from the first validation on. With `resume`, an interrupted run goes on, bit for bit as if never stopped.
    """
    began = time.monotonic()
    folder, shown = Path(model), progress or Silence()
    wishes = merge(read_recipe(recipe) if recipe else {}, parse_settings(settings))
    if minutes:
        wishes = merge(wishes, {"train": {"minutes": minutes}})
    prepare_machine()
    with joined_ranks() as ranks:
        shown = shown if ranks.is_first else Silence()
        chosen = choose_device(device)
        if ranks.is_first and resume:
            refuse_unresumable(folder)
            refuse_new_start(seed, valid, init)
        elif ranks.is_first:
            refuse_used_folder(folder)
        with locked(folder, ranks):
            if ranks.is_first:
                if resume:
                    set_up_again(folder, source, wishes)
                else:
                    refuse_used_folder(folder)  # again: another run may have ended while we looked
                    remove_unfinished(folder / "training")
                    set_up(folder, source, target, valid, wishes, 1 if seed is None else seed, init, chosen, shown)
            ranks.wait()
            setup = read_setup(folder)
            network = make_model(setup, chosen, resume, init)
            return_freed_memory()
            trainer = make_trainer(folder, setup, network, ranks, shown, began)
            return run(trainer, folder, resume, shown)


def refuse_new_start(seed: int | None, valid: object, init: object) -> None:
    """Refuse, on resuming, what only the beginning of a run can decide."""
    given = {"--seed": seed, "--valid": valid, "--init": init}
    for option, value in given.items():
        if value is not None:
            raise ConfigError(
                f"A resumed run keeps what it began with, so {option} cannot be given.", "Leave it out."
            )


def prepare_machine() -> None:
    """Use every core, and keep freed memory for the next step instead of returning it to the system."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # torchrun's word for those on this machine
    torch.set_num_threads(max(1, num_cores() // processes))
    raise_malloc_thresholds()


def run(trainer: Trainer, folder: Path, is_resumed: bool, shown: Progress) -> Outcome:
    """Start or resume the trainer and return how it ended."""
    if is_resumed:
        for problem in trainer.resume():
            shown.say(f"warning: {problem}; going on from the checkpoint before it")
        steps = trainer.config.steps
        shown.say(f"already at step {trainer.state.step:,} of {steps:,}")
        if trainer.state.step >= steps:
            shown.say(f"to train further: sixfold train --resume -o {folder} --set train.steps={2 * steps}")
    else:
        trainer.save()  # from here on, whatever happens, there is something to resume
        if trainer.device.type == "cpu":
            shown.say(say_how(trainer.state.shares, trainer.recipe.model.members))
    try:
        state = trainer.train()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            "The memory ran out, and not in a step that could be computed in parts.",
            "--resume where there is more memory, or train a smaller model.",
        ) from error
    finally:
        shown.close()
    best = state.best or {"bleu": float("nan"), "loss": float("nan")}
    return Outcome(folder, state.step, trainer.seconds_here(), state.finished, best["bleu"], best["loss"])


def say_how(shares: int, members: int) -> str:
    """Return which ways of computing were picked for this CPU."""
    share = "a share of each batch" if members % shares else "models of their own"
    cores = f"{shares} threads with {share}" if shares > 1 else f"{torch.get_num_threads()} threads"
    attention = "compiled for it" if attention_kernel.kernels().library is not None else "torch's"
    slow = f" (products are slow: {reason})" if (reason := mkl.slow_because()) else ""
    return f"picked for this CPU: {cores}, attention {attention}, float32{slow}"


def set_up(
    folder: Path,
    source: Source | None,
    target: Source | None,
    valid: tuple[Source, Source] | None,
    wishes: Wishes,
    seed: int,
    init: Source | None,
    device: str,
    shown: Progress,
) -> None:
    """Read the corpus, decide everything, and write it below `training/`."""
    if source is None:
        raise ConfigError("There is nothing to train on.", "sixfold train SOURCE TARGET -o MODEL")
    pairs = open_pairs(source, target)
    valid_pairs = open_pairs(*valid) if valid else None
    import_ahead()
    surveyed = survey(pairs, seed, lambda done: shown.tick("reading", done))
    inherited = inherit(init, wishes) if init else {}
    wishes = merge(wishes, inherited)
    plan = choose(surveyed, wishes, device, pace_for(wishes, device))
    for line in (*plan.reasons, *(f"warning: {warning}" for warning in plan.warnings)):
        shown.say(line)
    tokenizer = tokenizer_of(init) if init else learn_tokenizer(surveyed.sample, plan.recipe.data)
    training = folder / "training"
    with writing(training / "data"):
        data, skipped = prepare(
            training / "data", pairs, valid_pairs, tokenizer, plan.recipe.data, surveyed,
            lambda done: shown.tick("encoding", done),
        )  # fmt: skip
    for line in skipped:
        shown.say(f"warning: {line}")
    describe(shown, plan.recipe, tokenizer, data, device)
    write_setup(training, plan.recipe, seed, languages_of(pairs), tokenizer, pairs, valid_pairs)


def import_ahead() -> None:
    """Load now what a training loads in any case: later it would settle between the texts and pin their memory."""
    with deferred():
        for module in ("sentencepiece", "torch._dynamo"):
            import_module(module)


def describe(shown: Progress, recipe: Recipe, tokenizer: Tokenizer, data: Prepared, device: str) -> None:
    """Say what will be trained."""
    with torch.device("meta"):
        parameters = count_parameters(new_model(recipe.model, tokenizer.vocabulary))
    limit = f"{recipe.train.minutes:g} minutes" if recipe.train.minutes else f"{recipe.train.steps:,} steps"
    shown.say(
        f"training {parameters / 1e6:.1f}M parameters on {len(data.train()):,} pairs for {limit} on {device}, "
        f"{len(data.valid()):,} pairs held out"
    )


def new_model(model: ModelConfig, vocabulary: int) -> nn.Module:
    """Return a new model, or as many as are trained side by side."""
    config = model.config(vocabulary)
    return make_ensemble(lambda: EncoderDecoder(config), model.members)


def inherit(init: Source, wishes: Wishes) -> Wishes:
    """Return the architecture of the model to fine-tune; only its dropout may be changed."""
    info = load_info(Path(init))
    changed = sorted(wishes.get("model", {}).keys() - {"dropout"})
    if changed:
        raise ConfigError(f"Fine-tuning keeps the model's own shape, so model.{changed[0]} cannot be set.")
    if "vocabulary" in wishes.get("data", {}):
        raise ConfigError("Fine-tuning keeps the model's own tokenizer, so data.vocabulary cannot be set.")
    own = {**info.model.model_dump(exclude={"vocabulary", "pad_id"}), "members": len(info.weights)}
    vocabulary = cast("EncoderDecoderConfig", info.model).vocabulary
    return {"model": {**own, **wishes.get("model", {})}, "data": {"vocabulary": vocabulary}}


def tokenizer_of(init: Source) -> Tokenizer:
    """Return the tokenizer of the model to fine-tune."""
    return load_tokenizer(Path(init), load_info(Path(init)))


def languages_of(pairs: Pairs) -> tuple[str, str]:
    """Guess the languages from names such as train.en and train.de; empty where the name does not tell."""
    codes = [
        [part for part in path.name.split(".")[1:] if part not in ("gz", "xz", "zst", "txt")]
        for path in pairs.paths
    ]
    if len(codes) == 2 and codes[0] and codes[1]:
        return codes[0][-1], codes[1][-1]
    return "", ""


def write_setup(
    training: Path,
    recipe: Recipe,
    seed: int,
    languages: tuple[str, str],
    tokenizer: Tokenizer,
    pairs: Pairs,
    valid: Pairs | None,
) -> None:
    """Write what was decided; run.json comes last, so that its presence means that all of it is there."""
    write_atomically(training / "tokenizer.model", tokenizer.model)
    write_fingerprint(training / "inputs.json", fingerprint([*pairs.paths, *(valid.paths if valid else ())]))
    paths = [training / "tokenizer.model", training / "inputs.json", *sorted((training / "data").rglob("shard-*"))]
    files = {str(path.relative_to(training)): sha256(path) for path in paths}
    content = {"recipe": recipe.model_dump(mode="json"), "seed": seed, "languages": languages, "files": files}
    write_run(training, content)


def write_run(training: Path, content: dict[str, Any]) -> None:
    """Write run.json, which holds the digest of itself."""
    write_atomically(training / "run.json", seal(json.dumps({**content, "sha256": BLANK}, indent=1)))


def read_run(training: Path) -> dict[str, Any]:
    """Read run.json and verify it; the first ones ever hold no digests."""
    path = training / "run.json"
    try:
        raw = path.read_bytes()
        content = json.loads(raw)
        is_whole = content.keys() == {"recipe", "seed", "languages"} or is_sealed(raw, content["sha256"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise TrainingError(f"{path} is damaged.", "Train again from the text, in another folder.")
    return {name: value for name, value in content.items() if name != "sha256"}


def refuse_damaged(training: Path, files: dict[str, str]) -> None:
    """Raise if a file that the run was set up with is not what it was."""
    for name, digest in files.items():
        path = training / name
        if not path.is_file() or sha256(path) != digest:
            raise TrainingError(
                f"{path} is damaged: it is not what was written.", "Train again from the text, in another folder."
            )


def read_setup(folder: Path) -> Setup:
    """Read what `write_setup` wrote."""
    training = folder / "training"
    content = read_run(training)
    tokenizer = Tokenizer.load(training / "tokenizer.model")
    return Setup(
        recipe=make_recipe(content["recipe"]),
        seed=content["seed"],
        languages=tuple(content["languages"]),
        tokenizer=tokenizer,
        data=Prepared(training / "data", tokenizer.vocabulary),
        corpus=json.loads((training / "inputs.json").read_bytes()),
    )


def set_up_again(folder: Path, source: Source | None, wishes: Wishes) -> None:
    """Check that a run can go on, and take over what may be changed: the `train` part of its recipe."""
    training = folder / "training"
    content = read_run(training)
    refuse_damaged(training, content.get("files", {}))
    refuse_changed_input(training / "inputs.json")
    known = [Path(file["path"]) for file in json.loads((training / "inputs.json").read_bytes())]
    if source is not None and not any(Path(source).resolve() in (path, *path.parents) for path in known):
        raise RequestError(
            f"The training in {folder} was begun with other files than {source}.", "Leave them out."
        )
    fixed = sorted(wishes.keys() - {"train"})
    if fixed:
        raise ConfigError(f"A resumed run keeps its {fixed[0]} part; only train.… can be changed.")
    if "batch_tokens" in wishes.get("train", {}):
        raise ConfigError("A resumed run keeps its train.batch_tokens, which decides where it stands in its data.")
    content["recipe"] = make_recipe(merge(content["recipe"], wishes)).model_dump(mode="json")
    write_run(training, content)


def make_model(setup: Setup, device: str, is_resumed: bool, init: Source | None) -> nn.Module:
    """Build the model with the weights that training starts from; a resumed run puts in its own."""
    torch.manual_seed(setup.seed)
    model = new_model(setup.recipe.model, setup.tokenizer.vocabulary)
    if init is not None:
        for own, given in zip(members_of(model), load_members(Path(init), load_info(Path(init))), strict=True):
            set_weights(own, weights_of(given))
    elif setup.recipe.train.start == "words" and not is_resumed:
        start_from_words(model, setup.data.train())
    return model.to(device)


def make_trainer(
    folder: Path, setup: Setup, model: nn.Module, ranks: Ranks, shown: Progress, began: float
) -> Trainer:
    """Put the trainer around the model."""

    def publish(state: RunState, weights: Tensors) -> None:
        refuse_not_finite(state.step, weights)
        info = model_info(setup, state)
        cpu = {name: tensor.detach().to("cpu", torch.float32) for name, tensor in weights.items()}
        members = [
            {name.removeprefix(prefix): tensor for name, tensor in cpu.items() if name.startswith(prefix)}
            for prefix in member_prefixes(setup.recipe.model.members)
        ]
        save_model(folder, info, members, setup.tokenizer, model_card(info, count_parameters(model)))

    return Trainer(
        setup.recipe,
        model,
        setup.tokenizer,
        setup.data,
        folder / "training",
        setup.seed,
        ranks,
        shown,
        publish,
        began,
    )


def member_prefixes(count: int) -> list[str]:
    """Return what the names of each member's weights begin with in a checkpoint."""
    return [f"models.{number}." for number in range(count)] if count > 1 else [""]


def model_info(setup: Setup, state: RunState) -> ModelInfo:
    """Describe the model as it is published."""
    from sixfold import __version__

    return ModelInfo(
        sixfold=__version__,
        model=setup.recipe.model.config(setup.tokenizer.vocabulary),
        languages=Languages(source=setup.languages[0], target=setup.languages[1]),
        decode=setup.recipe.decode.model_dump(mode="json"),
        weights=weight_files(setup.recipe.model.members),
        corpus={
            "pairs": len(setup.data.train()),
            "files": [{**file, "path": readable_name(str(file["path"]))} for file in setup.corpus],
        },
        scores={"validation": {**state.best, "weights": state.best_weights, "metric": "BLEU 13a, greedy"}},
        training={
            "seed": setup.seed,
            "torch": torch.__version__,
            "recipe": setup.recipe.model_dump(mode="json"),
        },
    )


def readable_name(path: str) -> str:
    """Return the last part of a path as text, whatever encoding the locale took it for."""
    return os.fsencode(Path(path).name).decode("utf-8", errors="replace")


def refuse_used_folder(folder: Path) -> None:
    """Refuse to write over a model or a run."""
    if any((folder / "training" / "checkpoints").glob("step-*")):
        raise RequestError(
            f"{folder} already holds a training run.",
            f"Go on with: sixfold train --resume -o {folder}   (or choose another folder)",
        )
    if (folder / "sixfold.json").exists():
        raise RequestError(f"{folder} already holds a model.", "Choose another folder, or delete this one.")
    if folder.exists() and not folder.is_dir():
        raise RequestError(f"{folder} is a file.", "Give a folder for the model.")


def refuse_unresumable(folder: Path) -> None:
    """Refuse to resume where there is no run."""
    if not (folder / "training" / "run.json").is_file():
        raise RequestError(f"There is no training to resume in {folder}.", "Leave out --resume to begin one.")


def remove_unfinished(training: Path) -> None:
    """Delete what a run left that was killed before its first checkpoint; the lock on it is ours by now."""
    for leftover in training.iterdir():
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover.name != LOCK:
            leftover.unlink()


@contextmanager
def locked(folder: Path, ranks: Ranks) -> Iterator[None]:
    """Hold the folder against a second run; the system frees the lock of a process that dies."""
    if not ranks.is_first:
        yield
        return
    is_new = not folder.exists()
    try:
        make_folder(folder / "training")
        refuse_links(folder / "training")
        lock = (folder / "training" / LOCK).open("a")
    except OSError as error:
        raise RequestError(f"Cannot write to {folder}: {error.strerror}.", "Choose another folder.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(lock.fileno()), (folder / "training" / LOCK).stat()):
                raise OSError  # another run deleted this file meanwhile, and a third could lock a new one
        except OSError as error:
            raise RequestError(
                f"Another training is running in {folder}.", "Wait for it, or choose another folder."
            ) from error
        try:
            yield
        finally:
            remove_if_never_begun(folder, is_new)


def refuse_links(training: Path) -> None:
    """Refuse files that lie elsewhere: what is written here must not end up there."""
    for path in training.iterdir():
        if path.is_symlink() and not path.is_dir():
            raise RequestError(f"{path} is a link, and a plain file was expected.", "Copy the file itself here.")


def remove_if_never_begun(folder: Path, is_new: bool) -> None:
    """Leave nothing behind of a run that ended before it was set up."""
    if not (folder / "training" / "run.json").exists():
        shutil.rmtree(folder / "training", ignore_errors=True)
        if is_new:
            folder.rmdir()


def say_outcome(outcome: Outcome) -> str:
    """Say how a run ended and what to do next."""
    if not outcome.finished:
        return f"go on with: sixfold train --resume -o {outcome.folder}"
    return (
        f"done after {outcome.step:,} steps and {duration(outcome.seconds)}: {outcome.finished}. "
        f"Held-out BLEU {outcome.bleu:.1f} (greedy)."
    )


def say_stopped(folder: Path) -> str:
    """Say what is left of a run that was stopped at once."""
    if any((folder / "training" / "checkpoints").glob("step-*")):
        return f"stopped at once; go on from the last checkpoint with: sixfold train --resume -o {folder}"
    return "stopped at once, before the first checkpoint; begin again with the same command"
