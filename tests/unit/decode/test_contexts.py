"""Contexts of decoder-only models: what is read, forked and cut; a row depends on its own context alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from sixfold.decode.contexts import Context, ContextEngine, open_contexts
from sixfold.decode.matrices import Precision
from sixfold.decode.torch_contexts import TorchContexts
from sixfold.errors import RequestError
from sixfold.models.decoder_only import GPT, LLAMA, DecoderOnly, DecoderOnlyConfig
from sixfold.text import SpecialIds

VOCABULARY, CONTEXT = 61, 200
SHAPE: dict[str, object] = {"vocabulary": VOCABULARY, "d_model": 48, "d_ff": 96, "heads": 4, "layers": 2}
SHAPE |= {"max_positions": CONTEXT, "dropout": 0.0, "init_std": 0.2}
VARIANTS: dict[str, dict[str, object]] = {
    "gpt": dict(GPT),
    "llama": {**LLAMA, "key_value_heads": 2},
    "one key-value head": {**LLAMA, "key_value_heads": 1},
    "the paper's order": {},
    "wide heads": {**GPT, "d_k": 20, "d_v": 7},
    "an output of its own": {**GPT, "tied": False},
    "another scale of scores": {**GPT, "score_scale": 0.7, "scaled_embedding": True},
}
ENGINES: dict[str, Callable[[DecoderOnly, Precision], ContextEngine]] = {
    "torch": TorchContexts,
    "opened": lambda model, precision: open_contexts(model, SpecialIds(), precision),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_engine = pytest.mark.parametrize("engine", ENGINES)
every_precision = pytest.mark.parametrize("precision", ["float32", "int8"])
pytestmark = pytest.mark.usefixtures("seed")


def make_model(variant: str, **shape: object) -> DecoderOnly:
    """Return a random model."""
    return DecoderOnly(DecoderOnlyConfig.model_validate({**SHAPE, **VARIANTS[variant], **shape})).eval()


def make_tokens(count: int) -> list[int]:
    """Return random tokens."""
    return torch.randint(VOCABULARY, (count,)).tolist()


def read_in_pieces(engine: ContextEngine, tokens: Sequence[int], draw: random.Random) -> Tensor:
    """Read tokens in pieces of random lengths, each in the company of other contexts."""
    context, hidden, begin = engine.new_context(), [], 0
    while begin < len(tokens):
        piece = tokens[begin : begin + draw.choice([1, 2, 3, 5, 30, 64, 90])]
        before, behind = ([make_tokens(draw.randint(1, 9)) for _ in range(draw.randint(0, 3))] for _ in range(2))
        contexts = [context if row is piece else engine.new_context() for row in (*before, piece, *behind)]
        found = engine.read(contexts, [*before, piece, *behind])
        first = sum(map(len, before))
        hidden.append(found[first : first + len(piece)])
        begin += len(piece)
    return torch.cat(hidden)


@every_variant
@every_engine
def test_reading_gives_the_numbers_of_the_model(variant: str, engine: str) -> None:
    model, rows = make_model(variant), [make_tokens(150), make_tokens(3)]
    opened = ENGINES[engine](model, "float32")
    found = opened.log_probabilities(opened.read([opened.new_context() for _ in rows], rows))
    with torch.inference_mode():
        expected = [model(torch.tensor([row])).log_softmax(dim=-1)[0] for row in rows]
    torch.testing.assert_close(found, torch.cat(expected), rtol=0, atol=1e-4)


@every_variant
@every_engine
@every_precision
def test_pieces_and_company_change_no_bit(variant: str, engine: str, precision: Precision, seed: int) -> None:
    shape = {"d_model": 256, "d_ff": 640, "layers": 1} if precision == "int8" else {}
    opened = ENGINES[engine](make_model(variant, **shape), precision)
    tokens, draw = make_tokens(150), random.Random(seed)
    alone = opened.read([opened.new_context()], [tokens])
    for _ in range(3):
        found = read_in_pieces(opened, tokens, draw)
        assert torch.equal(found, alone)
    one_by_one = [opened.log_probabilities(row[None]) for row in alone[:5]]
    assert torch.equal(torch.cat(one_by_one), opened.log_probabilities(alone)[:5])


def test_int8_is_near_float32() -> None:
    model, tokens = make_model("gpt", d_model=256, d_ff=640, init_std=0.05), make_tokens(100)
    found = []
    for precision in ("float32", "int8"):
        engine = open_contexts(model, SpecialIds(), precision)
        found.append(engine.log_probabilities(engine.read([engine.new_context()], [tokens])))
    assert (found[0] - found[1]).abs().mean() < 0.1
    assert not torch.equal(*found)


@every_engine
@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 130])
def test_a_fork_goes_its_own_way(engine: str, length: int) -> None:
    opened, tokens = ENGINES[engine](make_model("llama"), "float32"), make_tokens(length)
    first = opened.new_context()
    opened.read([first], [tokens])
    endings = [make_tokens(9), make_tokens(9)]
    second = first.fork()
    opened.read([first, second], endings)
    for context, ending in zip((first, second), endings, strict=True):
        assert [*context.tokens] == tokens + ending
        assert same_as_read_anew(opened, context)


@every_engine
def test_what_is_cut_is_forgotten_and_a_fork_keeps_it(engine: str) -> None:
    opened, tokens = ENGINES[engine](make_model("gpt"), "float32"), make_tokens(150)
    first = opened.new_context()
    opened.read([first], [tokens])
    second = first.fork()
    first.cut(70)
    opened.read([first], [make_tokens(20)])
    assert [*second.tokens] == tokens
    assert [*first.tokens[:70]] == tokens[:70]
    assert same_as_read_anew(opened, first)
    assert same_as_read_anew(opened, second)


@every_engine
def test_everything_can_be_cut(engine: str) -> None:
    opened = ENGINES[engine](make_model("gpt"), "float32")
    context = opened.new_context()
    opened.read([context], [make_tokens(70)])
    context.cut(0)
    assert [*context.tokens] == []
    opened.read([context], [make_tokens(3)])
    assert same_as_read_anew(opened, context)


def same_as_read_anew(engine: ContextEngine, context: Context) -> bool:
    """Return whether a context gives its next token the numbers that one does which read all tokens at once."""
    new, token = engine.new_context(), make_tokens(1)
    engine.read([new], [context.tokens])
    found = engine.read([context, new], [token, token])
    return torch.equal(found[0], found[1])


@every_engine
def test_more_tokens_than_positions_are_refused_and_nothing_is_read(engine: str) -> None:
    opened = ENGINES[engine](make_model("llama"), "float32")
    context = opened.new_context()
    opened.read([context], [make_tokens(CONTEXT)])
    with pytest.raises(RequestError, match="201 tokens, and the context holds 200"):
        opened.read([context], [[5]])
    assert len(context.tokens) == CONTEXT


def test_forks_share_the_memory_of_their_full_blocks() -> None:
    engine = TorchContexts(make_model("gpt"))
    context = engine.new_context()
    engine.read([context], [make_tokens(150)])
    forks = [context.fork() for _ in range(5)]
    blocks = {id(block) for each in (context, *forks) for block in each.blocks}
    assert len(blocks) == 2 + 6  # two full ones, and a last one for each
