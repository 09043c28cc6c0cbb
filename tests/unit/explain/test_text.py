"""The page of a text agrees with the model: its probabilities, its attention, and what it writes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from tests.unit.convert.decoder_only_models import KINDS, make_model
from tests.unit.explain.test_packed_attention import unpacked
from tests.unit.text.test_published_tokenizer import SPECIAL, learned

from sixfold.decode.config import GenerateConfig
from sixfold.decode.generate import Generator, load
from sixfold.decode.generate_options import GenerateOptions
from sixfold.errors import ConfigError, DataError, RequestError
from sixfold.explain import TextExplanation, explain_continuation, explain_text, packed_attention, render
from sixfold.models.folder import Processor
from sixfold.text.chat import Message
from sixfold.text.published_tokenizer import PublishedTokenizer

PROMPT = "one two three größer 🙂"
SAMPLED = GenerateOptions(max_tokens=20, temperature=1, seed=3)
GREEDY = replace(SAMPLED, temperature=0)


def published(kind: str) -> Generator:
    """Return a random model with a byte-level tokenizer, as published ones have; it begins texts with nothing."""
    pytest.importorskip("tokenizers")
    tokenizer = PublishedTokenizer(learned("gpt-2"), SPECIAL)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = make_model(tokenizer, **KINDS[kind])  # type: ignore[arg-type]
    return Generator(model, tokenizer, Processor(special=SPECIAL), GenerateConfig())


@pytest.fixture(scope="module", params=["ours, learned positions", "published, rotary and grouped heads"])
def generator(request: pytest.FixtureRequest, chat_model: Path) -> Generator:
    return published("Llama") if request.param.startswith("published") else load(chat_model)


def ids_of(generator: Generator, found: TextExplanation) -> list[int]:
    """Return the tokens of a page, which are told apart by their pieces."""
    by_piece = {piece: token for token, piece in enumerate(generator.tokenizer.pieces(range(known(generator))))}
    return [by_piece[token.piece] for token in found.tokens]


def known(generator: Generator) -> int:
    """Return how many tokens there are."""
    return len(generator.tokenizer.spelling())


@torch.inference_mode()
def log_probabilities(generator: Generator, ids: list[int]) -> torch.Tensor:
    """Return what the model gives to every token after each prefix, in one pass without a cache."""
    return generator.model(torch.tensor([ids]))[0].log_softmax(dim=-1)


@pytest.mark.parametrize("options", [SAMPLED, GREEDY])
def test_the_text_is_the_one_that_generate_writes(generator: Generator, options: GenerateOptions) -> None:
    found = explain_continuation(generator, PROMPT, options)
    [[expected]] = generator.continuations([PROMPT], options)
    prompt = generator.encode(PROMPT)
    assert found.continuation == expected.text
    assert ids_of(generator, found) == [*prompt, *expected.tokens]
    assert found.num_given == len(prompt)


def test_without_a_wish_it_is_the_beginning_of_it(generator: Generator) -> None:
    found = explain_continuation(generator, PROMPT)
    assert 1 <= len(found.tokens) - found.num_given <= 24
    [[expected]] = generator.continuations([PROMPT])
    assert ids_of(generator, found)[found.num_given :] == expected.tokens[:24]


@pytest.mark.parametrize("is_read", [False, True])
def test_every_probability_and_alternative_is_the_models_own(generator: Generator, is_read: bool) -> None:
    found = explain_text(generator, PROMPT) if is_read else explain_continuation(generator, PROMPT, SAMPLED)
    ids = ids_of(generator, found)
    expected = log_probabilities(generator, ids[:-1])
    assert len(found.choices) == len(ids) - 1
    for row, token, choice in zip(expected, ids[1:], found.choices, strict=True):
        assert choice.log_probability == pytest.approx(float(row[token]), abs=1e-4)
        best = row.topk(8)
        assert [value for _, value in choice.alternatives] == pytest.approx(best.values.tolist(), abs=1e-4)
        assert choice.alternatives[0][0] in generator.tokenizer.pieces(best.indices[:2].tolist())


def test_a_text_that_is_read_has_the_score_that_score_gives(generator: Generator) -> None:
    found, score = explain_text(generator, PROMPT), generator.score(PROMPT)
    assert [each.log_probability for each in found.choices] == pytest.approx(score.log_probabilities, abs=1e-4)
    assert found.how.startswith(
        f"Log-probability {score.log_probability:.2f}, {score.bits_per_byte:.3f} bits per byte"
    )
    assert ids_of(generator, found) == [generator.start_token, *score.tokens]
    assert (found.text, found.continuation, found.num_given) == (PROMPT, "", len(found.tokens))


def test_rows_of_attention_sum_to_one_and_see_nothing_after_them(generator: Generator) -> None:
    found, config = explain_continuation(generator, PROMPT, SAMPLED), generator.model.config
    [(stack, layers)] = found.attention.stacks.items()
    assert stack == "self"
    assert len(layers) == config.layers
    for layer in layers:
        assert (layer.heads, layer.queries, layer.keys) == (config.heads, *[len(found.tokens) - 1] * 2)
        weights = unpacked(layer)
        assert not weights.triu(diagonal=1).any()
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]), rtol=0, atol=0.05)


def test_the_attention_shown_is_that_of_the_model(generator: Generator) -> None:
    found = explain_text(generator, PROMPT)
    expected: list[torch.Tensor] = []
    with torch.inference_mode():
        generator.model.hidden(
            torch.tensor([ids_of(generator, found)[:-1]]), watch=lambda w: expected.append(w[0])
        )
    for layer, weights in zip(found.attention.stacks["self"], expected, strict=True):
        torch.testing.assert_close(unpacked(layer).float(), weights, rtol=0, atol=0.005)


def test_int8_shows_the_probabilities_it_chose_by(chat_model: Path) -> None:
    generator = load(chat_model, precision="int8")
    found = explain_continuation(generator, PROMPT, SAMPLED)
    [[written]] = generator.continuations([PROMPT], SAMPLED)
    shown = [each.log_probability for each in found.choices[found.num_given - 1 :]]
    assert shown == pytest.approx(written.log_probabilities, abs=1e-4)
    assert any("int8" in note for note in found.notes)


def test_a_message_is_answered_in_the_template_of_the_model(chat_model: Path) -> None:
    generator = load(chat_model)
    found = explain_continuation(generator, [Message("user", "one two")], SAMPLED)
    assert found.continuation == generator.chat("one two", SAMPLED)
    assert [token.piece for token in found.tokens[:2]] == ["<s>", "<|user|>"]
    assert found.tokens[found.num_given - 1].piece == "<|assistant|>"
    assert (found.text, found.is_answer) == ("one two", True)
    with pytest.raises(ConfigError, match="chat template"):
        explain_continuation(published("GPT-2"), [Message("user", "one two")])


def test_parts_of_a_character_are_shown_as_bytes_and_belong_to_its_word() -> None:
    found = explain_text(published("GPT-2"), "größer 🙂\u2581x")
    assert (found.tokens[0].word, found.tokens[-1].word) == (-1, -1)
    of_face = [token.piece for token in found.tokens if token.word == 1]
    assert len(of_face) > 1
    assert all(piece.removeprefix("\u2581").startswith("<0x") for piece in of_face)
    assert "<0xE2><0x96><0x81>" in "".join(token.piece for token in found.tokens)  # no space


@pytest.mark.parametrize(
    ("options", "how"),
    [
        (GREEDY, "Greedy"),
        (SAMPLED, "temperature 1, top-p 0.95, seed 3"),
        (replace(SAMPLED, top_k=5, top_p=1.0, min_p=0.1), "temperature 1, top-k 5, min-p 0.1, seed 3"),
    ],
)
def test_it_says_how_the_tokens_were_chosen(chat_model: Path, options: GenerateOptions, how: str) -> None:
    assert how in explain_continuation(load(chat_model), PROMPT, options).how


def test_a_text_ends_where_the_context_is_full_and_a_longer_one_is_refused(generator: Generator) -> None:
    context, word = generator.engine.max_positions, "one "
    long = word * context
    for explain in (explain_text, explain_continuation):
        with pytest.raises(RequestError, match=rf"tokens, but the model's context holds {context}\."):
            explain(generator, long)
    ids = generator.tokenizer.encode(long)[: context - 4]
    text = generator.tokenizer.decode(ids)
    found = explain_continuation(generator, text, replace(GREEDY, max_tokens=60, stop=()))
    assert len(found.tokens) <= context + 1
    if len(found.tokens) == context + 1:
        assert any(f"holds {context} tokens" in note for note in found.notes)


def test_a_page_holds_fewer_tokens_of_a_model_with_many_heads(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed_attention, "MAX_BYTES", 8 * 8**2)  # 2 layers of 4 heads, 8 tokens
    with pytest.raises(RequestError, match="a page with every head of this model holds 8"):
        explain_text(generator, PROMPT)
    found = explain_continuation(generator, "one", replace(GREEDY, max_tokens=30))
    assert len(found.tokens) <= 9


@pytest.mark.parametrize("options", [GenerateOptions(samples=2), GenerateOptions(slide=True)])
def test_only_one_text_in_one_context_is_explained(generator: Generator, options: GenerateOptions) -> None:
    with pytest.raises(ConfigError, match="One text in one context"):
        explain_continuation(generator, PROMPT, options)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n", "<script>alert(1)</script>", "\0\x1b", "שלום \u202e🙂", "a" * 40]
)
def test_any_text_is_continued_and_read(generator: Generator, text: str) -> None:
    assert explain_continuation(generator, text, GREEDY).text == text
    if not text:
        with pytest.raises(DataError, match="no text"):
            explain_text(generator, text)
    else:
        assert explain_text(generator, text).text == text


def test_an_explanation_is_json_compatible_and_becomes_a_page(generator: Generator) -> None:
    found = explain_continuation(generator, PROMPT, SAMPLED, name="</title><script>alert(1)</script>")
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["num_given"] == found.num_given
    assert render(found).count("<script") == 2
