"""From options to a search: which parts are needed, and how they go together.

Shapes: S sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from torch import Tensor

from sixfold.decode.config import DecodeConfig
from sixfold.decode.constraints import Phrase, Required, constrained_search
from sixfold.decode.options import BOUNDS, SearchOptions
from sixfold.decode.rules import ForbiddenWords, ForcedPrefix, MinLength, NoRepeat
from sixfold.decode.sampling import Choose, Sampler, most_probable, sample_search
from sixfold.decode.search import BeamOptions, Hypothesis, Rule, Stepper, beam_search, greedy_search
from sixfold.errors import ConfigError
from sixfold.text import Tokenizer
from sixfold.text.spelling import Spelling
from sixfold.text.tokens import BOS_ID, EOS_ID

DEFAULT_SEED = 1
Start = Callable[[int], Stepper]
"""Begin a batch of sentences, each so many times."""


class Search:
    """The search that some options ask of a model; made once, used for any number of batches."""

    def __init__(
        self,
        options: SearchOptions,
        defaults: DecodeConfig,
        tokenizer: Tokenizer,
        spelling: Spelling,
        longest_target: int,
    ) -> None:
        self.options, self.spelling = options, spelling
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
        return self.options.n_best if self.options.sample else self.beam.beam

    @property
    def can_stream(self) -> bool:
        """Whether each text has one translation that is never revised while it is written."""
        return self.options.n_best == 1 and self.beam.beam == 1 and not self.required

    @property
    def wanted_tokens(self) -> int:
        """The most tokens that what must be written can take: a prefix may be spelled byte by byte."""
        prefix = len(self.prefix.prefix) if self.prefix else 0
        return prefix + (self.required.most_tokens if self.required else 0)

    def check_room(self) -> None:
        """Refuse wishes that no output could hold."""
        longest = min(self.options.max_length or self.longest_target, self.longest_target - 1)
        if self.wanted_tokens > longest:
            raise ConfigError(
                f"The prefix and the required phrases may take {self.wanted_tokens} tokens, "
                f"but an output has at most {longest}.",
                "Allow a greater max-length, or ask for less text.",
            )
        if self.options.min_length > longest:
            raise ConfigError(
                f"min-length must be at most {longest} with this model, but is {self.options.min_length}."
            )

    def limits(self, lengths: Tensor) -> Tensor:
        """Return the most tokens (S,) of each output, end mark included, for sources of these lengths (S,)."""
        least = max(self.wanted_tokens, self.options.min_length) + 1
        limits = (lengths + self.extra_tokens).clamp(min=least, max=self.longest_target)
        return limits if self.options.max_length is None else limits.clamp(max=self.options.max_length + 1)

    @cached_property
    def rules(self) -> list[Rule]:
        """What each output has to obey."""
        rules: list[Rule] = []
        if self.prefix:
            rules.append(self.prefix)
        if self.options.no_repeat:
            rules.append(NoRepeat(self.options.no_repeat))
        if self.options.min_length:
            rules.append(MinLength(self.options.min_length, EOS_ID))
        if self.forbidden:
            rules.append(self.forbidden)
        return rules

    def choose(self, places: Sequence[int]) -> Choose:
        """Return how to choose the tokens of texts that stand in these places of the input."""
        options = self.options
        if options.sample is None:
            return most_probable
        draws = [(place, draw) for place in places for draw in range(options.n_best)]
        seed = DEFAULT_SEED if options.seed is None else options.seed
        return Sampler(options.sample, options.top_k or 0, options.top_p or 1.0, seed, draws)

    def run(self, start: Start, limits: Tensor, places: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of each sentence: the best ones first, or draws in the order they were drawn."""
        if self.options.sample is not None:
            return self.draw(start, limits, places)
        return self.best(start, limits)

    def best(self, start: Start, limits: Tensor) -> list[list[Hypothesis]]:
        """Return the best hypotheses of each sentence."""
        stepper, rules, beam = start(1), self.rules, self.beam
        if self.required:
            return constrained_search(stepper, limits, BOS_ID, EOS_ID, beam, self.required, rules)
        if beam.beam == 1:
            return [[best] for best in greedy_search(stepper, limits, BOS_ID, EOS_ID, beam.alpha, rules)]
        return beam_search(stepper, limits, BOS_ID, EOS_ID, beam, rules)

    def draw(self, start: Start, limits: Tensor, places: Sequence[int]) -> list[list[Hypothesis]]:
        """Return independent draws of each sentence."""
        count = self.options.n_best
        limits = limits.repeat_interleave(count)
        rules, choose = self.rules, self.choose(places)
        found = sample_search(start(count), limits, BOS_ID, EOS_ID, choose, self.beam.alpha, rules)
        return [found[begin : begin + count] for begin in range(0, len(found), count)]


def resolve(options: SearchOptions, defaults: DecodeConfig) -> BeamOptions:
    """Fill in what the model folder decides, and refuse what does not go with it."""
    alpha = defaults.length_penalty if options.length_penalty is None else options.length_penalty
    if options.sample is not None:
        return BeamOptions(1, alpha, options.n_best)
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
