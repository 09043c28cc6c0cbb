"""Translation with real models: the same text in any company, and what an independent search would find."""

from __future__ import annotations

import random

import pytest
import torch
from tests.unit.decode.translations import (
    SENTENCES,
    SPECIAL,
    VARIANTS,
    byte_token,
    hypotheses,
    one_answer_model,
    random_model,
    scores,
    texts,
)

from sixfold.decode import token_budget
from sixfold.decode.config import DecodeConfig
from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import score_ids
from sixfold.decode.translate import Translation, Translator
from sixfold.errors import ConfigError
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.text import Tokenizer
from sixfold.text.spelling import written

pytestmark = pytest.mark.usefixtures("seed")


# The same text in any company


@pytest.mark.parametrize("beam", [1, 4])
def test_a_text_is_translated_alone_as_in_any_batch_and_order(
    trained: Translator, beam: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = trained.search(SENTENCES, SearchOptions(beam=beam, n_best=beam))
    assert len({best.text for best, *_ in together}) > 30
    alone = [trained.search([text], SearchOptions(beam=beam, n_best=beam))[0] for text in SENTENCES]
    order = random.Random(seed).sample(range(60), 60)
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 40 * beam)
    shuffled = trained.search([SENTENCES[i] for i in order], SearchOptions(beam=beam, n_best=beam))
    back = [shuffled[order.index(i)] for i in range(60)]
    for other in (alone, back):
        assert texts(other) == texts(together)
        assert scores(other) == pytest.approx(scores(together), abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_weights_translate_alone_as_in_a_batch(tokenizer: Tokenizer, variant: str) -> None:
    ids, options = tokenizer.encode_batch(SENTENCES[:20]), SearchOptions(beam=4, n_best=3)
    for _ in range(20):  # some random models say the same to everything
        model = random_model(tokenizer, **VARIANTS[variant])
        translator = Translator([model], tokenizer, DecodeConfig(extra_tokens=8))
        together = hypotheses(translator, ids, options)
        if len({each.tokens for found in together for each in found}) > 5:
            break
    else:
        pytest.fail("all random models say the same to everything")
    alone = [hypotheses(translator, [row], options)[0] for row in ids]
    assert [[each.tokens for each in found] for found in alone] == [
        [each.tokens for each in found] for found in together
    ]


def test_repeating_a_translation_repeats_it_exactly(trained: Translator) -> None:
    assert trained.search(SENTENCES[:10]) == trained.search(SENTENCES[:10])


# What an independent search would find


def reference_beam(
    model: EncoderDecoder, source: list[int], limit: int, options: SearchOptions
) -> list[tuple[float, tuple[int, ...]]]:
    """Search without cache, batch or early stop; return (score, tokens) of all that ended, best first."""
    assert options.beam
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished = []
    for length in range(1, limit + 1):
        extended = []
        for total, tokens in beams:
            logits = model(torch.tensor([[*source, SPECIAL.eos]]), torch.tensor([[SPECIAL.bos, *tokens]]))[0, -1]
            for token, log_prob in enumerate(logits.log_softmax(dim=0).tolist()):
                if token == SPECIAL.eos or (length < limit and token not in SPECIAL.never_chosen):
                    extended.append((total + log_prob, (*tokens, token)))
        best = sorted(extended, reverse=True)[: 2 * options.beam]
        penalty = ((5 + length) / 6) ** 0.6
        finished += [
            (total / penalty, tokens) for total, tokens in best[: options.beam] if tokens[-1] == SPECIAL.eos
        ]
        beams = [each for each in best if each[1][-1] != SPECIAL.eos][: options.beam]
    return sorted(finished, reverse=True)


def check_against_reference(translator: Translator, sentences: list[str], options: SearchOptions) -> None:
    """Compare a batched and cached search with the plain one."""
    ids = translator.tokenizer.encode_batch(sentences)
    for source, found in zip(ids, hypotheses(translator, ids, options), strict=True):
        limit = len(source) + translator.decode.extra_tokens
        best_of_text: dict[str, tuple[float, tuple[int, ...]]] = {}
        for each in reference_beam(translator.model, source, limit, options):
            best_of_text.setdefault(written(translator.decoder.spelling, each[1]), each)
        expected = [*best_of_text.values()][: options.n_best]
        assert [each.tokens for each in found] == [tokens for _, tokens in expected]
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_the_cached_search_finds_what_a_search_without_cache_finds(tokenizer: Tokenizer, variant: str) -> None:
    translator = Translator(
        [random_model(tokenizer, **VARIANTS[variant])], tokenizer, DecodeConfig(extra_tokens=3)
    )
    check_against_reference(translator, ["blue tree", "dog", "old man sees"], SearchOptions(beam=3, n_best=3))


@torch.no_grad()
def test_the_cached_search_of_a_trained_model_finds_what_one_without_cache_finds(trained: Translator) -> None:
    translator = Translator([trained.model], trained.tokenizer, DecodeConfig(extra_tokens=4))
    check_against_reference(translator, SENTENCES[3:6], SearchOptions(beam=4, n_best=2))


@pytest.mark.parametrize("beam", [1, 4])
def test_scoring_the_tokens_gives_the_log_probability_that_was_reported(trained: Translator, beam: int) -> None:
    ids = trained.tokenizer.encode_batch(SENTENCES)
    found = hypotheses(trained, ids, SearchOptions(beam, n_best=beam))
    rows = [(source, each) for source, best in zip(ids, found, strict=True) for each in best]
    scored = score_ids(
        trained.model, SPECIAL, [source for source, _ in rows], [list(each.tokens[:-1]) for _, each in rows]
    )
    reported = [each.log_probability for _, each in rows]
    assert [each.log_probability for each in scored] == pytest.approx(reported, abs=1e-4)
    assert [each.num_tokens for each in scored] == [len(each.tokens) for _, each in rows]


def test_scoring_a_translation_gives_the_numbers_that_were_reported_with_it(trained: Translator) -> None:
    found = [best for best, *_ in trained.search(SENTENCES)]
    scored = trained.score(SENTENCES, [each.text for each in found])
    spelled_alike = [i for i in range(60) if scored[i].num_tokens == found[i].num_tokens]
    assert len(spelled_alike) > 30  # a search may spell a text in other tokens than the tokenizer would
    for i in spelled_alike:
        assert scored[i].log_probability == pytest.approx(found[i].log_probability, abs=1e-4)
        assert trained.penalised(scored[i]) == pytest.approx(found[i].score, abs=1e-4)


# Lines in, lines out


def test_a_single_string_is_one_text_and_gives_one_result(trained: Translator) -> None:
    assert trained.translate("old man") == trained.translate(["old man"])[0]
    assert trained.score("old man", "alt Mann") == trained.score(["old man"], ["alt Mann"])[0]
    with pytest.raises(ConfigError, match="a list of texts"):
        trained.search("old man")
    with pytest.raises(ConfigError, match="a list of translations"):
        trained.score("old man", ["alt Mann"])


def test_empty_lines_stay_empty_and_the_order_is_kept(trained: Translator) -> None:
    lines = ["", "old man", "", "dog", "blue house and small tree", ""]
    found = trained.translate(lines)
    assert [i for i, text in enumerate(found) if not text] == [0, 2, 5]
    assert [found[1], found[3], found[4]] == trained.translate(["old man", "dog", "blue house and small tree"])
    assert trained.search([""], SearchOptions(n_best=3)) == [[Translation("", 0.0, 0.0, 0)]]
    assert trained.translate([]) == []


@pytest.mark.parametrize("line", [" ", "\r", "▁", "\0", "\u2028", "a\nb", "🙂", "<s></s><unk>"])
def test_any_line_gives_one_line(trained: Translator, line: str) -> None:
    [found] = trained.translate([line])
    assert "\n" not in found


@pytest.mark.parametrize("beam", [1, 4])
def test_line_breaks_that_a_model_spells_as_bytes_never_reach_the_text(tokenizer: Tokenizer, beam: int) -> None:
    model = one_answer_model(tokenizer, byte_token(tokenizer, ord("\n")))
    [[best]] = Translator([model], tokenizer, DecodeConfig(extra_tokens=5)).search(["dog"], beam=beam)
    assert best.num_tokens > 5
    assert set(best.text) == {" "}


@pytest.mark.parametrize("mark", SPECIAL.never_chosen)
@pytest.mark.parametrize("beam", [1, 4])
def test_special_tokens_are_never_said(tokenizer: Tokenizer, mark: int, beam: int) -> None:
    translator = Translator([one_answer_model(tokenizer, mark)], tokenizer, DecodeConfig(extra_tokens=5))
    for best in hypotheses(translator, [[7, 8, 9]], SearchOptions(beam))[0]:
        assert not {*SPECIAL.never_chosen} & set(best.tokens)


def test_bytes_that_are_no_text_become_the_replacement_character(tokenizer: Tokenizer) -> None:
    model = one_answer_model(tokenizer, byte_token(tokenizer, 0xE2))
    [[best]] = Translator([model], tokenizer, DecodeConfig()).search(["dog"], beam=1)
    assert set(best.text) == {"\ufffd"}


def test_progress_is_told_and_ends_with_all_texts_that_needed_work(
    trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 200)
    told: list[int] = []
    trained.search([*SENTENCES, ""], on_progress=told.append)
    assert told == sorted(set(told))
    assert told[-1] == 60
    assert len(told) > 3
