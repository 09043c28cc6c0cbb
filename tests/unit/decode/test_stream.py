"""A translation that is shown while it is written is the one that would have been returned."""

from __future__ import annotations

import pytest
import torch
from tests.unit.decode.translations import SENTENCES, random_model

from sixfold.decode.config import DecodeConfig
from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.text import Tokenizer

pytestmark = pytest.mark.usefixtures("seed")


@pytest.mark.parametrize("how", [{}, {"sample": 1.0}, {"forbid": ("Hund",), "prefix": "al", "min_length": 5}])
def test_a_stream_is_the_translation_piece_by_piece(brief: Translator, how: dict[str, float]) -> None:
    options = SearchOptions(beam=1, **how)
    for place, text in enumerate(SENTENCES[:8]):
        pieces = list(brief.stream(text, options, place))
        assert "".join(pieces) == brief.search([text], options, first_place=place)[0][0].text
        assert all(pieces)
    assert len(list(brief.stream(SENTENCES[8]))) > 3
    assert list(brief.stream("")) == []


def test_a_stream_of_bytes_waits_for_whole_characters(tokenizer: Tokenizer, seed: int) -> None:
    for spread in (2.0, 4.0):
        model = random_model(tokenizer, spread=spread)
        with torch.no_grad():
            model.head.weight[4:260] *= 2  # the bytes
        translator = Translator([model], tokenizer, DecodeConfig(extra_tokens=20))
        for number in range(5):
            options = SearchOptions(sample=3.0, seed=seed + number)
            assert (
                "".join(translator.stream("old tree", options)) == translator.translate(["old tree"], options)[0]
            )


def test_what_is_revised_cannot_be_streamed(brief: Translator) -> None:
    for how in ({"beam": 4}, {"sample": 1.0, "n_best": 2}):
        with pytest.raises(ConfigError, match="can be streamed"):
            next(brief.stream("dog", SearchOptions(**how)))
