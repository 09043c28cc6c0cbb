"""Reading back: the source's own probability decides between hypotheses, in any company."""

from __future__ import annotations

import random

import pytest
import torch

from sixfold.data.batches import pad
from sixfold.decode import translate as module
from sixfold.decode.engine import Engine
from sixfold.decode.kernel_engine import open_engine
from sixfold.decode.matrices import Precision
from sixfold.decode.options import SearchOptions
from sixfold.decode.read_back import read_back
from sixfold.decode.scoring import target_log_probabilities
from sixfold.decode.search import Hypothesis, length_penalty
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.explain import explain
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.models.folder import DecodeConfig
from sixfold.text.tokens import BACK_ID, EOS_ID

pytestmark = pytest.mark.usefixtures("seed")

WEIGHT, ALPHA, BEAM = 0.7, 1.2, 5


@pytest.fixture(params=["kernels", "torch"])
def reader(trained: Translator, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """Return a model that reads back, with each engine."""
    made = open_engine if request.param == "kernels" else in_torch
    monkeypatch.setattr(module, "open_engine", made)
    decode = DecodeConfig(beam=BEAM, length_penalty=ALPHA, read_back=WEIGHT)
    return Translator(trained.model, trained.tokenizer, decode)


def in_torch(model: EncoderDecoder, precision: Precision) -> Engine:
    """Open the engine that needs no compiler."""
    return Engine(model, precision)


@pytest.fixture
def sentences() -> list[str]:
    """Return sentences of many lengths."""
    words = ["man", "woman", "dog", "house", "window", "tree", "blue", "old", "small", "sees", "paints", "and"]
    return [" ".join(random.choices(words, k=1 + number % 9)) for number in range(24)]


@torch.inference_mode()
def log_probability_back(translator: Translator, source: list[int], hypothesis: list[int]) -> float:
    """Return the log-probability of a source after a hypothesis, from the whole model at once."""
    target_out = torch.from_numpy(pad([[*source, EOS_ID]]))
    logits = translator.model(torch.tensor([[*hypothesis, EOS_ID]]), torch.tensor([[BACK_ID, *source]]))
    return float(target_log_probabilities(logits, target_out).sum())


def test_the_best_is_what_the_model_itself_says_of_both_directions(
    reader: Translator, sentences: list[str]
) -> None:
    one_way = reader.search(sentences, SearchOptions(n_best=BEAM, read_back=0))
    both = reader.search(sentences, SearchOptions(n_best=BEAM))
    changed = 0
    for sentence, candidates, ordered in zip(sentences, one_way, both, strict=True):
        source = reader.tokenizer.encode(sentence)
        worth = WEIGHT / length_penalty(len(source) + 1, ALPHA)
        expected = {
            each.tokens: worth * log_probability_back(reader, source, list(each.tokens[:-1]))
            for each in candidates
        }
        assert {each.tokens: each.read_back for each in ordered} == pytest.approx(expected, abs=1e-3)
        assert {each.tokens: each.score for each in ordered} == {each.tokens: each.score for each in candidates}
        totals = [each.score + each.read_back for each in ordered]
        assert totals == sorted(totals, reverse=True)
        changed += ordered[0].tokens != candidates[0].tokens
    assert changed  # this model was never taught to read back, so it disagrees with itself somewhere


def test_what_is_read_back_does_not_depend_on_its_company(reader: Translator, sentences: list[str]) -> None:
    together = reader.search(sentences)
    assert [reader.search([sentence])[0] for sentence in sentences] == together
    shuffled = random.sample(range(len(sentences)), len(sentences))
    assert reader.search([sentences[i] for i in shuffled]) == [together[i] for i in shuffled]


def test_as_many_are_returned_as_were_asked_for(reader: Translator, sentences: list[str]) -> None:
    for n_best in (1, 3):
        assert {len(found) for found in reader.search(sentences, SearchOptions(n_best=n_best))} == {n_best}


def test_an_empty_text_stays_empty(reader: Translator) -> None:
    assert reader.translate(["", "man"])[0] == ""


def test_the_explained_translation_is_the_one_that_reading_back_chose(
    reader: Translator, sentences: list[str]
) -> None:
    for sentence in sentences[:8]:
        found, [[expected]] = explain(reader, sentence), reader.search([sentence])
        assert (found.translation, found.score) == (expected.text, pytest.approx(expected.score, abs=1e-4))
        assert "read back" in found.notes[-1]
        assert found.tree.nodes[found.tree.winner].total == pytest.approx(expected.log_probability, abs=1e-3)


def test_where_there_is_nothing_to_choose_from_nothing_is_read(
    reader: Translator, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Translator, "read_back")
    reader.search(sentences[:3], SearchOptions(beam=1))
    reader.search(sentences[:3], SearchOptions(sample=1.0))
    reader.search(sentences[:3], SearchOptions(diverse=0.5, n_best=2))
    reader.search(sentences[:3], SearchOptions(read_back=0))
    assert "".join(reader.stream(sentences[0])) == reader.translate(sentences[:1], beam=1)[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam": 1, "read_back": 0.5}, "beam of at least 2"),
        ({"sample": 1.0, "read_back": 0.5}, "cannot be used together"),
        ({"diverse": 1.0, "n_best": 2, "read_back": 0.5}, "cannot be used together"),
    ],
)
def test_reading_back_that_cannot_be_is_refused(reader: Translator, options: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        reader.search(["man"], SearchOptions(**options))


def test_a_model_that_never_learned_it_refuses_to_read_back(trained: Translator) -> None:
    with pytest.raises(ConfigError, match="not trained both ways"):
        trained.search(["man"], SearchOptions(read_back=0.5))


def test_the_source_that_a_hypothesis_explains_better_wins() -> None:
    short, long = Hypothesis((7, 2), -1.0, -1.0), Hypothesis((7, 8, 2), -1.5, -1.5)

    def score(inputs: list[list[int]], outputs: list[list[int]]) -> list[float]:
        assert (inputs, outputs) == ([[7], [7, 8]], [[5, 6], [5, 6]])
        return [-4.0, -1.0]

    for weight, best in ((0.0, short), (0.1, short), (0.5, long)):
        [[first, second]] = read_back([[short, long]], [[5, 6]], score, weight, alpha=0.0)
        assert first.tokens == best.tokens
        assert first.score + first.read_back >= second.score + second.read_back
