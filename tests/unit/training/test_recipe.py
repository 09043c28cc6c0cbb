"""Recipes: what is known, what is refused and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.training.recipe import (
    Overrides,
    gather_overrides,
    make_recipe,
    merge,
    minutes_of,
    parse_settings,
    read_recipe,
)


def write(folder: Path, text: str) -> str:
    """Write a recipe file and return its name."""
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    return str(folder / "recipe.yaml")


# What is known


def test_a_recipe_file_states_only_what_differs(tmp_path: Path) -> None:
    name = write(tmp_path, "data: {vocabulary: 37000}\ntrain:\n  steps: 7  # a comment\n")
    assert read_recipe(TranslateRecipe, name) == {"data": {"vocabulary": 37000}, "train": {"steps": 7}}
    assert make_recipe(TranslateRecipe, read_recipe(TranslateRecipe, name)).train.batch_tokens == 25_000


def test_later_wishes_win_key_by_key() -> None:
    merged = merge(
        TranslateRecipe, {"train": {"steps": 1, "ema": 0.5}}, {"train": {"steps": 2}}, {"model": {"layers": 2}}
    )
    assert merged == {"train": {"steps": 2, "ema": 0.5}, "model": {"encoder_layers": 2, "decoder_layers": 2}}


def test_a_recipe_survives_json() -> None:
    recipe = make_recipe(TranslateRecipe, {"model": {"preset": "tiny"}, "train": {"learning_rate": 1e-3}})
    assert TranslateRecipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_settings_win_over_a_recipe_and_a_time_budget_over_both(tmp_path: Path) -> None:
    name = write(tmp_path, "train: {steps: 7, minutes: 3, ema: 0.5}")
    overrides = gather_overrides(TranslateRecipe, name, ["train.steps=8"], minutes=0)
    assert overrides == {"train": {"steps": 8, "minutes": 3, "ema": 0.5}}
    assert minutes_of(overrides) == 3
    assert minutes_of(gather_overrides(TranslateRecipe, name, ["train.minutes=4"], minutes=5)) == 5
    assert minutes_of(gather_overrides(TranslateRecipe, None, [], minutes=0)) == 0


# --set


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("train.learning_rate=1e-4", 1e-4),
        ("train.learning_rate = 0.002", 0.002),
        ("train.steps=5000", 5000),
        ("model.attention_bias=true", True),
        ("model.norm=no", "no"),
        ("model.norm='7'", "7"),
        ("model.norm=a=b", "a=b"),
    ],
)
def test_a_value_is_read_as_in_a_recipe(setting: str, value: object) -> None:
    ((found,),) = [keys.values() for keys in parse_settings([setting], TranslateRecipe.known()).values()]
    assert found == value
    assert type(found) is type(value)


def test_settings_of_one_part_come_together_and_the_last_wins() -> None:
    settings = ["train.steps=1", "data.vocabulary=400", "train.ema=0.5", "train.steps=2"]
    overrides = parse_settings(settings, TranslateRecipe.known())
    assert overrides == {"train": {"steps": 2, "ema": 0.5}, "data": {"vocabulary": 400}}


@pytest.mark.parametrize("setting", ["train.steps", "steps=5", "train=5", "=5", ".steps=5", "", "train.=5"])
def test_what_is_no_setting_is_refused_with_an_example(setting: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings([setting], TranslateRecipe.known())
    assert raised.value.hint


@pytest.mark.parametrize("value", ["[1", "{a: ", "2020-13-45", "!!python/name:os.system", "'", "@"])
def test_a_value_that_is_not_yaml_is_refused_with_its_name(value: str) -> None:
    with pytest.raises(ConfigError, match=r"--set train\.steps="):
        parse_settings([f"train.steps={value}"], TranslateRecipe.known())


# What is refused


@pytest.mark.parametrize(
    ("overrides", "unknown", "nearest"),
    [
        ("train.stepps=1", "train.stepps", "steps"),
        ("train.label_smooting=0.1", "train.label_smooting", "label_smoothing"),
        ("model.layer=1", "model.layer", "layers"),
        ("data.vocab=400", "data.vocab", "vocabulary"),
        ("trian.steps=1", "trian", "train"),
        ("train.lr=1e-3", "train.lr", "learning_rate"),
        ("train.dropout=0.3", "train.dropout", "model.dropout"),
    ],
)
def test_what_is_unknown_is_refused_and_the_nearest_suggested(overrides: str, unknown: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings([overrides], TranslateRecipe.known())
    assert unknown in raised.value.message
    assert raised.value.hint == f"Did you mean {nearest}?"


def test_what_is_like_nothing_known_gets_the_list() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings(["decode.zzz=1"], TranslateRecipe.known())
    assert raised.value.hint == "Known: beam, length_penalty, extra_tokens."


def test_an_unknown_key_of_a_file_is_refused_with_the_file(tmp_path: Path) -> None:
    name = write(tmp_path, "train: {stepps: 5}")
    with pytest.raises(ConfigError, match=r"recipe\.yaml.*train\.stepps"):
        read_recipe(TranslateRecipe, name)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("train", "steps", 0),
        ("train", "steps", "many"),
        ("train", "steps", None),
        ("train", "steps", 1.5),
        ("train", "learning_rate", -1),
        ("train", "learning_rate", float("nan")),
        ("train", "label_smoothing", 1.0),
        ("train", "schedule", "sine"),
        ("train", "optimizer", "sgd"),
        ("train", "layer_decay", 0),
        ("data", "vocabulary", 10),
        ("model", "norm", "no"),
        ("model", "d_model", 10**9),
        ("decode", "beam", 10**9),
    ],
)
def test_a_bad_value_is_refused_with_its_key_and_itself(part: str, key: str, value: object) -> None:
    overrides: Overrides = {part: {key: value}}  # type: ignore[dict-item]
    with pytest.raises(ConfigError) as raised:
        make_recipe(TranslateRecipe, overrides)
    assert f"{part}.{key}" in raised.value.message
    assert repr(value) in raised.value.message


@pytest.mark.parametrize("text", ["", "train", "- train", "train: 5", "train:", "1: {2: 3}", "train: {1: 2}"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: str) -> None:
    name = write(tmp_path, text)
    with pytest.raises(ConfigError, match=r"recipe\.yaml"):
        read_recipe(TranslateRecipe, name)


@pytest.mark.parametrize(
    "text",
    ["train: {steps: 5", "a: b: c", "train: {steps: 1}\ntrain: {steps: 2}", "train: !!python/name:os.system"],
)
def test_a_file_that_is_not_yaml_is_refused(tmp_path: Path, text: str) -> None:
    name = write(tmp_path, text)
    with pytest.raises(ConfigError, match="is not a YAML file"):
        read_recipe(TranslateRecipe, name)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not a YAML file"):
        read_recipe(TranslateRecipe, str(tmp_path / "recipe.yaml"))


@pytest.mark.parametrize("name", ["no-such-recipe", "no/such/file.yaml", "."])
def test_a_recipe_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="There is no recipe"):
        read_recipe(TranslateRecipe, name)
