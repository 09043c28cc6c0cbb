"""How to search: one frozen definition, checked before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from sixfold.errors import ConfigError
from sixfold.text.spelling import UNKNOWN
from sixfold.text.words import occurs

BOUNDS: dict[str, tuple[float, float]] = {
    "beam": (1, 128),
    "n_best": (1, 128),
    "length_penalty": (0, 10),
    "read_back": (0, 10),
    "sample": (0.01, 10),
    "top_k": (1, 1_000_000),
    "top_p": (1e-6, 1),
    "seed": (0, 2**63 - 1),
    "diverse": (0.01, 100),
    "min_length": (0, 10_000),
    "max_length": (1, 10_000),
    "no_repeat": (1, 100),
}
MOST_PHRASES, LONGEST_PHRASE = 64, 200  # of each kind; characters


@dataclass(frozen=True)
class SearchOptions:
    """What to search for. None means: as the model folder says, or not at all."""

    beam: int | None = None  # hypotheses kept at a time; 1 is greedy
    n_best: int = 1  # translations of each text
    length_penalty: float | None = None  # α of the GNMT length penalty
    read_back: float | None = None  # what the source's score counts, when it is read back from a hypothesis
    sample: float | None = None  # draw at random, at this temperature, instead of searching for the best
    top_k: int | None = None  # draw from the k most probable tokens only
    top_p: float | None = None  # draw from the most probable tokens that have this probability together
    seed: int | None = None  # decides the draws; 1 unless given
    diverse: float | None = None  # what a token costs that another of the n translations has
    prefix: str = ""  # what the translation begins with
    require: tuple[str, ...] = ()  # phrases that must stand in it
    forbid: tuple[str, ...] = ()  # words and phrases that must not
    min_length: int = 0  # tokens, end mark not counted
    max_length: int | None = None
    no_repeat: int | None = None  # no n tokens in a row twice

    def __post_init__(self) -> None:
        for name in ("require", "forbid"):
            object.__setattr__(self, name, phrases(name, getattr(self, name)))
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ConfigError(f"{shown(name)} must be from {low:,} to {high:,}, but is {value}.")
        if self.prefix:
            check_text("prefix", self.prefix)
        self.check_together()

    def check_together(self) -> None:
        """Refuse what contradicts itself."""
        for name, others in (
            ("sample", ("beam", "diverse", "require", "read_back")),
            ("require", ("diverse", "no_repeat")),
            ("read_back", ("diverse",)),
        ):
            for other in others:
                if getattr(self, name) and getattr(self, other) and (other, self.beam) != ("beam", 1):
                    raise ConfigError(
                        f"{shown(name)} and {shown(other)} cannot be used together.", "Leave one of them out."
                    )
        for name in ("top_k", "top_p", "seed"):
            if getattr(self, name) is not None and self.sample is None:
                raise ConfigError(f"{shown(name)} is only for random draws.", "Add a temperature: --sample 1")
        if self.diverse and self.n_best < 2:
            raise ConfigError("diverse needs several translations to tell apart.", "Add --n-best 4")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"min-length ({self.min_length}) must not be greater than max-length ({self.max_length})."
            )
        for word, wanted in product(self.forbid, (self.prefix, *self.require)):
            if wanted and occurs(word, wanted):
                raise ConfigError(f"{word!r} is forbidden, but is part of {wanted!r}, which must be written.")


def phrases(name: str, given: object) -> tuple[str, ...]:
    """Return phrases as they are searched for, without spaces around them."""
    if isinstance(given, str) or not isinstance(given, (tuple, list)):
        raise ConfigError(f"{shown(name)} must be a list of phrases, but is {given!r}.")
    if len(given) > MOST_PHRASES:
        raise ConfigError(f"{shown(name)} takes at most {MOST_PHRASES} phrases, but there are {len(given):,}.")
    return tuple(dict.fromkeys(check_text(name, phrase).strip() for phrase in given))


def check_text(name: str, text: str) -> str:
    """Refuse what can be no phrase of a translation."""
    is_unicode = not any("\ud800" <= character <= "\udfff" for character in text)
    if not text.strip() or "\n" in text or UNKNOWN in text or not is_unicode:
        raise ConfigError(f"{shown(name)} must be text in one line, but is {text!r}.")
    if len(text) > LONGEST_PHRASE:
        raise ConfigError(
            f"{shown(name)} must have at most {LONGEST_PHRASE} characters, but has {len(text):,}: {text[:20]!r}…"
        )
    return text


def shown(name: str) -> str:
    """Return an option's name as people write it."""
    return name.replace("_", "-")
