"""From options to a search: choose and assemble its parts."""

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
    """The search for given options and a model; made once and used for any number of batches."""

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
        """The number of hypotheses of a sentence in memory at a time."""
        return self.num_draws * self.beam.beam

    @property
    def num_draws(self) -> int:
        """The number of searches per sentence: one, or one for each sample."""
        return self.options.n_best if self.options.sample else 1

    @property
    def can_stream(self) -> bool:
        """Whether each text has one translation that is never revised during the search."""
        return self.options.n_best == 1 and self.beam.beam == 1 and not self.required

    @property
    def required_tokens(self) -> int:
        """The most tokens that the prefix and the required phrases can take: a prefix may be spelled in bytes."""
        prefix = len(self.prefix.prefix) if self.prefix else 0
        return prefix + (self.required.most_tokens if self.required else 0)

    def check_room(self) -> None:
        """Refuse constraints that no output is long enough to meet."""
        longest = min(self.options.max_length or self.longest_target, self.longest_target - 1)
        if self.required_tokens > longest:
            raise ConfigError(
                f"The prefix and the required phrases may take {self.required_tokens} tokens, "
                f"but an output has at most {longest}.",
                "Allow a larger max-length, or require less text.",
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
        """The rules that each output obeys."""
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
        """Return the search of a batch of token ids; `places` are their positions in the input."""
        limits = [self.limit(len(row)) for row in ids for _ in range(self.num_draws)]
        sources = [[*row, self.special.eos] for row in ids for _ in range(self.num_draws)]
        prompts = [[self.special.bos] for _ in sources]
        stepper = engine.start(sources, prompts)
        text_of = partial(written, self.spelling)  # outputs with the same text in other tokens count as one
        return Search(stepper, prompts, limits, self.strategy(places), self.beam, self.rules, watch, text_of)

    def strategy(self, places: Sequence[int]) -> Strategy:
        """Return the search strategy for texts at these positions of the input."""
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
    """Fill in the model folder's defaults, and refuse contradictions."""
    alpha = defaults.length_penalty if options.length_penalty is None else options.length_penalty
    if options.sample is not None:
        return BeamOptions(1, alpha)
    beam = defaults.beam if options.beam is None else options.beam
    if options.n_best > beam:
        raise ConfigError(
            f"n-best must be from 1 to the beam ({beam}), but is {options.n_best}.",
            f"Use a larger beam (at most {BOUNDS['beam'][1]}) or a smaller n-best, or sample: --sample 1",
        )
    if options.require and beam < 2:
        raise ConfigError(
            "require needs a beam of at least 2, but it is 1.", "Leave --beam out, or use a larger one."
        )
    return BeamOptions(beam, alpha, options.n_best)


def spell(phrase: str, tokenizer: Tokenizer) -> Phrase:
    """Return a required phrase with its tokens inside a text."""
    return Phrase(phrase, tuple(tokenizer.encode(phrase)), tuple(tokenizer.processor.encode(phrase)))
