"""Required phrases: a beam search whose outputs contain all of them.

A beam is shared out evenly among hypotheses that have written more and fewer of the phrases, so that a hypothesis
which pays for a phrase is not driven out by those that have yet to pay (dynamic beam allocation, Post and Vilar
2018). Whether a phrase is written is read off the text: its spelling does not matter, and phrases may overlap.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sixfold.decode.search import (
    NEVER,
    Beam,
    BeamOptions,
    Candidate,
    Hypothesis,
    Rule,
    Stepper,
    best_extensions,
    finish,
    go_on,
    predict,
    search_beams,
)
from sixfold.text.spelling import Spelling, written
from sixfold.text.words import is_of_a_word, occurs

OPENING = ("Zs", "Ps", "Pi", "Pd")  # Unicode's spaces, opening brackets and quotes, and dashes


@dataclass(frozen=True)
class Phrase:
    """A required phrase and the tokens that write it: with a space before it, and right after what precedes it."""

    text: str
    with_space: tuple[int, ...]
    without_space: tuple[int, ...]

    @property
    def spellings(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Both ways to write it."""
        return self.with_space, self.without_space


@dataclass(frozen=True)
class Required:
    """All phrases that an output must contain."""

    phrases: tuple[Phrase, ...]
    spelling: Spelling

    @cached_property
    def most_tokens(self) -> int:
        """How many tokens all phrases take, one after the other."""
        return sum(len(phrase.with_space) for phrase in self.phrases)

    def missing(self, text: str) -> list[Phrase]:
        """Return the phrases that do not stand in a text as words of their own."""
        return [phrase for phrase in self.phrases if not occurs(phrase.text, text)]

    def progress(self, tokens: Sequence[int]) -> Progress:
        """Say how far an unfinished output has come."""
        text = written(self.spelling, tokens)
        missing = self.missing(text)
        starts = [Start(phrase.with_space, 0) for phrase in missing]
        starts += [Start(phrase.without_space, 0) for phrase in missing if may_begin(phrase.text, text)]
        begun = [start for phrase in missing for start in self.begun(phrase, tokens)]
        needed = [sum(len(phrase.with_space) for phrase in missing)]
        needed += [self.needed_after(start, tokens) for start in begun]
        following = {start.tokens[start.matched] for start in [*starts, *begun]}
        return Progress(not missing, self.most_tokens - min(needed), min(needed), tuple(sorted(following)))

    def begun(self, phrase: Phrase, tokens: Sequence[int]) -> list[Start]:
        """Return the beginnings of a phrase at the end of an output."""
        found = []
        for spelling in phrase.spellings:
            matched = longest_match(spelling, tokens)
            before = written(self.spelling, tokens[: len(tokens) - matched])
            if matched and (spelling is phrase.with_space or may_begin(phrase.text, before)):
                found.append(Start(spelling, matched))
        return found

    def needed_after(self, start: Start, tokens: Sequence[int]) -> int:
        """Return how many tokens suffice if a phrase that was begun is finished first."""
        rest = start.tokens[start.matched :]
        missing = self.missing(written(self.spelling, [*tokens, *rest]))
        return len(rest) + sum(len(phrase.with_space) for phrase in missing)


@dataclass(frozen=True)
class Start:
    """A phrase of which some tokens stand at the end of an output."""

    tokens: tuple[int, ...]
    matched: int


@dataclass(frozen=True)
class Progress:
    """How far an output has come with the required phrases."""

    is_complete: bool
    bank: int  # how many tokens of them it has
    needed: int  # this many tokens suffice for the rest
    following: tuple[int, ...]  # tokens that begin a missing phrase or go on with one


def longest_match(spelling: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many tokens of the beginning of a spelling, but not all, stand at the end of an output."""
    longest = min(len(spelling) - 1, len(tokens))
    return next((m for m in range(longest, 0, -1) if tuple(tokens[-m:]) == tuple(spelling[:m])), 0)


def may_begin(phrase: str, text: str) -> bool:
    """Say whether a phrase may follow a text without a space: a word only after an opening sign or a dash."""
    if not text or not is_of_a_word(phrase[0]):
        return True
    return unicodedata.category(text[-1]) in OPENING or text[-1] in "\"'/"


def constrained_search(
    stepper: Stepper,
    limits: Tensor,
    bos: int,
    eos: int,
    options: BeamOptions,
    required: Required,
    rules: Sequence[Rule] = (),
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence that contain all phrases; none where the rules allow none.

    Every hypothesis keeps room for what it still has to write, so a limit above `required.most_tokens` suffices.
    """

    def step(alive: list[Beam]) -> None:
        extensions = extend(stepper, alive, eos, options, required, rules, limits)
        for beam, candidates in zip(alive, extensions, strict=True):
            advance(beam, candidates, eos, options, required)

    return search_beams(stepper, limits, bos, options, step)


def extend(
    stepper: Stepper,
    alive: list[Beam],
    eos: int,
    options: BeamOptions,
    required: Required,
    rules: Sequence[Rule],
    limits: Tensor,
) -> list[list[Candidate]]:
    """Return the candidates of each sentence, best first: the best of all, and for each hypothesis its best two
    tokens, its end and every token that goes on with a phrase.
    """
    prefixes = [prefix for beam in alive for prefix in beam.prefixes]
    sentences = [beam.sentence for beam in alive for _ in beam.prefixes]
    numbers, log_total = predict(stepper, prefixes, sentences, rules, limits.device)
    before = torch.tensor([beam.scores for beam in alive], dtype=numbers.dtype, device=numbers.device)  # (S, K)
    offsets = before - log_total.view_as(before)
    numbers = numbers.view(*before.shape, -1)  # (S, K, V)
    best = [part.tolist() for part in best_extensions(numbers, offsets, 2 * options.beam)]
    own_best = numbers.topk(min(2, numbers.size(2)), dim=2).indices.tolist()
    found = []
    for i, beam in enumerate(alive):
        tokens = [
            (parent, token)
            for parent, prefix in enumerate(beam.prefixes)
            for token in (eos, *own_best[i][parent], *required.progress(prefix[1:]).following)
        ]
        parents, newest = (torch.tensor(part, device=numbers.device) for part in zip(*tokens, strict=True))
        scores = (numbers[i, parents, newest] + offsets[i, parents]).tolist()
        candidates = {pair: Candidate(score, *pair) for pair, score in zip(tokens, scores, strict=True)}
        candidates.update(
            {(p, t): Candidate(s, p, t) for s, p, t in zip(*(part[i] for part in best), strict=True)}
        )
        found.append(sorted(candidates.values(), key=lambda each: (-each.score, each.parent, each.token)))
    return found


def advance(beam: Beam, candidates: list[Candidate], eos: int, options: BeamOptions, required: Required) -> None:
    """Finish the complete candidates that end, and go on with the best of each bank.

    To end, a candidate must be among those that would be chosen to go on.
    """
    banks: dict[int, list[Candidate]] = {}
    for candidate in candidates:
        tokens = [*beam.prefixes[candidate.parent][1:], candidate.token]
        progress = required.progress(tokens)
        has_room = progress.needed < beam.limit - len(tokens) if candidate.token != eos else progress.is_complete
        if candidate.score > NEVER and has_room:
            banks.setdefault(progress.bank, []).append(candidate)
    for candidate in share(banks, options.beam):
        if candidate.token == eos:
            wish = next(each.token for each in candidates if each.parent == candidate.parent)
            finish(beam, candidate, wish != eos and beam.length >= beam.limit, options)
    open_ends = {bank: [each for each in row if each.token != eos] for bank, row in banks.items()}
    go_on(beam, share(open_ends, options.beam), options.beam)


def share(banks: dict[int, list[Candidate]], beam: int) -> list[Candidate]:
    """Fill a beam with the best of each bank in turn, and return them best first.

    The turn of those that have most comes first, then of those that have nothing yet and may find a better place.
    """
    turns = sorted(banks, key=lambda bank: (bank != max(banks), bank != min(banks), -bank))
    rounds = range(max(map(len, banks.values()), default=0))
    in_turn = [banks[bank][i] for i in rounds for bank in turns if i < len(banks[bank])]
    return sorted(in_turn[:beam], key=lambda each: (-each.score, each.parent, each.token))
