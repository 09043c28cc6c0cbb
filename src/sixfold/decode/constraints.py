"""Required phrases: beam search whose outputs contain all of them.

The beam is divided evenly among hypotheses by how many tokens of the phrases they contain, so that a hypothesis
whose score has paid for a phrase is not displaced by those without it (dynamic beam allocation, Post and Vilar
2018). Whether a phrase occurs is judged by the text: its tokenization does not matter, and phrases may overlap.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sixfold.decode.extensions import best_extensions
from sixfold.decode.search import NEVER, Beam, BeamOptions, Candidate, Forbidden, Stepper
from sixfold.text.spelling import Spelling, written
from sixfold.text.words import is_of_a_word, occurs

OPENING = ("Zs", "Ps", "Pi", "Pd")  # Unicode's spaces, opening brackets and quotes, and dashes


@dataclass(frozen=True)
class Phrase:
    """A required phrase and its tokens, with a space before it and without."""

    text: str
    with_space: tuple[int, ...]
    without_space: tuple[int, ...]

    @property
    def spellings(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Both tokenizations."""
        return self.with_space, self.without_space


@dataclass(frozen=True)
class Required:
    """All phrases that an output must contain."""

    phrases: tuple[Phrase, ...]
    spelling: Spelling

    @cached_property
    def most_tokens(self) -> int:
        """The number of tokens of all phrases, one after the other."""
        return sum(len(phrase.with_space) for phrase in self.phrases)

    def missing(self, text: str) -> list[Phrase]:
        """Return the phrases that do not occur in a text as whole words."""
        return [phrase for phrase in self.phrases if not occurs(phrase.text, text)]

    def progress(self, tokens: Sequence[int]) -> Progress:
        """Return the progress of an unfinished output."""
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
        """Return the partial phrases at the end of an output."""
        found = []
        for spelling in phrase.spellings:
            matched = longest_match(spelling, tokens)
            before = written(self.spelling, tokens[: len(tokens) - matched])
            if matched and (spelling is phrase.with_space or may_begin(phrase.text, before)):
                found.append(Start(spelling, matched))
        return found

    def needed_after(self, start: Start, tokens: Sequence[int]) -> int:
        """Return how many tokens suffice if a partial phrase is finished first."""
        rest = start.tokens[start.matched :]
        missing = self.missing(written(self.spelling, [*tokens, *rest]))
        return len(rest) + sum(len(phrase.with_space) for phrase in missing)


@dataclass(frozen=True)
class Start:
    """A phrase whose first tokens are at the end of an output."""

    tokens: tuple[int, ...]
    matched: int


@dataclass(frozen=True)
class Progress:
    """The progress of an output towards the required phrases."""

    is_complete: bool
    bank: int  # tokens of the phrases that it contains
    needed: int  # tokens that suffice for the rest
    following: tuple[int, ...]  # tokens that begin or continue a missing phrase


def longest_match(spelling: Sequence[int], tokens: Sequence[int]) -> int:
    """Return how many tokens at the end of an output are the beginning, but not all, of a tokenization."""
    longest = min(len(spelling) - 1, len(tokens))
    return next((m for m in range(longest, 0, -1) if tuple(tokens[-m:]) == tuple(spelling[:m])), 0)


def may_begin(phrase: str, text: str) -> bool:
    """Return whether a phrase may follow a text without a space: a word only after a bracket, quote or dash."""
    if not text or not is_of_a_word(phrase[0]):
        return True
    return unicodedata.category(text[-1]) in OPENING or text[-1] in "\"'/"


@dataclass(frozen=True)
class TowardsPhrases:
    """The strategy of a beam search whose outputs contain all required phrases.

    Every hypothesis reserves room for its missing phrases, so a limit above `required.most_tokens` suffices.
    """

    options: BeamOptions
    eos: int
    required: Required

    def candidates(self, stepper: Stepper, beams: Sequence[Beam], forbidden: Forbidden) -> list[list[Candidate]]:
        """Return the candidates of each sentence, best first.

        These are the best overall and, for each hypothesis, its two best tokens, its end and every token that
        continues a phrase.
        """
        log_probs = stepper.step([prefix[-1] for beam in beams for prefix in beam.prefixes], forbidden)
        offsets = torch.tensor([beam.scores for beam in beams], dtype=log_probs.dtype, device=log_probs.device)
        log_probs = log_probs.view(*offsets.shape, -1)  # (S, K, V)
        best = (part.tolist() for part in best_extensions(log_probs, offsets, 2 * self.options.beam))
        own_best = log_probs.topk(min(2, log_probs.size(2)), dim=2).indices.tolist()
        totals = log_probs + offsets[:, :, None]
        return [
            self.of_sentence(beam, totals[place], own_best[place], map(Candidate, *of_all))
            for place, (beam, *of_all) in enumerate(zip(beams, *best, strict=True))
        ]

    def of_sentence(
        self, beam: Beam, totals: Tensor, own_best: list[list[int]], best: Iterable[Candidate]
    ) -> list[Candidate]:
        """Return the candidates of one sentence, given log-probabilities of all tokens (K, V)."""
        pairs = [
            (parent, token)
            for parent in range(len(beam.prefixes))
            for token in (self.eos, *own_best[parent], *self.required.progress(beam.output(parent)).following)
        ]
        parents, tokens = (torch.tensor(part, device=totals.device) for part in zip(*pairs, strict=True))
        found = dict(
            zip(pairs, map(Candidate, totals[parents, tokens].tolist(), *zip(*pairs, strict=True)), strict=True)
        )
        found.update({(each.parent, each.token): each for each in best})
        return sorted(found.values(), key=lambda each: (-each.score, each.parent, each.token))

    def choose(self, beam: Beam, candidates: list[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
        """Finish the complete candidates that end, and continue with the best of each bank.

        To end, a candidate must be among those that would be chosen to continue.
        """
        banks: dict[int, list[Candidate]] = {}
        for candidate in candidates:
            output = [*beam.output(candidate.parent), candidate.token]
            progress = self.required.progress(output)
            is_end = candidate.token == self.eos
            has_room = progress.is_complete if is_end else progress.needed < beam.limit - len(output)
            if candidate.score > NEVER and has_room:
                banks.setdefault(progress.bank, []).append(candidate)
        width = self.options.beam
        ended = [each for each in share(banks, width) if each.token == self.eos]
        if beam.is_at_limit:
            best_tokens = {each.parent: each.token for each in reversed(candidates)}
            ended = [each._replace(is_cut=best_tokens[each.parent] != self.eos) for each in ended]
        open_ends = {bank: [each for each in row if each.token != self.eos] for bank, row in banks.items()}
        return ended, share(open_ends, width)


def share(banks: dict[int, list[Candidate]], beam: int) -> list[Candidate]:
    """Fill a beam with the best of each bank in turn, and return them best first.

    The bank with the most phrase tokens comes first, then that with none.
    """
    turns = sorted(banks, key=lambda bank: (bank != max(banks), bank != min(banks), -bank))
    rounds = range(max(map(len, banks.values()), default=0))
    in_turn = [banks[bank][i] for i in rounds for bank in turns if i < len(banks[bank])]
    return sorted(in_turn[:beam], key=lambda each: (-each.score, each.parent, each.token))
