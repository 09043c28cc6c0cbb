"""How long inputs and outputs may be, what ends there says so, and searches that cannot be are refused."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from tests.unit.decode.translations import SENTENCES, SPECIAL, hypotheses, one_answer_model, random_model

from sixfold.decode import batch_decoder
from sixfold.decode.config import DecodeConfig
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Stepper
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.text import Tokenizer

pytestmark = pytest.mark.usefixtures("seed")


def test_an_output_ends_at_its_limit_and_says_so(tokenizer: Tokenizer) -> None:
    model = one_answer_model(tokenizer, tokenizer.encode("dog")[-1])
    decode = DecodeConfig(extra_tokens=7)
    for beam in (1, 3):
        [[best]] = Translator([model], tokenizer, decode).search(["old tree"], beam=beam)
        assert best.num_tokens == len(tokenizer.encode("old tree")) + 7
        assert best.is_cut
        assert not best.source_is_cut


def test_a_translation_that_ends_by_itself_is_not_cut(trained: Translator) -> None:
    found = [best for best, *_ in trained.search(SENTENCES)]
    limits = [len(ids) + trained.decode.extra_tokens for ids in trained.tokenizer.encode_batch(SENTENCES)]
    assert [best.is_cut for best in found] == [
        best.num_tokens == limit for best, limit in zip(found, limits, strict=True)
    ]
    assert not all(best.is_cut for best in found)


def test_a_text_that_is_too_long_is_cut_and_says_so(trained: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_decoder, "LONGEST_SOURCE", 12)
    translator = Translator([trained.model], trained.tokenizer, trained.decode)
    text = "old man sees blue house and small tree and dog"
    ids = trained.tokenizer.encode(text)
    assert len(ids) > 12
    [[long], [short]] = translator.search([text, "old man"])
    [[beginning]] = hypotheses(trained, [ids[:12]], SearchOptions())
    assert (long.source_is_cut, short.source_is_cut) == (True, False)
    assert long.text == trained.tokenizer.decode(beginning.tokens)


def test_of_a_line_of_a_megabyte_only_the_beginning_is_searched(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator([one_answer_model(tokenizer, SPECIAL.eos)], tokenizer, DecodeConfig(beam=2))
    read, start = [], translator.decoder.engine.start

    def watch(sources: list[list[int]], prompts: list[list[int]]) -> Stepper:
        read.extend(map(len, sources))
        return start(sources, prompts)

    monkeypatch.setattr(translator.decoder.engine, "start", watch)
    [[best]] = translator.search(["dog " * 250_000])
    assert best.source_is_cut
    assert read == [translator.decoder.longest_source + 1]


def test_learned_positions_suffice_for_the_longest_source_and_output(tokenizer: Tokenizer) -> None:
    answer = tokenizer.encode("dog")[-1]
    model = one_answer_model(tokenizer, answer)
    short = random_model(tokenizer, positions="learned", max_positions=20)
    short.load_state_dict({**model.state_dict(), **{n: p for n, p in short.state_dict().items() if "table" in n}})
    translator = Translator([short], tokenizer, DecodeConfig(extra_tokens=50))
    for beam in (1, 2):
        [[best]] = translator.search(["old man sees blue house and small tree and dog"], beam=beam)
        assert best.source_is_cut
        assert best.is_cut
        assert best.num_tokens == 20
    [score] = translator.score(["old man"], ["dog " * 100])
    assert score.is_cut
    assert score.num_tokens == 20


@pytest.mark.parametrize(
    "wish",
    [
        {"beam": 4, "n_best": 5},
        {"beam": 1, "n_best": 2},
        {"beam": 1, "require": ("Hund",)},
        {"max_length": 3, "prefix": "Ein Mann"},
        {"max_length": 1, "require": ("klein blau",)},
        {"min_length": 5000},
    ],
)
def test_a_search_that_cannot_be_is_refused_before_anything_is_done(
    trained: Translator, wish: dict[str, int]
) -> None:
    with pytest.raises(ConfigError):
        trained.search(["dog"], SearchOptions(**wish))


def test_the_model_folder_decides_how_to_search_unless_the_caller_does(trained: Translator) -> None:
    def resolved(translator: Translator, **wishes: float) -> tuple[float, ...]:
        return astuple(translator.decoder.plan(SearchOptions(**wishes)).beam)

    assert resolved(trained) == (4, 0.6, 1)
    assert resolved(trained, beam=2, n_best=2, length_penalty=1.5) == (2, 1.5, 2)
    other = Translator([trained.model], trained.tokenizer, DecodeConfig(beam=7, length_penalty=0.2))
    assert resolved(other, n_best=7) == (7, 0.2, 7)
