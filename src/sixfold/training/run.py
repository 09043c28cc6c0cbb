"""A whole run: set up or resume, train, and report how it ended."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from sixfold.errors import ConfigError, TrainingError
from sixfold.kernels import attention as attention_kernel
from sixfold.kernels import mkl
from sixfold.machine import (
    choose_device,
    is_out_of_memory,
    num_cores,
    raise_malloc_thresholds,
    return_freed_memory,
)
from sixfold.models.ensemble import members_of
from sixfold.models.weights import set_body, set_weights, weights_of
from sixfold.training.base import BaseComparison, compare_with_base, load_base, read_base, say_comparison
from sixfold.training.checkpoint import CheckpointStore
from sixfold.training.clock import Clock
from sixfold.training.loop import Trainer
from sixfold.training.metrics_log import MetricsLog
from sixfold.training.micro_batches import num_data_parallel
from sixfold.training.progress import Progress, Silence, duration
from sixfold.training.publish import publisher
from sixfold.training.ranks import Ranks, joined_ranks
from sixfold.training.reporting import Reporter
from sixfold.training.run_folder import RunFolder
from sixfold.training.selection import Candidates
from sixfold.training.setup import (
    Request,
    Setup,
    new_model,
    read_setup,
    refuse_new_start,
    set_up,
    set_up_again,
)
from sixfold.training.state import RunState
from sixfold.training.step import TrainStepper
from sixfold.training.task import Task


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    folder: Path
    step: int
    seconds: float
    finished: str  # why it ended; empty if it was stopped and can be resumed
    score_name: str  # of the published model on held-out examples
    score_conditions: str
    score: float
    score_decimals: int  # shown of it
    loss: float
    comparison: BaseComparison | None  # with the base, after fine-tuning


def run(task: Task, request: Request, progress: Progress) -> Outcome:
    """Train a model into a folder, which has the best model so far from the first validation on.

    Everything that the request leaves open is chosen from the data and the machine. A resumed run is bit-identical
    to one that was never stopped.
    """
    began, run_folder = time.monotonic(), RunFolder(request.folder)
    request.overrides(task)  # refuse before anything is written
    prepare_machine()
    with joined_ranks() as ranks:
        shown = progress if ranks.is_first else Silence()
        device = choose_device(request.device)
        if ranks.is_first:
            refuse(request, run_folder)
        with run_folder.locked(ranks):
            if ranks.is_first and request.resume:
                set_up_again(task, request, run_folder)
            elif ranks.is_first:
                run_folder.refuse_used()  # again, because another run may have ended meanwhile
                run_folder.remove_unfinished()
                set_up(task, request, run_folder, device, shown)
            ranks.wait()
            setup = read_setup(task, run_folder)
            model = starting_model(task, setup, request, device)
            return_freed_memory()
            trainer = make_trainer(task, setup, model, run_folder, ranks, shown, began)
            outcome = train(trainer, request, shown)
    shown.say(say_outcome(outcome))
    return outcome


def refuse(request: Request, run_folder: RunFolder) -> None:
    """Refuse an invalid request before anything is written."""
    if request.resume:
        run_folder.refuse_unresumable()
        refuse_new_start(request)
        return
    run_folder.refuse_used()
    if not request.inputs:
        raise ConfigError("There is nothing to train on.", "sixfold train INPUT… -o MODEL")


def prepare_machine() -> None:
    """Use every core, and keep freed memory for the next step instead of returning it to the system."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun: those on this machine
    torch.set_num_threads(max(1, num_cores() // processes))
    raise_malloc_thresholds()


def starting_model(task: Task, setup: Setup, request: Request, device: str) -> nn.Module:
    """Return the model with its initial weights; a resumed run replaces them."""
    torch.manual_seed(setup.seed)
    learner = task.learner(setup.recipe, setup.processor)
    model = new_model(learner, setup.recipe)
    if request.init is not None:
        given = load_base(read_base(request.init, task), setup.base)
        copy = set_weights if setup.continues else set_body
        for own, old in zip(members_of(model), given, strict=True):
            copy(own, weights_of(old))
    elif not request.resume:
        learner.initialise(model, setup.data.train())
    return model.to(device)


def make_trainer(
    task: Task,
    setup: Setup,
    model: nn.Module,
    run_folder: RunFolder,
    ranks: Ranks,
    shown: Progress,
    began: float,
) -> Trainer:
    """Assemble everything that a run needs."""
    config, learner = setup.recipe.train, task.learner(setup.recipe, setup.processor)
    device = next(model.parameters()).device
    state = RunState(threads=num_data_parallel(config.batch_tokens, device, ranks.world))
    store = CheckpointStore(run_folder.checkpoints)
    stepper = TrainStepper(
        learner.loss, model, config, state.threads, ranks, setup.seed, lambda text: shown.say(f"warning: {text}")
    )
    clock = Clock(config, ranks, began)
    log = MetricsLog(run_folder.training / "log.jsonl")
    base_valid = setup.data.base_valid()
    return Trainer(
        recipe=setup.recipe,
        learner=learner,
        corpus=setup.data.train(),
        seed=setup.seed,
        ranks=ranks,
        stepper=stepper,
        candidates=Candidates(stepper, store, learner.validator(setup.data.valid())),
        base_validator=None if base_valid is None else learner.validator(base_valid),
        is_fine_tuning=setup.continues,
        clock=clock,
        reporter=Reporter(log, shown, clock, ranks.is_first),
        publish=publisher(task, setup, model, run_folder.model),
        state=state,
    )


def train(trainer: Trainer, request: Request, shown: Progress) -> Outcome:
    """Start or resume the trainer and return how it ended."""
    if request.resume:
        say_where(trainer, request, shown)
    else:
        trainer.save()  # from here on there is a checkpoint to resume from
        if trainer.stepper.device.type == "cpu":
            shown.say(say_how(trainer.state.threads, trainer.recipe.num_members))
    try:
        state = trainer.train()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(
            "Out of memory outside a training step, where smaller micro-batches do not help.",
            "Continue with --resume on a machine with more memory, or train a smaller model.",
        ) from error
    finally:
        shown.close()
    best = state.best or {"name": "", "conditions": "", "decimals": 1, "score": float("nan"), "loss": float("nan")}
    return Outcome(
        folder=request.folder,
        step=state.step,
        seconds=trainer.clock.seconds_here(),
        finished=state.finished,
        score_name=best["name"],
        score_conditions=best["conditions"],
        score=best["score"],
        score_decimals=best.get("decimals", 1),
        loss=best["loss"],
        comparison=compare_with_base(state),
    )


def say_where(trainer: Trainer, request: Request, shown: Progress) -> None:
    """Load the newest checkpoint, and report the state of the run."""
    for problem in trainer.resume():
        shown.say(f"warning: {problem}; continuing from the checkpoint before it")
    step, steps = trainer.state.step, trainer.recipe.train.steps
    shown.say(f"already at step {step:,} of {steps:,}")
    if step >= steps:
        shown.say(f"to train further: sixfold train --resume -o {request.folder} --set train.steps={2 * steps}")


def say_how(threads: int, members: int) -> str:
    """Return a line on how the CPU is used: threads, attention, precision."""
    work = (
        f"{threads} data-parallel threads"
        if members % threads
        else f"{threads} threads, each with its own models of the ensemble"
    )
    cores = work if threads > 1 else counted_threads(torch.get_num_threads())
    attention = "compiled attention" if attention_kernel.kernels().library is not None else "torch's attention"
    slow = f" (matrix products are slow: {reason})" if (reason := mkl.slow_because()) else ""
    return f"computes with {cores}, {attention}, float32{slow}"


def counted_threads(count: int) -> str:
    """Return a number of threads in words."""
    return "1 thread" if count == 1 else f"{count} threads"


def say_outcome(outcome: Outcome) -> str:
    """Return a line on how a run ended and what to do next."""
    if not outcome.finished:
        return f"to resume: sixfold train --resume -o {outcome.folder}"
    said = (
        f"done after {outcome.step:,} steps and {duration(outcome.seconds)}: {outcome.finished}. "
        f"Held-out {outcome.score_name} {outcome.score:.{outcome.score_decimals}f} ({outcome.score_conditions})."
    )
    return f"{said}\n{say_comparison(outcome.comparison)}" if outcome.comparison else said


def say_stopped(folder: Path) -> str:
    """Return a line on what is left of a run that was stopped at once."""
    if RunFolder(folder).has_checkpoint():
        return f"stopped at once; to resume from the last checkpoint: sixfold train --resume -o {folder}"
    return "stopped at once, before the first checkpoint; start again with the same command"
