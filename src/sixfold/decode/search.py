"""Search: from a step function to hypotheses. It knows no model, no text and no files.

The tensors of a step are reduced to the few best extensions of each sentence; everything after that is plain
Python on short lists, where it can be read.

Shapes: S sentences still being searched, K hypotheses of each, R = S·K rows, V vocabulary, T tokens so far,
C candidates of each sentence, N blocks of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import torch
from torch import Tensor

NEVER = float("-inf")
Number = TypeVar("Number", float, Tensor)
BLOCK = 64  # tokens of the vocabulary that are compared by their best one first


class Stepper(Protocol):
    """What a search sees of a model: the next token's distribution, and a memory it may reorder."""

    def step(self, tokens: Tensor) -> Tensor:
        """Take the newest token of each row (R,); return log-probabilities of the next one (R, V)."""

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        """Keep these sentences (None: all) and these rows, in this order; a row may be kept several times."""


@runtime_checkable
class LogitStepper(Stepper, Protocol):
    """A stepper that can leave out the division by the softmax's sum, which costs a pass over all of (R, V)."""

    def step_logits(self, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Step; yield logits (R, V) and the log (R,) of their sum, a few sentences at a time: what is looked at
        before the next is made is still in the processor's cache. The difference of the two is `step`'s answer.
        """


class Extensions(NamedTuple):
    """What a search needs to know of a step: the best ways to go on with each sentence, and how each row ends."""

    scores: list[list[float]]  # (S, C), best first: log-probabilities of all tokens
    parents: list[list[int]]  # (S, C): which of the sentence's rows
    tokens: list[list[int]]  # (S, C)
    ends: list[float]  # (R,): log-probability of the end mark
    favourites: list[int]  # (R,): the most probable token


class BestStepper(LogitStepper, Protocol):
    """A stepper that finds the best extensions itself."""

    most_extensions: int  # it finds at most so many

    def step_best(self, tokens: list[int], before: list[float], count: int) -> Extensions:
        """Step; return the `count` best extensions, for rows with these log-probabilities (R,) so far."""


def finds_best(stepper: Stepper, count: int) -> TypeGuard[BestStepper]:
    """Return whether a stepper finds so many best extensions itself."""
    return count <= getattr(stepper, "most_extensions", 0)


class Rule(Protocol):
    """Something that changes what may come next, such as forbidden words."""

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:
        """Return new log-probabilities (R, V) after the prefixes (R, T), begin mark included.

        `sentence` (R,) tells which input each row belongs to. `log_probs` may be changed in place.
        """


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: its tokens end with the end mark, which also counts in the log-probabilities."""

    tokens: tuple[int, ...]
    log_probability: float
    score: float  # log-probability divided by the length penalty
    is_cut: bool = False  # the length limit ended it, not the model


@dataclass(frozen=True)
class BeamOptions:
    """How wide to search and what to prefer."""

    beam: int = 4
    alpha: float = 0.6
    n_best: int = 1


@dataclass(frozen=True)
class BeamStep:
    """One step of one sentence: its best extensions, best first. Those that went on are, in this order, the
    parents of the next step.
    """

    sentence: int  # which input
    length: int  # tokens of the extended hypotheses
    parents: tuple[int, ...]
    tokens: tuple[int, ...]
    scores: tuple[float, ...]  # log-probabilities
    ended: tuple[bool, ...]
    went_on: tuple[bool, ...]


Watch = Callable[[BeamStep], None]


def length_penalty(length: Number, alpha: float) -> Number:
    """Return ((5 + length) / 6)^α, the penalty of Wu et al. (2016) that section 6.1 uses."""
    return ((5.0 + length) / 6.0) ** alpha


def finished_hypothesis(tokens: tuple[int, ...], total: float, alpha: float, is_cut: bool) -> Hypothesis:
    """Return the hypothesis with its score."""
    return Hypothesis(tokens, total, total / length_penalty(len(tokens), alpha), is_cut)


def closed_up(going_on: Sequence[bool]) -> list[int]:
    """Return which sentences go on, in an order that moves few of them: the last ones fill the gaps."""
    count = sum(going_on)
    last = [i for i in range(count, len(going_on)) if going_on[i]]
    return [i if going_on[i] else last.pop() for i in range(count)]


# Greedy search


def greedy_search(
    stepper: Stepper, limits: Tensor, bos: int, eos: int, alpha: float = 0.0, rules: Sequence[Rule] = ()
) -> list[Hypothesis]:
    """Take the most probable token at every step; `limits` (S,) bounds each output, end mark included."""
    outputs = [[bos] for _ in range(limits.numel())]
    totals = [0.0] * len(outputs)
    is_cut = [False] * len(outputs)
    alive, most = list(range(len(outputs))), limits.tolist()
    while alive:
        prefixes = [outputs[i] for i in alive]
        best = extensions(stepper, prefixes, alive, [0.0] * len(alive), 1, 1, eos, rules, limits.device)
        choices = zip(best.scores, best.tokens, best.ends, strict=True)
        for sentence, ([log_prob], [token], end) in zip(alive, choices, strict=True):
            is_cut[sentence] = len(outputs[sentence]) >= most[sentence] and token != eos
            outputs[sentence].append(eos if is_cut[sentence] else token)
            totals[sentence] += end if is_cut[sentence] else log_prob
        unfinished = closed_up([outputs[sentence][-1] != eos for sentence in alive])
        if unfinished and len(unfinished) < len(alive):
            rows = torch.tensor(unfinished, device=limits.device)
            stepper.select(rows, rows)
        alive = [alive[row] for row in unfinished]
    found = zip(outputs, totals, is_cut, strict=True)
    return [finished_hypothesis(tuple(output[1:]), total, alpha, cut) for output, total, cut in found]


# Beam search


class Candidate(NamedTuple):
    """One way to go on with one hypothesis."""

    score: float  # log-probability of all tokens
    parent: int  # which of the sentence's hypotheses
    token: int
    is_cut: bool = False  # the length limit ended it, not the model


@dataclass
class Beam:
    """The search of one sentence: its unfinished hypotheses, best first, and the best finished ones."""

    sentence: int  # which input
    limit: int  # the most tokens an output may have
    prefixes: list[list[int]]  # begin mark included
    scores: list[float]  # their log-probabilities; NEVER for a row that only fills the beam
    parents: list[int] = field(default_factory=list)  # the rows of the step before that these came from
    finished: list[Hypothesis] = field(default_factory=list)

    @property
    def length(self) -> int:
        """The number of tokens that the next step's extensions have, begin mark not counted."""
        return len(self.prefixes[0])


def beam_search(
    stepper: Stepper,
    limits: Tensor,
    bos: int,
    eos: int,
    options: BeamOptions,
    rules: Sequence[Rule] = (),
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """Return the n best hypotheses of each sentence, best first (section 6.1); none where the rules allow none.

    The search of a sentence ends when no unfinished hypothesis can still become one of the n best. The stepper
    starts with one row for each sentence, and has K after the first step.
    """

    def step(alive: list[Beam]) -> None:
        found = extend(stepper, alive, eos, options, rules, limits.device)
        for beam, candidates in zip(alive, found, strict=True):
            advance(beam, candidates, eos, options, watch)

    return search_beams(stepper, limits, bos, options, step)


def search_beams(
    stepper: Stepper, limits: Tensor, bos: int, options: BeamOptions, step: Callable[[list[Beam]], None]
) -> list[list[Hypothesis]]:
    """Let `step` extend all beams again and again, until none can win any more; return what each has finished."""
    beams = [Beam(i, limit, [[bos]], [0.0]) for i, limit in enumerate(limits.tolist())]
    alive = beams
    while alive:
        width = len(alive[0].scores)
        step(alive)
        going_on = closed_up([can_still_win(beam, options) for beam in alive])
        select(stepper, alive, going_on, width, limits.device)
        alive = [alive[i] for i in going_on]
    return [beam.finished for beam in beams]


def extend(
    stepper: Stepper,
    alive: list[Beam],
    eos: int,
    options: BeamOptions,
    rules: Sequence[Rule],
    device: torch.device,
) -> Iterator[list[Candidate]]:
    """Step all hypotheses; yield the best extensions of each sentence, best first.

    Of 2K extensions at most K end, one for each parent, so at least K remain to go on with.
    """
    prefixes = [prefix for beam in alive for prefix in beam.prefixes]
    scores = [score for beam in alive for score in beam.scores]
    width = len(alive[0].scores)
    sentences = [beam.sentence for beam in alive for _ in range(width)]
    found = extensions(stepper, prefixes, sentences, scores, width, 2 * options.beam, eos, rules, device)
    for i, beam in enumerate(alive):
        if beam.length < beam.limit:
            yield [*map(Candidate, found.scores[i], found.parents[i], found.tokens[i])]
        else:
            rows = slice(i * width, (i + 1) * width)
            yield forced_ends(beam.scores, found.ends[rows], found.favourites[rows], eos)


def extensions(
    stepper: Stepper,
    prefixes: list[list[int]],
    sentences: list[int],
    before: list[float],
    width: int,
    count: int,
    eos: int,
    rules: Sequence[Rule],
    device: torch.device,
) -> Extensions:
    """Step rows with these log-probabilities so far, `width` of each sentence; return the best extensions."""
    if not rules and finds_best(stepper, count):
        return stepper.step_best([prefix[-1] for prefix in prefixes], before, count)
    found = Extensions([], [], [], [], [])
    for numbers, log_total in predictions(stepper, prefixes, sentences, rules, device):
        rows = slice(len(found.ends), len(found.ends) + log_total.numel())
        offsets = torch.tensor(before[rows], dtype=numbers.dtype, device=device).sub_(log_total).view(-1, width)
        scores, parents, tokens = best_extensions(numbers.unflatten(0, offsets.shape), offsets, count)
        found.scores.extend(scores.tolist())
        found.parents.extend(parents.tolist())
        found.tokens.extend(tokens.tolist())
        found.ends.extend((numbers[:, eos] - log_total).tolist())
        found.favourites.extend(numbers.argmax(dim=1).tolist())
    return found


def predict(
    stepper: Stepper,
    prefixes: list[list[int]],
    sentences: list[int],
    rules: Sequence[Rule],
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """Return numbers (R, V) and offsets (R,): their difference is the log-probabilities under the rules."""
    numbers, offsets = zip(*predictions(stepper, prefixes, sentences, rules, device), strict=True)
    return torch.cat(numbers), torch.cat(offsets)


def predictions(
    stepper: Stepper,
    prefixes: list[list[int]],
    sentences: list[int],
    rules: Sequence[Rule],
    device: torch.device,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the same as `predict`, a few sentences at a time."""
    newest = torch.tensor([prefix[-1] for prefix in prefixes], device=device)
    if isinstance(stepper, LogitStepper) and not rules:
        yield from stepper.step_logits(newest)
        return
    log_probs = stepper.step(newest)
    if rules:
        tokens = torch.tensor(prefixes, device=log_probs.device)
        sentence = torch.tensor(sentences, device=log_probs.device)
        for rule in rules:
            log_probs = rule(log_probs, tokens, sentence)
    yield log_probs, log_probs.new_zeros(log_probs.size(0))


def best_extensions(numbers: Tensor, offsets: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores, parents and tokens (S, C) of the best of numbers (S, K, V) + offsets (S, K).

    The best C numbers are in the C blocks with the best maxima, so all but these are looked at only once.
    """
    sentences, beam, vocabulary = numbers.shape
    if vocabulary % BLOCK or beam * vocabulary <= 2 * count * BLOCK:
        extended = (numbers + offsets[:, :, None]).flatten(1)
        scores, flat = extended.topk(min(count, extended.size(1)), dim=1)
        return scores, flat // vocabulary, flat % vocabulary
    blocks = numbers.view(sentences, -1, BLOCK)  # (S, K·N, BLOCK)
    maxima = blocks.amax(dim=2).view(sentences, beam, -1) + offsets[:, :, None]
    chosen = maxima.flatten(1).topk(count, dim=1).indices  # (S, C)
    parents = chosen // maxima.size(2)
    inside = blocks.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)) + offsets.gather(1, parents)[:, :, None]
    scores, flat = inside.flatten(1).topk(count, dim=1)
    place = flat // BLOCK
    tokens = chosen.gather(1, place) % maxima.size(2) * BLOCK + flat % BLOCK
    return scores, parents.gather(1, place), tokens


def forced_ends(scores: list[float], ends: list[float], favourites: list[int], eos: int) -> list[Candidate]:
    """Return the end of each of a sentence's hypotheses, best first; those that did not want to end are cut."""
    found = [
        Candidate(score + end, i, eos, favourite != eos)
        for i, (score, end, favourite) in enumerate(zip(scores, ends, favourites, strict=True))
    ]
    return sorted(found, key=lambda each: -each.score)


def advance(beam: Beam, candidates: list[Candidate], eos: int, options: BeamOptions, watch: Watch | None) -> None:
    """Finish the candidates that end and go on with the K best of the others.

    To end, a candidate must be among the K best of all, as it must to go on.
    """
    ended, open_ends = [], []
    for rank, candidate in enumerate(candidates):
        if candidate.score == NEVER:
            break
        if candidate.token != eos:
            open_ends.append(candidate)
        elif rank < options.beam:
            ended.append(candidate)
    del open_ends[options.beam :]
    for candidate in ended:
        finish(beam, candidate, candidate.is_cut, options)
    if watch is not None:
        watch(seen(beam, candidates, ended, open_ends))
    go_on(beam, open_ends, options.beam)


def finish(beam: Beam, candidate: Candidate, is_cut: bool, options: BeamOptions) -> None:
    """Keep a finished output if it is one of the n best."""
    tokens = (*beam.prefixes[candidate.parent][1:], candidate.token)
    beam.finished.append(finished_hypothesis(tokens, candidate.score, options.alpha, is_cut))
    beam.finished.sort(key=lambda each: -each.score)
    del beam.finished[options.n_best :]


def go_on(beam: Beam, chosen: list[Candidate], width: int) -> None:
    """Make the chosen candidates the hypotheses, and fill the beam with rows that cannot win."""
    fill = Candidate(NEVER, 0, beam.prefixes[0][-1])
    chosen = chosen + [fill] * (width - len(chosen))
    beam.prefixes = [[*beam.prefixes[each.parent], each.token] for each in chosen]
    beam.scores = [each.score for each in chosen]
    beam.parents = [each.parent for each in chosen]


def seen(beam: Beam, candidates: list[Candidate], ended: list[Candidate], open_ends: list[Candidate]) -> BeamStep:
    """Return what a watcher is told of a step, before the beam goes on."""
    return BeamStep(
        sentence=beam.sentence,
        length=beam.length,
        parents=tuple(each.parent for each in candidates),
        tokens=tuple(each.token for each in candidates),
        scores=tuple(each.score for each in candidates),
        ended=tuple(each in ended for each in candidates),
        went_on=tuple(each in open_ends for each in candidates),
    )


def can_still_win(beam: Beam, options: BeamOptions) -> bool:
    """Return whether the best unfinished hypothesis could still enter the n best.

    Log-probabilities only fall and the penalty is largest at the length limit, so this bound is exact.
    """
    if len(beam.finished) < options.n_best:
        return beam.scores[0] > NEVER
    return beam.scores[0] / length_penalty(beam.limit, options.alpha) > beam.finished[-1].score


def select(stepper: Stepper, alive: list[Beam], going_on: list[int], width: int, device: torch.device) -> None:
    """Tell the stepper, which had `width` rows for each sentence, which sentences and rows go on."""
    if going_on:
        rows = torch.tensor([i * width + parent for i in going_on for parent in alive[i].parents], device=device)
        all_go_on = len(going_on) == len(alive)
        stepper.select(None if all_go_on else torch.tensor(going_on, device=device), rows)
