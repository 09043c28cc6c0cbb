"""Every core its share of a batch: threads that each train on some of the rows, and one sum of their gradients.
Where several models are trained side by side and divide evenly, a core has its own, and nothing to add up.

Two cores inside every operation wait for each other hundreds of times a step, and what one of them does alone
(drawing random numbers, small operations, Python) the other waits for; two shares meet once a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import torch
from torch import Tensor, nn

from sixfold.nn.dropout import draw_from
from sixfold.nn.embedding import lookups_apart
from sixfold.training.loss import Objective

FEWEST_TOKENS = 128  # of a share: with fewer, Python takes longer than the products
MOST_SHARES = 4  # Python serves one share at a time; more cores work inside the shares

Inputs = Sequence[Tensor]  # source (B, M), target_in and target_out (B, T)
Gradients = tuple[Tensor, ...]  # one for each parameter


def num_shares(batch_tokens: int, device: torch.device, world: int) -> int:
    """Return how many shares are best for the threads that torch may use; a rank's batch and a GPU's are one."""
    if device.type != "cpu" or world > 1:
        return 1
    return max(1, min(torch.get_num_threads(), MOST_SHARES, batch_tokens // FEWEST_TOKENS))


class Shares:
    """A loss whose gradients are computed in shares: some rows of one member each."""

    def __init__(self, objective: nn.Module, count: int) -> None:
        self.objective, self.count = objective, count
        threads = max(1, torch.get_num_threads() // count)
        self.pool = ThreadPoolExecutor(count, "share", torch.set_num_threads, (threads,)) if count > 1 else None
        whole = objective.module if isinstance(objective, nn.parallel.DistributedDataParallel) else objective
        assert isinstance(whole, Objective)
        self.members = [Member(loss) for loss in whole.members]

    def backward(self, inputs: Inputs, weight: float, seed: Sequence[int]) -> float:
        """Add the gradients of weight times the loss to the parameters; return the loss itself, of a member.

        Each share draws its dropout from the seed and its own number, whichever thread computes it, and the sums
        are in the order of the shares: the same seed gives the same bits.
        """
        if self.pool is None:
            torch.manual_seed(mixed_seed(*seed))
            loss = self.objective(*inputs)
            (loss * weight).backward()
            return float(loss.detach()) / len(self.members)
        parts = self.count // math.gcd(self.count, len(self.members))  # so that all threads have as much to do
        rows = [[side[part::parts] for side in inputs] for part in range(min(parts, len(inputs[0])))]
        shares = [(member, share) for member in self.members for share in rows]
        running = [
            self.pool.submit(member.differentiate, share, weight, mixed_seed(*seed, number))
            for number, (member, share) in enumerate(shares)
        ]
        wait(running)  # for all, before the first error is raised
        results = [share.result() for share in running]
        for number, member in enumerate(self.members):
            member.add([gradients for _, gradients in results[number * len(rows) : (number + 1) * len(rows)]])
        return sum(loss for loss, _ in results) / len(self.members)


class Member:
    """One model of those that are trained, and its gradients."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss, self.parameters = loss, list(loss.parameters())
        self.places = {parameter: place for place, parameter in enumerate(self.parameters)}

    def differentiate(self, inputs: Inputs, weight: float, seed: int) -> tuple[float, Gradients]:
        """Return a share's loss and the gradients of weight times it, touching nothing that other shares see."""
        draw_from(seed)
        with lookups_apart() as lookups:
            loss = self.loss(*inputs)
        leaves = [*self.parameters, *(lookup.rows for lookup in lookups)]
        gradients = torch.autograd.grad(loss * weight, leaves)
        of_parameters, of_lookups = gradients[: len(self.parameters)], gradients[len(self.parameters) :]
        for lookup, gradient in zip(lookups, of_lookups, strict=True):
            place = self.places[lookup.weight]
            of_parameters[place].index_add_(0, lookup.tokens.flatten(), gradient.flatten(0, 1))
        return float(loss.detach()), of_parameters

    def add(self, shares: Sequence[Gradients]) -> None:
        """Add the gradients of all shares to the parameters."""
        gradients, *others = shares
        for more in others:
            torch._foreach_add_(gradients, more)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


def mixed_seed(*numbers: int) -> int:
    """Return one well-mixed seed for several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
