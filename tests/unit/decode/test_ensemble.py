"""Several models translate and score as the average of their probabilities."""

from __future__ import annotations

import pytest
import torch
from tests.unit.decode.translations import SENTENCES, SPECIAL, random_model, scores, texts

from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator

pytestmark = pytest.mark.usefixtures("seed")


def test_a_model_with_itself_is_the_model(brief: Translator) -> None:
    twice = Translator([brief.model, brief.model], brief.tokenizer, brief.decode)
    options = SearchOptions(n_best=3)
    ours, theirs = twice.search(SENTENCES[:8], options), brief.search(SENTENCES[:8], options)
    assert texts(ours) == texts(theirs)
    assert scores(ours) == pytest.approx(scores(theirs), abs=1e-4)


def test_an_ensemble_is_scored_as_it_translates_and_by_the_average_probability(brief: Translator) -> None:
    other = random_model(brief.tokenizer, spread=1.0).float()
    both = Translator([brief.model, other], brief.tokenizer, brief.decode)
    found = both.search(SENTENCES[:8], SearchOptions(n_best=2, length_penalty=0.9))
    tokens = both.token_scores(SENTENCES[:8], found)
    reported = [each.log_probability for best in found for each in best]
    assert [sum(each.log_probability for each in row) for row in tokens] == pytest.approx(reported, abs=1e-4)
    [source], [target] = (brief.tokenizer.encode_batch([text]) for text in ("old dog", "alt Hund"))
    inputs = torch.tensor([[*source, SPECIAL.eos]]), torch.tensor([[SPECIAL.bos, *target]])
    with torch.no_grad():
        mean = sum(model(*inputs).softmax(dim=-1) for model in (brief.model, other)) / 2
    expected = mean[0, torch.arange(len(target) + 1), torch.tensor([*target, SPECIAL.eos])].log().sum()
    assert both.score(["old dog"], ["alt Hund"])[0].log_probability == pytest.approx(float(expected), abs=1e-4)
