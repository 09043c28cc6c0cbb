"""A translation depends on its text alone: not on the batch, the order, or how it is asked for."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

import sixfold
from sixfold.data.corpora.phrasebook import sentences
from sixfold.decode.translate import Translation, Translator

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "compat" / "format-1-phrases"
NUM_SENTENCES = 200


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A model that has learned short sentences."""
    return sixfold.load(MODEL, "cpu")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Two hundred sentences of all lengths, most of them new to the model."""
    return [english for english, *_ in islice(sentences(seed=77), NUM_SENTENCES)]


@pytest.fixture(scope="module")
def together(translator: Translator, texts: list[str]) -> list[Translation]:
    """The translation of each in one call."""
    return [best for best, *_ in translator.search(texts)]


def assert_equal(found: list[Translation], expected: list[Translation]) -> None:
    """Compare texts to the letter and scores closely."""
    assert [each.text for each in found] == [each.text for each in expected]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-4)


def test_two_hundred_sentences_are_translated_alone_as_together(
    translator: Translator, texts: list[str], together: list[Translation]
) -> None:
    assert_equal([translator.search([text])[0][0] for text in texts], together)


def test_two_hundred_sentences_are_translated_in_any_order_and_batch_as_together(
    translator: Translator, texts: list[str], together: list[Translation], seed: int
) -> None:
    draw = random.Random(seed)
    order = draw.sample(range(NUM_SENTENCES), NUM_SENTENCES)
    found: dict[int, Translation] = {}
    while order:
        batch, order = order[: (size := draw.choice([1, 2, 7, 50]))], order[size:]
        results = translator.search([texts[i] for i in batch])
        found |= {i: best for i, (best, *_) in zip(batch, results, strict=True)}
    assert_equal([found[i] for i in range(NUM_SENTENCES)], together)


def test_scoring_two_hundred_translations_gives_what_was_reported_with_them(
    translator: Translator, texts: list[str], together: list[Translation]
) -> None:
    whole = [i for i, each in enumerate(together) if not each.is_cut]
    scores = translator.score([texts[i] for i in whole], [together[i].text for i in whole])
    # A text can be spelled in several ways, and a search may take another than the tokenizer does.
    same = [(s, together[i]) for s, i in zip(scores, whole, strict=True) if s.num_tokens == together[i].num_tokens]
    assert len(same) >= 0.95 * NUM_SENTENCES
    reported = [each.log_probability for _, each in same]
    assert [score.log_probability for score, _ in same] == pytest.approx(reported, rel=0, abs=1e-4)


LONG = """
import resource, sys, time
import sixfold
translator = sixfold.load(sys.argv[1], "cpu")
translator.translate(["Please look at the dog."] * 8)
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
found = translator.search([sys.argv[2] * (2**20 // len(sys.argv[2])), "Please look at the dog."])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
print(time.process_time() - began)
print(found[0][0].source_is_cut, found[1][0].text)
"""


@pytest.mark.parametrize("unit", ["word ", "w"])
def test_a_line_of_a_megabyte_is_cut_and_said_in_bounded_time_and_memory(
    environment: dict[str, str], unit: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG, MODEL, unit], env=environment, capture_output=True, text=True, timeout=200
    )
    megabytes, seconds, rest = done.stdout.split("\n", 2)
    assert int(megabytes) < 300
    assert float(seconds) < 10
    assert rest == "True Bitte schau den Hund an.\n"
