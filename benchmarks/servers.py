"""Servers that benchmarks start: `sixfold serve` of a checkout, in processes of its own."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from children import HERE, environment, python


@dataclass
class Running:
    """A server and its workers."""

    process: subprocess.Popen[str]
    port: int

    def memory(self) -> float:
        """Return the memory of all its processes, in MiB; what they share counts once."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sum(proportional_memory(pid) for pid in (self.process.pid, *map(int, children))) / 1024


def proportional_memory(pid: int) -> int:
    """Return the memory of a process in KiB."""
    found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) if found else 0


@contextmanager
def server(model: Path, *options: str, checkout: Path = HERE) -> Iterator[Running]:
    """Start `sixfold serve` of a checkout, and end it."""
    command = python("-m", "sixfold", "serve", model, "--port", "0", *options)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(checkout)
    )
    assert process.stdout
    try:
        address = re.search(r":(\d+)", process.stdout.readline())
        if address is None:
            raise SystemExit(f"{' '.join(command)} did not start: run it with {checkout} to see why")
        wait_until_listening(int(address[1]))
        yield Running(process, int(address[1]))
    finally:
        process.kill()
        process.wait()


def wait_until_listening(port: int) -> None:
    """Wait until connections are accepted, which is a moment after the address is announced."""
    for _ in range(200):
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise SystemExit(f"The server announced port {port}, but did not listen there within 10 seconds.")
