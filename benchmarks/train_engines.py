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
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path

from sixfold.kernels import prepare  # isort: skip

prepare()  # before torch is loaded
import numpy as np
import torch
import torch.nn.functional as F
from sixfold.text.tokens import BOS_ID, EOS_ID, PAD_ID
from sixfold.training.loss import Objective
from sixfold.training.shares import Shares, num_shares
from torch import Tensor, nn

from sixfold.data.batches import Batches, Position, gather
from sixfold.data.shards import Corpus, EncodedPair, ShardWriter
from sixfold.machine import num_cores, raise_malloc_thresholds
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.nn import SinusoidalPositions, TiedEmbedding
from sixfold.training.optimizer import make_adam, set_learning_rate

CASES = {
    "tiny": {"layers": 4, "d_model": 128, "d_ff": 256, "heads": 4},
    "base": {"layers": 6, "d_model": 512, "d_ff": 2048, "heads": 8},
}
VOCABULARY, BATCH_TOKENS, DROPOUT, SMOOTHING = 8000, 4096, 0.1, 0.1
PAIRS, BATCHES = 20_000, 24
LEARNING_RATE, MAX_GRAD_NORM = 1e-4, 1.0

Batch = tuple[Tensor, Tensor, Tensor]  # source, target behind a begin token, target with its end token
Step = Callable[[Batch], None]
Size = dict[str, int]


def make_batches() -> tuple[list[Batch], float]:
    """Return the first batches of a corpus of random tokens, and which share of their positions is padding."""
    random = np.random.default_rng(1)
    source_lengths = np.clip(random.lognormal(2.6, 0.35, PAIRS), 3, 80)  # like captions of images
    target_lengths = np.clip(source_lengths * random.lognormal(0.0, 0.15, PAIRS), 3, 80)
    with tempfile.TemporaryDirectory() as folder:
        writer = ShardWriter(Path(folder), VOCABULARY)
        for line, lengths in enumerate(zip(source_lengths.tolist(), target_lengths.tolist(), strict=True)):
            source, target = (random.integers(EOS_ID + 1, VOCABULARY, int(length)).tolist() for length in lengths)
            writer.write([EncodedPair(source, target, line)])
        writer.close()
        corpus = Corpus(Path(folder), VOCABULARY)
        batches = Batches(corpus, BATCH_TOKENS, seed=1)
        chosen = [gather(corpus, pairs) for pairs, _ in islice(batches.from_position(Position()), BATCHES)]
    sides = [(batch.source, batch.target_in, batch.target_out) for batch in chosen]
    return [tuple(map(torch.from_numpy, each)) for each in sides], batches.padding_share()


# The engines: each takes a size and returns what does one step.


def sixfold_step(size: Size) -> Step:
    """Train as `sixfold train` does."""
    model = EncoderDecoder(transformer_config(size)).train()
    shares = Shares(Objective(model, SMOOTHING), num_shares(BATCH_TOKENS, torch.device("cpu"), world=1))
    return step_of(model, lambda batch, tokens: shares.backward(batch, 1 / tokens, (1,)) / tokens)


def transformer_config(size: Size) -> EncoderDecoderConfig:
    """Return the size as a configuration."""
    rest = {key: value for key, value in size.items() if key != "layers"}
    layers = {"encoder_layers": size["layers"], "decoder_layers": size["layers"]}
    return EncoderDecoderConfig(**layers, **rest, dropout=DROPOUT, vocabulary=VOCABULARY)


class PlainTransformer(nn.Module):
    """`torch.nn.Transformer` between tied embeddings."""

    def __init__(self, layers: int, d_model: int, d_ff: int, heads: int) -> None:
        super().__init__()
        self.embedding = TiedEmbedding(VOCABULARY, d_model)
        self.positions = SinusoidalPositions(d_model)
        self.dropout = nn.Dropout(DROPOUT)
        self.layers = nn.Transformer(d_model, heads, layers, layers, d_ff, DROPOUT, batch_first=True)

    def forward(self, source: Tensor, target_in: Tensor) -> Tensor:
        """Return the logits (B, T, V)."""
        embedded = [self.dropout(self.embedding(x) + self.positions(0, x.size(1))) for x in (source, target_in)]
        padding = source == PAD_ID
        causal = nn.Transformer.generate_square_subsequent_mask(target_in.size(1), dtype=torch.bool)
        hidden = self.layers(
            *embedded,
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return self.embedding.logits(hidden)


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
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
    )
    model = MarianMTModel(config).train()

    def backward(batch: Batch, tokens: int) -> float:
        source, target_in, _ = batch
        return plain_backward(model(source, source != PAD_ID, target_in, use_cache=False).logits, batch, tokens)

    return step_of(model, backward)


def plain_backward(logits: Tensor, batch: Batch, tokens: int) -> float:
    """Compute the loss as people write it and its gradients; return the loss of a token."""
    loss = F.cross_entropy(
        logits.flatten(0, 1), batch[2].flatten(), ignore_index=PAD_ID, label_smoothing=SMOOTHING, reduction="sum"
    )
    loss = loss / tokens
    loss.backward()
    return float(loss.detach())


def step_of(model: nn.Module, backward: Callable[[Batch, int], float]) -> Step:
    """Return a whole step around forward and backward: with clipping and Adam."""
    optimizer = make_adam(model)
    set_learning_rate(optimizer, LEARNING_RATE)

    def step(batch: Batch) -> None:
        loss = backward(batch, int((batch[2] != PAD_ID).sum()))
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
            products(int((target != PAD_ID).sum()), on_tokens)

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
    """Answer every line, a number of steps, with what they took, until the lines end."""
    torch.set_num_threads(num_cores())
    torch.manual_seed(1)
    if engine in ("sixfold", "huggingface-tuned", "huggingface-mkl", "roofline"):
        raise_malloc_thresholds()
    batches, padding_share = make_batches()
    step, order = ENGINES[engine](CASES[case]), cycle(batches)
    for line in sys.stdin:
        chosen = list(islice(order, int(line)))
        began = time.perf_counter()
        for batch in chosen:
            step(batch)
        seconds = time.perf_counter() - began
        tokens = sum(int((target_out != PAD_ID).sum()) for _, _, target_out in chosen)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        measured = {
            "target_tokens_per_second": tokens / seconds,
            "peak_memory": memory,
            "padding_share": padding_share,
        }
        print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
