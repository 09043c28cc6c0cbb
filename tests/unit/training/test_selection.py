"""Which model is kept: the better score, and the loss where a score may be luck."""

from __future__ import annotations

import pytest

from sixfold.training.selection import Measured, is_better, is_no_worse_than_base, record_scores
from sixfold.training.state import RunState
from sixfold.training.task import Sample, Scores

NOTHING = Sample("", "", "")


def bleu(value: float) -> Scores:
    """Return a score where half a point may be chance."""
    return Scores("BLEU", value, 0.5, "greedy", NOTHING)


def error_rate(value: float) -> Scores:
    """Return a score where lower is better."""
    return Scores("WER", value, 0.5, "greedy", NOTHING, is_higher_better=False)


def kept(score: float, loss: float, highest: float) -> RunState:
    """Return where a run stands that has kept a model with this score and loss."""
    return RunState(best={"score": score, "loss": loss}, highest_score=highest)


def test_where_the_score_differs_by_chance_the_loss_decides() -> None:
    state = kept(40.0, 1.5, highest=40.0)
    assert is_better(bleu(0.0), 9.0, RunState())
    assert is_better(bleu(41.0), 1.6, state)
    assert not is_better(bleu(39.0), 1.4, state)
    assert is_better(bleu(39.9), 1.4, state)
    assert not is_better(bleu(40.1), 1.6, state)
    assert not is_better(bleu(40.0), 1.5, state)


def test_small_losses_of_score_do_not_add_up() -> None:
    fallen = kept(39.6, 1.4, highest=40.0)
    assert not is_better(bleu(39.3), 1.3, fallen)
    assert is_better(bleu(39.7), 1.3, fallen)
    assert is_better(bleu(40.2), 1.6, fallen)  # far above the one that is kept


def test_where_lower_is_better_all_is_the_other_way_round() -> None:
    state, risen = kept(10.0, 1.5, highest=10.0), kept(10.4, 1.4, highest=10.0)
    assert is_better(error_rate(9.0), 1.6, state)
    assert not is_better(error_rate(11.0), 1.4, state)
    assert is_better(error_rate(10.1), 1.4, state)
    assert not is_better(error_rate(9.9), 1.6, state)
    assert not is_better(error_rate(10.7), 1.3, risen)
    assert is_better(error_rate(10.3), 1.3, risen)


@pytest.mark.parametrize(("make", "highest"), [(bleu, 30.0), (error_rate, 10.0)])
def test_a_run_remembers_its_best_model_its_best_score_and_how_long_ago_that_was(
    make: type, highest: float
) -> None:
    state = RunState()
    order = sorted((10.0, 20.0, 30.0), reverse=make is error_rate)
    for step, value in enumerate((*order, order[0], order[1]), start=1):
        state.step = step
        record_scores(Measured("single", 1.0, make(value)), state, max_forgetting=0)
    assert (state.best["step"], state.best["score"], state.highest_score) == (3, highest, highest)
    assert state.stale == 2


# Beside the model that is fine-tuned


def fine_tuned(score: float, own: float | None = None, loss: float = 1.0) -> Measured:
    """Return what a validation measured of a model that is being fine-tuned."""
    return Measured("single", loss, bleu(score), None if own is None else bleu(own))


def test_a_model_that_scores_worse_than_its_base_is_never_kept_however_low_its_loss() -> None:
    state = RunState(best={"score": 30.0, "loss": 1.5}, base={"score": 30.0, "loss": 1.5}, highest_score=30.0)
    assert not record_scores(fine_tuned(29.9, loss=1.0), state, max_forgetting=0)
    assert record_scores(fine_tuned(30.1, loss=1.0), state, max_forgetting=0)
    assert not record_scores(fine_tuned(29.9, loss=0.5), state, max_forgetting=0)
    assert state.best["score"] == 30.1


def test_where_lower_is_better_a_higher_score_than_the_bases_is_worse() -> None:
    state = RunState(base={"score": 10.0, "loss": 1.5})
    assert is_no_worse_than_base(Measured("single", 1.0, error_rate(9.9)), state, max_forgetting=0)
    assert not is_no_worse_than_base(Measured("single", 1.0, error_rate(10.1)), state, max_forgetting=0)


def test_a_model_that_has_forgotten_more_of_the_bases_own_text_than_allowed_is_not_kept() -> None:
    state = RunState(base={"score": 10.0, "loss": 1.5, "own_score": 40.0})
    assert is_no_worse_than_base(fine_tuned(30.0, own=38.5), state, max_forgetting=1.5)
    assert not is_no_worse_than_base(fine_tuned(30.0, own=38.4), state, max_forgetting=1.5)
    assert is_no_worse_than_base(fine_tuned(30.0, own=1.0), state, max_forgetting=0)
    assert is_no_worse_than_base(fine_tuned(30.0), state, max_forgetting=1.5)


def test_a_model_that_may_not_be_kept_does_not_keep_others_out() -> None:
    state = RunState(
        best={"score": 10.0, "loss": 1.5}, base={"score": 10.0, "loss": 1.5, "own_score": 40.0}, highest_score=10.0
    )
    assert not record_scores(fine_tuned(30.0, own=1.0), state, max_forgetting=1.5)
    assert record_scores(fine_tuned(12.0, own=39.0), state, max_forgetting=1.5)
    assert (state.best["score"], state.best["own_score"], state.highest_score) == (12.0, 39.0, 12.0)
