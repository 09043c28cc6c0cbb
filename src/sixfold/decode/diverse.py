"""Translations that differ from each other: searched one after the other, each kept away from those before it.

As in diverse beam search (Vijayakumar et al. 2018), what an earlier group of hypotheses has written costs a later
one more. There a token costs more in the same place only; here anywhere, so that one word more does not make the
rest free again. As a group looks only at earlier ones, the groups are whole searches of their own, of any kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from torch import Tensor

from sixfold.decode.search import Hypothesis, Rule, finished_hypothesis
from sixfold.text.spelling import Spelling, written

Search = Callable[[int, Sequence[Rule]], list[list[Hypothesis]]]
"""A search for so many hypotheses of each sentence under more rules, best first."""


class Unlike:
    """A token costs `strength` for each earlier result of its sentence that has it.

    Probabilities still sum to 1, so a token without alternatives costs nothing; else the cheapest way out would
    be a short output.
    """

    def __init__(self, earlier: Sequence[Sequence[Hypothesis]], strength: float, eos: int) -> None:
        counts = [Counter(t for each in results for t in set(each.tokens) - {eos}) for results in earlier]
        self.costs = [{token: strength * count for token, count in each.items()} for each in counts]
        self.log_totals: dict[tuple[int, ...], float] = {}  # of the sums taken out, by sentence and prefix

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentence: Tensor) -> Tensor:
        """Make the tokens of earlier results less probable."""
        sentences = sentence.tolist()
        for row, which in enumerate(sentences):
            costs = self.costs[which]
            log_probs[row, [*costs]] -= log_probs.new_tensor([*costs.values()])
        log_total = log_probs.logsumexp(dim=1, keepdim=True)
        keys = [(which, *prefix) for which, prefix in zip(sentences, tokens[:, 1:].tolist(), strict=True)]
        self.log_totals.update(zip(keys, log_total[:, 0].tolist(), strict=True))
        return log_probs - log_total

    def without_cost(self, which: int, found: Hypothesis, alpha: float) -> Hypothesis:
        """Return a hypothesis of one sentence with the log-probability the model gave it."""
        total = found.log_probability
        for place, token in enumerate(found.tokens):
            total += self.costs[which].get(token, 0.0) + self.log_totals[which, *found.tokens[:place]]
        return finished_hypothesis(found.tokens, total, alpha, found.is_cut)


def diverse_search(
    search: Search, num_sentences: int, n_best: int, strength: float, alpha: float, spelling: Spelling, eos: int
) -> list[list[Hypothesis]]:
    """Return n hypotheses of each sentence, best first, no two of them with the same words."""
    results: list[list[Hypothesis]] = [[] for _ in range(num_sentences)]
    for number in range(n_best):
        unlike = Unlike(results, strength, eos)
        for which, best in enumerate(search(number + 1, [unlike])):
            known = {words(spelling, each) for each in results[which]}
            new = [each for each in best if words(spelling, each) not in known]
            results[which] += [unlike.without_cost(which, each, alpha) for each in new[:1]]
    return [sorted(each, key=lambda result: -result.score) for each in results]


def words(spelling: Spelling, hypothesis: Hypothesis) -> tuple[str, ...]:
    """Return the words of an output: another spelling or more spaces do not make another text."""
    return tuple(written(spelling, hypothesis.tokens).split())
