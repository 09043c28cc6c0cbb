"""What a training would cost: a few real steps, measured on this machine."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from sixfold.data.batches import Batches, Position, gather
from sixfold.data.readers import Pair, open_pairs
from sixfold.data.shards import Corpus, ShardWriter
from sixfold.errors import DataError
from sixfold.machine import choose_device
from sixfold.models.transformer import Transformer, TransformerConfig, count_parameters
from sixfold.text import Tokenizer
from sixfold.ticks import Tick
from sixfold.train.loss import Objective
from sixfold.train.optimizer import make_adam
from sixfold.train.plan import Plan, choose
from sixfold.train.prepare import Skipped, encode, learn_tokenizer, survey
from sixfold.train.recipe import Recipe, merge, parse_settings, read_recipe
from sixfold.train.run import prepare_machine

MEASURED_PAIRS = 20_000
WARM_STEPS, MEASURED_STEPS = 2, 6


@dataclass(frozen=True)
class Estimate:
    """The cost of a training."""

    plan: Plan
    device: str
    parameters: int
    steps: int
    seconds_a_step: float
    tokens_a_second: float
    padding_share: float
    seconds: float  # at most: early stopping can end it sooner
    memory_bytes: int
    disk_bytes: int


def estimate(
    source: str | Path,
    target: str | Path | None,
    recipe: str | None,
    settings: Sequence[str],
    minutes: float,
    device: str,
    tick: Tick,
) -> Estimate:
    """Plan a training and measure a few of its steps on a sample of the corpus."""
    prepare_machine()
    chosen = choose_device(device)
    surveyed = survey(open_pairs(source, target), seed=1, tick=tick)
    wishes = merge(read_recipe(recipe) if recipe else {}, parse_settings(settings))
    plan = choose(surveyed, merge(wishes, {"train": {"minutes": minutes}} if minutes else {}), chosen)
    tokenizer = learn_tokenizer(surveyed.sample, plan.recipe.data)
    with tempfile.TemporaryDirectory() as folder:
        corpus = sample_corpus(Path(folder), surveyed.sample[:MEASURED_PAIRS], tokenizer, plan.recipe)
        model, speed, tokens = measure(corpus, tokenizer, plan.recipe, chosen)
        padding = Batches(corpus, plan.recipe.train.batch_tokens, seed=1).padding_share()
    share = surveyed.num_pairs / max(1, min(len(surveyed.sample), MEASURED_PAIRS))
    weights = 4 * count_parameters(model)
    return Estimate(
        plan=plan,
        device=chosen,
        parameters=count_parameters(model),
        steps=plan.recipe.train.steps,
        seconds_a_step=speed,
        tokens_a_second=tokens,
        padding_share=padding,
        seconds=min(plan.recipe.train.steps * speed * 1.1, minutes * 60 or float("inf")),
        memory_bytes=peak_memory(chosen),
        # checkpoints hold weights and two moments each; the tokens of the corpus take two bytes
        disk_bytes=int(weights + 3 * weights * (plan.recipe.train.average + 1) + share * corpus_bytes(corpus)),
    )


def sample_corpus(folder: Path, sample: Sequence[Pair], tokenizer: Tokenizer, recipe: Recipe) -> Corpus:
    """Prepare a small part of the corpus."""
    encoded = encode(list(sample), tokenizer, recipe.data.max_tokens, Skipped())
    if not encoded:
        raise DataError(f"Every pair is empty or longer than {recipe.data.max_tokens} tokens.")
    writer = ShardWriter(folder, tokenizer.vocabulary)
    writer.write(encoded)
    writer.close()
    return Corpus(folder, tokenizer.vocabulary)


def measure(corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, device: str) -> tuple[Transformer, float, float]:
    """Return a model, the median seconds of a real training step, and the target tokens in a second."""
    config = TransformerConfig(**recipe.model.model_dump(), vocabulary=tokenizer.vocabulary)
    model = Transformer(config).to(device).train()
    objective, optimizer = Objective(model, recipe.train.label_smoothing), make_adam(model)
    batches = Batches(corpus, recipe.train.batch_tokens, seed=1).from_position(Position())
    seconds, tokens = [], []
    for _ in range(WARM_STEPS + MEASURED_STEPS):
        began = time.monotonic()
        batch = gather(corpus, next(batches)[0])
        sides = (batch.source, batch.target_in, batch.target_out)
        loss = objective(*(torch.from_numpy(side).to(device) for side in sides)) / batch.num_target_tokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        float(loss.detach())  # wait for the device
        seconds.append(time.monotonic() - began)
        tokens.append(batch.num_target_tokens)
    measured, counted = seconds[WARM_STEPS:], tokens[WARM_STEPS:]
    return model, sum(measured) / len(measured), sum(counted) / sum(measured)


def corpus_bytes(corpus: Corpus) -> int:
    """Return what a prepared corpus takes on disk."""
    return sum(tokens.nbytes for tokens in corpus.tokens) + int(corpus.index.nbytes)


def peak_memory(device: str) -> int:
    """Return the most memory that was in use."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
