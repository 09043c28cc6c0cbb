"""One training step: forward, loss, backward, clip, step; for the loop, the estimate and the calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sixfold.errors import TrainingError
from sixfold.machine import is_out_of_memory
from sixfold.models.weights import weights_of
from sixfold.training.micro_batches import MicroBatches, Objective
from sixfold.training.optimizer import clip_each, make_optimizer, set_learning_rate
from sixfold.training.ranks import Ranks
from sixfold.training.recipe import TrainConfig
from sixfold.training.task import Batch, Loss

ALONE = Ranks()


@dataclass(frozen=True)
class StepResult:
    """The result of a step; a step that is not finite has changed nothing."""

    loss: float  # per target
    grad_norm: float

    @property
    def is_finite(self) -> bool:
        """Whether loss and gradient are finite, so that the step was taken."""
        return math.isfinite(self.loss) and math.isfinite(self.grad_norm)


class TrainStepper:
    """A model, its optimizer and its data-parallel threads: everything that a step needs or changes."""

    def __init__(
        self,
        loss: Loss,
        model: nn.Module,
        config: TrainConfig,
        num_threads: int = 1,
        ranks: Ranks = ALONE,
        seed: int = 1,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.loss, self.model, self.config, self.ranks = loss, model, config, ranks
        self.seed, self.warn = seed, warn
        self.device = next(model.parameters()).device
        self.optimizer = make_optimizer(model, config)
        self.objective = ranks.wrap(Objective(loss, model))
        self.use_threads(num_threads)
        self.moving_average = (
            {name: tensor.clone() for name, tensor in weights_of(model).items()} if config.ema else {}
        )

    def use_threads(self, count: int) -> None:
        """Use this many data-parallel threads; on a GPU and in a distributed run there is one."""
        is_alone = self.ranks.world == 1 and self.device.type == "cpu"
        self.micro_batches = MicroBatches(self.loss, self.model, self.objective, count if is_alone else 1)

    def train_step(self, batch: Batch, learning_rate: float, step: int) -> StepResult:
        """Train on one batch; seed and step determine dropout, so a resumed run equals an uninterrupted one."""
        loss = self.forward_and_backward(batch, step)
        grad_norm = clip_each(self.model, self.config.max_grad_norm)
        result = StepResult(loss, grad_norm)
        if result.is_finite:
            set_learning_rate(self.optimizer, learning_rate)
            self.optimizer.step()
            self.update_moving_average()
        self.optimizer.zero_grad(set_to_none=True)
        return result

    def forward_and_backward(self, batch: Batch, step: int) -> float:
        """Compute the gradients of a batch, in more parts if memory runs out; return the loss per target."""
        parts = self.config.accumulate
        while True:
            try:
                return self.accumulate(batch, parts, step)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                self.refuse_unsplittable(batch, parts, step)
            self.optimizer.zero_grad(set_to_none=True)  # gradients summed before memory ran out
            parts *= 2
            self.warn(f"out of memory at step {step}; computing it in {parts} parts")

    def accumulate(self, batch: Batch, parts: int, step: int) -> float:
        """Sum the gradients of all parts of a batch; return the loss per target."""
        total = 0.0
        for part in range(parts):
            rows = self.ranks.share(len(batch), part, parts)
            taken = batch.take(rows or [0]).to(self.device)  # a rank without rows must still participate
            weight = (
                self.ranks.world / batch.num_targets if rows else 0.0
            )  # ranks' gradients are averaged, not added
            with self.exchanging(part == parts - 1):
                loss = self.micro_batches.backward(taken, weight, (self.seed, step, self.ranks.rank, part))
            total += loss if rows else 0.0
        return self.ranks.total(total) / batch.num_targets

    def exchanging(self, is_last: bool) -> AbstractContextManager[object]:
        """Exchange gradients between ranks only in the last part."""
        if isinstance(self.objective, nn.parallel.DistributedDataParallel) and not is_last:
            return self.objective.no_sync()
        return nullcontext()

    def refuse_unsplittable(self, batch: Batch, parts: int, step: int) -> None:
        """Raise if a step that ran out of memory cannot be split further."""
        if parts >= len(batch) or self.ranks.world > 1:  # the other ranks would wait for ever
            raise TrainingError(
                f"Out of memory at step {step}, computed in {parts} parts.",
                f"--resume --set train.accumulate={2 * parts}, or train a smaller model.",
            )

    def update_moving_average(self) -> None:
        """Update the moving average with the current weights."""
        if self.moving_average:
            current = weights_of(self.model)
            names = list(self.moving_average)
            torch._foreach_lerp_(
                [self.moving_average[name] for name in names],
                [current[name] for name in names],
                1 - self.config.ema,
            )

    def set_moving_average(self, found: Mapping[str, Tensor]) -> None:
        """Continue a moving average; a run without one starts it here."""
        current = weights_of(self.model)
        self.moving_average = {
            name: found.get(name, current[name]).to(self.device).clone() for name in self.moving_average
        }
