"""The processes (ranks) of a distributed run: several under torchrun, otherwise one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from threading import Event, Thread

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # which torch does not declare

from sixfold.errors import TrainingError

PATIENCE = timedelta(days=1)  # for a rank that is alive: the others wait while the first prepares the corpus
SILENCE = 20  # missed heartbeats, one per second, after which a rank counts as dead
LAST_WORDS = 5.0  # seconds for the store to answer at the end


@dataclass(frozen=True)
class Ranks:
    """The rank of this process among all processes."""

    rank: int = 0
    world: int = 1

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
        """Return the first rank's number on every rank, so that all make the same decision."""
        if self.world == 1:
            return value
        tensor = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(tensor, src=0)
        return float(tensor)

    def wrap(self, module: nn.Module) -> nn.Module:
        """Return the module with its gradients averaged over the ranks, if there are several."""
        return nn.parallel.DistributedDataParallel(module) if self.world > 1 else module

    def share(self, num_rows: int, part: int, parts: int) -> list[int]:
        """Return this rank's rows of one part of a batch; every row belongs to exactly one rank and part."""
        return list(range(self.rank * parts + part, num_rows, self.world * parts))


class Heartbeat:
    """Sends a heartbeat to the other ranks every second, and ends this process when one of them misses too many.

    Without it a rank that waits for another could not tell whether that one works or hangs. Heartbeats are
    counted, not the time between them, so that nobody counts as dead after the machine was suspended.
    """

    def __init__(self, rank: int, world: int, store: TCPStore) -> None:
        self.rank, self.store = rank, store
        self.missed = dict.fromkeys(range(world), 0)  # heartbeats
        self.is_over = Event()
        self.threads = [Thread(target=work, daemon=True) for work in (self.beat, self.watch)]
        for thread in self.threads:
            thread.start()

    def beat(self) -> None:
        """Send our heartbeats and read the others', until the store is gone."""
        heard: dict[int, bytes] = {}
        with suppress(RuntimeError):
            for beats in count():
                self.store.set(f"heartbeat of {self.rank}", str(beats))
                for rank in self.missed:
                    last = self.store.get(f"heartbeat of {rank}")
                    if last != heard.get(rank):
                        heard[rank], self.missed[rank] = last, 0
                if self.is_over.wait(1):
                    return

    def watch(self) -> None:
        """Count the heartbeats that each rank misses."""
        while not self.is_over.wait(1):
            for rank in self.missed:
                self.missed[rank] += 1
            silent = [rank for rank, missed in self.missed.items() if missed > SILENCE and rank != self.rank]
            if silent:
                sys.stderr.write(
                    f"error: rank {silent[0]} has not answered for {SILENCE} seconds, so rank {self.rank} ends.\n"
                    "hint: Find out why it hangs, then continue from the last checkpoint with --resume.\n"
                )
                sys.stderr.flush()
                os._exit(1)  # the main thread waits for ever

    def end(self) -> None:
        """Stop sending heartbeats at the end of the run, without counting as dead.

        Waits for the threads: one that uses the store while Python shuts down would abort the process.
        """
        self.is_over.set()
        for thread in self.threads:
            thread.join(LAST_WORDS)


@contextmanager
def joined_ranks() -> Iterator[Ranks]:
    """Join the other processes if torchrun started several of us; leave them at the end."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    # gloo exchanges small numbers between CPUs; nccl exchanges gradients between GPUs.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, timeout=PATIENCE)
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    heartbeat = Heartbeat(dist.get_rank(), world, TCPStore(host, port, is_master=False, timeout=PATIENCE))
    try:
        yield Ranks(dist.get_rank(), world)
    except RuntimeError as error:
        if "Connection" not in str(error):  # closed or reset: torch has no exception class for it
            raise
        raise TrainingError("Another process of this run has ended.", "Its last message says why.") from error
    finally:
        heartbeat.end()
        dist.destroy_process_group()
