"""The source and target language of a file: the two that the user names, source first, or the only two it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from sixfold.errors import ConfigError, DataError

Languages = tuple[str, str]  # source and target: language tags, or keys of a record

MEANING = "source and target language, such as [en, de]; in TMX, JSONL and Parquet also which two are read"


def asked_languages(value: object) -> Languages | None:
    """Return the two languages that `data.languages` names; None if it names none."""
    if value is None or value == []:
        return None
    if isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value):
        names = [each.strip() for each in value]
        if len(set(names)) == len(names) == 2:
            return names[0], names[1]
    raise ConfigError(
        f"data.languages names two different languages, source first, but is {value!r}.",
        "For example --set 'data.languages=[en, de]'",
    )


def choose_sides(names: Sequence[str], asked: Languages | None, where: str) -> Languages:
    """Return which keys of a record are its source and its target; refuse if that is ambiguous."""
    has_both = {"source", "target"} <= set(names)
    if asked and set(asked) <= set(names):
        return asked
    if has_both:
        return "source", "target"  # the record names the sides, but not their languages
    if asked is None and len(names) == 2:
        return names[0], names[1]
    expected = " and ".join(asked or ("source", "target"))
    raise DataError(f"{where}: expected {expected}, found {', '.join(names) or 'nothing'}.", how_to_choose(names))


def how_to_choose(names: Sequence[str]) -> str:
    """Return the hint that tells how to name two languages."""
    first, second = names[:2] if len(names) > 1 else ("en", "de")
    return f"Name two of them, source first: --set 'data.languages=[{first}, {second}]'"


def tag_of(language: str, tags: Collection[str]) -> str | None:
    """Return the closest tag of a language: itself, a variety (en-US for en), or a general one (en for en-US)."""
    ranked = [(rank, tag) for tag in tags if (rank := distance(language, tag)) is not None]
    return min(ranked, key=lambda each: each[0])[1] if ranked else None


@cache
def distance(language: str, tag: str) -> int | None:
    """Return how far a tag is from a language, ignoring case: 0 for the same, None for another language."""
    language, tag = (name.casefold().replace("_", "-") for name in (language, tag))
    if tag == language:
        return 0
    if tag.startswith(f"{language}-"):
        return 1
    return 2 if language.startswith(f"{tag}-") else None
