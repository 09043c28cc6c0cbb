"""Model selection: which weights a validation measures, and which model is published."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from sixfold.models.weights import Weights, set_weights, weights_of
from sixfold.training.checkpoint import CheckpointStore, average
from sixfold.training.state import RunState
from sixfold.training.step import TrainStepper
from sixfold.training.task import Check, Scores, Validator


@dataclass(frozen=True)
class Measured:
    """The scores of one candidate at a validation."""

    weights: str  # which weights: "single", "average of 5"
    loss: float
    scores: Scores
    own: Scores | None = None  # on the base's own validation examples, when fine-tuning and if known


def is_better(scores: Scores, loss: float, state: RunState) -> bool:
    """Return whether a model is better than the best so far: by score, or by loss if the difference may be chance.

    Scores are compared with the highest so far, so that many small losses cannot add up to a large one.
    """
    if not state.best or state.highest_score is None:
        return True
    sign = 1 if scores.is_higher_better else -1
    if sign * (scores.value - state.best["score"]) >= scores.chance:
        return True
    return loss < state.best["loss"] and sign * (scores.value - state.highest_score) > -scores.chance


def is_no_worse_than_base(measured: Measured, state: RunState, max_forgetting: float) -> bool:
    """Return whether a fine-tuned model is no worse than its base, and little worse on the base's own text."""
    if not state.base:
        return True
    sign = 1 if measured.scores.is_higher_better else -1
    if sign * (measured.scores.value - state.base["score"]) < 0:
        return False
    if measured.own is None or not max_forgetting:
        return True
    return bool(sign * (state.base["own_score"] - measured.own.value) <= max_forgetting)


def record_scores(measured: Measured, state: RunState, max_forgetting: float) -> bool:
    """Record the scores of a validation; return whether they are the best so far."""
    scores = measured.scores
    may_be_kept = is_no_worse_than_base(measured, state, max_forgetting)
    is_best = may_be_kept and is_better(scores, measured.loss, state)
    if may_be_kept:
        highest = scores.value if state.highest_score is None else state.highest_score
        pick = max if scores.is_higher_better else min
        state.highest_score = pick(highest, scores.value)
    state.stale = 0 if is_best else state.stale + 1
    if is_best:
        state.best = {
            "step": state.step, "name": scores.name, "score": scores.value, "loss": measured.loss,
            "weights": measured.weights, "conditions": scores.conditions,
            "decimals": scores.decimals, **scores.facts,
        }  # fmt: skip
        if measured.own is not None:
            state.best["own_score"] = measured.own.value
    return is_best


class Candidates:
    """The weights that a validation may publish: the current ones and averages."""

    def __init__(self, stepper: TrainStepper, store: CheckpointStore, validator: Validator) -> None:
        self.stepper, self.store, self.validator = stepper, store, validator

    def best(self, state: RunState, check: Check) -> tuple[str, Weights, float]:
        """Return the name, weights and loss of the candidate with the lowest loss."""
        measured = [
            (name, weights, self.validator.loss(self.model_with(weights), check))
            for name, weights in self.named(state).items()
        ]
        return min(measured, key=lambda candidate: candidate[2])

    def named(self, state: RunState) -> dict[str, Weights]:
        """Return all candidates by name."""
        current, count = weights_of(self.stepper.model), self.stepper.config.average
        named = {"base" if state.step == 0 else "single": current}  # only fine-tuning validates at step 0
        earlier = [step for step in state.validated[-(count - 1) :] if self.store.has_weights(step)]
        if earlier and count > 1:
            stored = [self.store.weights(step) for step in earlier]
            named[f"average of {len(earlier) + 1}"] = average([*stored, {k: v.cpu() for k, v in current.items()}])
        if self.stepper.moving_average:
            named["moving average"] = self.stepper.moving_average
        return named

    def model_with(self, weights: Weights) -> nn.Module:
        """Return a separate model with these weights, so that measuring cannot disturb training."""
        set_weights(self.second_model, weights)
        return self.second_model

    @cached_property
    def second_model(self) -> nn.Module:
        """The separate model."""
        return deepcopy(self.stepper.model).eval()
