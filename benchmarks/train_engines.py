"""One engine of `train_speed.py`, as a process: each line that it reads is a number of steps to train and time.

    python benchmarks/train_engines.py sixfold tiny

`versus.py` runs this file of two checkouts, so `CASES`, `main(engine, case)`, the lines that are read and those
that answer them keep their form.
"""

from __future__ import annotations

import json
import math
import resource
import sys
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from types import SimpleNamespace
from typing import TypeVar

from sixfold.kernels import prepare  # isort: skip

prepare()  # before torch is loaded
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sixfold.data.batches import Batches, Position, pad
from sixfold.machine import num_cores, raise_malloc_thresholds
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.nn import Embedding, SinusoidalPositions, TokenHead
from sixfold.tasks.translate.learner import TranslateLearner
from sixfold.tasks.translate.recipe import TranslateRecipe
from sixfold.text import SpecialIds
from sixfold.training.micro_batches import num_data_parallel
from sixfold.training.step import TrainStepper
from sixfold.training.task import Batch as TaskBatch

SPECIAL = SpecialIds()
CASES = {
    "tiny": {"layers": 4, "d_model": 128, "d_ff": 256, "heads": 4},
    "base": {"layers": 6, "d_model": 512, "d_ff": 2048, "heads": 8},
}
VOCABULARY, BATCH_TOKENS, DROPOUT, SMOOTHING = 8000, 4096, 0.1, 0.1
PAIRS, BATCHES = 20_000, 24
LEARNING_RATE, MAX_GRAD_NORM = 1e-4, 1.0

Batch = tuple[Tensor, Tensor, Tensor]  # source, target behind a begin token, target with its end token
B = TypeVar("B")
Step = Callable[[Batch], None]
Size = dict[str, int]


def make_batches() -> tuple[list[Batch], float]:
    """Return the first batches of a corpus of random tokens, and which share of their positions is padding."""
    random = np.random.default_rng(1)
    source_lengths = np.clip(random.lognormal(2.6, 0.35, PAIRS), 3, 80)  # like captions of images
    target_lengths = np.clip(source_lengths * random.lognormal(0.0, 0.15, PAIRS), 3, 80)
    pairs = [
        [random.integers(SPECIAL.eos + 1, VOCABULARY, int(length)).tolist() for length in lengths]
        for lengths in zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)
    ]
    sizes = np.array([[len(source) + 1, len(target) + 1] for source, target in pairs], dtype=np.int32)
    batches = Batches(sizes, BATCH_TOKENS, seed=1)
    chosen = islice(batches.from_position(Position()), BATCHES)
    return [as_batch([pairs[i] for i in examples]) for examples, _ in chosen], batches.padding_share()


def as_batch(pairs: list[list[list[int]]]) -> Batch:
    """Return padded pairs with their special tokens."""
    sides = (
        [[*source, SPECIAL.eos] for source, _ in pairs],
        [[SPECIAL.bos, *target] for _, target in pairs],
        [[*target, SPECIAL.eos] for _, target in pairs],
    )
    source, target_in, target_out = (torch.from_numpy(pad(rows, SPECIAL.pad)) for rows in sides)
    return source, target_in, target_out


# The engines: each takes a size and returns what does one step.


def sixfold_step(size: Size) -> Step:
    """Train as `sixfold train` does."""
    return steps_of(EncoderDecoder(transformer_config(size)).train(), BATCH_TOKENS)


def steps_of(model: EncoderDecoder, batch_tokens: int) -> Step:
    """Return the training step of a translation model."""
    recipe = TranslateRecipe().model_validate({"train": {"max_grad_norm": MAX_GRAD_NORM}})
    learner = TranslateLearner(recipe, SimpleNamespace(special=SPECIAL, vocabulary=model.config.vocabulary))
    threads = num_data_parallel(batch_tokens, torch.device("cpu"), world=1)
    stepper = TrainStepper(learner.loss, model, recipe.train, threads)

    def step(batch: Batch) -> None:
        tensors = dict(zip(("source", "target_in", "target_out"), batch, strict=True))
        examples = np.zeros(len(batch[0]), dtype=np.uint32)
        assert stepper.train_step(
            TaskBatch(tensors, num_targets(batch), examples), LEARNING_RATE, step=1
        ).is_finite

    return step


def transformer_config(size: Size) -> EncoderDecoderConfig:
    """Return the size as a configuration."""
    rest = {key: value for key, value in size.items() if key != "layers"}
    layers = {"encoder_layers": size["layers"], "decoder_layers": size["layers"]}
    return EncoderDecoderConfig(**layers, **rest, dropout=DROPOUT, vocabulary=VOCABULARY)


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` between tied embeddings."""

    def __init__(self, layers: int, d_model: int, d_ff: int, heads: int) -> None:
        super().__init__()
        self.embedding = Embedding(VOCABULARY, d_model)
        self.head = TokenHead(self.embedding)
        self.positions = SinusoidalPositions(d_model)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.Transformer(d_model, heads, layers, layers, d_ff, DROPOUT, batch_first=True)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the logits (B, T, V)."""
        embedded = [self.dropout(self.embedding(x) + self.positions(0, x.size(1))) for x in (source, target_in)]
        padding = source == SPECIAL.pad
        causal = nn.Transformer.generate_square_subsequent_mask(target_in.size(1), dtype=torch.bool)
        hidden = self.layers(
            *embedded,
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.head(hidden)


def torch_step(size: Size) -> Step:
    """Train `torch.nn.Transformer`."""
    model = PlainTransformer(**size).train()
    return step_of(model, lambda batch, tokens: plain_backward(model(batch[0], batch[1]), batch, tokens))


def huggingface_step(size: Size) -> Step:
    """Train `MarianMTModel`."""
    from transformers import MarianConfig, MarianMTModel

    layers, heads, d_ff = size["layers"], size["heads"], size["d_ff"]
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=size["d_model"],
        **{f"{side}_layers": layers for side in ("encoder", "decoder")},
        **{f"{side}_attention_heads": heads for side in ("encoder", "decoder")},
        **{f"{side}_ffn_dim": d_ff for side in ("encoder", "decoder")},
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        scale_embedding=True,
        pad_token_id=SPECIAL.pad,
        eos_token_id=SPECIAL.eos,
        decoder_start_token_id=SPECIAL.bos,
    )
    model = MarianMTModel(config).train()

    def backward(batch: Batch, tokens: int) -> float:
        source, target_in, _ = batch
        return plain_backward(
            model(source, source != SPECIAL.pad, target_in, use_cache=False).logits, batch, tokens
        )

    return step_of(model, backward)


def plain_backward(logits: Tensor, batch: Batch, tokens: int) -> float:
    """Compute the loss as people write it and its gradients; return the loss of a token."""
    loss = F.cross_entropy(
        logits.flatten(0, 1),
        batch[2].flatten(),
        ignore_index=SPECIAL.pad,
        label_smoothing=SMOOTHING,
        reduction="sum",
    )
    loss = loss / tokens
    loss.backward()
    return float(loss.detach())


def step_of(model: nn.Module, backward: Callable[[Batch, int], float]) -> Step:
    """Return a whole step around forward and backward: with clipping and Adam."""
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def step(batch: Batch) -> None:
        loss = backward(batch, num_targets(batch))
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        assert math.isfinite(loss)

    return step


def roofline_step(size: Size) -> Step:
    """Do the matrix products of a step with its weights and nothing else: each once forward and twice backward."""
    d_model, d_ff, layers = size["d_model"], size["d_ff"], size["layers"]
    feed_forward = [(d_model, d_ff), (d_ff, d_model)]
    # The projections of self-attention are one matrix; of attention to the source, keys and values are.
    on_source = [(d_model, 3 * d_model), (d_model, d_model), *feed_forward, (d_model, 2 * d_model)]
    on_target = [(d_model, 3 * d_model), *[(d_model, d_model)] * 3, *feed_forward]
    on_tokens = [(d_model, VOCABULARY)]
    weights = {shape: torch.randn(shape) for shape in (*on_source, *on_target, *on_tokens)}
    inputs = {width: torch.randn(2 * BATCH_TOKENS, width) for shape in weights for width in shape}

    def products(rows: int, shapes: list[tuple[int, int]]) -> None:
        for inner, outer in shapes:
            x, weight, gradient = inputs[inner][:rows], weights[inner, outer], inputs[outer][:rows]
            torch.mm(x, weight)
            torch.mm(gradient, weight.T)
            torch.mm(x.T, gradient)

    def step(batch: Batch) -> None:
        source, _, target = batch
        with torch.inference_mode():
            products(source.numel(), on_source * layers)
            products(target.numel(), on_target * layers)
            products(num_targets(batch), on_tokens)

    return step


ENGINES: dict[str, Callable[[Size], Step]] = {
    "sixfold": sixfold_step,
    "torch": torch_step,
    "huggingface": huggingface_step,
    "huggingface-tuned": huggingface_step,
    "huggingface-mkl": huggingface_step,
    "roofline": roofline_step,
}


def main(engine: str, case: str) -> None:
    """Train as the lines say, until they end."""
    prepare_process(engine)
    batches, padding_share = make_batches()
    serve_lines(ENGINES[engine](CASES[case]), batches, num_targets, padding_share)


def prepare_process(engine: str) -> None:
    """Use all cores, and for the engines that tune it tune the allocator."""
    torch.set_num_threads(num_cores())
    torch.manual_seed(1)
    if engine in ("sixfold", "huggingface-tuned", "huggingface-mkl", "roofline"):
        raise_malloc_thresholds()


def serve_lines(
    step: Callable[[B], None], batches: Sequence[B], count: Callable[[B], int], padding_share: float = 0.0
) -> None:
    """Answer every line, a number of steps, with what they took, until the lines end."""
    order = cycle(batches)
    for line in sys.stdin:
        chosen = list(islice(order, int(line)))
        began = time.perf_counter()
        for batch in chosen:
            step(batch)
        seconds = time.perf_counter() - began
        measured = {
            "target_tokens_per_second": sum(map(count, chosen)) / seconds,
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "padding_share": padding_share,
        }
        print(json.dumps(measured), flush=True)


def num_targets(batch: Batch) -> int:
    """Return the target tokens of a batch, without padding."""
    return int((batch[2] != SPECIAL.pad).sum())


if __name__ == "__main__":
    main(*sys.argv[1:])
