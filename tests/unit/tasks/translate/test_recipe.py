"""The recipe of a translation model: the paper's unless stated, presets, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import PRESETS, Architecture
from sixfold.tasks.translate.recipe import ModelConfig, TranslateRecipe
from sixfold.training.recipe import gather_overrides, make_recipe, merge, read_recipe, shipped_recipes


def test_an_empty_recipe_is_the_base_model_of_the_paper() -> None:
    recipe = make_recipe(TranslateRecipe, {})
    assert recipe.model == ModelConfig()
    assert PRESETS["base"] == Architecture() == Architecture(**recipe.model.model_dump(exclude={"ensemble"}))
    assert (recipe.train.warmup_steps, recipe.train.label_smoothing, recipe.train.steps) == (4000, 0.1, 100_000)
    assert (recipe.decode.beam, recipe.decode.length_penalty) == (4, 0.6)


def test_an_empty_recipe_is_trained_as_in_section_5_3() -> None:
    train = make_recipe(TranslateRecipe, {}).train
    assert (train.optimizer, train.beta2, train.epsilon, train.weight_decay) == ("adam", 0.98, 1e-9, 0)
    assert (train.schedule, train.learning_rate, train.layer_decay) == ("inverse_square_root", 0, 1)
    assert (train.max_grad_norm, train.dropout_warmup, train.frozen) == (0, 0, [])


def test_a_preset_brings_all_its_fields_and_other_keys_win() -> None:
    model = make_recipe(TranslateRecipe, {"model": {"preset": "big", "dropout": 0.2}}).model
    assert model == ModelConfig(**{**PRESETS["big"].model_dump(), "dropout": 0.2})


def test_layers_are_the_depth_of_both_stacks() -> None:
    model = make_recipe(TranslateRecipe, {"model": {"preset": "tiny", "layers": 3}}).model
    assert (model.encoder_layers, model.decoder_layers) == (3, 3)


def test_one_depth_can_differ_from_layers() -> None:
    model = make_recipe(TranslateRecipe, {"model": {"layers": 3, "decoder_layers": 1}}).model
    assert (model.encoder_layers, model.decoder_layers) == (3, 1)


def test_a_preset_is_a_shape_and_leaves_the_number_of_models() -> None:
    merged = merge(TranslateRecipe, {"model": {"ensemble": 3}}, {"model": {"preset": "tiny"}})
    assert make_recipe(TranslateRecipe, merged).model.ensemble == 3


def test_a_later_preset_wins_over_earlier_fields() -> None:
    merged = merge(TranslateRecipe, {"model": {"d_model": 32}}, {"model": {"preset": "tiny"}})
    assert make_recipe(TranslateRecipe, merged).model == ModelConfig(**PRESETS["tiny"].model_dump())


def test_every_recipe_that_comes_along_is_valid() -> None:
    for name in shipped_recipes():
        assert isinstance(make_recipe(TranslateRecipe, read_recipe(TranslateRecipe, name)), TranslateRecipe)


def test_an_unknown_preset_is_refused_and_the_nearest_suggested() -> None:
    with pytest.raises(ConfigError) as raised:
        make_recipe(TranslateRecipe, {"model": {"preset": "bas"}})
    assert raised.value.hint == "Did you mean base?"


def test_a_width_that_the_heads_cannot_share_is_refused_with_a_number_that_works() -> None:
    with pytest.raises(ConfigError, match="d_model=30, heads=4") as raised:
        make_recipe(TranslateRecipe, {"model": {"d_model": 30, "heads": 4}})
    assert "heads=3" in raised.value.hint


RENAMED = [
    ("data.join", 0.5, "data.concatenate", 0.5),
    ("model.members", 2, "model.ensemble", 2),
    ("train.start", "words", "train.initialise", "cooccurrence"),
    ("train.start", "random", "train.initialise", "random"),
    ("train.dropout_rise", 0.5, "train.dropout_warmup", 0.5),
    ("train.most_forgotten", 2, "train.max_forgetting", 2),
]
GONE = sorted(key for key, former in TranslateRecipe.former.items() if former.gone)


@pytest.mark.parametrize(("before", "value", "now", "current"), RENAMED)
def test_the_former_name_of_a_key_still_works_and_warns(
    tmp_path: Path, before: str, value: str | float, now: str, current: str | float
) -> None:
    (old_part, old_key), (part, key) = before.split("."), now.split(".")
    file = tmp_path / "recipe.yaml"
    file.write_text(f"{old_part}: {{{old_key}: {value}}}")
    for recipe, settings in ((None, [f"{before}={value}"]), (str(file), [])):
        with pytest.warns(FutureWarning, match=f"{before}.* is now called {now}") as caught:
            overrides = gather_overrides(TranslateRecipe, recipe, settings, minutes=0)
        assert overrides == {part: {key: current}}
        assert len(caught) == 1
        assert make_recipe(TranslateRecipe, overrides).model_dump()[part][key] == current


@pytest.mark.parametrize(("before", "value", "now", "current"), RENAMED)
def test_both_names_of_a_key_at_once_are_refused(
    before: str, value: str | float, now: str, current: str | float
) -> None:
    for settings in ([f"{before}={value}", f"{now}={current}"], [f"{now}={current}", f"{before}={value}"]):
        with pytest.raises(ConfigError, match=f"{before} and {now} are the same key") as raised:
            gather_overrides(TranslateRecipe, None, settings, minutes=0)
        assert raised.value.hint == f"Leave {before} out."


def test_every_former_key_is_tested() -> None:
    assert {before for before, *_ in RENAMED} | {*GONE} == TranslateRecipe.former.keys()


@pytest.mark.parametrize("key", GONE)
def test_a_key_that_is_gone_may_ask_for_nothing_and_is_refused_with_the_reason_otherwise(key: str) -> None:
    with pytest.warns(FutureWarning, match=f"{key} was removed: .*docs/log.md"):
        assert gather_overrides(TranslateRecipe, None, [f"{key}=0"], minutes=0) == {}
    with pytest.raises(ConfigError, match=f"{key} was removed"):
        gather_overrides(TranslateRecipe, None, [f"{key}=0.2"], minutes=0)


def test_learned_positions_too_few_for_the_longest_pair_are_refused_with_both_keys() -> None:
    model = {"positions": "learned", "max_positions": 128}
    with pytest.raises(ConfigError, match=r"data\.max_tokens=128 .* model\.max_positions is 128") as raised:
        make_recipe(TranslateRecipe, {"model": model, "data": {"max_tokens": 128}})
    assert raised.value.hint == "Set model.max_positions=129, or data.max_tokens=127."
    assert make_recipe(TranslateRecipe, {"model": model, "data": {"max_tokens": 127}}).model.max_positions == 128
    assert make_recipe(TranslateRecipe, {"model": {"max_positions": 128}})  # sinusoids have no end
