"""Recipes: what a run does, in four frozen parts, with unknown keys refused.

A recipe file states only what differs from what the plan would choose; `--set part.key=value` is the
same for one key.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sixfold.decode.config import DecodeConfig
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import PRESETS, Architecture, EncoderDecoderConfig
from sixfold.models.folder import Json
from sixfold.text import Subwords

Wishes = dict[str, dict[str, Json]]  # part -> key -> value, as a user wrote them


class DataConfig(BaseModel):
    """How text becomes tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocabulary: int = Field(8000, ge=262, le=1_000_000, description="subwords shared by both languages")
    subwords: Subwords = "bpe"
    subword_dropout: float = Field(0.0, ge=0, lt=1, description="BPE-dropout: other spellings every epoch")
    join: float = Field(0.0, ge=0, le=1, description="share of steps on pairs joined to longer ones")
    max_tokens: int = Field(256, ge=1, le=8192, description="pairs with a longer side are left out, and counted")
    valid_pairs: int = Field(1000, ge=1, description="held out of the training text when no --valid is given")

    @model_validator(mode="after")
    def check_dropout(self) -> DataConfig:
        """Refuse to leave out merges where there are none."""
        if self.subword_dropout and self.subwords != "bpe":
            raise ConfigError(
                f"data.subword_dropout leaves out merges, and {self.subwords} subwords have none.",
                "Use it with --set data.subwords=bpe",
            )
        return self


class ModelConfig(Architecture):
    """What is trained: a shape, and how many models of it."""

    members: int = Field(1, ge=1, le=16, description="models of this shape, whose predictions are averaged")

    def config(self, vocabulary: int) -> EncoderDecoderConfig:
        """Return the configuration of each of them for so many tokens."""
        return EncoderDecoderConfig(**self.model_dump(exclude={"members"}), vocabulary=vocabulary)


class TrainConfig(BaseModel):
    """How to train; the defaults are the paper's base model (section 5)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: int = Field(100_000, ge=1)
    minutes: float = Field(0.0, ge=0, description="a wall-clock budget; 0: none")
    batch_tokens: int = Field(25_000, ge=1, description="tokens of the longer side in one step, padding included")
    accumulate: int = Field(1, ge=1, le=4096, description="parts a step is computed in, to save memory")
    start: Literal["random", "words"] = Field(
        "random", description="words: embeddings from which tokens occur together in the pairs"
    )
    schedule: Literal["inverse_square_root", "linear_decay"] = "inverse_square_root"
    learning_rate: float = Field(0.0, ge=0, le=1, description="at its peak; 0: the paper's (d_model·warmup)^-0.5")
    warmup_steps: int = Field(4000, ge=1)
    dropout_rise: float = Field(0.0, ge=0, le=1, description="share of the run in which dropout rises from 0")
    both_ways: float = Field(0.0, ge=0, le=1, description="share of the pairs that are turned round")
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    max_grad_norm: float = Field(0.0, ge=0, description="0: gradients are not clipped, as in the paper")
    skip_nonfinite: int = Field(0, ge=0, le=1000, description="steps to leave out whose loss or gradient is none")
    checkpoint_every: int = Field(1000, ge=1, description="steps between two checkpoints and validations")
    average: int = Field(5, ge=1, le=100, description="checkpoints whose weights are averaged")
    ema: float = Field(0.0, ge=0, lt=1, description="decay of an exponential moving average of the weights")
    patience: int = Field(0, ge=0, description="validations without a better model before stopping; 0: never")
    valid_sentences: int = Field(500, ge=1, description="held-out sentences that one validation translates")


class Recipe(BaseModel):
    """All the choices of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()

    @model_validator(mode="after")
    def check_reading_back(self) -> Recipe:
        """Refuse to read back with a model that was never taught to."""
        if self.decode.read_back and not self.train.both_ways:
            raise ConfigError(
                "decode.read_back is for a model that learns both ways, but train.both_ways is 0.",
                "Add --set train.both_ways=0.2, or leave it out.",
            )
        return self


PARTS: dict[str, type[BaseModel]] = {
    "data": DataConfig,
    "model": ModelConfig,
    "train": TrainConfig,
    "decode": DecodeConfig,
}


def read_recipe(name: str) -> Wishes:
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
    wishes = {str(part): {str(key): value for key, value in keys.items()} for part, keys in content.items()}
    check_keys(wishes, str(path))
    return wishes


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


def parse_settings(settings: Iterable[str]) -> Wishes:
    """Turn `part.key=value` settings into wishes; values are read as in a recipe."""
    wishes: Wishes = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        part, dot, key = name.strip().partition(".")
        if not (equals and dot and key):
            raise ConfigError(
                f"--set takes part.key=value, but got {setting!r}.", "For example --set train.steps=5000"
            )
        wishes.setdefault(part, {})[key] = read_value(setting, value)
    check_keys(wishes, "--set")
    return wishes


def read_value(setting: str, value: str) -> Json:
    """Read the value of a setting as YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content: Json = YAML(typ="safe", pure=True).load(value)
    except (YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"--set {setting}: the value is not YAML.", "Put text that has signs of YAML in it into quotes."
        ) from error
    return content


def check_keys(wishes: Wishes, where: str) -> None:
    """Refuse unknown parts and keys, and suggest the nearest known ones."""
    for part, keys in wishes.items():
        if part not in PARTS:
            raise ConfigError(f"{where}: there is no part {part!r}.", suggestion(part, PARTS))
        for key in keys:
            if key not in known_keys(part):
                elsewhere = [f"{other}.{key}" for other in PARTS if key in known_keys(other)]
                hint = f"Did you mean {elsewhere[0]}?" if elsewhere else suggestion(key, known_keys(part))
                raise ConfigError(f"{where}: there is no key {part}.{key}.", hint)


def known_keys(part: str) -> list[str]:
    """Return what can be said in a part of a recipe."""
    return list(PARTS[part].model_fields) + (["preset", "layers"] if part == "model" else [])


def suggestion(word: str, known: Collection[str]) -> str:
    """Return a hint with the known word most like this one, or that it is short for (lr)."""
    shortened = [each for each in known if each.startswith(word) or initials(each) == word]
    close = difflib.get_close_matches(word, list(known), n=1) or shortened
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."


def initials(key: str) -> str:
    """Return the first letters of a key's words: lr for learning_rate."""
    return "".join(part[0] for part in key.split("_"))


def merge(*layers: Wishes) -> Wishes:
    """Lay wishes over each other; later ones win."""
    merged: Wishes = {}
    for layer in layers:
        for part, keys in layer.items():
            merged.setdefault(part, {}).update(expand_model(keys) if part == "model" else keys)
    return merged


def expand_model(keys: Mapping[str, Json]) -> dict[str, Json]:
    """Replace `preset` by its fields and `layers` by both depths."""
    rest = dict(keys)
    expanded: dict[str, Json] = {}
    if "preset" in rest:
        preset = str(rest.pop("preset"))
        if preset not in PRESETS:
            raise ConfigError(f"There is no preset {preset!r}.", suggestion(preset, PRESETS))
        expanded.update(PRESETS[preset].model_dump())
    if "layers" in rest:
        expanded["encoder_layers"] = expanded["decoder_layers"] = rest.pop("layers")
    return {**expanded, **rest}


def make_recipe(wishes: Wishes) -> Recipe:
    """Check the wishes and fill in the rest with the paper's values."""
    try:
        return Recipe.model_validate(merge(wishes))
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise ConfigError(f"{where} cannot be {reprlib.repr(problem['input'])}: {problem['msg']}.") from error
