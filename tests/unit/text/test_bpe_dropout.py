"""BPE-dropout: SentencePiece's own merges, with random numbers that every process draws alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sixfold.text import Tokenizer

TEXTS = [
    "the standing man is understanding",
    "ein Mann übersteht es verständlich",
    "naïve café — 日本語 100%",
] * 20
TOKENIZER = Tokenizer.learn(TEXTS, 340)
PROGRAM = """
import sys
from sixfold.text import Tokenizer
texts = sys.stdin.buffer.read().decode().splitlines()
print(Tokenizer.learn(texts * 20, 340).sample_batch(texts, 0.3, seed=7))
"""


@settings(max_examples=100)
@given(st.lists(st.text("standig übermé日 <0x41>/s\u2581\u00a0\U0001f600", max_size=30), max_size=3))
def test_without_dropout_the_merges_are_those_of_sentencepiece(texts: list[str]) -> None:
    assert TOKENIZER.sample_batch(texts, 0.0, seed=1) == TOKENIZER.encode_batch(texts)


@settings(max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=20), st.floats(0, 1))
def test_any_spelling_says_the_same(text: str, dropout: float) -> None:
    (ids,) = TOKENIZER.sample_batch([text], dropout, seed=1)
    assert TOKENIZER.decode(ids) == text


def test_every_process_draws_the_same() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")}
    drawn = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input="\n".join(TEXTS[:3]).encode(),
            env={**environment, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        drawn.add(done.stdout)
    assert drawn == {f"{TOKENIZER.sample_batch(TEXTS[:3], 0.3, seed=7)}\n".encode()}


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_as_many_merges_are_left_out_as_sentencepiece_would(dropout: float) -> None:
    stretches = [" " + text for text in TEXTS]
    ours = sum(len(ids) for seed in range(20) for ids in TOKENIZER.sample_batch(TEXTS, dropout, seed))
    theirs = sum(
        len(TOKENIZER.processor.encode(text, enable_sampling=True, alpha=dropout, nbest_size=-1))
        for _ in range(20)
        for text in stretches
    )
    assert ours == pytest.approx(theirs, rel=0.02)
