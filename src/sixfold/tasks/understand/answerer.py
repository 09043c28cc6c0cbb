"""Find the answer to a question in a text, with its position."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sixfold.errors import RequestError
from sixfold.tasks.understand.predictor import Predictor
from sixfold.tasks.understand.windows import Candidate, best_candidate, windows_of


@dataclass(frozen=True)
class FoundAnswer:
    """An answer, which is `context[start:end]`; empty if the text has no answer."""

    text: str
    start: int
    end: int
    probability: float  # that the question has this answer rather than none
    is_cut: bool  # whether the end of the question was not read


class Answerer(Predictor):
    """An encoder that finds answers in texts."""

    task = "answer"

    def answer(self, question: str, context: str) -> FoundAnswer:
        """Find the answer to a question in a text of any length."""
        if not question.strip() or not context.strip():
            raise RequestError(
                "A question and a text are needed.", 'sixfold answer MODEL "Who?" --context text.txt'
            )
        windows = list(windows_of(self.tokenizer, self.rows, question, context))
        answers = self.answers([window.row for window in windows])
        found = [
            best_candidate(logits.double().numpy(), window.spans)
            for logits, window in zip(answers, windows, strict=True)
        ]
        best = max((each for each in found if each is not None), key=advantage, default=None)
        may_be_none = self.info.decode.get("no_answer") is not False
        if best is None or (may_be_none and advantage(best) <= 0):
            probability = chance(advantage(best)) if best else 0.0
            return FoundAnswer("", 0, 0, probability, windows[0].is_cut)
        text = context[best.start : best.end]
        return FoundAnswer(text, best.start, best.end, chance(advantage(best)), windows[0].is_cut)


def advantage(candidate: Candidate) -> float:
    """Return how much better an answer is than none."""
    return candidate.score - candidate.no_answer


def chance(score: float) -> float:
    """Return the probability of an answer against none."""
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, score))))
