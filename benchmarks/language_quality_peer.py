"""The peer of `language_quality.py`: Hugging Face's GPT-2 in a plain loop, on the rows of a run of ours.

    python benchmarks/language_quality_peer.py MODEL PEER --minutes 10 --rate 2e-3

MODEL is a folder of `sixfold train` with its training/; the peer has its tokenizer, rows, batches, and number and
width of layers. PEER is written as a folder of Sixfold's, so that the same code evaluates both.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from sixfold.convert import huggingface_gpt2
from sixfold.convert.name_table import to_ours
from sixfold.data.batches import Batches, Position
from sixfold.machine import num_cores, raise_malloc_thresholds
from sixfold.models.decoder_only import DecoderOnlyConfig
from sixfold.models.folder import load_any_tokenizer, load_info, save_model
from sixfold.tasks.generate import Generate
from sixfold.tasks.generate.learner import GenerateLearner
from sixfold.training.run_folder import RunFolder
from sixfold.training.setup import Setup, read_setup
from sixfold.training.task import Batch

WARMUP = 0.05  # of the time


def gpt2(ours: DecoderOnlyConfig) -> GPT2LMHeadModel:
    """Return GPT-2 with as many layers of the same width, initialised as Hugging Face does."""
    config = GPT2Config(
        bos_token_id=None,
        eos_token_id=None,
        vocab_size=ours.vocabulary,
        n_positions=ours.max_positions,
        n_embd=ours.d_model,
        n_layer=ours.layers,
        n_head=ours.heads,
        resid_pdrop=ours.dropout,
        embd_pdrop=ours.dropout,
        attn_pdrop=0.0,  # with dropout here torch would leave its fused attention
    )
    return GPT2LMHeadModel(config).train()


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    """Return AdamW as GPT-2's kin are trained: no weight decay for biases and norms."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8, fused=True)


def train(model: GPT2LMHeadModel, batches: Iterator[Batch], seconds: float, peak: float) -> int:
    """Train for so long, with a rate that rises soon and falls linearly to zero; return the number of steps."""
    optimizer, began = adamw(model), time.monotonic()
    for step, batch in enumerate(batches, start=1):
        progress = (time.monotonic() - began) / seconds
        if progress >= 1:
            return step - 1
        for group in optimizer.param_groups:
            group["lr"] = peak * min(progress / WARMUP, 1.0) * (1 - progress)
        logits = model(batch.tensors["tokens"], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch.tensors["targets"].flatten(), ignore_index=-1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if not math.isfinite(float(loss.detach())):
            raise SystemExit(f"The loss of step {step} is not finite: the rate {peak:g} is too high.")
    raise AssertionError("batches have no end")


def batches_of(setup: Setup, learner: GenerateLearner) -> Iterator[Batch]:
    """Yield the batches of our run, in its order."""
    corpus = setup.data.train()
    batches = Batches(learner.sizes(corpus), setup.recipe.train.batch_tokens, setup.seed)
    for examples, _ in batches.from_position(Position()):
        yield learner.collate(corpus.read(examples), seed=0)


class Parameters:
    """The parameters of a model, as what a foreign file would hold; a tied one once."""

    def __init__(self, model: nn.Module) -> None:
        self.found: dict[str, Tensor] = {name: each.detach() for name, each in model.named_parameters()}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every tensor."""
        return {name: tuple(tensor.shape) for name, tensor in self.found.items()}

    def read(self, name: str) -> Tensor:
        """Return a tensor."""
        return self.found[name]


def write(peer: GPT2LMHeadModel, ours: Path, folder: Path) -> None:
    """Write the peer as a folder of Sixfold's."""
    info = load_info(ours)
    config = huggingface_gpt2.read_config(peer.config.to_dict())
    weights = to_ours(Parameters(peer), config, huggingface_gpt2.TABLE, "the peer")
    info = info.model_copy(update={"model": config, "scores": {}, "training": {}})
    save_model(
        folder, info, [weights], load_any_tokenizer(ours, info), "Hugging Face's GPT-2, trained to compare.\n"
    )


def main() -> None:
    """Read the options, train, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=Path, help="a model folder with its training/")
    parser.add_argument("folder", type=Path, help="where to write the peer")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--rate", type=float, required=True)
    options = parser.parse_args()
    torch.set_num_threads(num_cores())
    raise_malloc_thresholds()  # as ours has them; without, the peer is slower
    setup = read_setup(Generate(), RunFolder(options.ours))
    torch.manual_seed(setup.seed)
    learner = Generate().learner(setup.recipe, setup.processor)
    model = gpt2(setup.recipe.model.config(setup.processor.tokenizer.vocabulary))
    steps = train(model, batches_of(setup, learner), options.minutes * 60, options.rate)
    write(model, options.ours, options.folder)
    parameters = sum(each.numel() for each in model.parameters())
    print(f"{steps:,} steps of {setup.recipe.train.batch_tokens:,} tokens, {parameters:,} parameters")


if __name__ == "__main__":
    main()
