"""The options of translation: one frozen definition, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from sixfold.errors import ConfigError
from sixfold.settings import bounds, check_bounds, setting
from sixfold.text.spelling import UNKNOWN
from sixfold.text.words import occurs

MOST_PHRASES, LONGEST_PHRASE = 64, 200  # of each kind; characters


@dataclass(frozen=True)
class SearchOptions:
    """How to translate. None: the default of the model folder, or off."""

    beam: int | None = setting(None, "beam size; 1: greedy search", 1, 128)
    n_best: int = setting(1, "number of translations of each text, best first", 1, 128)
    length_penalty: float | None = setting(
        None, "α of the GNMT length penalty; larger prefers longer translations", 0, 10
    )
    sample: float | None = setting(None, "sample each token at this temperature, instead of searching", 0.01, 10)
    top_k: int | None = setting(None, "sample from the k most probable tokens", 1, 1_000_000)
    top_p: float | None = setting(
        None, "sample from the most probable tokens whose probabilities add up to p", 1e-6, 1
    )
    seed: int | None = setting(None, "random seed of sampling; default 1", 0, 2**63 - 1)
    prefix: str = setting("", "text that every translation begins with")
    require: tuple[str, ...] = setting((), "phrases that every translation must contain")
    forbid: tuple[str, ...] = setting((), "words and phrases that no translation may contain")
    min_length: int = setting(0, "minimum number of tokens, without the end token", 0, 10_000)
    max_length: int | None = setting(None, "maximum number of tokens", 1, 10_000)
    no_repeat: int | None = setting(None, "no sequence of n tokens occurs twice", 1, 100)

    def __post_init__(self) -> None:
        for name in ("require", "forbid"):
            object.__setattr__(self, name, phrases(name, getattr(self, name)))
        check_bounds(self)
        if self.prefix:
            check_text("prefix", self.prefix)
        self.check_together()

    def check_together(self) -> None:
        """Refuse options that contradict each other."""
        for name, others in (
            ("sample", ("beam", "require")),
            ("require", ("no_repeat",)),
        ):
            for other in others:
                if getattr(self, name) and getattr(self, other) and (other, self.beam) != ("beam", 1):
                    raise ConfigError(f"{name} and {other} cannot be used together.", "Leave one of them out.")
        for name in ("top_k", "top_p", "seed"):
            if getattr(self, name) is not None and self.sample is None:
                raise ConfigError(f"{name} only applies to sampling.", "Add a temperature: --sample 1")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"min_length ({self.min_length}) must not be greater than max_length ({self.max_length})."
            )
        for word, phrase in product(self.forbid, (self.prefix, *self.require)):
            if phrase and occurs(word, phrase):
                raise ConfigError(f"{word!r} is forbidden, but is part of {phrase!r}, which is required.")


BOUNDS = bounds(SearchOptions)


def phrases(name: str, given: object) -> tuple[str, ...]:
    """Return checked phrases, without spaces around them."""
    if isinstance(given, str) or not isinstance(given, (tuple, list)):
        raise ConfigError(f"{name} must be a list of phrases, but is {given!r}.")
    if len(given) > MOST_PHRASES:
        raise ConfigError(f"{name} takes at most {MOST_PHRASES} phrases, but there are {len(given):,}.")
    return tuple(dict.fromkeys(check_text(name, phrase).strip() for phrase in given))


def check_text(name: str, text: str) -> str:
    """Refuse a text that no translation can contain."""
    is_unicode = not any("\ud800" <= character <= "\udfff" for character in text)
    if not text.strip() or "\n" in text or UNKNOWN in text or not is_unicode:
        raise ConfigError(f"{name} must be text on one line, but is {text!r}.")
    if len(text) > LONGEST_PHRASE:
        raise ConfigError(
            f"{name} must have at most {LONGEST_PHRASE} characters, but has {len(text):,}: {text[:20]!r}…"
        )
    return text
