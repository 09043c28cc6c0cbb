"""Data-parallel threads: each computes the gradients of a micro-batch; they are summed once per step.

If two cores share every operation, they synchronise hundreds of times a step, and one waits while the other runs
serial parts (random numbers, small operations, Python); two micro-batches synchronise once per step. If the
members of an ensemble divide evenly among the threads, each thread trains its own members, and nothing needs
summing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import torch
from torch import Tensor, nn

from sixfold.models.ensemble import members_of
from sixfold.nn.dropout import draw_from
from sixfold.nn.embedding import lookups_apart
from sixfold.training.task import Batch, Loss

FEWEST_TOKENS = 128  # of a micro-batch: with fewer, Python takes longer than the matrix products
MOST_THREADS = 4  # because of Python's global lock; further cores work inside the operations

Gradients = tuple[Tensor, ...]  # one for each parameter
Seed = Sequence[int]


def num_data_parallel(batch_tokens: int, device: torch.device, world: int) -> int:
    """Return how many data-parallel threads to use: one on a GPU, and one per rank of a distributed run."""
    if device.type != "cpu" or world > 1:
        return 1
    return max(1, min(torch.get_num_threads(), MOST_THREADS, batch_tokens // FEWEST_TOKENS))


class Objective(nn.Module):
    """A model and its loss as one module, because a distributed wrapper needs one."""

    def __init__(self, loss: Loss, model: nn.Module) -> None:
        super().__init__()
        self.loss, self.model = loss, model

    def forward(self, batch: Batch) -> Tensor:
        """Return the sum of the members' losses: each member gets the gradients of its own loss."""
        return torch.stack([self.loss(member, batch) for member in members_of(self.model)]).sum()


class MicroBatches:
    """Forward and backward pass of a batch: in one thread, or as micro-batches of each member in several."""

    def __init__(self, loss: Loss, model: nn.Module, objective: nn.Module, num_threads: int) -> None:
        self.objective, self.num_threads = objective, num_threads
        threads = max(1, torch.get_num_threads() // num_threads)
        self.pool = (
            ThreadPoolExecutor(num_threads, "micro-batch", torch.set_num_threads, (threads,))
            if num_threads > 1
            else None
        )
        self.members = [Member(loss, member) for member in members_of(model)]

    def backward(self, batch: Batch, weight: float, seed: Seed) -> float:
        """Add the gradients of weight times the loss to the parameters; return the mean loss of a member.

        The dropout of a micro-batch depends on the seed and its index, whichever thread computes it, and gradients
        are summed in the order of the micro-batches: the same seed gives the same bits.
        """
        if self.pool is None:
            torch.manual_seed(mixed_seed(*seed))
            loss = self.objective(batch)
            (loss * weight).backward()
            return float(loss.detach()) / len(self.members)
        parts = self.num_threads // math.gcd(
            self.num_threads, len(self.members)
        )  # so that all threads have equal work
        rows = [batch.take(slice(part, None, parts)) for part in range(min(parts, len(batch)))]
        running = [
            self.pool.submit(member.differentiate, micro_batch, weight, mixed_seed(*seed, number))
            for number, (member, micro_batch) in enumerate((m, r) for m in self.members for r in rows)
        ]
        wait(running)  # all of them, before the first error is raised
        results = [each.result() for each in running]
        for number, member in enumerate(self.members):
            member.add([gradients for _, gradients in results[number * len(rows) : (number + 1) * len(rows)]])
        return sum(loss for loss, _ in results) / len(self.members)


class Member:
    """One of the models that are trained, and its gradients."""

    def __init__(self, loss: Loss, model: nn.Module) -> None:
        self.loss, self.model = loss, model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.places = {parameter: place for place, parameter in enumerate(self.parameters)}

    def differentiate(self, batch: Batch, weight: float, seed: int) -> tuple[float, Gradients]:
        """Return a micro-batch's loss and the gradients of weight times it, without changing shared state."""
        draw_from(seed)
        with lookups_apart() as lookups:
            loss = self.loss(self.model, batch)
        kept = [lookup for lookup in lookups if lookup.weight in self.places]  # a frozen matrix needs no gradient
        leaves = [*self.parameters, *(lookup.rows for lookup in kept)]
        gradients = torch.autograd.grad(loss * weight, leaves, materialize_grads=True)
        of_parameters, of_lookups = gradients[: len(self.parameters)], gradients[len(self.parameters) :]
        for lookup, gradient in zip(kept, of_lookups, strict=True):
            place = self.places[lookup.weight]
            of_parameters[place].index_add_(0, lookup.tokens.flatten(), gradient.flatten(0, 1))
        return float(loss.detach()), of_parameters

    def add(self, micro_batches: Sequence[Gradients]) -> None:
        """Add the gradients of all micro-batches to the parameters."""
        gradients, *others = micro_batches
        for more in others:
            torch._foreach_add_(gradients, more)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


def mixed_seed(*numbers: int) -> int:
    """Return one seed, a hash of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
