"""BLEU, chrF, TER and exact match, with the signatures that say how they were computed."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.errors import DataError
from sixfold.evaluate.metrics import bleu, bleu_tokenizer, chrf, corpus_metrics, exact_match, ter

HYPOTHESES = ["the cat sat on the mat", "a dog barks at night", "he reads a good book now"]
REFERENCES = ["the cat sat on a mat", "a dog barks every night", "she reads a good book now"]


def bleu_from_the_definition(hypotheses: list[str], references: list[str]) -> float:
    """Return BLEU of text whose words are separated by spaces and where every n-gram order has a match."""
    precisions = []
    for order in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            ours, theirs = (
                Counter(zip(*(text.split()[start:] for start in range(order)), strict=False))
                for text in (hypothesis, reference)
            )
            matches += (ours & theirs).total()
            total += ours.total()
        precisions.append(matches / total)
    lengths = [sum(len(text.split()) for text in texts) for texts in (hypotheses, references)]
    brevity = min(0.0, 1 - lengths[1] / lengths[0])
    return 100 * math.exp(brevity + sum(map(math.log, precisions)) / 4)


def test_bleu_follows_its_definition():
    assert bleu(HYPOTHESES, REFERENCES).value == pytest.approx(bleu_from_the_definition(HYPOTHESES, REFERENCES))


def test_ter_counts_edits_per_hundred_reference_words():
    assert ter(["a b c d", "a b c d"], ["a b c d", "a b x d"]).value == pytest.approx(100 * 1 / 8)


def test_exact_match_is_a_percentage():
    assert exact_match(["a", "b", "c", "d"], ["a", "b", "c", "x"]).value == 75.0


@pytest.mark.parametrize("metric", [bleu, chrf, exact_match])
def test_a_perfect_translation_scores_a_hundred(metric):
    assert metric(REFERENCES, REFERENCES).value == pytest.approx(100)


def test_a_perfect_translation_needs_no_edit():
    assert ter(REFERENCES, REFERENCES).value == 0


@pytest.mark.parametrize("metric", [bleu, chrf, ter, exact_match])
def test_case_counts_unless_told_otherwise(metric):
    upper = [text.upper() for text in REFERENCES]
    perfect = metric(REFERENCES, REFERENCES).value
    assert metric(upper, REFERENCES).value != pytest.approx(perfect)
    assert metric(upper, REFERENCES, lowercase=True).value == pytest.approx(perfect)


@pytest.mark.parametrize("metric", [bleu, chrf, ter, exact_match])
def test_the_signature_shows_the_case(metric):
    assert "case:mixed" in metric(HYPOTHESES, REFERENCES).signature
    assert "case:lc" in metric(HYPOTHESES, REFERENCES, lowercase=True).signature


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        ("", "13a"),
        ("de", "13a"),
        ("pt_BR", "13a"),
        ("zh", "zh"),
        ("zh-Hant", "zh"),
        ("ZH_cn", "zh"),
        ("cmn", "zh"),
        ("ja", "char"),
        ("jpn", "char"),
        ("th", "char"),
    ],
)
def test_the_tokenizer_suits_the_language(language, tokenizer):
    assert bleu_tokenizer(language) == tokenizer


def test_the_tokenizer_stands_in_the_signature():
    for language, tokenizer in (("de", "13a"), ("zh", "zh"), ("ja", "char")):
        assert f"tok:{tokenizer}|" in corpus_metrics(HYPOTHESES, REFERENCES, language)[0].signature


def test_one_wrong_character_does_not_spoil_a_chinese_sentence():
    hypothesis, reference = ["我们今天去看一部新电影。"], ["我们今天去看一部老电影。"]
    bleu_score, _, ter_score, _ = corpus_metrics(hypothesis, reference, "zh")
    assert bleu_score.value > 40
    assert ter_score.value == pytest.approx(100 / 12)
    assert corpus_metrics(hypothesis, reference, "de")[2].value == 100  # one long word, and it is wrong


def test_all_metrics_come_with_name_and_signature():
    metrics = corpus_metrics(HYPOTHESES, REFERENCES)
    assert [metric.name for metric in metrics] == ["BLEU", "chrF", "TER", "exact match"]
    assert all("nrefs:1" in metric.signature for metric in metrics)
    assert all("version:" in metric.signature for metric in metrics[:3])


@pytest.mark.parametrize("metric", [bleu, chrf, ter, exact_match, corpus_metrics])
def test_unequal_lengths_are_refused_with_the_counts(metric):
    with pytest.raises(DataError, match="2 translations for 3 references"):
        metric(HYPOTHESES[:2], REFERENCES)


@pytest.mark.parametrize("metric", [bleu, chrf, ter, exact_match, corpus_metrics])
def test_nothing_to_score_is_refused(metric):
    with pytest.raises(DataError, match="0 translations"):
        metric([], [])


texts = st.text(st.characters(exclude_characters="\n"), max_size=20)


@settings(max_examples=50)
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=4), language=st.sampled_from(["", "zh", "ja"]))
def test_any_text_gets_a_finite_score(pairs, language):
    hypotheses, references = map(list, zip(*pairs, strict=True))
    assert all(math.isfinite(metric.value) for metric in corpus_metrics(hypotheses, references, language))


def test_scoring_does_not_load_torch():
    program = (
        "import sys; from sixfold.evaluate.metrics import corpus_metrics; corpus_metrics(['a'], ['a']);"
        "from sixfold.evaluate.paired_bootstrap import compare; from sixfold.evaluate.system import System;"
        "compare(System('A', ['a']), System('B', ['a']), ['b'], samples=2);"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
