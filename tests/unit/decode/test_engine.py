"""Either engine computes what the model computes, and the same bits in any batch."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.decode.engine import Engine, EngineStepper, largest_logit, padded_length
from sixfold.decode.kernel_engine import KernelEngine, KernelStepper
from sixfold.decode.matrices import Precision
from sixfold.decode.search import NEVER, BeamOptions, LogitStepper, beam_search, finds_best
from sixfold.kernels.decoding import find_kernels
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

pytestmark = pytest.mark.usefixtures("seed")

VOCABULARY = 77  # not a multiple of a block
TEXT = [token for token in range(VOCABULARY) if token not in (PAD_ID, BOS_ID, UNK_ID)]
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 4, 2, 0], [11, 12, 2, 0, 0, 0, 0, 0], [15, 9, 21, 6, 2, 0, 0, 0]])
VARIANTS: dict[str, dict[str, object]] = {
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "restricted attention": {"attention_width": 2},
    "other depths": {"encoder_layers": 1, "decoder_layers": 3},
    "wider keys than values": {"heads": 3, "d_k": 7, "d_v": 5},
    "wider values than keys": {"heads": 3, "d_k": 5, "d_v": 7},
    "biases": {"attention_bias": True, "norm": "pre"},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)
every_engine = pytest.mark.parametrize("engine_name", ["torch", "kernels"])


def make_engine(name: str, model: EncoderDecoder, precision: Precision = "float32") -> Engine | KernelEngine:
    """Return one of the engines, or skip the test where there are no compiled kernels."""
    if name == "torch":
        return Engine(model, precision)
    found = find_kernels()
    if found.kernels is None:
        pytest.skip(f"there are no compiled kernels here: {found.reason}")
    return KernelEngine(model, precision, found.kernels)


def make_model(dtype: torch.dtype = torch.float32, **choices: object) -> EncoderDecoder:
    """Return a small random model, no weight of which is 0 or 1 only."""
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 12, "d_ff": 20, "heads": 2}
    model = EncoderDecoder(EncoderDecoderConfig.model_validate({"vocabulary": VOCABULARY, **shape, **choices}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.to(dtype).eval()


def random_tokens(*shape: int) -> Tensor:
    """Return tokens of text."""
    return torch.randint(4, VOCABULARY, shape)


@pytest.mark.parametrize(
    ("engine_name", "dtype", "tolerance"),
    [("torch", torch.float32, 1e-5), ("torch", torch.float64, 1e-10), ("kernels", torch.float32, 1e-5)],
)
@every_variant
@torch.inference_mode()
def test_steps_equal_the_full_forward_while_hypotheses_are_reordered_and_sentences_leave(
    variant: str, engine_name: str, dtype: torch.dtype, tolerance: float, seed: int
) -> None:
    model, draw = make_model(dtype, **VARIANTS[variant]), random.Random(seed)
    source, prefixes = SOURCE, torch.empty(3, 0, dtype=torch.long)
    stepper = make_engine(engine_name, model).start(source)
    for length in range(1, 36):
        prefixes = torch.cat([prefixes, random_tokens(prefixes.size(0), 1)], dim=1)
        found = stepper.step(prefixes[:, -1])
        width = prefixes.size(0) // source.size(0)
        expected = model(source.repeat_interleave(width, dim=0), prefixes)[:, -1].log_softmax(dim=-1)
        torch.testing.assert_close(found[:, TEXT], expected[:, TEXT], rtol=0, atol=tolerance)
        kept = [s for s in range(source.size(0)) if (length, s) not in {(5, 1), (11, 0)}]
        rows = torch.tensor([width * s + draw.randrange(width) for s in kept for _ in range(4)])
        stepper.select(None if len(kept) == source.size(0) else torch.tensor(kept), rows)
        source, prefixes = source[kept], prefixes[rows]


@every_engine
@every_variant
@torch.inference_mode()
def test_one_hypothesis_of_each_sentence_equals_the_full_forward(variant: str, engine_name: str) -> None:
    model, target = make_model(**VARIANTS[variant]), random_tokens(3, 36)
    stepper = make_engine(engine_name, model).start(SOURCE)
    steps = torch.stack([stepper.step(target[:, i]) for i in range(36)], dim=1)
    expected = model(SOURCE, target).log_softmax(dim=-1)
    torch.testing.assert_close(steps[..., TEXT], expected[..., TEXT], rtol=0, atol=1e-5)


@every_engine
@torch.inference_mode()
def test_steps_go_on_past_the_first_table_of_sinusoids(engine_name: str) -> None:
    model, target = make_model(decoder_layers=1, encoder_layers=1), random_tokens(3, 300)
    stepper = make_engine(engine_name, model).start(SOURCE)
    found = [stepper.step(target[:, i]) for i in range(300)][-1]
    expected = model(SOURCE, target)[:, -1].log_softmax(dim=-1)
    torch.testing.assert_close(found[:, TEXT], expected[:, TEXT], rtol=0, atol=1e-5)


@every_engine
@torch.inference_mode()
def test_marks_that_are_no_text_are_never_chosen(engine_name: str) -> None:
    stepper = make_engine(engine_name, make_model()).start(SOURCE)
    [(logits, _)] = stepper.step_logits(torch.full((3,), BOS_ID))
    never = [PAD_ID, BOS_ID, UNK_ID, *range(VOCABULARY, logits.size(1))]
    assert (logits[:, never] == NEVER).all()
    assert logits[:, TEXT].isfinite().all()


@every_engine
@torch.inference_mode()
def test_probabilities_of_all_tokens_but_the_marks_sum_to_a_little_less_than_one(engine_name: str) -> None:
    total = make_engine(engine_name, make_model()).start(SOURCE).step(torch.full((3,), BOS_ID)).exp().sum(dim=1)
    assert ((total > 0.5) & (total < 1)).all()


@every_engine
@torch.inference_mode()
def test_huge_logits_do_not_overflow(engine_name: str) -> None:
    model = make_model()
    model.decoder.layers[
        -1
    ].feed_forward_residual.norm.weight *= 100  # the logits alone grow, not what attention sees
    engine, target = make_engine(engine_name, model), random_tokens(3, 2)
    assert Engine(model).can_overflow
    stepper = engine.start(SOURCE)
    found = [stepper.step(target[:, i]) for i in range(2)][-1]
    logits = model(SOURCE, target)[:, -1]
    rounding = 1e-5 * float(logits.abs().max())  # a log-probability is the difference of two such numbers
    torch.testing.assert_close(found[:, TEXT], logits.log_softmax(dim=-1)[:, TEXT], rtol=1e-4, atol=rounding)


@torch.inference_mode()
def test_no_logit_exceeds_its_bound() -> None:
    for norm in ("pre", "post"):
        model = make_model(norm=norm)
        engine = Engine(model)
        logits = model(SOURCE.repeat(20, 1), random_tokens(60, 10))
        last = engine.decoder_norm or engine.decoder_layers[-1].feed_forward_norm
        assert float(logits.abs().max()) <= largest_logit(engine.embedding, last)


def test_a_length_is_padded_by_itself() -> None:
    assert [padded_length(length) for length in (1, 7, 8, 9, 16, 17)] == [8, 8, 8, 16, 16, 24]


def test_a_search_takes_logits_where_it_can() -> None:
    assert isinstance(Engine(make_model()).start(SOURCE), LogitStepper)


def test_a_search_takes_the_best_extensions_where_it_can() -> None:
    stepper = make_engine("kernels", make_model()).start(SOURCE)
    assert isinstance(stepper, LogitStepper)
    assert finds_best(stepper, 8)
    assert not finds_best(stepper, 1 + stepper.most_extensions)
    assert not finds_best(Engine(make_model()).start(SOURCE), 1)


class Reference:
    """A stepper that computes everything anew at every step."""

    def __init__(self, model: EncoderDecoder, source: Tensor) -> None:
        self.model, self.source, self.prefixes = model, source, torch.empty(source.size(0), 0, dtype=torch.long)

    def step(self, tokens: Tensor) -> Tensor:
        self.prefixes = torch.cat([self.prefixes, tokens[:, None]], dim=1)
        source = self.source.repeat_interleave(self.prefixes.size(0) // self.source.size(0), dim=0)
        log_probs = self.model(source, self.prefixes)[:, -1].log_softmax(dim=-1)
        log_probs[:, [PAD_ID, BOS_ID, UNK_ID]] = NEVER
        return log_probs

    def select(self, sentences: Tensor | None, rows: Tensor) -> None:
        self.prefixes = self.prefixes[rows]
        self.source = self.source if sentences is None else self.source[sentences]


@every_engine
@every_variant
@torch.inference_mode()
def test_a_search_finds_with_the_engine_what_it_finds_without_a_cache(variant: str, engine_name: str) -> None:
    model = make_model(torch.float64 if engine_name == "torch" else torch.float32, **VARIANTS[variant])
    limits = torch.tensor([12, 5, 9])
    found = [
        beam_search(stepper, limits, BOS_ID, EOS_ID, BeamOptions(4, 0.6, 4))
        for stepper in (make_engine(engine_name, model).start(SOURCE), Reference(model, SOURCE))
    ]
    for engine, reference in zip(*found, strict=True):
        assert [each.tokens for each in engine] == [each.tokens for each in reference]
        assert [each.score for each in engine] == pytest.approx([each.score for each in reference], rel=1e-5)


@every_engine
@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@torch.inference_mode()
def test_a_sentence_has_the_same_bits_alone_and_in_a_batch(
    norm: str, precision: Precision, engine_name: str
) -> None:
    shape = {"d_model": 128, "d_ff": 1024, "heads": 4, "vocabulary": 2048, "norm": norm}
    engine = make_engine(engine_name, make_model(**shape), precision)
    sentences = torch.randint(4, 2048, (9, 15))
    lengths = [15, 12, 9, 15, 10, 11, 13, 14, 9]
    rows = [F.pad(row[:length], [0, 15 - length]) for row, length in zip(sentences, lengths, strict=True)]
    source = torch.stack([F.pad(row, [0, 1]) for row in rows])
    source[torch.arange(9), torch.tensor(lengths)] = EOS_ID
    limits = torch.full((9,), 12)
    options = BeamOptions(4, 0.6, 4)
    together = beam_search(engine.start(source), limits, BOS_ID, EOS_ID, options)
    alone = [beam_search(engine.start(source[[i]]), limits[[i]], BOS_ID, EOS_ID, options)[0] for i in range(9)]
    assert together == alone


@torch.inference_mode()
def test_all_hypotheses_of_a_sentence_share_one_memory() -> None:
    stepper: EngineStepper = Engine(make_model()).start(SOURCE)
    stepper.step(torch.full((3,), BOS_ID))
    stepper.select(None, torch.arange(3).repeat_interleave(50))
    stepper.step(random_tokens(150))
    assert stepper.memory_keys.size(1) == stepper.memory_values.size(1) == 3


@torch.inference_mode()
def test_sentences_that_leave_and_hypotheses_that_change_places_move_no_memory() -> None:
    stepper = make_engine("kernels", make_model()).start(SOURCE)
    assert isinstance(stepper, KernelStepper)
    stepper.step(torch.full((3,), BOS_ID))
    before = (stepper.memory.data_ptr(), stepper.blocks[0].data_ptr())
    stepper.select(torch.tensor([2, 0]), torch.tensor([2, 2, 0, 0]))
    stepper.step(random_tokens(4))
    assert (stepper.memory.data_ptr(), stepper.blocks[0].data_ptr()) == before
