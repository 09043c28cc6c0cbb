"""One engine of `train_speed.py` on a decoder-only model, a process that reads lines as `train_engines.py` does.

    python benchmarks/language_model_engines.py sixfold gpt-tiny/8000

A case is a preset of `models/decoder_only.py`, with a context of its own if one is named, and a vocabulary.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

from sixfold.kernels import prepare  # isort: skip

prepare()  # before torch is loaded
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.models.decoder_only import PRESETS, DecoderOnly, DecoderOnlyConfig
from sixfold.nn.loss import projected_loss
from sixfold.training.micro_batches import num_data_parallel
from sixfold.training.recipe import TrainConfig
from sixfold.training.step import TrainStepper
from sixfold.training.task import Batch
from train_engines import (
    BATCH_TOKENS,
    BATCHES,
    DROPOUT,
    LEARNING_RATE,
    MAX_GRAD_NORM,
    prepare_process,
    serve_lines,
)

VOCABULARIES = (256, 8000)
CONTEXTS = {"gpt-tiny-64": ("gpt-tiny", 64), "gpt-tiny": ("gpt-tiny", 256), "gpt-small": ("gpt-small", 256)}
CASES = tuple(CONTEXTS)
Step = Callable[[Tensor], None]  # learns from rows of tokens (B, context + 1)


@dataclass(frozen=True)
class Case:
    """A model and the rows that it is trained on."""

    config: DecoderOnlyConfig

    @property
    def context(self) -> int:
        """The tokens of a row that are predicted from."""
        return self.config.max_positions

    def batches(self) -> list[Tensor]:
        """Return rows of random tokens, filled to the end as a packed corpus is."""
        random = np.random.default_rng(1)
        shape = (BATCHES, BATCH_TOKENS // self.context, self.context + 1)
        return list(torch.from_numpy(random.integers(0, self.config.vocabulary, shape)))


def read_case(name: str) -> Case:
    """Return the case of a name such as gpt-tiny/8000."""
    size, _, vocabulary = name.partition("/")
    preset, context = CONTEXTS[size]
    choices = {"max_positions": context, "dropout": DROPOUT, "vocabulary": int(vocabulary)}
    return Case(DecoderOnlyConfig(**PRESETS[preset].model_dump() | choices))


# The engines: each takes a case and returns what does one step.


def sixfold_step(case: Case) -> Step:
    """Train as `sixfold train` does."""
    train = TrainConfig(max_grad_norm=MAX_GRAD_NORM)
    threads = num_data_parallel(BATCH_TOKENS, torch.device("cpu"), world=1)
    stepper = TrainStepper(next_token_loss, DecoderOnly(case.config).train(), train, threads)

    def step(tokens: Tensor) -> None:
        examples = np.zeros(len(tokens), dtype=np.uint32)
        batch = Batch({"tokens": tokens}, tokens[:, 1:].numel(), examples)
        assert stepper.train_step(batch, LEARNING_RATE, step=1).is_finite

    return step


def next_token_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of every token after the first."""
    assert isinstance(model, DecoderOnly)
    tokens = batch.tensors["tokens"]
    hidden = model.hidden(tokens[:, :-1]).flatten(0, 1)  # (B·T, d_model)
    return projected_loss(hidden, model.head.weight, tokens[:, 1:].flatten(), 0.0)


class PlainLanguageModel(nn.Module):
    """`torch.nn.TransformerEncoder` with a causal mask between tied embeddings."""

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.d_model)
        self.positions = nn.Embedding(config.max_positions, config.d_model)
        for embedding in (self.embedding, self.positions):
            nn.init.normal_(embedding.weight, std=config.init_std)
        self.dropout = nn.Dropout(DROPOUT)
        layer = nn.TransformerEncoderLayer(
            config.d_model, config.heads, config.d_ff, DROPOUT, gelu_tanh, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(
            layer, config.layers, nn.LayerNorm(config.d_model), enable_nested_tensor=False
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits (B, T, V)."""
        length = tokens.size(1)
        x = self.dropout(self.embedding(tokens) + self.positions(torch.arange(length)))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        return F.linear(self.layers(x, mask=mask, is_causal=True), self.embedding.weight)


def gelu_tanh(x: Tensor) -> Tensor:
    """Return GPT-2's activation."""
    return F.gelu(x, approximate="tanh")


def torch_step(case: Case) -> Step:
    """Train `torch.nn.TransformerEncoder`."""
    return plain_step(model := PlainLanguageModel(case.config).train(), model)


def huggingface_step(case: Case) -> Step:
    """Train `GPT2LMHeadModel`, with dropout where ours is: on attention it would end torch's fused kernel."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        bos_token_id=None,
        eos_token_id=None,
        vocab_size=case.config.vocabulary,
        n_positions=case.context,
        n_embd=case.config.d_model,
        n_layer=case.config.layers,
        n_head=case.config.heads,
        n_inner=case.config.d_ff,
        resid_pdrop=DROPOUT,
        embd_pdrop=DROPOUT,
        attn_pdrop=0.0,
    )
    model = GPT2LMHeadModel(config).train()
    return plain_step(model, lambda tokens: model(tokens, use_cache=False).logits)


def plain_step(model: nn.Module, logits_of: Callable[[Tensor], Tensor]) -> Step:
    """Return a whole step as people write it: forward, cross-entropy, backward, clipping, Adam."""
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(tokens: Tensor) -> None:
        loss = F.cross_entropy(logits_of(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        assert math.isfinite(float(loss.detach()))

    return step


def roofline_step(case: Case) -> Step:
    """Do the matrix products of a step with its weights and nothing else: each once forward and twice backward."""
    d_model, d_ff = case.config.d_model, case.config.d_ff
    of_layer = [(d_model, 3 * d_model), (d_model, d_model), (d_model, d_ff), (d_ff, d_model)]
    shapes = [*of_layer * case.config.layers, (d_model, case.config.vocabulary)]
    weights = {shape: torch.randn(shape) for shape in shapes}
    inputs = {width: torch.randn(BATCH_TOKENS, width) for shape in shapes for width in shape}

    def step(_: Tensor) -> None:
        with torch.inference_mode():
            for inner, outer in shapes:
                x, weight, gradient = inputs[inner], weights[inner, outer], inputs[outer]
                torch.mm(x, weight)
                torch.mm(gradient, weight.T)
                torch.mm(x.T, gradient)

    return step


ENGINES: dict[str, Callable[[Case], Step]] = {
    "sixfold": sixfold_step,
    "torch": torch_step,
    "huggingface": huggingface_step,
    "huggingface-tuned": huggingface_step,
    "huggingface-mkl": huggingface_step,
    "roofline": roofline_step,
}


def main(engine: str, name: str) -> None:
    """Train as the lines say, until they end."""
    prepare_process(engine)
    case = read_case(name)
    serve_lines(ENGINES[engine](case), case.batches(), lambda tokens: tokens[:, 1:].numel())


if __name__ == "__main__":
    main(*sys.argv[1:])
