"""The options of generation: one frozen definition, checked before any work."""

from __future__ import annotations

from dataclasses import dataclass

from sixfold.decode.config import GenerateConfig
from sixfold.decode.sampling import DEFAULT_SEED, Sampling
from sixfold.errors import ConfigError
from sixfold.settings import check_bounds, setting

MOST_STOPS, LONGEST_STOP = 16, 200  # strings; characters


@dataclass(frozen=True)
class GenerateOptions:
    """How to continue a prompt. None: the default of the model folder."""

    max_tokens: int | None = setting(None, "maximum number of generated tokens", 1, 1_000_000)
    temperature: float | None = setting(None, "sampling temperature; 0: always the most probable token", 0, 10)
    top_k: int | None = setting(None, "sample from the k most probable tokens; 0: from all", 0, 1_000_000)
    top_p: float | None = setting(
        None, "sample from the most probable tokens whose probabilities add up to p", 1e-6, 1
    )
    min_p: float | None = setting(
        None, "exclude tokens less than p times as probable as the most probable one", 0, 1
    )
    repetition_penalty: float | None = setting(
        None, "factor on the log-probabilities of tokens that already occurred; 1: none", 0.1, 10
    )
    stop: tuple[str, ...] = setting((), "strings before which the text ends")
    seed: int | None = setting(None, "random seed of sampling; default 1", 0, 2**63 - 1)
    samples: int = setting(1, "number of texts for each prompt", 1, 128)
    alternatives: int = setting(0, "how many of the most probable tokens to report for each position", 0, 100)
    slide: bool = setting(False, "drop the oldest half of a full context, instead of ending the text")
    prompt_scores: bool = setting(False, "report the log-probabilities of the prompt's tokens too")

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", stop_strings(self.stop))
        check_bounds(self)
        if self.prompt_scores and self.slide:
            raise ConfigError(
                "prompt_scores needs the whole prompt in the context, but slide drops parts of it.",
                "Leave one of them out.",
            )


@dataclass(frozen=True)
class GeneratePlan:
    """How to continue a prompt, with the model folder's defaults filled in."""

    max_tokens: int
    sampling: Sampling | None  # None: always the most probable token
    repetition_penalty: float
    stop: tuple[str, ...]
    seed: int
    samples: int
    alternatives: int
    slide: bool
    prompt_scores: bool


def make_plan(options: GenerateOptions, defaults: GenerateConfig) -> GeneratePlan:
    """Fill in the model folder's defaults."""
    wanted = {name: getattr(options, name) for name in GenerateConfig.model_fields}
    chosen = defaults.model_copy(update={name: value for name, value in wanted.items() if value is not None})
    sampling = Sampling(chosen.temperature, chosen.top_k, chosen.top_p, chosen.min_p)
    return GeneratePlan(
        max_tokens=chosen.max_tokens,
        sampling=sampling if chosen.temperature else None,
        repetition_penalty=chosen.repetition_penalty,
        stop=options.stop,
        seed=DEFAULT_SEED if options.seed is None else options.seed,
        samples=options.samples,
        alternatives=options.alternatives,
        slide=options.slide,
        prompt_scores=options.prompt_scores,
    )


def stop_strings(given: object) -> tuple[str, ...]:
    """Return stop strings without repetitions; refuse invalid ones."""
    if isinstance(given, str) or not isinstance(given, (tuple, list)):
        raise ConfigError(f"stop must be a list of strings, but is {given!r}.")
    if len(given) > MOST_STOPS:
        raise ConfigError(f"stop takes at most {MOST_STOPS} strings, but there are {len(given):,}.")
    for each in given:
        if not isinstance(each, str) or not 1 <= len(each) <= LONGEST_STOP:
            raise ConfigError(
                f"A stop string must have 1 to {LONGEST_STOP} characters, but one is {str(each)[:40]!r}."
            )
    return tuple(dict.fromkeys(given))
