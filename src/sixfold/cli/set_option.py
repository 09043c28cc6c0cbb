"""The settings of `--set` in each command, and how they combine with flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args, get_origin

from sixfold.errors import ConfigError
from sixfold.settings import NONE_FORMER, Former, meanings, parse_settings

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from sixfold.data.languages import Languages
    from sixfold.settings import Overrides

Known = dict[str, dict[str, str]]  # part -> key -> meaning

ABBREVIATIONS = {
    "preset": "a named model shape: tiny, small, base or big (translate); llama-tiny, gpt2 … (generate); "
    "encoder-tiny, bert-base … (understand)",
    "layers": "number of layers, of encoder and decoder each",
}


def known_settings(command: str) -> Known:
    """Return the settings of a command's `--set` with their meanings; none if it has no `--set`."""
    makers = {
        "train": recipe_settings,
        "plan": recipe_settings,
        "translate": translate_settings,
        "generate": generate_settings,
        "explain": explain_settings,
        "score": score_settings,
        "check": text_settings,
        "evaluate": text_settings,
        "serve": serve_settings,
    }
    return makers[command]() if command in makers else {}


def recipe_settings() -> Known:
    """Return the keys of all tasks' recipes; a key of several tasks has the meaning of the first."""
    from sixfold.tasks.registry import TASKS

    known: Known = {}
    for recipe in dict.fromkeys(task.recipe for task in TASKS.values()):
        parts = recipe.parts()
        for part, keys in recipe.known().items():
            fields, meanings = parts[part].model_fields, known.setdefault(part, {})
            for key in keys:
                meanings.setdefault(key, described(fields[key]) if key in fields else ABBREVIATIONS[key])
    return known


def described(field: FieldInfo) -> str:
    """Return the meaning of a recipe's key, or else its possible values."""
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return field.description or " or ".join(map(str, choices))


def translate_settings() -> Known:
    """Return the options of a search, and those of its JSON."""
    from sixfold.cli.translate import JsonOptions
    from sixfold.decode.options import SearchOptions

    return {"decode": {**meanings(SearchOptions), **meanings(JsonOptions)}}


def generate_settings() -> Known:
    """Return the options of generation."""
    from sixfold.decode.generate_options import GenerateOptions

    return {"decode": meanings(GenerateOptions)}


def explain_settings() -> Known:
    """Return the options of writing one text in one context."""
    known = generate_settings()["decode"]
    return {"decode": {key: meaning for key, meaning in known.items() if key not in ("samples", "slide")}}


def score_settings() -> Known:
    """Return the only search option that a score depends on."""
    from sixfold.decode.options import SearchOptions

    return {"decode": {"length_penalty": meanings(SearchOptions)["length_penalty"]}, **data_settings()}


def data_settings() -> Known:
    """Return the settings for reading text."""
    from sixfold.data.languages import MEANING

    return {"data": {"languages": MEANING}}


def text_settings() -> Known:
    """Return the settings for reading text of any kind."""
    from sixfold.data.texts import SEPARATORS

    return {"data": {**data_settings()["data"], "documents": SEPARATORS}}


def serve_settings() -> Known:
    """Return the limits of a server."""
    from sixfold.serve.server_settings import ServerSettings

    return {"serve": meanings(ServerSettings)}


def read_settings(command: str, settings: Sequence[str] | None) -> Overrides:
    """Read the values of `--set`."""
    return parse_settings(settings or (), known_settings(command), former_settings(command))


def former_settings(command: str) -> Mapping[str, Former]:
    """Return a command's former settings."""
    from sixfold.tasks.translate.recipe import TranslateRecipe

    return TranslateRecipe.former if command in ("train", "plan") else NONE_FORMER


def read_languages(command: str, settings: Sequence[str] | None) -> Languages | None:
    """Return the source and target language that `--set` names, if any."""
    from sixfold.data.languages import asked_languages

    return asked_languages(read_settings(command, settings).get("data", {}).get("languages"))


def together(
    part: str, flags: Mapping[str, object | None], settings: Mapping[str, object] | None
) -> dict[str, object]:
    """Merge the values of a part from flags and `--set`; None is a flag that was not given."""
    refuse_twice(part, flags, settings)
    return {**{name: value for name, value in flags.items() if value is not None}, **(settings or {})}


def refuse_twice(part: str, flags: Mapping[str, object | None], settings: Mapping[str, object] | None) -> None:
    """Refuse a key that is set both by a flag and by `--set`, instead of ignoring one of them."""
    for name in settings or {}:
        if flags.get(name) is not None:
            raise ConfigError(
                f"{as_flag(name)} and --set {part}.{name} set the same key.", "Leave one of them out."
            )


def as_flag(name: str) -> str:
    """Return the flag with the name of a setting."""
    return f"--{name.replace('_', '-')}"
