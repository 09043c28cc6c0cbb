"""The training loop: forward, backward, clip, step; now and then validate and save.

Shapes: B pairs, M source positions, T target positions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor, nn

from sixfold.data.batches import Batch, Batches, Position, gather
from sixfold.data.shards import Ids
from sixfold.decode.memory import is_out_of_memory
from sixfold.errors import TrainingError
from sixfold.models.weights import set_weights, weights_of
from sixfold.nn.dropout import set_dropout
from sixfold.text import Tokenizer
from sixfold.training.checkpoint import Checkpoint, CheckpointStore, Tensors, average
from sixfold.training.journal import Journal
from sixfold.training.loss import Objective
from sixfold.training.optimizer import (
    clip_each,
    load_optimizer_tensors,
    make_adam,
    optimizer_tensors,
    set_learning_rate,
)
from sixfold.training.prepare import Prepared
from sixfold.training.progress import Progress, StepReport, ValidationReport
from sixfold.training.ranks import Ranks
from sixfold.training.recipe import Recipe
from sixfold.training.schedule import inverse_square_root, linear_decay, paper_peak
from sixfold.training.shares import Shares, mixed_seed, num_shares
from sixfold.training.signals import Stopped, StopRequest
from sixfold.training.validate import Validator
from sixfold.training.vary import vary

CHECKPOINTS_A_BUDGET = 10  # with a time budget, this many validations are spread over it
CHANCE = 0.5  # BLEU; what a few hundred greedy translations tell apart by luck

Publish = Callable[["RunState", Tensors], None]  # writes the model folder


@dataclass
class RunState:
    """Where a run stands; with the weights and the optimizer this is all that resuming needs."""

    step: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0  # spent so far, in all sittings
    validated: list[int] = field(default_factory=list)  # the last steps whose checkpoints can be averaged
    next_validation: float = 0.0  # with a time budget: when, in seconds
    stale: int = 0  # validations since the best one
    skipped: int = 0  # steps left out because their loss or gradient was not finite
    best: dict[str, float] = field(default_factory=dict)  # step, bleu and loss of the published model
    highest_bleu: float = 0.0  # of all validations
    best_weights: str = ""
    shares: int = 1  # in which a batch is computed; other sums would be other bits
    finished: str = ""  # why the run ended, once it has


def is_better(bleu: float, loss: float, state: RunState) -> bool:
    """Return whether a model is better than the best so far: by BLEU or, where that may be chance, by loss.

    What is compared is the highest BLEU there was, or many small losses of BLEU could add up to a large one.
    """
    if not state.best or bleu >= state.best["bleu"] + CHANCE:
        return True
    return loss < state.best["loss"] and bleu > state.highest_bleu - CHANCE


class Trainer:
    """One run: a model, its data, its optimizer and its clock."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        tokenizer: Tokenizer,
        data: Prepared,
        folder: Path,
        seed: int,
        ranks: Ranks,
        progress: Progress,
        publish: Publish,
        began: float,
    ) -> None:
        self.recipe, self.config, self.seed, self.ranks = recipe, recipe.train, seed, ranks
        self.model, self.tokenizer = model, tokenizer
        self.device = next(model.parameters()).device
        self.corpus = data.train()
        self.batches = Batches(self.corpus, self.config.batch_tokens, seed)
        self.validator = Validator(data.valid(), tokenizer, self.config.valid_sentences)
        self.optimizer = make_adam(model)
        self.objective = ranks.wrap(Objective(model, self.config.label_smoothing))
        self.moving_average = (
            {name: tensor.clone() for name, tensor in self.weights().items()} if self.config.ema else {}
        )
        self.store = CheckpointStore(folder / "checkpoints")
        self.journal = Journal(folder / "log.jsonl")
        self.progress, self.publish = progress, publish
        self.state = RunState(shares=num_shares(self.config.batch_tokens, self.device, ranks.world))
        self.began = began  # on the monotonic clock; moved back by what earlier sittings took
        self.validation_seconds = 0.0  # what the last validation cost
        self.shown_loss = math.nan
        self.speed = Speedometer()

    def train(self) -> RunState:
        """Train until the steps, the time or the patience run out, or somebody asks to stop."""
        self.model.train()
        with StopRequest() as stop:
            if self.owes_validation():
                self.validate(stop)
            for pairs, position in self.batches.from_position(self.state.position):
                progress = self.done_share()
                if self.is_over(progress, stop):
                    break
                step = self.state.step + 1
                learning_rate = self.learning_rate(step, progress)
                self.raise_dropout(progress)
                batch = self.read(pairs, step)
                loss = self.backward(batch, step)
                grad_norm = clip_each(self.model, self.config.max_grad_norm)
                self.state.step, self.state.position = step, position
                if math.isfinite(loss) and math.isfinite(grad_norm):
                    set_learning_rate(self.optimizer, learning_rate)
                    self.optimizer.step()
                    self.update_moving_average()
                    self.report(loss, grad_norm, learning_rate, batch)
                else:
                    self.skip_or_stop(loss, grad_norm, batch)
                self.optimizer.zero_grad(set_to_none=True)
                if self.is_validation_due():
                    self.validate(stop)
                    self.save()
            self.finish(stop)
        return self.state

    # One step

    @cached_property
    def shares(self) -> Shares:
        """The cores' shares of a batch, as many as the run began with; a rank's batch and a GPU's are one."""
        is_alone = self.ranks.world == 1 and self.device.type == "cpu"
        return Shares(self.objective, self.state.shares if is_alone else 1)

    def read(self, pairs: Ids, step: int) -> Batch:
        """Read the whole batch of a step; every rank reads all of it and trains on its share."""
        seed = mixed_seed(self.seed, step)
        varied = partial(vary, recipe=self.recipe, tokenizer=self.tokenizer, seed=seed)
        return gather(self.corpus, pairs, varied)

    def backward(self, batch: Batch, step: int) -> float:
        """Add up the gradients of a batch, in more parts if the memory runs out; return the loss of a token."""
        parts = self.config.accumulate
        while True:
            try:
                return self.backward_in(parts, batch, step)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self.refuse_unsplittable(parts, batch, step)
            self.optimizer.zero_grad(set_to_none=True)  # what was added up before the memory ran out
            parts *= 2
            self.progress.say(f"warning: the memory ran out at step {step}; it is computed in {parts} parts")

    def refuse_unsplittable(self, parts: int, batch: Batch, step: int) -> None:
        """Raise if a step that ran out of memory cannot be computed in more parts."""
        if parts >= len(batch.source) or self.ranks.world > 1:  # the other ranks would wait for this one for ever
            raise TrainingError(
                f"The memory ran out at step {step}, computed in {parts} parts.",
                f"--resume --set train.accumulate={2 * parts}, or train a smaller model.",
            )

    def backward_in(self, parts: int, batch: Batch, step: int) -> float:
        """Add up the gradients of all parts of a batch; return the loss of a target token.

        Dropout is drawn from (seed, step, rank, part), so a resumed run draws what the unbroken one would have.
        """
        tokens, total = batch.num_target_tokens, 0.0
        for part in range(parts):
            rows = self.ranks.share(len(batch.source), part, parts)
            inputs = self.tensors(batch, rows or [0])  # a rank without rows must still take part
            weight = self.ranks.world / tokens if rows else 0.0  # the ranks' gradients are averaged, not added
            with self.synchronised(part == parts - 1):
                loss = self.shares.backward(inputs, weight, (self.seed, step, self.ranks.rank, part))
            total += loss if rows else 0.0
        return self.ranks.total(total) / tokens

    def tensors(self, batch: Batch, rows: list[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return some rows of a batch as tensors on the device."""
        source, target_in, target_out = (
            torch.from_numpy(side[rows]).to(self.device, non_blocking=True)
            for side in (batch.source, batch.target_in, batch.target_out)
        )
        return source, target_in, target_out

    def synchronised(self, is_last: bool) -> AbstractContextManager[object]:
        """Exchange gradients between ranks in the last part only."""
        if isinstance(self.objective, torch.nn.parallel.DistributedDataParallel) and not is_last:
            return self.objective.no_sync()
        return nullcontext()

    def skip_or_stop(self, loss: float, grad_norm: float, batch: Batch) -> None:
        """Keep a non-finite number from the weights: leave the step out if that is allowed, or raise."""
        step, lines = self.state.step, sorted(self.corpus.lines(batch.pairs))
        what = (
            f"Step {step} gave a loss of {loss} and a gradient norm of {grad_norm}; its {len(lines)} pairs are "
            f"from lines {', '.join(map(str, lines[:10]))}{' …' * (len(lines) > 10)}"
        )
        self.state.skipped += 1
        if self.state.skipped > self.config.skip_nonfinite:
            raise TrainingError(
                f"{what}. So training stopped.",
                "The last checkpoint is whole. Look at these lines, or lower the learning rate: --resume --set "
                f"train.learning_rate={self.peak() / 2:.1e}, or leave such steps out: train.skip_nonfinite=10",
            )
        if self.ranks.is_first:
            self.progress.say(f"warning: {what}. It is left out.")
            self.journal.write(
                {"kind": "skipped", "step": step, "loss": str(loss), "grad_norm": str(grad_norm), "lines": lines}
            )

    def update_moving_average(self) -> None:
        """Move the averaged weights a little towards the current ones."""
        if self.moving_average:
            names = list(self.moving_average)
            current = self.weights()
            torch._foreach_lerp_(
                [self.moving_average[name] for name in names],
                [current[name] for name in names],
                1 - self.config.ema,
            )

    # The clock and the schedule

    def seconds(self) -> float:
        """Return the time this run has taken, in all its sittings."""
        return self.ranks.agree(time.monotonic() - self.began)

    def budget(self) -> float:
        """Return the seconds to train in, without what the last validation will need; infinite if unlimited."""
        return (
            max(1.0, self.config.minutes * 60 - 1.5 * self.validation_seconds) if self.config.minutes else math.inf
        )

    def done_share(self) -> float:
        """Return which share of the run is done, by steps or by time, whichever is further."""
        return max(self.state.step / self.config.steps, self.seconds() / self.budget())

    def peak(self) -> float:
        """Return the largest learning rate."""
        return self.config.learning_rate or paper_peak(self.recipe.model.d_model, self.config.warmup_steps)

    def learning_rate(self, step: int, progress: float) -> float:
        """Return the learning rate of a step."""
        warmup, d_model = self.config.warmup_steps, self.recipe.model.d_model
        if self.config.schedule == "linear_decay":
            return linear_decay(step, progress, self.peak(), warmup)
        return inverse_square_root(step, d_model, warmup) * self.peak() / paper_peak(d_model, warmup)

    def raise_dropout(self, progress: float) -> None:
        """Drop little while all text is new and the model's share later, if the recipe says so."""
        if self.config.dropout_rise:
            set_dropout(self.model, self.recipe.model.dropout * min(progress / self.config.dropout_rise, 1.0))

    def is_over(self, progress: float, stop: StopRequest) -> bool:
        """Return whether to stop before the next step, and remember why."""
        if self.state.step >= self.config.steps:
            self.state.finished = "all steps are done"
        elif progress >= 1:
            self.state.finished = "the time is up"
        elif self.config.patience and self.state.stale >= self.config.patience:
            self.state.finished = f"the last {self.state.stale} validations were no better"
        return bool(self.state.finished) or self.ranks.agree(float(stop.is_requested)) > 0

    def is_validation_due(self) -> bool:
        """Return whether to validate and save now: by steps, or with a time budget by the clock."""
        if not self.config.minutes:
            return self.state.step % self.config.checkpoint_every == 0 or self.state.step == self.config.steps
        now = self.seconds()
        is_due = now >= self.state.next_validation > 0
        if is_due or not self.state.next_validation:
            interval = max(self.config.minutes * 60 / CHECKPOINTS_A_BUDGET, 10 * self.validation_seconds)
            self.state.next_validation = now + interval
        return is_due

    # Validation, checkpoints and the end

    def owes_validation(self) -> bool:
        """Return whether the validation at the step where a run goes on was given up when it was stopped."""
        is_due = not self.config.minutes and self.state.step % self.config.checkpoint_every == 0
        return is_due and self.state.step > 0 and self.state.step not in self.state.validated

    def validate(self, stop: StopRequest) -> None:
        """Validate, unless somebody asks to stop meanwhile: then it is made up for on resuming."""
        began, is_done = time.monotonic(), True
        if self.ranks.is_first:
            try:
                self.measure_and_publish(stop)
            except Stopped:
                is_done = False
        if not self.ranks.agree(float(is_done)):
            return
        self.state.stale = int(self.ranks.agree(self.state.stale))
        self.state.validated = [*self.state.validated, self.state.step][-self.config.average :]
        self.validation_seconds = self.ranks.agree(time.monotonic() - began)
        self.speed.restart()

    def measure_and_publish(self, stop: StopRequest) -> None:
        """Measure the current and the averaged weights, and publish the better if it is the best so far."""
        name, weights, loss = min(self.candidates(stop), key=lambda candidate: candidate[2])
        bleu, sample = self.validator.translate(self.evaluation_model(weights), stop.check)
        is_best = is_better(bleu, loss, self.state)
        self.state.highest_bleu = max(self.state.highest_bleu, bleu)
        self.state.stale = 0 if is_best else self.state.stale + 1
        if is_best:
            self.state.best = {"step": self.state.step, "bleu": bleu, "loss": loss}
            self.state.best_weights = name
            self.publish(self.state, weights)
        report = ValidationReport(self.state.step, loss, bleu, is_best, name, sample)
        self.journal.write({"kind": "validation", **asdict(report)})
        self.progress.validation(report)

    def candidates(self, stop: StopRequest) -> list[tuple[str, Tensors, float]]:
        """Return the name, weights and validation loss of everything that could be published now."""
        current = self.weights()
        named = {"single": current}
        earlier = [
            step for step in self.state.validated[-(self.config.average - 1) :] if self.store.has_weights(step)
        ]
        if earlier and self.config.average > 1:
            stored = [self.store.weights(step) for step in earlier]
            named[f"average of {len(earlier) + 1}"] = average([*stored, {k: v.cpu() for k, v in current.items()}])
        if self.moving_average:
            named["moving average"] = self.moving_average
        return [
            (name, each, self.validator.loss(self.evaluation_model(each), stop.check))
            for name, each in named.items()
        ]

    def evaluation_model(self, weights: Tensors) -> nn.Module:
        """Return a model of its own with these weights, so that measuring cannot disturb training."""
        if not hasattr(self, "second_model"):
            self.second_model = deepcopy(self.model).eval()
        set_weights(self.second_model, weights)
        return self.second_model

    def weights(self) -> Tensors:
        """Return the current weights."""
        return weights_of(self.model)

    def save(self) -> None:
        """Write a checkpoint, and delete those that nothing needs any more."""
        if self.ranks.is_first:
            self.state.seconds = self.seconds_here()
            self.journal.flush()
            averaged = {f"ema.{name}": tensor for name, tensor in self.moving_average.items()}
            optimizer = {**optimizer_tensors(self.optimizer, self.model), **averaged}
            self.store.save(self.state.step, Checkpoint(self.weights(), optimizer, asdict(self.state)))
            best = {int(self.state.best["step"])} if self.state.best else set()
            self.store.rotate(self.state.step, keep_last=2, keep={*self.state.validated, *best})
        self.ranks.wait()

    def seconds_here(self) -> float:
        """Return the time this run has taken, without asking the other ranks."""
        return time.monotonic() - self.began

    def resume(self) -> list[str]:
        """Go on from the newest whole checkpoint; return what was wrong with newer ones."""
        checkpoint, problems = self.store.newest()
        state = {name: value for name, value in checkpoint.state.items() if name != "sha256"}
        # What is read from JSON has no types; that it is what we wrote, the checkpoint's digest vouches for.
        position = Position(**state.pop("position"))  # type: ignore[arg-type]
        self.state = RunState(position=position, **state)  # type: ignore[arg-type]
        self.state.finished = ""
        set_weights(self.model, checkpoint.weights)
        load_optimizer_tensors(self.optimizer, self.model, checkpoint.optimizer)
        self.moving_average = {  # a run that had none begins one here
            name: checkpoint.optimizer.get(f"ema.{name}", checkpoint.weights[name]).to(self.device)
            for name in self.moving_average
        }
        self.began -= self.state.seconds
        if self.ranks.is_first:
            self.journal.cut_after(self.state.step)
        return problems

    def finish(self, stop: StopRequest) -> None:
        """Validate what has not been validated yet, and save."""
        if self.state.finished and self.state.step not in self.state.validated:
            self.validate(stop)
            if self.state.step not in self.state.validated:
                self.state.finished = ""  # it was given up: resuming begins with it
        self.save()
        self.journal.close()
        if stop.is_requested and not self.state.finished:
            self.progress.say(f"stopped at step {self.state.step:,}; everything is saved")

    def report(self, loss: float, grad_norm: float, learning_rate: float, batch: Batch) -> None:
        """Write the step into the journal and show it."""
        if not self.ranks.is_first:
            return
        tokens = batch.num_target_tokens
        step, epoch = self.state.step, self.state.position.epoch
        self.journal.write(
            {"kind": "step", "step": step, "loss": loss, "grad_norm": grad_norm, "learning_rate": learning_rate,
             "target_tokens": tokens, "epoch": epoch, "pairs": crc32(batch.pairs.tobytes()),
             "seconds": round(self.seconds_here(), 3)}
        )  # fmt: skip
        self.shown_loss = loss if math.isnan(self.shown_loss) else 0.95 * self.shown_loss + 0.05 * loss
        self.speed.add(tokens)
        done = max(step / self.config.steps, self.seconds_here() / self.budget())
        left = min(
            (self.config.steps - step) / max(self.speed.steps_a_second(), 1e-9),
            self.budget() - self.seconds_here(),
        )
        self.progress.step(
            StepReport(
                step,
                epoch,
                self.shown_loss,
                learning_rate,
                self.speed.tokens_a_second(),
                done,
                max(left, 0.0),
            )
        )


class Speedometer:
    """How fast training goes, validations not counted."""

    def __init__(self) -> None:
        self.steps, self.tokens, self.began = 0, 0, time.monotonic()

    def restart(self) -> None:
        """Begin to measure anew."""
        self.steps, self.tokens, self.began = 0, 0, time.monotonic()

    def add(self, tokens: int) -> None:
        """Count one step."""
        self.steps, self.tokens = self.steps + 1, self.tokens + tokens

    def tokens_a_second(self) -> float:
        """Return the target tokens trained on in a second."""
        return self.tokens / max(time.monotonic() - self.began, 1e-9)

    def steps_a_second(self) -> float:
        """Return the steps done in a second."""
        return self.steps / max(time.monotonic() - self.began, 1e-9)
