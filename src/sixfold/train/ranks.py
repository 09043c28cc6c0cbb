"""The processes of a distributed run: under torchrun there are several, otherwise one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

PATIENCE = timedelta(minutes=10)  # a rank that answers no sooner than this is taken for dead


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this process writes, validates and reports."""
        return self.rank == 0

    def wait(self) -> None:
        """Wait for all ranks."""
        if self.world > 1:
            dist.barrier()

    def total(self, value: float) -> float:
        """Return the sum of a number over all ranks."""
        if self.world == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64)
        dist.all_reduce(tensor)
        return float(tensor)

    def agree(self, value: float) -> float:
        """Return the first rank's number on every rank, so that all decide alike."""
        if self.world == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(tensor, src=0)
        return float(tensor)

    def wrap(self, module: nn.Module) -> nn.Module:
        """Return the module with its gradients averaged over the ranks, if there are several."""
        return nn.parallel.DistributedDataParallel(module) if self.world > 1 else module

    def share(self, num_rows: int, part: int, parts: int) -> list[int]:
        """Return this rank's rows of one part of a batch; every row falls to exactly one rank and part."""
        return list(range(self.rank * parts + part, num_rows, self.world * parts))


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """Join the other processes if torchrun started several of us; leave them at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    # gloo carries the small agreements between the CPUs; nccl, where there is a GPU, the gradients.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE)
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    try:
        yield Ranks(dist.get_rank(), world, local_rank)
    finally:
        dist.destroy_process_group()
