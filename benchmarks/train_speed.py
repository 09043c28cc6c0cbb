"""How fast models train, by Sixfold and by others on the same batches.

    python benchmarks/train_speed.py --json train_speed.json

The numbers are target tokens in a second, padding not counted, of whole steps: forward, loss with label smoothing,
backward, clipping and Adam, in float32. The batches are random tokens with lengths like those of captions, put
together as Sixfold does, and every engine trains on the same ones. Each engine is a process of its own, because
an allocator is tuned for a whole process; they take turns, and those that wait do not compute.

- `sixfold`: the step of `sixfold train`.
- `torch`: `torch.nn.Transformer` between tied embeddings, in a plain loop.
- `huggingface`: `MarianMTModel` in a plain loop; `huggingface-tuned`: with glibc's thresholds raised as ours are;
  `huggingface-mkl`, on AMD's processors: with MKL's fast kernels too, which nobody has there but us.
- `roofline`: the matrix products of such a step with its weights and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from report import Record, publish, record, take_turns
from sixfold.kernels.build import VARIABLE
from sixfold.kernels.mkl import is_underrated
from train_engines import CASES, ENGINES

STEPS = {"tiny": 6, "base": 1}  # in a turn: some seconds
USUAL_KERNELS = ("torch", "huggingface", "huggingface-tuned")  # not those that sixfold.kernels.mkl asks for
UNITS = {"target_tokens_per_second": "1/s", "peak_memory": "MB", "padding_share": "share"}


class Engine:
    """A process that trains when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def train(self, steps: int) -> dict[str, float]:
        """Train some steps; return what was measured."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(steps, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{' '.join(map(str, self.process.args))} failed")  # it has said why
        return json.loads(answer)


@contextmanager
def started(engine: str, case: str) -> Iterator[Engine]:
    """Start an engine; it ends when its input does."""
    program = Path(__file__).with_name("train_engines.py")
    environment = os.environ | ({VARIABLE: "off"} if engine in USUAL_KERNELS else {})
    with subprocess.Popen(
        [sys.executable, str(program), engine, case],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield Engine(process)


def measure(case: str, names: Sequence[str], steps: int, rounds: int) -> Iterator[Record]:
    """Yield the numbers of one size."""
    with ExitStack() as running:
        engines = {name: running.enter_context(started(name, case)) for name in names}
        for engine in engines.values():
            engine.train(min(steps, 2))  # the first steps allocate
        turns = take_turns({name: partial(engine.train, steps) for name, engine in engines.items()}, rounds)
    for name, metrics in turns.items():
        for metric, values in metrics.items():
            yield record("train_speed", case, name, metric, values, UNITS[metric])


def engines_here() -> list[str]:
    """Return the engines that differ on this machine."""
    return [name for name in ENGINES if name != "huggingface-mkl" or is_underrated()]


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=engines_here())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="the tiny model, one short round")
    options = parser.parse_args()
    if options.quick:
        options.cases, options.rounds = ["tiny"], 1
    records = [
        each
        for case in options.cases
        for each in measure(case, options.engines, 2 if options.quick else STEPS[case], options.rounds)
    ]
    publish(records, "Training: whole steps of 4,096 target tokens", options.json)


if __name__ == "__main__":
    main()
