"""How well questions are answered: exact match and F1 of words, by SQuAD's rules (Rajpurkar et al., 2016, 2018).

Case, punctuation, articles and spacing do not count. Of several expected answers the nearest counts; none means
that the text does not answer the question.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from sixfold.evaluate.classification import f1_of

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def plain(text: str) -> str:
    """Return an answer as it is compared."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(predicted: str, expected: Sequence[str]) -> bool:
    """Return whether an answer is one of those that were expected; an empty one says that there is none."""
    return any(plain(predicted) == plain(each) for each in expected or [""])


def word_f1(predicted: str, expected: Sequence[str]) -> float:
    """Return the F1 of an answer's words with the nearest of those that were expected."""
    return max(f1_of_words(plain(predicted).split(), plain(each).split()) for each in expected or [""])


def f1_of_words(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Return the F1 of two lists of words; two empty ones are equal."""
    if not predicted or not expected:
        return float(list(predicted) == list(expected))
    return f1_of((Counter(predicted) & Counter(expected)).total(), len(predicted), len(expected))
