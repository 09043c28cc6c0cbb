"""Both engines on small random models, and a stepper that computes everything anew."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from sixfold.data.batches import pad
from sixfold.decode.engine import Engine, EnsembleEngine
from sixfold.decode.extensions import best_of, forbid
from sixfold.decode.kernel_engine import KernelEngine
from sixfold.decode.matrices import Precision
from sixfold.decode.search import NEVER, BeamOptions, BestFirst, Extensions, Forbidden, Hypothesis, Search, Stepper
from sixfold.decode.torch_engine import TorchEngine
from sixfold.kernels.decoding import Kernels, find_kernels
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.text import SpecialIds

VOCABULARY = 77  # not a multiple of a block
SPECIAL = SpecialIds()
TEXT = [token for token in range(VOCABULARY) if token not in SPECIAL.never_chosen]
SOURCES = [[5, 6, 7, 8, 9, 4, 2], [11, 12, 2], [15, 9, 21, 6, 2]]
PAPER_VARIANTS: dict[str, dict[str, object]] = {  # what both engines compute
    "the paper's order": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "restricted attention": {"attention_width": 2},
    "other depths": {"encoder_layers": 1, "decoder_layers": 3},
    "wider keys than values": {"heads": 3, "d_k": 7, "d_v": 5},
    "wider values than keys": {"heads": 3, "d_k": 5, "d_v": 7},
    "only the width of keys": {"heads": 3, "d_k": 7},
    "only the width of values": {"heads": 3, "d_v": 2},
    "heads that do not divide d_model": {"heads": 5, "d_k": 3, "d_v": 4},
    "biases": {"attention_bias": True, "norm": "pre"},
    "no biases": {"feed_forward_bias": False},
    "shared key-value heads": {"heads": 6, "key_value_heads": 2},
    "another scale of scores": {"score_scale": 0.7},
}
DESCENDANTS: dict[str, dict[str, object]] = {  # what is left to torch
    "gated": {"gated": True},
    "root-mean-square norms": {"norm_kind": "rms"},
    "root-mean-square norms first": {"norm_kind": "rms", "norm": "pre"},
    "GELU": {"activation": "gelu"},
    "tanh GELU": {"activation": "gelu_tanh"},
    "quick GELU": {"activation": "quick_gelu"},
    "gated SiLU, as Llama": {"activation": "silu", "gated": True, "norm_kind": "rms", "norm": "pre"},
}
every_engine = pytest.mark.parametrize("engine_name", ["torch", "kernels"])


def need_kernels() -> Kernels:
    """Return the compiled kernels, or skip the test where there are none."""
    found = find_kernels()
    if found.kernels is None:
        pytest.skip(f"there are no compiled kernels here: {found.reason}")
    return found.kernels


def make_engine(
    name: str, model: EncoderDecoder, precision: Precision = "float32", special: SpecialIds = SPECIAL
) -> Engine:
    """Return one of the engines."""
    if name == "torch":
        return TorchEngine(model, special, precision)
    if name == "ensemble":
        return EnsembleEngine(
            [make_engine(each, model, precision, special) for each in ("torch", "kernels")], special.eos
        )
    return KernelEngine(model, special, precision, need_kernels())


def make_model(dtype: torch.dtype = torch.float32, **choices: object) -> EncoderDecoder:
    """Return a small random model, no weight of which is 0 or 1 only."""
    shape = {"encoder_layers": 2, "decoder_layers": 2, "d_model": 12, "d_ff": 20, "heads": 2}
    model = EncoderDecoder(EncoderDecoderConfig.model_validate({"vocabulary": VOCABULARY, **shape, **choices}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.to(dtype).eval()


def exact(model: EncoderDecoder) -> EncoderDecoder:
    """Return the same model in float64: its rounding does not add to that of an engine."""
    return copy.deepcopy(model).double()


def random_tokens(count: int, vocabulary: int = VOCABULARY) -> list[int]:
    """Return tokens of text."""
    return torch.randint(4, vocabulary, (count,)).tolist()


def begins(count: int) -> list[list[int]]:
    """Return prompts of a begin token."""
    return [[SPECIAL.bos]] * count


def batch(sources: Sequence[list[int]], special: SpecialIds = SPECIAL) -> Tensor:
    """Return sources padded to the longest (B, M)."""
    return torch.from_numpy(pad(sources, special.pad))


def next_tokens(
    model: EncoderDecoder,
    sources: Sequence[list[int]],
    prefixes: Sequence[list[int]],
    special: SpecialIds = SPECIAL,
) -> Tensor:
    """Return the log-probabilities (R, V) of what follows each prefix, by a full forward pass."""
    source = batch(sources, special).repeat_interleave(len(prefixes) // len(sources), dim=0)
    return model(source, torch.tensor(prefixes))[:, -1].log_softmax(dim=-1)


class Reference:
    """A stepper that computes everything anew at every step."""

    def __init__(self, model: EncoderDecoder, sources: Sequence[list[int]], prompts: Sequence[list[int]]) -> None:
        self.model, self.sources = model, list(sources)
        self.prefixes = [prompt[:-1] for prompt in prompts]
        self.prompt_log_probabilities = [0.0] * len(prompts)

    def step(self, tokens: list[int], forbidden: Forbidden = None) -> Tensor:
        self.prefixes = [[*prefix, token] for prefix, token in zip(self.prefixes, tokens, strict=True)]
        log_probs = next_tokens(self.model, self.sources, self.prefixes)
        log_probs[:, SPECIAL.never_chosen] = NEVER
        if forbidden is not None:
            forbid(log_probs, forbidden)
        return log_probs

    def extend(
        self, tokens: list[int], scores: list[list[float]], count: int, forbidden: Forbidden = None
    ) -> Extensions:
        log_probs = self.step(tokens, forbidden)
        return best_of([(log_probs, log_probs.new_zeros(len(tokens)))], scores, count, SPECIAL.eos)

    def select(self, sentences: list[int] | None, rows: list[int]) -> None:
        self.prefixes = [self.prefixes[row] for row in rows]
        self.sources = self.sources if sentences is None else [self.sources[i] for i in sentences]


def find(
    stepper: Stepper, prompts: Sequence[list[int]], limits: Sequence[int], beam: int = 4, n_best: int = 4
) -> list[list[Hypothesis]]:
    """Search with a beam."""
    options = BeamOptions(beam, 0.6, n_best)
    return Search(stepper, prompts, limits, BestFirst(options, SPECIAL.eos), options).run()
