"""A search that can be called off: before every step it asks whether anybody still waits for the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from sixfold.decode.search import BestStepper, Extensions, LogitStepper, Stepper, finds_best

ShouldStop = Callable[[], bool]


class Stopped(Exception):
    """Nobody waits for the result any more."""


class StoppableStepper:
    """A stepper that asks before every step."""

    def __init__(self, stepper: Stepper, should_stop: ShouldStop) -> None:
        self.stepper, self.should_stop = stepper, should_stop
        self.select = stepper.select

    def ask(self) -> None:
        """End the search if nobody waits for it."""
        if self.should_stop():
            raise Stopped

    def step(self, tokens: Tensor) -> Tensor:
        """Step, unless nobody waits."""
        self.ask()
        return self.stepper.step(tokens)


class StoppableLogitStepper(StoppableStepper):
    """The same, for a stepper that gives logits."""

    def __init__(self, stepper: LogitStepper, should_stop: ShouldStop) -> None:
        super().__init__(stepper, should_stop)
        self.logit_stepper = stepper

    def step_logits(self, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Step, unless nobody waits."""
        self.ask()
        return self.logit_stepper.step_logits(tokens)


class StoppableBestStepper(StoppableLogitStepper):
    """The same, for a stepper that finds the best extensions itself."""

    def __init__(self, stepper: BestStepper, should_stop: ShouldStop) -> None:
        super().__init__(stepper, should_stop)
        self.best_stepper, self.most_extensions = stepper, stepper.most_extensions

    def step_best(self, tokens: list[int], before: list[float], count: int) -> Extensions:
        """Step, unless nobody waits."""
        self.ask()
        return self.best_stepper.step_best(tokens, before, count)


def stoppable(stepper: Stepper, should_stop: ShouldStop) -> Stepper:
    """Return a stepper that asks before every step and raises `Stopped` if the answer is yes."""
    if finds_best(stepper, 1):
        return StoppableBestStepper(stepper, should_stop)
    if isinstance(stepper, LogitStepper):
        return StoppableLogitStepper(stepper, should_stop)
    return StoppableStepper(stepper, should_stop)
