"""How fast models train, by Sixfold and by others on the same batches.

    python benchmarks/train_speed.py --json train_speed.json

The numbers are target tokens in a second, padding not counted, of whole steps: forward, loss (of translation with
label smoothing), backward, clipping and Adam, in float32. The batches are random tokens, of translation with
lengths like those of captions, put together as Sixfold does; of a decoder-only model rows that fill its context.
Every engine trains on the same ones. Each engine is a process of its own, because an allocator is tuned for a
whole process; they take turns, and those that wait do not compute.

- `sixfold`: the step of `sixfold train`.
- `torch`: `torch.nn.Transformer`, or `torch.nn.TransformerEncoder` with a causal mask, between tied embeddings, in
  a plain loop.
- `huggingface`: `MarianMTModel` or `GPT2LMHeadModel` in a plain loop; `huggingface-tuned`: with glibc's thresholds
  raised as ours are; `huggingface-mkl`, on AMD's processors: with MKL's fast kernels too, which nobody has there
  but us.
- `roofline`: the matrix products of such a step with its weights and nothing else.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from children import Child, environment, python, started
from language_model_engines import VOCABULARIES
from report import Record, publish, record, take_turns
from sixfold.kernels.build import VARIABLE
from sixfold.kernels.mkl import is_underrated
from train_engines import CASES, ENGINES

STEPS = {"tiny": 6, "base": 1, "gpt-tiny-64": 4, "gpt-tiny": 4, "gpt-small": 1}  # in a turn: some seconds
USUAL_KERNELS = ("torch", "huggingface", "huggingface-tuned")  # not those that sixfold.kernels.mkl asks for
UNITS = {"target_tokens_per_second": "1/s", "peak_memory": "MB", "padding_share": "share"}


def command(engine: str, case: str) -> list[str]:
    """Return the program that trains with one engine."""
    program = "train_engines.py" if case in CASES else "language_model_engines.py"
    return python(Path(__file__).with_name(program), engine, case)


def with_vocabularies(size: str) -> list[str]:
    """Return the cases of a size: a decoder-only model is trained with several vocabularies."""
    return [size] if size in CASES else [f"{size}/{vocabulary}" for vocabulary in VOCABULARIES]


def variables(engine: str) -> dict[str, str]:
    """Return the environment of an engine: Sixfold's kernels are switched off where others would not have them."""
    return environment() | ({VARIABLE: "off"} if engine in USUAL_KERNELS else {})


def train(engine: Child, steps: int) -> dict[str, float]:
    """Train some steps; return what was measured."""
    return engine.ask(str(steps))


def measure(case: str, names: Sequence[str], steps: int, rounds: int) -> Iterator[Record]:
    """Yield the numbers of one size."""
    with ExitStack() as running:
        engines = {name: running.enter_context(started(command(name, case), variables(name))) for name in names}
        for engine in engines.values():
            train(engine, min(steps, 2))  # the first steps allocate
        turns = take_turns({name: partial(train, engine, steps) for name, engine in engines.items()}, rounds)
    for name, metrics in turns.items():
        for metric, values in metrics.items():
            yield record("train_speed", case, name, metric, values, UNITS[metric])


def engines_here() -> list[str]:
    """Return the engines that differ on this machine."""
    return [name for name in ENGINES if name != "huggingface-mkl" or is_underrated()]


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=engines_here())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="the tiny models, one short round")
    options = parser.parse_args()
    if options.quick:
        options.cases, options.rounds = ["tiny", "gpt-tiny"], 1
    records = [
        each
        for size in options.cases
        for case in with_vocabularies(size)
        for each in measure(case, options.engines, 2 if options.quick else STEPS[size], options.rounds)
    ]
    publish(records, "Training: whole steps of 4,096 target tokens", options.json)


if __name__ == "__main__":
    main()
