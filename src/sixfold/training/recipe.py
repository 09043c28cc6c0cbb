"""Recipes: what a run does, in frozen parts, with unknown keys refused.

A recipe file states only what differs from what the plan would choose; `--set part.key=value` is the
same for one key. Every task has a `Recipe` of its own, whose `train` part begins with the `TrainConfig` here.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from sixfold.errors import ConfigError
from sixfold.models.folder import Json
from sixfold.nn import BlockConfig
from sixfold.settings import NONE_FORMER, Former, Overrides, check_keys, in_current_keys, parse_settings

AnyRecipe = TypeVar("AnyRecipe", bound="Recipe")
Number = TypeVar("Number", int, float)


class TrainConfig(BaseModel):
    """How to train; the defaults are the paper's base model (section 5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(100_000, ge=1, description="training steps at most")
    minutes: float = Field(0.0, ge=0, description="a wall-clock budget; 0: none")
    batch_tokens: int = Field(25_000, ge=1, description="tokens of the longer side in one step, padding included")
    accumulate: int = Field(1, ge=1, le=4096, description="micro-batches a step is computed in, to save memory")
    optimizer: Literal["adam", "adamw"] = Field(
        "adam", description="adamw: with weight decay and layer-wise rates"
    )
    beta2: float = Field(0.98, gt=0, lt=1, description="decay of Adam's second moment")
    epsilon: float = Field(1e-9, gt=0, lt=1, description="Adam's ε")
    weight_decay: float = Field(0.0, ge=0, le=1, description="AdamW's, of matrices; norms and biases have none")
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="factor of the learning rate for each layer below the top"
    )
    frozen: list[str] = Field([], description="prefixes of the names of weights that are not trained")
    schedule: Literal["inverse_square_root", "linear_decay", "cosine"] = "inverse_square_root"
    learning_rate: float = Field(0.0, ge=0, le=1, description="at its peak; 0: the paper's (d_model·warmup)^-0.5")
    warmup_steps: int = Field(4000, ge=1, description="steps of learning-rate warm-up")
    dropout_warmup: float = Field(
        0.0, ge=0, le=1, description="fraction of the run over which dropout rises from 0"
    )
    max_grad_norm: float = Field(0.0, ge=0, description="0: gradients are not clipped, as in the paper")
    skip_nonfinite: int = Field(
        0, ge=0, le=1000, description="steps to leave out whose loss or gradient is not finite"
    )
    checkpoint_every: int = Field(1000, ge=1, description="steps between two checkpoints and validations")
    average: int = Field(5, ge=1, le=100, description="checkpoints whose weights are averaged")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of an exponential moving average of the weights")
    patience: int = Field(0, ge=0, description="validations without a better model before stopping; 0: never")
    max_forgetting: float = Field(
        0.0, ge=0, description="points that fine-tuning may lose on the base's own validation text; 0: any number"
    )


class Recipe(BaseModel):
    """All the choices of a run; a task says what its parts are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: SerializeAsAny[BaseModel]
    model: SerializeAsAny[BlockConfig]
    train: SerializeAsAny[TrainConfig]
    decode: SerializeAsAny[BaseModel]

    former: ClassVar[Mapping[str, Former]] = NONE_FORMER  # keys of earlier versions

    @classmethod
    def parts(cls) -> dict[str, type[BaseModel]]:
        """Return the definition of each part."""
        hints = get_type_hints(cls)
        return {name: hints[name] for name in cls.model_fields}

    @classmethod
    def known_keys(cls, part: str) -> list[str]:
        """Return what can be said in a part."""
        return list(cls.parts()[part].model_fields)

    @classmethod
    def known(cls) -> dict[str, list[str]]:
        """Return what can be said in each part."""
        return {part: cls.known_keys(part) for part in cls.parts()}

    @classmethod
    def expand(cls, part: str, keys: dict[str, Json]) -> dict[str, Json]:
        """Return keys without abbreviations, such as a preset."""
        del part
        return keys

    @property
    def num_members(self) -> int:
        """The number of models in the ensemble."""
        return int(getattr(self.model, "ensemble", 1))


@dataclass(frozen=True)
class Plan:
    """A complete recipe and, in plain words, why it is this one."""

    recipe: Recipe
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def gather_overrides(recipe: type[Recipe], name: str | None, settings: Iterable[str], minutes: float) -> Overrides:
    """Return what a user asks for: a recipe, changed by settings, changed by a time budget."""
    asked = parse_settings(settings, recipe.known(), recipe.former)
    overrides = merge(recipe, read_recipe(recipe, name) if name else {}, asked)
    return merge(recipe, overrides, {"train": {"minutes": minutes}}) if minutes else overrides


def minutes_of(overrides: Overrides) -> float:
    """Return the time budget, or 0 where there is none."""
    minutes = overrides.get("train", {}).get("minutes", 0)
    return float(minutes) if isinstance(minutes, int | float) else 0.0


def has_own_shape(overrides: Overrides) -> bool:
    """Return whether the user describes a model, which then keeps nothing of ours."""
    return not overrides.get("model", {}).keys().isdisjoint(("preset", "d_model"))


def pick(value: float, table: tuple[tuple[float, Number], ...], otherwise: Number) -> Number:
    """Return the entry of the first row whose bound is above the value."""
    return next((entry for bound, entry in table if value < bound), otherwise)


def read_recipe(recipe: type[Recipe], name: str) -> Overrides:
    """Read a recipe: a YAML file, or the name of one that comes with Sixfold."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    path = find_recipe(name)
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, ValueError, RecursionError, OSError) as error:  # a date of month 13 is a ValueError
        raise ConfigError(f"{path} is not a YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not all(isinstance(part, dict) for part in content.values()):
        raise ConfigError(f"{path} must hold parts of keys, such as `train: {{steps: 1000}}`.")
    overrides = {str(part): {str(key): value for key, value in keys.items()} for part, keys in content.items()}
    overrides = in_current_keys(overrides, recipe.former, str(path))
    check_keys(overrides, recipe.known(), str(path))
    return overrides


def find_recipe(name: str) -> Path:
    """Return the path of a recipe given by path or by name."""
    shipped = shipped_recipes()
    path = shipped.get(name, Path(name))
    if not path.is_file():
        raise ConfigError(f"There is no recipe {name}.", f"Give a YAML file, or one of: {', '.join(shipped)}.")
    return path


def shipped_recipes() -> dict[str, Path]:
    """Return the recipes that come with Sixfold, by name: beside the code in a wheel, above it in a checkout."""
    here = Path(__file__).resolve()
    folders = (here.parents[1] / "recipes", here.parents[3] / "recipes")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def merge(recipe: type[Recipe], *layers: Overrides) -> Overrides:
    """Merge overrides; later ones win."""
    merged: Overrides = {}
    for layer in layers:
        for part, keys in layer.items():
            merged.setdefault(part, {}).update(recipe.expand(part, keys))
    return merged


def make_recipe(recipe: type[AnyRecipe], overrides: Overrides) -> AnyRecipe:
    """Check the overrides and fill in the rest with the paper's values."""
    try:
        return recipe.model_validate(merge(recipe, overrides))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise ConfigError(f"{where} cannot be {reprlib.repr(problem['input'])}: {problem['msg']}.") from error
