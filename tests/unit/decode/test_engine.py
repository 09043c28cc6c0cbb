"""Either engine computes what the model's full forward pass computes."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.decode.engines import (
    DESCENDANTS,
    PAPER_VARIANTS,
    SOURCES,
    SPECIAL,
    TEXT,
    VOCABULARY,
    batch,
    begins,
    every_engine,
    exact,
    make_engine,
    make_model,
    next_tokens,
    random_tokens,
)

from sixfold.decode.engine import padded_length
from sixfold.decode.kernel_engine import KernelEngine, KernelStepper
from sixfold.decode.search import NEVER
from sixfold.decode.torch_engine import TorchEngine, largest_logit
from sixfold.models.encoder_decoder import EncoderDecoder
from sixfold.text import SpecialIds

pytestmark = pytest.mark.usefixtures("one_core")

ALL_VARIANTS = {**PAPER_VARIANTS, **DESCENDANTS}
COMPUTED = [
    *((name, "torch", torch.float32, 1e-5) for name in ALL_VARIANTS),
    *((name, "torch", torch.float64, 1e-10) for name in ALL_VARIANTS),
    *((name, "kernels", torch.float32, 1e-5) for name in PAPER_VARIANTS),
]


@pytest.mark.parametrize(("variant", "engine_name", "dtype", "tolerance"), COMPUTED)
@torch.inference_mode()
def test_steps_equal_the_full_forward_while_hypotheses_are_reordered_and_sentences_leave(
    variant: str, engine_name: str, dtype: torch.dtype, tolerance: float, seed: int
) -> None:
    model, draw = make_model(dtype, **ALL_VARIANTS[variant]), random.Random(seed)
    reference = exact(model)
    sources, prefixes = SOURCES, [[] for _ in SOURCES]
    stepper = make_engine(engine_name, model).start(sources, begins(3))
    for length in range(1, 36):
        newest = random_tokens(len(prefixes))
        prefixes = [[*prefix, token] for prefix, token in zip(prefixes, newest, strict=True)]
        found, expected = stepper.step(newest).double(), next_tokens(reference, sources, prefixes)
        torch.testing.assert_close(found[:, TEXT], expected[:, TEXT], rtol=0, atol=tolerance)
        width = len(prefixes) // len(sources)
        kept = [s for s in range(len(sources)) if (length, s) not in {(5, 1), (11, 0)}]
        rows = [width * s + draw.randrange(width) for s in kept for _ in range(4)]
        stepper.select(None if len(kept) == len(sources) else kept, rows)
        sources, prefixes = [sources[s] for s in kept], [prefixes[row] for row in rows]


def one_by_one(engine_name: str, model: EncoderDecoder, targets: list[list[int]]) -> torch.Tensor:
    """Return the log-probabilities (S, T, V) of all steps."""
    stepper = make_engine(engine_name, model).start(SOURCES, begins(3))
    return torch.stack([stepper.step([*column]).double() for column in zip(*targets, strict=True)], dim=1)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize(
    ("variant", "engine_name"), [(variant, name) for variant, name, dtype, _ in COMPUTED if dtype == torch.float32]
)
@torch.inference_mode()
def test_one_hypothesis_of_each_sentence_equals_the_full_forward(variant: str, engine_name: str) -> None:
    model, targets = make_model(**ALL_VARIANTS[variant]), [random_tokens(36) for _ in SOURCES]
    steps = one_by_one(engine_name, model, targets)
    expected = exact(model)(batch(SOURCES), torch.tensor(targets)).log_softmax(dim=-1)
    torch.testing.assert_close(steps[..., TEXT], expected[..., TEXT], rtol=0, atol=1e-5)


@every_engine
@settings(max_examples=25, deadline=None)
@given(
    heads=st.integers(1, 6),
    d_k=st.integers(0, 9),
    d_v=st.integers(0, 9),
    group=st.integers(1, 3),
    norm=st.sampled_from(["pre", "post"]),
    has_bias=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@torch.inference_mode()
def test_heads_of_any_widths_equal_the_full_forward(
    engine_name: str, heads: int, d_k: int, d_v: int, group: int, norm: str, has_bias: bool, seed: int
) -> None:
    assume(heads % group == 0 and (12 % heads == 0 or (d_k and d_v)))
    torch.manual_seed(seed)
    shape = {"heads": heads, "key_value_heads": heads // group, "d_k": d_k, "d_v": d_v}
    model = make_model(norm=norm, attention_bias=has_bias, **shape)
    targets = [random_tokens(4) for _ in SOURCES]
    steps = one_by_one(engine_name, model, targets)
    expected = exact(model)(batch(SOURCES), torch.tensor(targets)).log_softmax(dim=-1)
    torch.testing.assert_close(steps[..., TEXT], expected[..., TEXT], rtol=0, atol=1e-5)


@every_engine
@pytest.mark.usefixtures("seed")
@torch.inference_mode()
def test_steps_go_on_past_the_first_table_of_sinusoids(engine_name: str) -> None:
    model, targets = make_model(decoder_layers=1, encoder_layers=1), [random_tokens(300) for _ in SOURCES]
    found, expected = one_by_one(engine_name, model, targets)[:, -1], next_tokens(exact(model), SOURCES, targets)
    torch.testing.assert_close(found[:, TEXT], expected[:, TEXT], rtol=0, atol=1e-5)


# What the kernels leave to torch


@pytest.mark.parametrize("variant", PAPER_VARIANTS)
def test_kernels_compute_the_layers_of_the_paper(variant: str) -> None:
    model = make_model(**PAPER_VARIANTS[variant])
    assert KernelEngine.supports(model.config, model.head.weight)


@pytest.mark.parametrize("variant", DESCENDANTS)
def test_kernels_say_no_to_the_layers_of_others(variant: str) -> None:
    model = make_model(**DESCENDANTS[variant])
    assert not KernelEngine.supports(model.config, model.head.weight)


def test_kernels_say_no_to_other_numbers_and_devices() -> None:
    model = make_model()
    assert not KernelEngine.supports(model.config, model.head.weight.double())
    assert not KernelEngine.supports(model.config, model.head.weight.to("meta"))


# Special tokens


@every_engine
@pytest.mark.usefixtures("seed")
@torch.inference_mode()
def test_special_tokens_are_never_chosen(engine_name: str) -> None:
    stepper = make_engine(engine_name, make_model()).start(SOURCES, begins(3))
    [(logits, _)] = stepper.logits([SPECIAL.bos] * 3)
    never = [*SPECIAL.never_chosen, *range(VOCABULARY, logits.size(1))]
    assert (logits[:, never] == NEVER).all()
    assert logits[:, TEXT].isfinite().all()


@every_engine
@settings(max_examples=25, deadline=None)
@given(
    ids=st.lists(st.integers(0, VOCABULARY - 1), min_size=4, max_size=4, unique=True),
    seed=st.integers(0, 2**32 - 1),
)
@torch.inference_mode()
def test_special_tokens_may_have_any_ids(engine_name: str, ids: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    special = SpecialIds(*ids)
    text = [token for token in range(VOCABULARY) if token not in special.never_chosen]
    words = [token for token in text if token != special.eos]
    sources = [[*words[begin : begin + count], special.eos] for begin, count in ((0, 9), (30, 3))]
    model, prefixes = make_model(pad_id=special.pad), [[special.bos, words[5]], [special.bos, words[50]]]
    engine, newest = make_engine(engine_name, model, special=special), [words[5], words[50]]
    expected = next_tokens(exact(model), sources, prefixes, special)
    found = engine.start(sources, prefixes).step(newest).double()
    torch.testing.assert_close(found[:, text], expected[:, text], rtol=0, atol=1e-5)
    assert (found[:, special.never_chosen] == NEVER).all()
    best = engine.start(sources, prefixes).extend(newest, [[0.0], [0.0]], 5)
    torch.testing.assert_close(torch.tensor(best.ends).double(), expected[:, special.eos], rtol=0, atol=1e-5)
    assert not {*best.tokens} & {*special.never_chosen}
    highest = expected[:, text].topk(5).values
    torch.testing.assert_close(torch.tensor(best.scores).double(), highest.flatten(), rtol=0, atol=1e-5)


@every_engine
@pytest.mark.usefixtures("seed")
@torch.inference_mode()
def test_probabilities_of_all_but_the_special_tokens_sum_to_a_little_less_than_one(engine_name: str) -> None:
    stepper = make_engine(engine_name, make_model()).start(SOURCES, begins(3))
    total = stepper.step([SPECIAL.bos] * 3).exp().sum(dim=1)
    assert ((total > 0.5) & (total < 1)).all()


# Large logits


@every_engine
@pytest.mark.usefixtures("seed")
@torch.inference_mode()
def test_huge_logits_do_not_overflow(engine_name: str) -> None:
    model = make_model()
    model.decoder.layers[-1].feed_forward_norm.weight *= 100  # the logits alone grow, not what attention sees
    assert TorchEngine(model, SPECIAL).can_overflow
    targets = [random_tokens(2) for _ in SOURCES]
    found = one_by_one(engine_name, model, targets)[:, -1]
    logits = exact(model)(batch(SOURCES), torch.tensor(targets))[:, -1]
    rounding = 1e-5 * float(logits.abs().max())  # a log-probability is the difference of two such numbers
    torch.testing.assert_close(found[:, TEXT], logits.log_softmax(dim=-1)[:, TEXT], rtol=1e-4, atol=rounding)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_no_logit_exceeds_its_bound(norm: str, kind: str) -> None:
    model = make_model(norm=norm, norm_kind=kind)
    engine = TorchEngine(model, SPECIAL)
    logits = model(batch(SOURCES * 20), torch.tensor([random_tokens(10) for _ in range(60)]))
    last = engine.decoder_norm or engine.decoder_layers[-1].feed_forward_norm
    assert float(logits.abs().max()) <= largest_logit(engine.embedding, last)


# Memory


def test_a_length_is_padded_by_itself() -> None:
    assert [padded_length(length) for length in (1, 7, 8, 9, 16, 17)] == [8, 8, 8, 16, 16, 24]


@torch.inference_mode()
def test_all_hypotheses_of_a_sentence_share_one_memory() -> None:
    stepper = TorchEngine(make_model(), SPECIAL).start(SOURCES, begins(3))
    stepper.step([SPECIAL.bos] * 3)
    stepper.select(None, [row // 50 for row in range(150)])
    stepper.step(random_tokens(150))
    assert stepper.memory_keys.size(1) == stepper.memory_values.size(1) == 3


@torch.inference_mode()
def test_sentences_that_leave_and_hypotheses_that_change_places_move_no_memory() -> None:
    stepper = make_engine("kernels", make_model()).start(SOURCES, begins(3))
    assert isinstance(stepper, KernelStepper)
    stepper.step([SPECIAL.bos] * 3)
    before = (stepper.memory.data_ptr(), stepper.blocks[0].data_ptr())
    stepper.select([2, 0], [2, 2, 0, 0])
    stepper.step(random_tokens(4))
    assert (stepper.memory.data_ptr(), stepper.blocks[0].data_ptr()) == before
