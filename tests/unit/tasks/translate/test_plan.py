"""The plan: there is one for any corpus, the user's overrides win, and it says why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

import pytest

from sixfold.data.readers import Pair
from sixfold.data.reservoir import Reservoir
from sixfold.models.encoder_decoder import PRESETS
from sixfold.tasks.translate.plan import choose, parameter_count
from sixfold.tasks.translate.prepare import Survey
from sixfold.tasks.translate.recipe import ModelConfig, TranslateRecipe
from sixfold.training.recipe import Plan, make_recipe, parse_settings, read_recipe, shipped_recipes

SIZES = (10, 100, 1_000, 2_000, 5_000, 20_000, 29_000, 100_000, 200_000, 1_000_000, 10_000_000)
every_size = pytest.mark.parametrize("num_pairs", SIZES)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan for two cores on any machine."""
    monkeypatch.setattr("sixfold.tasks.translate.plan.num_cores", lambda: 2)


def sample_of(pairs: Collection[Pair]) -> Reservoir:
    """Return a sample of all the pairs."""
    sample = Reservoir(most=len(pairs), seed=1)
    for pair in pairs:
        sample.offer(pair)
    return sample


def surveyed(num_pairs: int, characters: float = 60.0) -> Survey:
    """Return what a pass over a corpus of that size would have found."""
    return Survey(num_pairs, characters, 1.2 * characters, sample_of([Pair("one", "eins", 1)]), smallest_hash=1)


@every_size
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("characters", [1.0, 60.0, 1000.0])
@pytest.mark.parametrize("minutes", [0, 0.1, 6, 600])
def test_there_is_a_recipe_for_any_corpus_and_time(
    num_pairs: int, device: str, characters: float, minutes: float
) -> None:
    plan = choose(surveyed(num_pairs, characters), {"train": {"minutes": minutes}}, device)
    assert isinstance(plan.recipe, TranslateRecipe)
    assert plan.recipe.train.warmup_steps < plan.recipe.train.steps
    assert plan.recipe.train.checkpoint_every <= plan.recipe.train.steps


@every_size
def test_it_says_why(num_pairs: int) -> None:
    reasons = choose(surveyed(num_pairs), {}).reasons
    assert reasons
    assert all(reason.strip() for reason in reasons)
    assert f"{num_pairs:,}" in " ".join(reasons)


def test_more_text_never_gives_a_smaller_model_or_vocabulary() -> None:
    recipes = [choose(surveyed(size), {}).recipe for size in SIZES]
    vocabularies = [recipe.data.vocabulary for recipe in recipes]
    parameters = [parameter_count(recipe) for recipe in recipes]
    assert vocabularies == sorted(vocabularies)
    assert parameters == sorted(parameters)


def test_pairs_are_concatenated_where_most_words_stand_in_long_texts() -> None:
    def plan_for(*lengths: int, **data: float) -> Plan:
        sample = tuple(Pair("a" * length, "b", line) for line, length in enumerate(lengths))
        return choose(replace(surveyed(29_000), sample=sample_of(sample)), {"data": dict(data)})

    captions, interface = plan_for(50, 60, 70, 80), plan_for(*9 * [20], 20, 200)
    assert captions.recipe.data.concatenate == 0
    assert "concatenates" not in " ".join(captions.reasons)
    assert interface.recipe.data.concatenate > 0
    assert "concatenates short pairs" in " ".join(interface.reasons)
    assert plan_for(*9 * [20], 200, concatenate=0.0).recipe.data.concatenate == 0


def test_text_of_few_words_gets_the_narrow_model_and_other_text_gets_it_if_there_is_little() -> None:
    def width_for(num_pairs: int, num_words: int, minutes: float = 0.0) -> int:
        sample = tuple(Pair(f"w{number}", f"v{number}", number) for number in range(num_words // 2))
        found = replace(surveyed(num_pairs), sample=sample_of(sample))
        return choose(found, {"train": {"minutes": minutes}}).recipe.model.d_model

    tiny, small = PRESETS["tiny"].d_model, PRESETS["small"].d_model
    assert [width_for(29_000, words) for words in (1000, 4000)] == [tiny, small]
    assert [width_for(1000, words) for words in (1000, 4000)] == [tiny, tiny]
    assert [width_for(150_000, words) for words in (1000, 4000)] == [small, small]
    assert [width_for(150_000, words, minutes=30) for words in (1000, 4000)] == [tiny, small]
    assert [width_for(29_000, words, minutes=10) for words in (1000, 4000)] == [tiny, small]


def test_little_time_gets_the_quick_model_and_little_dropout() -> None:
    sample = tuple(Pair(f"w{number}", f"v{number}", number) for number in range(4000))
    found = replace(surveyed(29_000), sample=sample_of(sample))
    short, long = (choose(found, {"train": {"minutes": minutes}}).recipe for minutes in (6, 600))
    assert parameter_count(short) < parameter_count(long)
    assert short.model.dropout < long.model.dropout
    assert short.train.dropout_warmup == long.train.dropout_warmup > 0


def test_a_moving_average_is_for_runs_that_see_their_text_many_times_and_is_said() -> None:
    short, long = (choose(surveyed(29_000), {"train": {"minutes": minutes}}) for minutes in (2, 60))
    assert short.recipe.train.ema == 0 < long.recipe.train.ema
    assert [any("moving average" in line for line in plan.reasons) for plan in (short, long)] == [False, True]


def test_a_run_long_enough_for_several_models_trains_several_and_says_so() -> None:
    plans = [choose(surveyed(10_000), {"train": {"minutes": minutes}}) for minutes in (1, 5, 20, 120, 1000)]
    members = [plan.recipe.model.ensemble for plan in plans]
    assert members == sorted(members)
    assert (members[0], members[-1]) == (1, 4)
    for plan in plans:
        said = any(
            f"trains an ensemble of {plan.recipe.model.ensemble} such models" in line for line in plan.reasons
        )
        assert said == (plan.recipe.model.ensemble > 1)
    assert choose(surveyed(10_000), {}).recipe.model.ensemble == 1
    alone = choose(surveyed(10_000), {"train": {"minutes": 1000}, "model": {"ensemble": 1}})
    assert alone.recipe.model.ensemble == 1
    assert choose(surveyed(50), {"train": {"minutes": 1}}).recipe.model.ensemble == 1  # epochs, but hardly steps


def test_so_many_models_as_are_asked_for_are_planned_as_one_in_so_much_less_time() -> None:
    for own in ({}, {"preset": "tiny"}):
        four = choose(surveyed(10_000), {"train": {"minutes": 40}, "model": own | {"ensemble": 4}})
        one = choose(surveyed(10_000), {"train": {"minutes": 10}, "model": own | {"ensemble": 1}})
        assert four.recipe.decode == one.recipe.decode
        assert four.recipe.train == one.recipe.train.model_copy(update={"minutes": 40})
        assert four.recipe.model == one.recipe.model.model_copy(update={"ensemble": 4})
        assert four.warnings == one.warnings


@pytest.mark.parametrize("minutes", [1, 5, 20, 60, 240])
def test_a_core_twice_as_fast_gets_the_recipe_of_twice_the_time(minutes: float) -> None:
    def recipe_for(minutes: float, core_speed: float) -> TranslateRecipe:
        return choose(surveyed(29_000), {"train": {"minutes": minutes}}, core_speed=core_speed).recipe

    faster, longer = recipe_for(minutes, core_speed=2.0), recipe_for(2 * minutes, core_speed=1.0)
    assert faster.model == longer.model
    assert faster.train.model_copy(update={"minutes": 2 * minutes}) == longer.train


def test_there_are_as_many_subwords_as_words_that_occur_a_few_times() -> None:
    def vocabulary_for(num_pairs: int, source: Iterable[str], target: str = "x") -> int:
        sample = tuple(Pair(text, target, line) for line, text in enumerate(source))
        return choose(replace(surveyed(num_pairs), sample=sample_of(sample)), {}).recipe.data.vocabulary

    words = [f"w{number}" for number in range(5000)]
    assert vocabulary_for(29_000, 5 * words) == pytest.approx(5000, abs=100)
    assert vocabulary_for(29_000, 4 * words) == 2000  # none of them often enough
    many = [f"w{number}" for number in range(50_000)]
    assert vocabulary_for(29_000, 5 * many) == 8000
    assert vocabulary_for(1_000_000, 5 * many) == 16_000
    characters = [chr(0x4E00 + number) for number in range(1500)]  # a script without spaces
    assert vocabulary_for(29_000, 5 * ["".join(characters)]) == pytest.approx(6000, abs=100)


@every_size
def test_wishes_win(num_pairs: int) -> None:
    settings = [
        "train.steps=7",
        "data.vocabulary=300",
        "train.warmup_steps=3",
        "decode.beam=2",
        "train.patience=0",
    ]
    recipe = choose(surveyed(num_pairs), parse_settings(settings, TranslateRecipe.known())).recipe
    assert (recipe.train.steps, recipe.train.warmup_steps, recipe.train.patience) == (7, 3, 0)
    assert (recipe.data.vocabulary, recipe.decode.beam) == (300, 2)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_that_was_asked_for_comes_whole(preset: str) -> None:
    for num_pairs in (100, 1_000_000):
        assert choose(surveyed(num_pairs), {"model": {"preset": preset}}).recipe.model == ModelConfig(
            **PRESETS[preset].model_dump()
        )


def test_a_model_of_the_users_own_keeps_none_of_ours() -> None:
    overrides = parse_settings(["model.d_model=64", "model.heads=4"], TranslateRecipe.known())
    assert choose(surveyed(1000), overrides).recipe.model == make_recipe(TranslateRecipe, overrides).model


def test_one_key_of_the_model_leaves_the_others_to_the_plan() -> None:
    ours = choose(surveyed(1000), {}).recipe.model
    assert choose(surveyed(1000), {"model": {"dropout": 0.0}}).recipe.model == ours.model_copy(
        update={"dropout": 0.0}
    )


def test_too_little_text_is_said() -> None:
    assert any("very few" in warning for warning in choose(surveyed(100), {}).warnings)
    assert choose(surveyed(200_000), {}).warnings == ()


def test_a_model_too_large_for_its_text_is_said() -> None:
    warnings = choose(surveyed(5000), {"model": {"preset": "big"}}).warnings
    assert any("many for 5,000 pairs" in warning for warning in warnings)


def test_parameters_are_counted_without_memory_for_them() -> None:
    recipe = make_recipe(TranslateRecipe, {"model": {"preset": "base"}, "data": {"vocabulary": 37_000}})
    assert 62e6 < parameter_count(recipe) < 66e6  # the paper says 65 million


@every_size
@pytest.mark.parametrize("name", shipped_recipes())
def test_nothing_automatic_gets_into_a_recipe_that_comes_along(num_pairs: int, name: str) -> None:
    uneven = sample_of(
        [Pair("a" * length, "b", 1) for length in (*9 * [20], 200)]
    )  # such pairs would be concatenated
    recipe = choose(replace(surveyed(num_pairs), sample=uneven), read_recipe(TranslateRecipe, name)).recipe
    written = make_recipe(TranslateRecipe, read_recipe(TranslateRecipe, name))
    how = recipe.train.model_dump(exclude={"valid_sentences"})  # how much is looked at changes nothing
    assert how == written.train.model_dump(exclude={"valid_sentences"})
    assert recipe.model == written.model
    assert recipe.decode == written.decode
    assert recipe.data == written.data


@pytest.mark.parametrize(
    ("name", "paper", "differences"),
    [
        ("wmt14-en-de-base", "paper-base", {}),
        ("wmt14-en-de-big", "paper-big", {}),
        ("wmt14-en-fr-big", "paper-big", {"dropout": 0.1}),
    ],
)
def test_the_recipes_of_wmt14_are_the_papers(name: str, paper: str, differences: dict[str, float]) -> None:
    recipe, papers = (make_recipe(TranslateRecipe, read_recipe(TranslateRecipe, each)) for each in (name, paper))
    assert recipe.model == papers.model.model_copy(update=differences)
    assert recipe.decode == papers.decode
    every = {"checkpoint_every"}  # ten minutes, which depends on the machine
    assert recipe.train.model_dump(exclude=every) == papers.train.model_dump(exclude=every)
