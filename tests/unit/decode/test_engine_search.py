"""A search finds with either engine what it finds without a cache, after any prompt and in any batch."""

from __future__ import annotations

import pytest
import torch
from tests.unit.decode.engines import (
    DESCENDANTS,
    PAPER_VARIANTS,
    SOURCES,
    SPECIAL,
    TEXT,
    Reference,
    batch,
    begins,
    every_engine,
    exact,
    find,
    make_engine,
    make_model,
    random_tokens,
)

from sixfold.decode.engine import EnsembleEngine
from sixfold.decode.matrices import Precision

pytestmark = pytest.mark.usefixtures("seed", "one_core")

ALL_VARIANTS = {**PAPER_VARIANTS, **DESCENDANTS}
COMPUTED = [*((name, "torch") for name in ALL_VARIANTS), *((name, "kernels") for name in PAPER_VARIANTS)]
LIMITS = [12, 5, 9]
every_way = pytest.mark.parametrize("engine_name", ["torch", "kernels", "ensemble"])


@pytest.mark.parametrize(("variant", "engine_name"), COMPUTED)
@torch.inference_mode()
def test_a_search_finds_with_the_engine_what_it_finds_without_a_cache(variant: str, engine_name: str) -> None:
    model = make_model(torch.float64 if engine_name == "torch" else torch.float32, **ALL_VARIANTS[variant])
    found = [
        find(stepper, begins(3), LIMITS)
        for stepper in (
            make_engine(engine_name, model).start(SOURCES, begins(3)),
            Reference(model, SOURCES, begins(3)),
        )
    ]
    for engine, reference in zip(*found, strict=True):
        assert [each.tokens for each in engine] == [each.tokens for each in reference]
        assert [each.score for each in engine] == pytest.approx([each.score for each in reference], rel=1e-5)


@every_engine
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_a_sentence_has_the_same_bits_alone_and_in_a_batch(
    norm: str, precision: Precision, engine_name: str
) -> None:
    shape = {"d_model": 128, "d_ff": 1024, "heads": 4, "vocabulary": 2048, "norm": norm}
    engine = make_engine(engine_name, make_model(**shape), precision)
    sources = [[*random_tokens(length, 2048), SPECIAL.eos] for length in (15, 12, 9, 15, 10, 11, 13, 14, 9)]
    together = find(engine.start(sources, begins(9)), begins(9), [12] * 9)
    alone = [find(engine.start([source], begins(1)), begins(1), [12])[0] for source in sources]
    assert together == alone


# Prompts


def random_prompts(length: int) -> list[list[int]]:
    """Return a prompt of so many tokens for each source."""
    return [[SPECIAL.bos, *random_tokens(length - 1)] for _ in SOURCES]


@every_way
@pytest.mark.parametrize("length", [1, 2, 9])
@torch.inference_mode()
def test_to_start_with_a_prompt_is_to_step_through_it(engine_name: str, length: int) -> None:
    engine, prompts = make_engine(engine_name, make_model()), random_prompts(length)
    started = engine.start(SOURCES, prompts)
    stepped = engine.start(SOURCES, begins(3))
    *columns, last = zip(*prompts, strict=True)
    for column in columns:
        stepped.step([*column])
    assert torch.equal(started.step([*last]), stepped.step([*last]))
    for stepper in (started, stepped):
        stepper.select([2, 0], [2, 2, 0, 0])
    newest = random_tokens(4)
    assert torch.equal(started.step(newest), stepped.step(newest))


@every_way
@pytest.mark.parametrize("length", [1, 2, 9])
@torch.inference_mode()
def test_the_log_probability_of_a_prompt_is_that_of_the_full_forward(engine_name: str, length: int) -> None:
    model, prompts = make_model(), random_prompts(length)
    found = make_engine(engine_name, model).start(SOURCES, prompts).prompt_log_probabilities
    log_probs = exact(model)(batch(SOURCES), torch.tensor(prompts)).log_softmax(dim=-1)
    expected = [
        sum(float(log_probs[row, place, token]) for place, token in enumerate(prompt[1:]))
        for row, prompt in enumerate(prompts)
    ]
    assert found == pytest.approx(expected, abs=1e-5 * length)


@every_engine
@torch.inference_mode()
def test_a_search_goes_on_from_a_prompt_as_without_a_cache(engine_name: str) -> None:
    model, prompts = make_model(torch.float64 if engine_name == "torch" else torch.float32), random_prompts(5)
    found = find(make_engine(engine_name, model).start(SOURCES, prompts), prompts, LIMITS)
    expected = find(Reference(model, SOURCES, prompts), prompts, LIMITS)
    assert [[each.tokens for each in row] for row in found] == [[each.tokens for each in row] for row in expected]


# Ensembles


@torch.inference_mode()
def test_several_models_predict_the_average_of_their_probabilities() -> None:
    models, prompts = [make_model() for _ in range(3)], random_prompts(4)
    names = ["torch", "kernels", "torch"]
    engine = EnsembleEngine([make_engine(*each) for each in zip(names, models, strict=True)], SPECIAL.eos)
    stepper = engine.start(SOURCES, prompts)
    inputs = batch(SOURCES), torch.tensor(prompts)
    mean = torch.stack([model(*inputs).softmax(dim=-1) for model in models]).mean(dim=0).log()
    steps = mean[:, :-1].gather(2, inputs[1][:, 1:, None]).sum(dim=(1, 2))
    assert stepper.prompt_log_probabilities == pytest.approx(steps.tolist(), abs=1e-4)
    found = stepper.step([prompt[-1] for prompt in prompts])
    torch.testing.assert_close(found[:, TEXT], mean[:, -1][:, TEXT], rtol=0, atol=1e-5)
