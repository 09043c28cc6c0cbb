"""Every core its share of a batch: threads that each train on some of the rows, and one sum of their gradients.

Two cores inside every operation wait for each other hundreds of times a step, and what one of them does alone
(drawing random numbers, small operations, Python) the other waits for; two shares meet once a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import torch
from torch import Tensor, nn

from sixfold.nn.dropout import draw_from
from sixfold.nn.embedding import lookups_apart

FEWEST_TOKENS = 128  # of a share: with fewer, Python takes longer than the products
MOST_SHARES = 4  # Python serves one share at a time; more cores work inside the shares

Inputs = Sequence[Tensor]  # source (B, M), target_in and target_out (B, T)


def num_shares(batch_tokens: int, device: torch.device, world: int) -> int:
    """Return how many shares are best for the threads that torch may use; a rank's batch and a GPU's are one."""
    if device.type != "cpu" or world > 1:
        return 1
    return max(1, min(torch.get_num_threads(), MOST_SHARES, batch_tokens // FEWEST_TOKENS))


class Shares:
    """A loss whose gradients are computed in shares."""

    def __init__(self, objective: nn.Module, count: int) -> None:
        self.objective, self.count = objective, count
        self.parameters = list(objective.parameters())
        self.places = {parameter: place for place, parameter in enumerate(self.parameters)}
        threads = max(1, torch.get_num_threads() // count)
        self.pool = ThreadPoolExecutor(count, "share", torch.set_num_threads, (threads,)) if count > 1 else None

    def backward(self, inputs: Inputs, weight: float, seed: Sequence[int]) -> float:
        """Add the gradients of weight times the loss to the parameters; return the loss itself.

        Each share draws its dropout from the seed and its own number, whichever thread computes it, and the sums
        are in the order of the shares: the same seed gives the same bits.
        """
        if self.pool is None:
            torch.manual_seed(mixed_seed(*seed))
            loss = self.objective(*inputs)
            (loss * weight).backward()
            return float(loss.detach())
        rows = [[side[number :: self.count] for side in inputs] for number in range(self.count)]
        running = [
            self.pool.submit(self.differentiate, share, weight, mixed_seed(*seed, number))
            for number, share in enumerate(rows)
            if len(share[0])
        ]
        wait(running)  # for all, before the first error is raised
        (total, gradients), *others = [share.result() for share in running]
        for loss, more in others:
            total += loss
            torch._foreach_add_(gradients, more)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        return total

    def differentiate(self, inputs: Inputs, weight: float, seed: int) -> tuple[float, tuple[Tensor, ...]]:
        """Return a share's loss and the gradients of weight times it, touching nothing that other shares see."""
        draw_from(seed)
        with lookups_apart() as lookups:
            loss = self.objective(*inputs)
        leaves = [*self.parameters, *(lookup.rows for lookup in lookups)]
        gradients = torch.autograd.grad(loss * weight, leaves)
        of_parameters, of_lookups = gradients[: len(self.parameters)], gradients[len(self.parameters) :]
        for lookup, gradient in zip(lookups, of_lookups, strict=True):
            place = self.places[lookup.weight]
            of_parameters[place].index_add_(0, lookup.tokens.flatten(), gradient.flatten(0, 1))
        return float(loss.detach()), of_parameters


def mixed_seed(*numbers: int) -> int:
    """Return one well-mixed seed for several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
