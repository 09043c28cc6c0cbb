"""Translation with real models: the same text in any company, and what an independent search would find."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import astuple
from pathlib import Path

import pytest
import torch

from sixfold.decode import translate as module
from sixfold.decode.options import SearchOptions
from sixfold.decode.scoring import score_ids
from sixfold.decode.search import Hypothesis
from sixfold.decode.translate import Translation, Translator, load
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.folder import DecodeConfig, ModelInfo, save_model
from sixfold.text import Tokenizer
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from sixfold.text.words import occurs

pytestmark = pytest.mark.usefixtures("seed")

VOCABULARY = ["man", "woman", "dog", "house", "window", "tree", "blue", "old", "small", "sees", "paints", "and"]
SENTENCES = [" ".join(random.Random(i).choices(VOCABULARY, k=1 + i % 9)) for i in range(60)]
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 60},
    "restricted attention": {"attention_width": 3},
}


def random_model(tokenizer: Tokenizer, spread: float = 2.0, **choices: object) -> EncoderDecoder:
    """Return a model with weights so large that its outputs differ, and a certain wish to end.

    Two hypotheses of random weights may be as good as equal: in float64 rounding does not choose between them.
    """
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, **choices}
    model = EncoderDecoder(EncoderDecoderConfig.model_validate({"vocabulary": tokenizer.vocabulary, **shape}))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(spread)
        model.embedding.weight[EOS_ID] *= 2
    return model.double().eval()


def one_answer_model(tokenizer: Tokenizer, answer: int) -> EncoderDecoder:
    """Return a model that can only say one token."""
    model = random_model(tokenizer)
    with torch.no_grad():
        norm = model.decoder.layers[-1].feed_forward_residual.norm
        norm.weight.zero_()
        norm.bias.fill_(1.0)  # whatever comes in, this is the decoder's output
        model.embedding.weight.fill_(-1.0)
        model.embedding.weight[answer] = 1.0
    return model


def byte_token(tokenizer: Tokenizer, byte: int) -> int:
    """Return the token of a byte."""
    return tokenizer.pieces(range(tokenizer.vocabulary)).index(f"<0x{byte:02X}>")


def texts(found: list[list[Translation]]) -> list[list[str]]:
    """Return only the texts."""
    return [[each.text for each in translations] for translations in found]


def hypotheses(translator: Translator, ids: list[list[int]], options: SearchOptions) -> list[list[Hypothesis]]:
    """Search one batch of token ids."""
    return translator.search_batch(ids, translator.prepare(options), range(len(ids)))


def scores(found: list[list[Translation]]) -> list[float]:
    """Return all scores in one row."""
    return [each.score for translations in found for each in translations]


# The same text in any company


@pytest.mark.parametrize("beam", [1, 4])
def test_a_text_is_translated_alone_as_in_any_batch_and_order(
    trained: Translator, beam: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = trained.search(SENTENCES, SearchOptions(beam=beam, n_best=beam))
    assert len({best.text for best, *_ in together}) > 30
    alone = [trained.search([text], SearchOptions(beam=beam, n_best=beam))[0] for text in SENTENCES]
    order = random.Random(seed).sample(range(60), 60)
    monkeypatch.setattr(module, "BATCH_TOKENS", 40 * beam)
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
        translator = Translator(model, tokenizer, DecodeConfig(extra_tokens=8))
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
    """Search without cache, batch or early stop; return (score, tokens) of the n best."""
    assert options.beam
    beams: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished = []
    for length in range(1, limit + 1):
        extended = []
        for total, tokens in beams:
            logits = model(torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *tokens]]))[0, -1]
            for token, log_prob in enumerate(logits.log_softmax(dim=0).tolist()):
                if token == EOS_ID or (length < limit and token not in (PAD_ID, BOS_ID, UNK_ID)):
                    extended.append((total + log_prob, (*tokens, token)))
        best = sorted(extended, reverse=True)[: 2 * options.beam]
        penalty = ((5 + length) / 6) ** 0.6
        finished += [(total / penalty, tokens) for total, tokens in best[: options.beam] if tokens[-1] == EOS_ID]
        beams = [each for each in best if each[1][-1] != EOS_ID][: options.beam]
    return sorted(finished, reverse=True)[: options.n_best]


def check_against_reference(translator: Translator, sentences: list[str], options: SearchOptions) -> None:
    """Compare a batched and cached search with the plain one."""
    ids = translator.tokenizer.encode_batch(sentences)
    for source, found in zip(ids, hypotheses(translator, ids, options), strict=True):
        limit = len(source) + translator.decode.extra_tokens
        expected = reference_beam(translator.model, source, limit, options)
        assert [each.tokens for each in found] == [tokens for _, tokens in expected]
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_the_cached_search_finds_what_a_search_without_cache_finds(tokenizer: Tokenizer, variant: str) -> None:
    translator = Translator(random_model(tokenizer, **VARIANTS[variant]), tokenizer, DecodeConfig(extra_tokens=3))
    check_against_reference(translator, ["blue tree", "dog", "old man sees"], SearchOptions(beam=3, n_best=3))


@torch.no_grad()
def test_the_cached_search_of_a_trained_model_finds_what_one_without_cache_finds(trained: Translator) -> None:
    translator = Translator(trained.model, trained.tokenizer, DecodeConfig(extra_tokens=4))
    check_against_reference(translator, SENTENCES[3:6], SearchOptions(beam=4, n_best=2))


@pytest.mark.parametrize("beam", [1, 4])
def test_scoring_the_tokens_gives_the_log_probability_that_was_reported(trained: Translator, beam: int) -> None:
    ids = trained.tokenizer.encode_batch(SENTENCES)
    found = hypotheses(trained, ids, SearchOptions(beam, n_best=beam))
    rows = [(source, each) for source, best in zip(ids, found, strict=True) for each in best]
    scored = score_ids(trained.model, [source for source, _ in rows], [list(each.tokens[:-1]) for _, each in rows])
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
    [[best]] = Translator(model, tokenizer, DecodeConfig(extra_tokens=5)).search(["dog"], beam=beam)
    assert best.num_tokens > 5
    assert set(best.text) == {" "}


@pytest.mark.parametrize("mark", [PAD_ID, BOS_ID, UNK_ID])
@pytest.mark.parametrize("beam", [1, 4])
def test_marks_that_are_no_text_are_never_said(tokenizer: Tokenizer, mark: int, beam: int) -> None:
    translator = Translator(one_answer_model(tokenizer, mark), tokenizer, DecodeConfig(extra_tokens=5))
    for best in hypotheses(translator, [[7, 8, 9]], SearchOptions(beam))[0]:
        assert not {PAD_ID, BOS_ID, UNK_ID} & set(best.tokens)


def test_bytes_that_are_no_text_become_the_replacement_character(tokenizer: Tokenizer) -> None:
    model = one_answer_model(tokenizer, byte_token(tokenizer, 0xE2))
    [[best]] = Translator(model, tokenizer, DecodeConfig()).search(["dog"], beam=1)
    assert set(best.text) == {"\ufffd"}


def test_progress_is_told_and_ends_with_all_texts_that_needed_work(
    trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_TOKENS", 200)
    told: list[int] = []
    trained.search([*SENTENCES, ""], tick=told.append)
    assert told == sorted(set(told))
    assert told[-1] == 60
    assert len(told) > 3


# Limits


def test_an_output_ends_at_its_limit_and_says_so(tokenizer: Tokenizer) -> None:
    model = one_answer_model(tokenizer, tokenizer.encode("dog")[-1])
    decode = DecodeConfig(extra_tokens=7)
    for beam in (1, 3):
        [[best]] = Translator(model, tokenizer, decode).search(["old tree"], beam=beam)
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
    monkeypatch.setattr(module, "LONGEST_SOURCE", 12)
    translator = Translator(trained.model, trained.tokenizer, trained.decode)
    text = "old man sees blue house and small tree and dog"
    ids = trained.tokenizer.encode(text)
    assert len(ids) > 12
    [[long], [short]] = translator.search([text, "old man"])
    [[beginning]] = hypotheses(trained, [ids[:12]], SearchOptions())
    assert (long.source_is_cut, short.source_is_cut) == (True, False)
    assert long.text == trained.tokenizer.decode(beginning.tokens)


def test_a_line_of_a_megabyte_is_cut_in_good_time(tokenizer: Tokenizer) -> None:
    translator = Translator(one_answer_model(tokenizer, EOS_ID), tokenizer, DecodeConfig(beam=2))
    began = time.monotonic()
    [[best]] = translator.search(["dog " * 250_000])
    assert best.source_is_cut
    assert time.monotonic() - began < 10


def test_learned_positions_suffice_for_the_longest_source_and_output(tokenizer: Tokenizer) -> None:
    answer = tokenizer.encode("dog")[-1]
    model = one_answer_model(tokenizer, answer)
    short = random_model(tokenizer, positions="learned", max_positions=20)
    short.load_state_dict({**model.state_dict(), **{n: p for n, p in short.state_dict().items() if "table" in n}})
    translator = Translator(short, tokenizer, DecodeConfig(extra_tokens=50))
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
    def resolved(translator: Translator, **wishes: float) -> tuple[int, float, int]:
        return astuple(translator.prepare(SearchOptions(**wishes)).beam)  # type: ignore[arg-type,return-value]

    assert resolved(trained) == (4, 0.6, 1)
    assert resolved(trained, beam=2, n_best=2, length_penalty=1.5) == (2, 1.5, 2)
    other = Translator(trained.model, trained.tokenizer, DecodeConfig(beam=7, length_penalty=0.2))
    assert resolved(other, n_best=7) == (7, 0.2, 7)


def test_batches_hold_every_text_once_longest_first_within_the_budget(
    trained: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_TOKENS", 100)
    lengths = [3, 0, 7, 200, 1, 1, 12, 0, 7, 5]
    batches = list(trained.batches(lengths, beam=4))
    assert sorted(i for batch in batches for i in batch) == [0, 2, 3, 4, 5, 6, 8, 9]
    assert [lengths[i] for batch in batches for i in batch] == [200, 12, 7, 7, 5, 3, 1, 1]
    assert all(len(batch) == 1 or len(batch) * (lengths[batch[0]] + 1) * 4 <= 100 for batch in batches)


def test_a_million_texts_are_batched_in_linear_time(trained: Translator) -> None:
    began = time.monotonic()
    assert sum(map(len, trained.batches([30] * 1_000_000, beam=4))) == 1_000_000
    assert time.monotonic() - began < 5


# Model folders


def save(folder: Path, translator: Translator) -> None:
    """Write a model folder."""
    info = ModelInfo(model=translator.model.config, decode=DecodeConfig(beam=3))
    save_model(folder, info, translator.model.state_dict(), translator.tokenizer, "a card")


def test_a_loaded_model_translates_as_the_one_that_was_saved(trained: Translator, tmp_path: Path) -> None:
    save(tmp_path, trained)
    loaded = load(str(tmp_path), device="cpu")
    assert loaded.decode.beam == 3
    assert loaded.search(SENTENCES[:8]) == trained.search(SENTENCES[:8], beam=3)


def test_a_model_that_is_replaced_while_it_is_loaded_is_loaded_again(
    trained: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, trained)
    newer = Translator(EncoderDecoder(trained.model.config), trained.tokenizer, DecodeConfig())
    waiting, load_weights = [newer], module.load_weights

    def replace_and_load(folder: Path, info: ModelInfo) -> EncoderDecoder:
        if waiting:
            save(folder, waiting.pop())
        return load_weights(folder, info)

    monkeypatch.setattr(module, "load_weights", replace_and_load)
    loaded = load(tmp_path, "cpu").model
    assert torch.equal(loaded.embedding.weight, newer.model.embedding.weight)


def test_a_damaged_model_is_refused_and_not_tried_for_ever(trained: Translator, tmp_path: Path) -> None:
    save(tmp_path, trained)
    (tmp_path / "weights.safetensors").write_bytes(b"damaged")
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors"):
        load(tmp_path, "cpu")


def test_a_hypothesis_becomes_a_translation_with_all_its_numbers(trained: Translator) -> None:
    tokens = (*trained.tokenizer.encode("Hund"), EOS_ID)
    found = trained.finish(Hypothesis(tokens, -2.0, -1.5, is_cut=True), source_is_cut=True)
    assert found == Translation("Hund", -1.5, -2.0, len(tokens), is_cut=True, source_is_cut=True)


# What must and must not be written: the text decides


@pytest.fixture
def brief(trained: Translator) -> Translator:
    """Return the trained model with little patience for outputs that do not end."""
    return Translator(trained.model, trained.tokenizer, DecodeConfig(extra_tokens=8))


def all_texts(translator: Translator, options: SearchOptions) -> list[str]:
    """Return all translations of some sentences."""
    return [each.text for found in translator.search(SENTENCES[:8], options) for each in found]


def breaks_after(word: str, letters: int, translator: Translator) -> bool:
    """Return whether a token of a word ends there: then the beginning is forbidden with whatever follows."""
    tokens = translator.tokenizer.encode(word)
    return any(translator.tokenizer.decode(tokens[:end]) == word[:letters] for end in range(len(tokens) + 1))


@pytest.mark.parametrize(
    "how", [{"beam": 1}, {"n_best": 4}, {"sample": 1.0, "n_best": 2}, {"n_best": 3, "diverse": 0.5}]
)
def test_no_text_has_a_forbidden_word_and_others_go_on_as_they_were(
    brief: Translator, how: dict[str, float]
) -> None:
    plain = all_texts(brief, SearchOptions(**how))
    likely = [word for word, _ in Counter(word for text in plain for word in text.split()).most_common()]
    forbidden = (likely[0], f"{likely[1]} {likely[2]}")
    found = all_texts(brief, SearchOptions(forbid=forbidden, **how))
    assert not any(occurs(word, text) for text in found for word in forbidden)
    longer = next(word for word in likely if word[:2] not in likely and not breaks_after(word, 2, brief))
    allowed = all_texts(brief, SearchOptions(forbid=(longer[:2],), **how))
    assert any(occurs(longer, text) for text in allowed)  # a longer word is another word
    unheard = all_texts(brief, SearchOptions(forbid=("Xylophon",), **how))
    assert unheard == plain


@pytest.mark.parametrize("prefix", ["Hau", "Haus", "Haus ", "klein blau und", "Ümläut 日本", "▁", " Haus"])
@pytest.mark.parametrize("how", [{"beam": 1}, {"n_best": 3}, {"sample": 1.0}])
def test_every_text_begins_with_the_prefix(brief: Translator, how: dict[str, float], prefix: str) -> None:
    found = all_texts(brief, SearchOptions(prefix=prefix, **how))
    assert all(text.startswith(prefix) for text in found)
    assert len(set(found)) > 3


def test_a_prefix_that_would_have_come_anyway_changes_nothing(brief: Translator) -> None:
    for text, [best] in zip(SENTENCES[:16], brief.search(SENTENCES[:16]), strict=True):
        beginning = best.text[: len(best.text) // 2].strip()
        if beginning and not best.is_cut:
            assert brief.search([text], SearchOptions(prefix=beginning))[0][0].score >= best.score - 1e-4


@pytest.mark.parametrize("beam", [2, 5])
def test_every_text_has_all_required_phrases(brief: Translator, beam: int) -> None:
    phrases = ("Fenster und", "und klein", "Käse", "%")
    for text in all_texts(brief, SearchOptions(beam=beam, n_best=2, require=phrases)):
        assert all(occurs(phrase, text) for phrase in phrases)
    with_rules = SearchOptions(beam=beam, require=("Haus",), forbid=("Hund",), prefix="alt", min_length=4)
    for text in all_texts(brief, with_rules):
        assert occurs("Haus", text)
        assert not occurs("Hund", text)
        assert text.startswith("alt")


def test_a_required_word_takes_the_place_where_it_costs_least(brief: Translator) -> None:
    [[plain]] = brief.search(["old man sees dog"])
    [[best]] = brief.search(["old man sees dog"], SearchOptions(require=(plain.text.split()[1],)))
    assert best.text == plain.text
    assert best.score == pytest.approx(plain.score, abs=1e-4)


@pytest.mark.parametrize("how", [{"beam": 1}, {"n_best": 3}, {"sample": 1.0}])
def test_lengths_stay_within_their_bounds(brief: Translator, how: dict[str, float]) -> None:
    options = SearchOptions(min_length=6, max_length=9, **how)
    found = [each for best in brief.search(SENTENCES[:8], options) for each in best]
    assert all(6 <= each.num_tokens - 1 <= 9 for each in found)
    assert any(each.is_cut for each in found)


def test_what_never_repeats_has_no_n_tokens_twice(brief: Translator) -> None:
    found = brief.search(["dog dog dog dog dog dog", *SENTENCES[:8]], SearchOptions(no_repeat=2, min_length=12))
    for [best] in found:
        pairs = list(zip(best.tokens, best.tokens[1:], strict=False))
        assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize(
    "how",
    [
        {"length_penalty": 1.3},
        {"sample": 1.5, "n_best": 3, "seed": 5},
        {"n_best": 4, "diverse": 0.7},
        {"require": ("Haus",), "n_best": 2},
        {"forbid": ("Hund",), "no_repeat": 3, "min_length": 5, "prefix": "Ba"},
    ],
)
def test_whatever_the_options_the_log_probabilities_are_those_of_the_model(
    brief: Translator, how: dict[str, float]
) -> None:
    found = brief.search(SENTENCES[:8], SearchOptions(**how))
    rows = [(text, each) for text, best in zip(SENTENCES[:8], found, strict=True) for each in best]
    ids = brief.tokenizer.encode_batch([text for text, _ in rows])
    scored = score_ids(brief.model, ids, [list(each.tokens[:-1]) for _, each in rows])
    reported = [each.log_probability for _, each in rows]
    assert [each.log_probability for each in scored] == pytest.approx(reported, abs=1e-4)
    alpha = how.get("length_penalty")
    assert [brief.penalised(each, alpha) for each in scored] == pytest.approx(
        [each.score for _, each in rows], abs=1e-4
    )
    tokens = brief.token_scores(SENTENCES[:8], found, num_alternatives=2)
    assert [sum(each.log_probability for each in row) for row in tokens] == pytest.approx(reported, abs=1e-4)
    assert [len(row) for row in tokens] == [each.num_tokens for _, each in rows]
    assert all(len(each.alternatives) == 2 for row in tokens for each in row)


# Draws


def test_draws_depend_on_the_place_in_the_input_and_not_on_the_company(
    brief: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SearchOptions(sample=1.0, n_best=3, seed=4)
    together = brief.search(SENTENCES[:8], options)
    monkeypatch.setattr(module, "BATCH_TOKENS", 40)
    assert texts(brief.search(SENTENCES[:8], options)) == texts(together)
    alone = [brief.search([text], options, first_place=i)[0] for i, text in enumerate(SENTENCES[:8])]
    assert texts(alone) == texts(together)
    assert texts(brief.search([SENTENCES[0]] * 9, options))[8] != texts(together)[0]
    fewer = brief.search(SENTENCES[:8], SearchOptions(sample=1.0, seed=4))
    assert [best.text for best, *_ in fewer] == [first.text for first, *_ in together]
    other = brief.search(SENTENCES[:8], SearchOptions(sample=1.0, n_best=3, seed=5))
    assert texts(other) != texts(together)


def test_a_low_temperature_or_one_choice_is_greedy(brief: Translator) -> None:
    greedy = brief.translate(SENTENCES, beam=1)
    assert brief.translate(SENTENCES, SearchOptions(sample=1.0, top_k=1)) == greedy
    cold = brief.translate(SENTENCES, SearchOptions(sample=0.01))
    assert sum(ours == theirs for ours, theirs in zip(cold, greedy, strict=True)) >= 55


# Diverse


def shared_words(found: list[list[Translation]]) -> float:
    """Return which share of the words of a translation its neighbours have too, on average."""
    shares = []
    for best in found:
        words = [set(each.text.split()) for each in best]
        shares += [len(a & b) / max(1, len(a | b)) for i, a in enumerate(words) for b in words[:i]]
    return sum(shares) / len(shares)


def test_diverse_translations_share_fewer_words_and_the_best_one_stays(brief: Translator) -> None:
    plain = brief.search(SENTENCES[:12], SearchOptions(n_best=4))
    diverse = [brief.search(SENTENCES[:12], SearchOptions(n_best=4, diverse=cost)) for cost in (0.5, 2.0)]
    assert shared_words(plain) > shared_words(diverse[0]) + 0.02 > shared_words(diverse[1]) + 0.04
    for ours, theirs in zip(plain, diverse[0], strict=True):
        assert ours[0].text in [each.text for each in theirs]
        assert len({each.text for each in theirs}) == len(theirs)


# Ensembles


def test_a_model_with_itself_is_the_model(brief: Translator) -> None:
    twice = Translator(brief.model, brief.tokenizer, brief.decode, partners=[brief.model])
    options = SearchOptions(n_best=3)
    ours, theirs = twice.search(SENTENCES[:8], options), brief.search(SENTENCES[:8], options)
    assert texts(ours) == texts(theirs)
    assert scores(ours) == pytest.approx(scores(theirs), abs=1e-4)


def test_an_ensemble_is_scored_as_it_translates_and_by_the_average_probability(brief: Translator) -> None:
    other = random_model(brief.tokenizer, spread=1.0).float()
    both = Translator(brief.model, brief.tokenizer, brief.decode, partners=[other])
    found = both.search(SENTENCES[:8], SearchOptions(n_best=2, length_penalty=0.9))
    tokens = both.token_scores(SENTENCES[:8], found)
    reported = [each.log_probability for best in found for each in best]
    assert [sum(each.log_probability for each in row) for row in tokens] == pytest.approx(reported, abs=1e-4)
    [source], [target] = (brief.tokenizer.encode_batch([text]) for text in ("old dog", "alt Hund"))
    inputs = torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *target]])
    with torch.no_grad():
        mean = sum(model(*inputs).softmax(dim=-1) for model in (brief.model, other)) / 2
    expected = mean[0, range(len(target) + 1), [*target, EOS_ID]].log().sum()  # type: ignore[index]
    assert both.score(["old dog"], ["alt Hund"])[0].log_probability == pytest.approx(float(expected), abs=1e-4)


def test_partners_of_another_tokenizer_are_refused(brief: Translator, tmp_path: Path) -> None:
    save(tmp_path / "one", brief)
    save(tmp_path / "two", brief)
    both = load(tmp_path / "one", "cpu", partners=[tmp_path / "two"])
    assert both.translate(SENTENCES[:5]) == load(tmp_path / "one", "cpu").translate(SENTENCES[:5])
    stranger = Tokenizer.learn(["quite other words than those"], 290)
    model = EncoderDecoder(brief.model.config.model_copy(update={"vocabulary": stranger.vocabulary}))
    save(tmp_path / "stranger", Translator(model, stranger, DecodeConfig()))
    with pytest.raises(ConfigError, match="another tokenizer"):
        load(tmp_path / "one", "cpu", partners=[tmp_path / "stranger"])


# Streaming


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
            model.embedding.weight[4:260] *= 2  # the bytes
        translator = Translator(model, tokenizer, DecodeConfig(extra_tokens=20))
        for number in range(5):
            options = SearchOptions(sample=3.0, seed=seed + number)
            assert (
                "".join(translator.stream("old tree", options)) == translator.translate(["old tree"], options)[0]
            )


def test_what_is_revised_cannot_be_streamed(brief: Translator) -> None:
    for how in ({"beam": 4}, {"sample": 1.0, "n_best": 2}):
        with pytest.raises(ConfigError, match="never revised"):
            next(brief.stream("dog", SearchOptions(**how)))
