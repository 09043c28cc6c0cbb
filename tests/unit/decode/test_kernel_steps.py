"""What a step of the kernels finds: exactly what torch finds, whatever is forbidden and how much is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decode.engines import SPECIAL, begins, make_engine, make_model, need_kernels, random_tokens
from torch import Tensor

from sixfold.decode.engine import Engine
from sixfold.decode.extensions import best_extensions
from sixfold.decode.matrices import Precision
from sixfold.decode.rules import token_set
from sixfold.decode.search import NEVER, Extensions, Stepper, TokenSet
from sixfold.models.encoder_decoder import EncoderDecoder

pytestmark = pytest.mark.usefixtures("one_core")

SHAPE = {"encoder_layers": 1, "decoder_layers": 2, "d_model": 48, "d_ff": 80, "heads": 3}
VOCABULARIES = [110, 127, 128, 129, 700]
MOST = 64  # extensions that the kernels find by themselves

seeds = st.integers(0, 2**32 - 1)
unhurried = settings(max_examples=30, deadline=None)


def make_small(vocabulary: int = 150, **choices: object) -> EncoderDecoder:
    """Return a small random model."""
    return make_model(vocabulary=vocabulary, **{**SHAPE, **choices})


def several_steps(stepper: Stepper, sentences: int, width: int) -> tuple[list[int], list[list[float]]]:
    """Let all hypotheses differ; return their next tokens and log-probabilities so far."""
    rows = sentences * width
    stepper.step([SPECIAL.bos] * sentences)
    stepper.select(None, [row // width for row in range(rows)])
    stepper.step([4 + row % 100 for row in range(rows)])
    before = [[-0.37 * ((place * width + row) % 5) for row in range(width)] for place in range(sentences)]
    return [(7 * row) % 90 + 5 for row in range(rows)], before


def sources(count: int, length: int = 8) -> list[list[int]]:
    """Return random sources."""
    return [random_tokens(length, 100) for _ in range(count)]


def same_but_for_ties(found: list[int], expected: Tensor, scores: Tensor) -> bool:
    """Return whether numbers (S, C) are the same wherever the score beside them is not nearly its neighbour's."""
    gaps = (scores[:, 1:] - scores[:, :-1]).abs() < 1e-5
    is_tie = torch.nn.functional.pad(gaps, [1, 0]) | torch.nn.functional.pad(gaps, [0, 1])
    is_same = torch.tensor(found).view_as(expected) == expected
    return bool((is_same | is_tie | (scores == NEVER)).all())


@unhurried
@given(
    vocabulary=st.sampled_from(VOCABULARIES),
    sentences=st.integers(1, 5),
    width=st.integers(1, 9),
    count=st.integers(1, MOST),
    seed=seeds,
)
@torch.inference_mode()
def test_the_best_extensions_are_those_of_all_logits(
    vocabulary: int, sentences: int, width: int, count: int, seed: int
) -> None:
    torch.manual_seed(seed)
    engine, texts = make_engine("kernels", make_small(vocabulary)), sources(sentences)
    first, second = (engine.start(texts, begins(sentences)) for _ in range(2))
    tokens, before = several_steps(first, sentences, width)
    several_steps(second, sentences, width)
    found, log_probs = first.extend(tokens, before, count), second.step(tokens)
    scores, parents, chosen = best_extensions(log_probs.unflatten(0, (-1, width)), torch.tensor(before), count)
    torch.testing.assert_close(torch.tensor(found.scores), scores.flatten(), rtol=0, atol=1e-5)
    assert same_but_for_ties(found.parents, parents, scores)
    assert same_but_for_ties(found.tokens, chosen, scores)
    torch.testing.assert_close(torch.tensor(found.ends), log_probs[:, SPECIAL.eos], rtol=0, atol=1e-5)
    assert found.most_probable == log_probs.argmax(dim=1).tolist()


def forbidden_sets(vocabulary: int) -> st.SearchStrategy[TokenSet]:
    """Return what may be forbidden after a row: nothing, the end, all but one token, or some tokens."""
    token = st.integers(0, vocabulary - 1)
    return st.one_of(
        st.just(token_set([])),
        st.just(token_set([SPECIAL.eos])),
        token.map(lambda only: np.delete(np.arange(vocabulary), only)),
        st.just(np.arange(vocabulary)),
        st.sets(token, max_size=150).map(token_set),
    )


@settings(max_examples=50, deadline=None)
@given(
    vocabulary=st.sampled_from(VOCABULARIES),
    sentences=st.integers(1, 4),
    width=st.integers(1, 6),
    count=st.integers(1, 2 * MOST),
    seed=seeds,
    data=st.data(),
)
@torch.inference_mode()
def test_with_the_same_tokens_forbidden_kernels_find_what_torch_finds(
    vocabulary: int, sentences: int, width: int, count: int, seed: int, data: st.DataObject
) -> None:
    torch.manual_seed(seed)
    model, texts = make_small(vocabulary), sources(sentences)
    rows = sentences * width
    banned = data.draw(st.lists(forbidden_sets(vocabulary), min_size=rows, max_size=rows))
    (found, ours), (expected, theirs) = (
        extensions_and_step(make_engine(name, model), texts, width, count, banned) for name in ("kernels", "torch")
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    assert all((row[each] == NEVER).all() for row, each in zip(ours, banned, strict=True))
    scores, parents, chosen = (torch.tensor(each).view(sentences, -1) for each in expected[:3])
    torch.testing.assert_close(torch.tensor(found.scores), scores.flatten(), rtol=0, atol=1e-5)
    assert same_but_for_ties(found.parents, parents, scores)
    assert same_but_for_ties(found.tokens, chosen, scores)
    torch.testing.assert_close(torch.tensor(found.ends), torch.tensor(expected.ends), rtol=0, atol=1e-5)
    most_probable = theirs[range(rows), found.most_probable]
    torch.testing.assert_close(most_probable, theirs.amax(dim=1), rtol=0, atol=1e-5)


def extensions_and_step(
    engine: Engine, texts: list[list[int]], width: int, count: int, banned: list[TokenSet]
) -> tuple[Extensions, Tensor]:
    """Return the best extensions of a step, and its log-probabilities (R, V)."""
    steppers = [engine.start(texts, begins(len(texts))) for _ in range(2)]
    (tokens, before), _ = (several_steps(stepper, len(texts), width) for stepper in steppers)
    return steppers[0].extend(tokens, before, count, banned), steppers[1].step(tokens, banned)


def test_more_extensions_are_asked_for_than_the_kernels_find_by_themselves() -> None:
    assert need_kernels().most_extensions == MOST


@torch.inference_mode()
def test_what_was_forbidden_once_is_allowed_again() -> None:
    model, texts = make_small(), sources(2)
    stepper, other = (make_engine("kernels", model).start(texts, begins(2)) for _ in range(2))
    stepper.extend([5, 6], [[0.0], [0.0]], 4, [np.arange(100), np.arange(100)])
    other.extend([5, 6], [[0.0], [0.0]], 4)
    assert stepper.extend([7, 8], [[0.0], [0.0]], 4) == other.extend([7, 8], [[0.0], [0.0]], 4)


@torch.inference_mode()
def test_rows_without_a_chance_bring_none() -> None:
    stepper = make_engine("kernels", make_small()).start(sources(1), begins(1))
    stepper.step([SPECIAL.bos])
    stepper.select(None, [0] * 4)
    found = stepper.extend([9, 8, 7, 6], [[-1.0, NEVER, NEVER, NEVER]], 8)
    assert found.parents == [0] * 8
    assert len(set(found.tokens)) == 8


@pytest.mark.parametrize("precision", ["float32", "int8"])
@torch.inference_mode()
def test_a_row_has_the_same_bits_among_any_number_of_others(precision: Precision) -> None:
    model = make_small(300, d_model=96, d_ff=200, heads=6, encoder_layers=2)
    engine, texts, tokens = make_engine("kernels", model, precision), sources(40, 11), [*range(4, 44)]
    together = engine.start(texts, begins(40)).step(tokens)
    for count in (1, 2, 3, 5, 11, 12, 13, 25, 39):
        alone = engine.start(texts[:count], begins(count)).step(tokens[:count])
        assert torch.equal(alone, together[:count])


@torch.inference_mode()
def test_sources_of_any_lengths_are_computed_side_by_side_as_alone() -> None:
    engine, texts = make_engine("kernels", make_small()), [random_tokens(length, 100) for length in (7, 27, 1)]
    together = engine.start(texts, begins(3)).step([5, 6, 7])
    for row, text in enumerate(texts):
        assert torch.equal(engine.start([text], begins(1)).step([5 + row]), together[row : row + 1])


@torch.inference_mode()
def test_searches_at_the_same_time_do_not_disturb_each_other() -> None:
    engine, batches = make_engine("kernels", make_small()), [sources(1 + number, 9) for number in range(4)]

    @torch.inference_mode()
    def steps(texts: list[list[int]]) -> Tensor:
        stepper = engine.start(texts, begins(len(texts)))
        return torch.stack([stepper.step([5 + i + row for row in range(len(texts))]) for i in range(30)])

    expected = [steps(texts) for texts in batches]
    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(steps, batches), expected, strict=True):
            assert torch.equal(found, wanted)
