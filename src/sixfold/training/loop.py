"""The training loop: steps, with regular validations and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sixfold.data.batches import Batches
from sixfold.data.shards import Corpus
from sixfold.errors import TrainingError
from sixfold.models.weights import Weights, set_weights, weights_of
from sixfold.nn.dropout import set_dropout
from sixfold.training.checkpoint import Checkpoint, CheckpointStore
from sixfold.training.clock import Clock
from sixfold.training.micro_batches import mixed_seed
from sixfold.training.optimizer import load_optimizer_tensors, optimizer_tensors
from sixfold.training.ranks import Ranks
from sixfold.training.recipe import Recipe
from sixfold.training.reporting import Reporter
from sixfold.training.schedule import learning_rate, peak_rate
from sixfold.training.selection import Candidates, Measured, record_scores
from sixfold.training.signals import Interrupted, StopRequest
from sixfold.training.state import RunState
from sixfold.training.step import StepResult, TrainStepper
from sixfold.training.task import Batch, Learner, Validator

EMA = "ema."  # prefix of the moving average's names in a checkpoint
Publish = Callable[[RunState, Weights], None]  # writes the model folder


@dataclass
class Trainer:
    """One run: its recipe, corpus, model, validation and reports."""

    recipe: Recipe
    learner: Learner
    corpus: Corpus
    seed: int
    ranks: Ranks
    stepper: TrainStepper
    candidates: Candidates
    base_validator: Validator | None  # on the base's own examples when fine-tuning, if there are any
    is_fine_tuning: bool
    clock: Clock
    reporter: Reporter
    publish: Publish
    state: RunState

    def train(self) -> RunState:
        """Train until the steps, the time or the patience are used up, or a stop is requested."""
        config, state = self.recipe.train, self.state
        batches = Batches(self.learner.sizes(self.corpus), config.batch_tokens, self.seed)
        self.stepper.model.train()
        with StopRequest() as stop:
            if self.owes_base_scores():
                self.validate(stop)
                self.save()
            elif self.clock.owes_validation(state):
                self.validate(stop)
            for examples, position in batches.from_position(state.position):
                progress = self.clock.progress(state.step, self.clock.seconds())
                if self.is_over(progress, stop):
                    break
                step = state.step + 1
                rate = learning_rate(config, self.recipe.model.d_model, step, progress)
                self.warm_up_dropout(progress)
                batch = self.learner.collate(self.corpus.read(examples), mixed_seed(self.seed, step))
                result = self.stepper.train_step(batch, rate, step)
                state.step, state.position = step, position
                if result.is_finite:
                    self.reporter.step(state, result, rate, batch)
                else:
                    self.skip_or_stop(result, batch)
                if self.clock.is_validation_due(state):
                    self.validate(stop)
                    self.save()
            self.finish(stop)
        return state

    def is_over(self, progress: float, stop: StopRequest) -> bool:
        """Return whether to stop before the next step, and record why."""
        config, state = self.recipe.train, self.state
        if state.step >= config.steps:
            state.finished = "all steps are done"
        elif progress >= 1:
            state.finished = "the time is up"
        elif config.patience and state.stale >= config.patience:
            state.finished = f"the last {state.stale} validations were no better"
        return bool(state.finished) or self.ranks.agree(float(stop.is_requested)) > 0

    def warm_up_dropout(self, progress: float) -> None:
        """Ramp dropout up from 0 over the first part of training, if the recipe says so."""
        if rise := self.recipe.train.dropout_warmup:
            set_dropout(self.stepper.model, self.recipe.model.dropout * min(progress / rise, 1.0))

    def skip_or_stop(self, result: StepResult, batch: Batch) -> None:
        """Skip a step whose loss or gradient is not finite, if that is allowed, or raise."""
        state, config = self.state, self.recipe.train
        lines = sorted(self.corpus.lines(batch.examples))
        what = (
            f"Step {state.step} has a loss of {result.loss} and a gradient norm of {result.grad_norm}; its "
            f"{len(lines)} examples are from lines {', '.join(map(str, lines[:10]))}{' …' * (len(lines) > 10)}"
        )
        state.skipped += 1
        if state.skipped > config.skip_nonfinite:
            peak = peak_rate(config, self.recipe.model.d_model)
            raise TrainingError(
                f"{what}. Training stopped.",
                "The last checkpoint is intact. Check these lines, or lower the learning rate: --resume --set "
                f"train.learning_rate={peak / 2:.1e}, or skip such steps: train.skip_nonfinite=10",
            )
        self.reporter.skipped(state, result, lines, what)

    def validate(self, stop: StopRequest) -> None:
        """Validate; if a stop is requested meanwhile, resuming validates again."""
        began, is_done, state = time.monotonic(), True, self.state
        if self.ranks.is_first:
            try:
                self.measure_and_publish(stop)
            except Interrupted:
                is_done = False
        if not self.ranks.agree(float(is_done)):
            return
        state.stale = int(self.ranks.agree(state.stale))
        state.validated = [*state.validated, state.step][-self.recipe.train.average :]
        self.clock.validation_seconds = self.ranks.agree(time.monotonic() - began)
        self.reporter.speed.restart()

    def measure_and_publish(self, stop: StopRequest) -> None:
        """Measure the current and the averaged weights, and publish the better if it is the best so far."""
        name, weights, loss = self.candidates.best(self.state, stop.check)
        model = self.candidates.model_with(weights)
        scores = self.candidates.validator.measure(model, stop.check)
        own = self.base_validator.measure(model, stop.check) if self.base_validator else None
        measured = Measured(name, loss, scores, own)
        is_best = record_scores(measured, self.state, self.recipe.train.max_forgetting)
        if self.owes_base_scores():
            self.state.base = dict(self.state.best)
        if is_best:
            self.publish(self.state, weights)
        self.reporter.validation(self.state, measured, is_best)

    def finish(self, stop: StopRequest) -> None:
        """Validate if the last step has not been validated, and save."""
        state = self.state
        if state.finished and state.step not in state.validated:
            self.validate(stop)
            if state.step not in state.validated:
                state.finished = ""  # the validation was interrupted: resuming begins with it
        self.save()
        self.reporter.log.close()
        if stop.is_requested and not state.finished:
            self.reporter.progress.say(f"stopped at step {state.step:,}; everything is saved")

    def owes_base_scores(self) -> bool:
        """Return whether the base of a fine-tuning has yet to be measured."""
        return self.is_fine_tuning and self.state.step == 0 and not self.state.validated

    @property
    def store(self) -> CheckpointStore:
        """The checkpoints of the run."""
        return self.candidates.store

    def save(self) -> None:
        """Write a checkpoint, and delete those that are no longer needed."""
        if self.ranks.is_first:
            state, stepper = self.state, self.stepper
            state.seconds = self.clock.seconds_here()
            self.reporter.log.flush()
            averaged = {f"{EMA}{name}": tensor for name, tensor in stepper.moving_average.items()}
            optimizer = {**optimizer_tensors(stepper.optimizer, stepper.model), **averaged}
            self.store.save(state.step, Checkpoint(weights_of(stepper.model), optimizer, state.as_json()))
            best = {int(state.best["step"])} if state.best else set()
            self.store.rotate(state.step, keep_last=2, keep={*state.validated, *best})
        self.ranks.wait()

    def resume(self) -> list[str]:
        """Continue from the newest undamaged checkpoint; return the problems of newer ones."""
        checkpoint, problems = self.store.newest()
        self.state = RunState.from_json(checkpoint.state)
        set_weights(self.stepper.model, checkpoint.weights)
        load_optimizer_tensors(self.stepper.optimizer, self.stepper.model, checkpoint.optimizer)
        averaged = {k.removeprefix(EMA): v for k, v in checkpoint.optimizer.items() if k.startswith(EMA)}
        self.stepper.set_moving_average(averaged)
        self.stepper.use_threads(self.state.threads)
        self.clock.began -= self.state.seconds
        if self.ranks.is_first:
            self.reporter.log.cut_after(-1 if self.owes_base_scores() else self.state.step)
        return problems
