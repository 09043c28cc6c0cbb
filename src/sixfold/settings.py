"""Settings: descriptions and bounds of dataclass options, and reading `--set part.key=value`.

Recipes, the command line and the server share these functions, so that keys are checked and suggested in one way.
"""

from __future__ import annotations

import difflib
import reprlib
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pydantic import JsonValue

Value = TypeVar("Value")
Kind = TypeVar("Kind")
Overrides: TypeAlias = "dict[str, dict[str, JsonValue]]"  # of a recipe: part -> key -> value, as a user wrote them

HINTS = {  # for types of pydantic's errors
    "string_type": """Quote text that looks like a number or another value: --set '{name}="5"'""",
    "tuple_type": "Write a list: --set '{name}=[one, two]'",
}


@dataclass(frozen=True)
class Former:
    """A key of earlier versions, part.key: its current name, or why it was removed."""

    now: str = ""  # part.key
    values: Mapping[str, str] = field(default_factory=dict)  # former value -> current value, if renamed
    gone: str = ""  # the reason, if the feature was removed
    off: JsonValue = 0  # the value that switched it off, which is still accepted


NONE_FORMER: Mapping[str, Former] = {}

# What may be set


def setting(default: Value, meaning: str, low: float | None = None, high: float | None = None) -> Value:
    """Return a dataclass field with a one-line meaning and, for a number, its bounds."""
    bounds = None if low is None or high is None else (low, high)
    return field(default=default, metadata={"meaning": meaning, "bounds": bounds})


def meanings(kind: type[DataclassInstance]) -> dict[str, str]:
    """Return the settings of a dataclass, each with its meaning."""
    return {each.name: each.metadata["meaning"] for each in fields(kind) if "meaning" in each.metadata}


def bounds(kind: type[DataclassInstance]) -> dict[str, tuple[float, float]]:
    """Return the minimum and maximum of each setting that has bounds."""
    return {each.name: each.metadata["bounds"] for each in fields(kind) if each.metadata.get("bounds")}


def check_bounds(checked: DataclassInstance) -> None:
    """Refuse a number that is out of bounds; None is allowed."""
    for name, (low, high) in bounds(type(checked)).items():
        value = getattr(checked, name)
        if value is not None and not low <= value <= high:
            raise ConfigError(f"{name} must be from {low:,} to {high:,}, but is {value}.")


def make(kind: type[Kind], part: str, values: Mapping[str, object]) -> Kind:
    """Make a dataclass from values whose types are checked like those of a recipe."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join([part, *map(str, problem["loc"])])
        hint = HINTS.get(problem["type"], "").format(name=name)
        raise ConfigError(f"{name} cannot be {reprlib.repr(problem['input'])}: {problem['msg']}.", hint) from error


# How it is read


def parse_settings(
    settings: Iterable[str], known: Mapping[str, Collection[str]], former: Mapping[str, Former] = NONE_FORMER
) -> Overrides:
    """Read `part.key=value` settings; values are read as in a recipe, and the last one of a key counts."""
    overrides: Overrides = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        part, dot, key = name.strip().partition(".")
        if not (equals and dot and key):
            raise ConfigError(f"--set takes part.key=value, but got {setting!r}.", f"For example {example(known)}")
        overrides.setdefault(part, {})[key] = read_value(setting, value)
    overrides = in_current_keys(overrides, former, "--set")
    check_keys(overrides, known, "--set")
    return overrides


def in_current_keys(overrides: Overrides, former: Mapping[str, Former], where: str) -> Overrides:
    """Return overrides in the keys of this version, with a warning for each key of an earlier one."""
    current: Overrides = {}
    for part, keys in overrides.items():
        for key, value in keys.items():
            known = former.get(f"{part}.{key}")
            if known is None:
                current.setdefault(part, {})[key] = value
            elif known.now:
                rename(overrides, current, f"{part}.{key}", value, known, where)
            else:
                refuse_retired(f"{part}.{key}", value, known, where)
    return current


def rename(
    overrides: Overrides, current: Overrides, name: str, value: JsonValue, former: Former, where: str
) -> None:
    """Set the current key from a former one, with a warning; refuse a key given under both names."""
    part, _, key = former.now.partition(".")
    if key in overrides.get(part, {}):
        raise ConfigError(f"{where}: {name} and {former.now} are the same key.", f"Leave {name} out.")
    renamed = former.values.get(value, value) if isinstance(value, str) else value
    now = former.now if renamed == value else f"{former.now}={renamed}"
    before = name if renamed == value else f"{name}={value}"
    warnings.warn(f"{where}: {before} is now called {now}.", FutureWarning, stacklevel=2)
    current.setdefault(part, {})[key] = renamed


def refuse_retired(name: str, value: JsonValue, former: Former, where: str) -> None:
    """Warn of a removed key; refuse it unless its value switched the feature off."""
    if value != former.off:
        raise ConfigError(f"{where}: {name} was removed: {former.gone}", "Leave it out.")
    warnings.warn(f"{where}: {name} was removed: {former.gone}", FutureWarning, stacklevel=2)


def example(known: Mapping[str, Collection[str]]) -> str:
    """Return an example with the first known key."""
    part, keys = next(iter(known.items()))
    return f"--set {part}.{next(iter(keys))}=…"


def read_value(setting: str, value: str) -> JsonValue:
    """Read the value of a setting as YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        content: JsonValue = YAML(typ="safe", pure=True).load(value)
    except (YAMLError, ValueError, RecursionError) as error:  # a date of month 13 is a ValueError
        raise ConfigError(
            f"--set {setting}: the value is not valid YAML.", "Quote text that contains YAML's special characters."
        ) from error
    return content


def check_keys(overrides: Overrides, known: Mapping[str, Collection[str]], where: str) -> None:
    """Refuse unknown parts and keys, and suggest the nearest known ones."""
    for part, keys in overrides.items():
        if part not in known:
            raise ConfigError(f"{where}: there is no part {part!r}.", suggestion(part, known))
        for key in keys:
            if key not in known[part]:
                elsewhere = [f"{other}.{key}" for other in known if key in known[other]]
                hint = f"Did you mean {elsewhere[0]}?" if elsewhere else suggestion(key, known[part])
                raise ConfigError(f"{where}: there is no key {part}.{key}.", hint)


def suggestion(word: str, known: Collection[str]) -> str:
    """Return a hint with the closest known word, or the one that this abbreviates (lr)."""
    shortened = [each for each in known if each.startswith(word) or initials(each) == word]
    close = difflib.get_close_matches(word, list(known), n=1) or shortened
    return f"Did you mean {close[0]}?" if close else f"Known: {', '.join(known)}."


def initials(key: str) -> str:
    """Return the first letters of a key's words: lr for learning_rate."""
    return "".join(part[0] for part in key.split("_"))
