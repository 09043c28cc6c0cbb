"""From options to a search: which parts are needed, and how they go together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from sixfold.decode.config import DecodeConfig
from sixfold.decode.constraints import Phrase, Required, TowardsPhrases
from sixfold.decode.engine import Engine
from sixfold.decode.options import BOUNDS, SearchOptions
from sixfold.decode.rules import ForbiddenWords, ForcedPrefix, MinLength, NoRepeat
from sixfold.decode.sampling import DEFAULT_SEED, Draws, Sampler, Sampling
from sixfold.decode.search import BeamOptions, BestFirst, Rule, Search, Strategy, Watch
from sixfold.errors import ConfigError
from sixfold.text import Tokenizer
from sixfold.text.spelling import Spelling, written


class SearchPlan:
    """The search that some options ask of a model; made once, used for any number of batches."""

    def __init__(
        self,
        options: SearchOptions,
        defaults: DecodeConfig,
        tokenizer: Tokenizer,
        spelling: Spelling,
        longest_target: int,
    ) -> None:
        self.options, self.spelling, self.special = options, spelling, tokenizer.special
        self.extra_tokens, self.longest_target = defaults.extra_tokens, longest_target
        self.beam = resolve(options, defaults)
        self.prefix = ForcedPrefix(options.prefix, spelling) if options.prefix else None
        self.forbidden = ForbiddenWords(options.forbid, spelling) if options.forbid else None
        phrases = [spell(phrase, tokenizer) for phrase in options.require]
        self.required = Required(tuple(phrases), spelling) if phrases else None
        self.check_room()

    @property
    def width(self) -> int:
        """How many hypotheses of a sentence are in memory at once."""
        return self.num_draws * self.beam.beam

    @property
    def num_draws(self) -> int:
        """How many searches of a sentence there are: one, or one for each random draw."""
        return self.options.n_best if self.options.sample else 1

    @property
    def can_stream(self) -> bool:
        """Whether each text has one translation that is never revised while it is written."""
        return self.options.n_best == 1 and self.beam.beam == 1 and not self.required

    @property
    def required_tokens(self) -> int:
        """The most tokens that what must be written can take: a prefix may be spelled byte by byte."""
        prefix = len(self.prefix.prefix) if self.prefix else 0
        return prefix + (self.required.most_tokens if self.required else 0)

    def check_room(self) -> None:
        """Refuse constraints that no output is long enough to meet."""
        longest = min(self.options.max_length or self.longest_target, self.longest_target - 1)
        if self.required_tokens > longest:
            raise ConfigError(
                f"The prefix and the required phrases may take {self.required_tokens} tokens, "
                f"but an output has at most {longest}.",
                "Allow a greater max-length, or ask for less text.",
            )
        if self.options.min_length > longest:
            raise ConfigError(
                f"min-length must be at most {longest} with this model, but is {self.options.min_length}."
            )

    def limit(self, length: int) -> int:
        """Return the most tokens of an output, end token included, for a source of this length."""
        least = max(self.required_tokens, self.options.min_length) + 1
        limit = min(max(length + self.extra_tokens, least), self.longest_target)
        return limit if self.options.max_length is None else min(limit, self.options.max_length + 1)

    @cached_property
    def rules(self) -> list[Rule]:
        """What each output has to obey."""
        rules: list[Rule] = []
        if self.prefix:
            rules.append(self.prefix)
        if self.options.no_repeat:
            rules.append(NoRepeat(self.options.no_repeat))
        if self.options.min_length:
            rules.append(MinLength(self.options.min_length, self.special.eos))
        if self.forbidden:
            rules.append(self.forbidden)
        return rules

    def search(
        self, engine: Engine, ids: Sequence[list[int]], places: Sequence[int], watch: Watch | None = None
    ) -> Search:
        """Return the search of a batch of token ids, which stand in these places of the input."""
        limits = [self.limit(len(row)) for row in ids for _ in range(self.num_draws)]
        sources = [[*row, self.special.eos] for row in ids for _ in range(self.num_draws)]
        prompts = [[self.special.bos] for _ in sources]
        stepper = engine.start(sources, prompts)
        text_of = partial(written, self.spelling)  # the same text in other tokens is the same output
        return Search(stepper, prompts, limits, self.strategy(places), self.beam, self.rules, watch, text_of)

    def strategy(self, places: Sequence[int]) -> Strategy:
        """Return which candidates there are and which go on, for texts in these places of the input."""
        options = self.options
        if options.sample is not None:
            draws = [(place, draw) for place in places for draw in range(options.n_best)]
            seed = DEFAULT_SEED if options.seed is None else options.seed
            sampling = Sampling(options.sample, options.top_k or 0, options.top_p or 1.0)
            return Draws(Sampler(sampling, seed, draws), self.special.eos)
        if self.required:
            return TowardsPhrases(self.beam, self.special.eos, self.required)
        return BestFirst(self.beam, self.special.eos)


def resolve(options: SearchOptions, defaults: DecodeConfig) -> BeamOptions:
    """Fill in what the model folder decides, and refuse what does not go with it."""
    alpha = defaults.length_penalty if options.length_penalty is None else options.length_penalty
    if options.sample is not None:
        return BeamOptions(1, alpha)
    beam = defaults.beam if options.beam is None else options.beam
    if options.n_best > beam:
        raise ConfigError(
            f"n-best must be from 1 to the beam ({beam}), but is {options.n_best}.",
            f"Widen the beam (at most {BOUNDS['beam'][1]}), ask for fewer, or draw them: --sample 1",
        )
    if options.require and beam < 2:
        raise ConfigError("require needs a beam of at least 2, but it is 1.", "Leave --beam out, or widen it.")
    return BeamOptions(beam, alpha, options.n_best)


def spell(phrase: str, tokenizer: Tokenizer) -> Phrase:
    """Return a required phrase with its tokens, as they are inside a text."""
    return Phrase(phrase, tuple(tokenizer.encode(phrase)), tuple(tokenizer.processor.encode(phrase)))
