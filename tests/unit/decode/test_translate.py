"""Translation with real models: the same text in any company, and what an independent search would find."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import torch

from sixfold.decode import translate as module
from sixfold.decode.scoring import score_ids
from sixfold.decode.search import BeamOptions, Hypothesis
from sixfold.decode.translate import Translation, Translator, load
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.folder import DecodeConfig, ModelInfo, save_model
from sixfold.models.transformer import Transformer, TransformerConfig
from sixfold.text import Tokenizer
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

pytestmark = pytest.mark.usefixtures("seed")

VOCABULARY = ["man", "woman", "dog", "house", "window", "tree", "blue", "old", "small", "sees", "paints", "and"]
SENTENCES = [" ".join(random.Random(i).choices(VOCABULARY, k=1 + i % 9)) for i in range(60)]
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 60},
    "restricted attention": {"attention_width": 3},
}


def random_model(tokenizer: Tokenizer, spread: float = 2.0, **choices: object) -> Transformer:
    """Return a model with weights so large that its outputs differ, and a certain wish to end.

    Two hypotheses of random weights may be as good as equal: in float64 rounding does not choose between them.
    """
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 16, "d_ff": 32, "heads": 2, **choices}
    model = Transformer(TransformerConfig.model_validate({"vocabulary": tokenizer.vocabulary, **shape}))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(spread)
        model.embedding.weight[EOS_ID] *= 2
    return model.double().eval()


def one_answer_model(tokenizer: Tokenizer, answer: int) -> Transformer:
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


def scores(found: list[list[Translation]]) -> list[float]:
    """Return all scores in one row."""
    return [each.score for translations in found for each in translations]


# The same text in any company


@pytest.mark.parametrize("beam", [1, 4])
def test_a_text_is_translated_alone_as_in_any_batch_and_order(
    trained: Translator, beam: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = trained.search(SENTENCES, beam=beam, n_best=beam)
    assert len({best.text for best, *_ in together}) > 30
    alone = [trained.search([text], beam=beam, n_best=beam)[0] for text in SENTENCES]
    order = random.Random(seed).sample(range(60), 60)
    monkeypatch.setattr(module, "BATCH_TOKENS", 40 * beam)
    shuffled = trained.search([SENTENCES[i] for i in order], beam=beam, n_best=beam)
    back = [shuffled[order.index(i)] for i in range(60)]
    for other in (alone, back):
        assert texts(other) == texts(together)
        assert scores(other) == pytest.approx(scores(together), abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_random_weights_translate_alone_as_in_a_batch(tokenizer: Tokenizer, variant: str) -> None:
    translator = Translator(random_model(tokenizer, **VARIANTS[variant]), tokenizer, DecodeConfig(extra_tokens=8))
    ids, options = tokenizer.encode_batch(SENTENCES[:20]), BeamOptions(beam=4, n_best=3)
    together = translator.search_batch(ids, options)
    alone = [translator.search_batch([row], options)[0] for row in ids]
    assert len({each.tokens for found in together for each in found}) > 5
    assert [[each.tokens for each in found] for found in alone] == [
        [each.tokens for each in found] for found in together
    ]


def test_repeating_a_translation_repeats_it_exactly(trained: Translator) -> None:
    assert trained.search(SENTENCES[:10]) == trained.search(SENTENCES[:10])


# What an independent search would find


def reference_beam(
    model: Transformer, source: list[int], limit: int, options: BeamOptions
) -> list[tuple[float, tuple[int, ...]]]:
    """Search without cache, batch or early stop; return (score, tokens) of the n best."""
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
        penalty = ((5 + length) / 6) ** options.alpha
        finished += [(total / penalty, tokens) for total, tokens in best[: options.beam] if tokens[-1] == EOS_ID]
        beams = [each for each in best if each[1][-1] != EOS_ID][: options.beam]
    return sorted(finished, reverse=True)[: options.n_best]


def check_against_reference(translator: Translator, sentences: list[str], options: BeamOptions) -> None:
    """Compare a batched and cached search with the plain one."""
    ids = translator.tokenizer.encode_batch(sentences)
    for source, found in zip(ids, translator.search_batch(ids, options), strict=True):
        limit = len(source) + translator.decode.extra_tokens
        expected = reference_beam(translator.model, source, limit, options)
        assert [each.tokens for each in found] == [tokens for _, tokens in expected]
        assert [each.score for each in found] == pytest.approx([score for score, _ in expected], abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_the_cached_search_finds_what_a_search_without_cache_finds(tokenizer: Tokenizer, variant: str) -> None:
    translator = Translator(random_model(tokenizer, **VARIANTS[variant]), tokenizer, DecodeConfig(extra_tokens=3))
    check_against_reference(translator, ["blue tree", "dog", "old man sees"], BeamOptions(beam=3, n_best=3))


@torch.no_grad()
def test_the_cached_search_of_a_trained_model_finds_what_one_without_cache_finds(trained: Translator) -> None:
    translator = Translator(trained.model, trained.tokenizer, DecodeConfig(extra_tokens=4))
    check_against_reference(translator, SENTENCES[3:6], BeamOptions(beam=4, n_best=2))


@pytest.mark.parametrize("beam", [1, 4])
def test_scoring_the_tokens_gives_the_log_probability_that_was_reported(trained: Translator, beam: int) -> None:
    ids = trained.tokenizer.encode_batch(SENTENCES)
    found = trained.search_batch(ids, BeamOptions(beam, n_best=beam))
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
    assert trained.search([""], n_best=3) == [[Translation("", 0.0, 0.0, 0)]]
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
    for best in translator.search_batch([[7, 8, 9]], BeamOptions(beam))[0]:
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
    [[beginning]] = trained.search_batch([ids[:12]], BeamOptions())
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
        {"beam": 0},
        {"beam": -1},
        {"beam": 10**9},
        {"beam": 4, "n_best": 5},
        {"beam": 1, "n_best": 2},
        {"n_best": 0},
        {"n_best": 10**9},
        {"length_penalty": -0.1},
        {"length_penalty": float("nan")},
        {"length_penalty": 1e9},
    ],
)
def test_a_search_that_cannot_be_is_refused_before_anything_is_done(
    trained: Translator, wish: dict[str, float]
) -> None:
    with pytest.raises(ConfigError):
        trained.search(["dog"], **wish)


def test_the_model_folder_decides_how_to_search_unless_the_caller_does(trained: Translator) -> None:
    assert trained.options(None, 1, None) == BeamOptions(beam=4, alpha=0.6, n_best=1)
    assert trained.options(2, 2, 1.5) == BeamOptions(beam=2, alpha=1.5, n_best=2)
    other = Translator(trained.model, trained.tokenizer, DecodeConfig(beam=7, length_penalty=0.2))
    assert other.options(None, 7, None) == BeamOptions(beam=7, alpha=0.2, n_best=7)


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
    newer = Translator(Transformer(trained.model.config), trained.tokenizer, DecodeConfig())
    waiting, load_weights = [newer], module.load_weights

    def replace_and_load(folder: Path, info: ModelInfo) -> Transformer:
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
