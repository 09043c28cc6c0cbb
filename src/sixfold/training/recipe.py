"""Recipes: the complete configuration of a run, in frozen parts; unknown keys are refused.

A recipe file states only what differs from the plan's choice; `--set part.key=value` does so for one key. Every
task has its own `Recipe`, whose `train` part extends the `TrainConfig` here.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, ValidationError

from sixfold.errors import ConfigError
from sixfold.models.folder import Json
from sixfold.nn import BlockConfig
from sixfold.settings import (
    NONE_FORMER,
    Former,
    Overrides,
    check_keys,
    in_current_keys,
    parse_settings,
    suggestion,
)

UNLIMITED = 10**9  # steps of a run that the clock ends

AnyRecipe = TypeVar("AnyRecipe", bound="Recipe")
Number = TypeVar("Number", int, float)


class TrainConfig(BaseModel):
    """How to train; the defaults are the paper's base model (section 5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(100_000, ge=1, description="maximum number of training steps")
    minutes: float = Field(0.0, ge=0, description="a wall-clock budget; 0: none")
    batch_tokens: int = Field(
        25_000, ge=1, description="tokens per step, padding included; of pairs, the longer side"
    )
    accumulate: int = Field(1, ge=1, le=4096, description="micro-batches per step, to save memory")
    optimizer: Literal["adam", "adamw"] = Field(
        "adam", description="adam, or adamw for weight decay and layer-wise learning rates"
    )
    beta2: float = Field(0.98, gt=0, lt=1, description="decay of Adam's second moment")
    epsilon: float = Field(1e-9, gt=0, lt=1, description="Adam's ε")
    weight_decay: float = Field(
        0.0, ge=0, le=1, description="AdamW's weight decay of matrices; norms and biases have none"
    )
    layer_decay: float = Field(
        1.0, gt=0, le=1, description="factor on the learning rate for each layer below the top"
    )
    frozen: list[str] = Field([], description="name prefixes of weights that are not trained")
    schedule: Literal["inverse_square_root", "linear_decay", "cosine"] = "inverse_square_root"
    learning_rate: float = Field(
        0.0, ge=0, le=1, description="peak learning rate; 0: the paper's (d_model·warmup)^-0.5"
    )
    warmup_steps: int = Field(4000, ge=1, description="steps of learning-rate warm-up")
    dropout_warmup: float = Field(
        0.0, ge=0, le=1, description="fraction of the run over which dropout rises from 0"
    )
    max_grad_norm: float = Field(
        0.0, ge=0, description="clip gradients to this norm; 0: no clipping, as in the paper"
    )
    skip_nonfinite: int = Field(
        0, ge=0, le=1000, description="how many steps may be skipped because the loss or gradient is not finite"
    )
    checkpoint_every: int = Field(1000, ge=1, description="steps between two checkpoints and validations")
    average: int = Field(5, ge=1, le=100, description="number of checkpoints whose weights are averaged")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of an exponential moving average of the weights")
    patience: int = Field(0, ge=0, description="stop after this many validations without a better model; 0: never")
    max_forgetting: float = Field(
        0.0, ge=0, description="points that fine-tuning may lose on the base's own validation text; 0: no limit"
    )

    @property
    def length(self) -> str:
        """How long training takes, in words."""
        steps = "1 step" if self.steps == 1 else f"{self.steps:,} steps"
        if not self.minutes:
            return steps
        minutes = "1 minute" if self.minutes == 1 else f"{self.minutes:g} minutes"
        return minutes + (f" or {steps}" if self.steps < UNLIMITED else "")

    @property
    def summary(self) -> str:
        """How long training takes and how large its steps are, in words."""
        falling = f"; the learning rate falls linearly from {self.learning_rate:g} to zero"
        return f"trains for {self.length}, {self.batch_tokens:,} tokens a step" + (
            falling if self.schedule == "linear_decay" else ""
        )


class Recipe(BaseModel):
    """All choices of a run; a task defines the parts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: SerializeAsAny[BaseModel]
    model: SerializeAsAny[BlockConfig]
    train: SerializeAsAny[TrainConfig]
    decode: SerializeAsAny[BaseModel]

    former: ClassVar[Mapping[str, Former]] = NONE_FORMER  # keys of earlier versions
    presets: ClassVar[Mapping[str, BlockConfig]] = {}  # what model.preset stands for
    abbreviations: ClassVar[Mapping[str, Sequence[str]]] = {}  # other keys of the model that stand for several

    @classmethod
    def parts(cls) -> dict[str, type[BaseModel]]:
        """Return the definition of each part."""
        hints = get_type_hints(cls)
        return {name: hints[name] for name in cls.model_fields}

    @classmethod
    def known_keys(cls, part: str) -> list[str]:
        """Return the known keys of a part."""
        abbreviations = ["preset", *cls.abbreviations] if part == "model" and cls.presets else []
        return [*cls.parts()[part].model_fields, *abbreviations]

    @classmethod
    def known(cls) -> dict[str, list[str]]:
        """Return the known keys of each part."""
        return {part: cls.known_keys(part) for part in cls.parts()}

    @classmethod
    def expand(cls, part: str, keys: dict[str, Json]) -> dict[str, Json]:
        """Return keys without abbreviations; keys of several change a preset, and single keys change both."""
        if part != "model":
            return keys
        preset = cls.fields_of_preset(str(keys["preset"])) if "preset" in keys else {}
        several = {name: value for key, value in keys.items() for name in cls.abbreviations.get(key, ())}
        single = {key: value for key, value in keys.items() if key not in ("preset", *cls.abbreviations)}
        return {**preset, **several, **single}

    @classmethod
    def fields_of_preset(cls, name: str) -> dict[str, Json]:
        """Return what a preset stands for."""
        if name not in cls.presets:
            raise ConfigError(f"There is no preset {name!r}.", suggestion(name, cls.presets))
        return cls.presets[name].model_dump()

    @property
    def num_members(self) -> int:
        """The number of models in the ensemble."""
        return int(getattr(self.model, "ensemble", 1))


@dataclass(frozen=True)
class Plan:
    """A complete recipe, and the reasons for its choices in words."""

    recipe: Recipe
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    held_out: str = ""  # what is held out to validate on where the user gives nothing, in words


def gather_overrides(recipe: type[Recipe], name: str | None, settings: Iterable[str], minutes: float) -> Overrides:
    """Return the user's overrides: a recipe, then --set, then --minutes; later ones win."""
    asked = parse_settings(settings, recipe.known(), recipe.former)
    overrides = merge(recipe, read_recipe(recipe, name) if name else {}, asked)
    return merge(recipe, overrides, {"train": {"minutes": minutes}}) if minutes else overrides


def minutes_of(overrides: Overrides) -> float:
    """Return the time budget, or 0 if there is none."""
    minutes = overrides.get("train", {}).get("minutes", 0)
    return float(minutes) if isinstance(minutes, int | float) else 0.0


def has_own_shape(overrides: Overrides) -> bool:
    """Return whether the user defines the model's shape, so that none of it is chosen automatically."""
    return not overrides.get("model", {}).keys().isdisjoint(("preset", "d_model"))


def pick(value: float, table: tuple[tuple[float, Number], ...], otherwise: Number) -> Number:
    """Return the entry of the first row whose bound exceeds the value."""
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
        raise ConfigError(f"{path} must consist of parts with keys, such as `train: {{steps: 1000}}`.")
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
    """Return the recipes that come with Sixfold, by name: in the package of a wheel, at the root of a checkout."""
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
