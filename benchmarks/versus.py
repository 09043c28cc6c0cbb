"""Whether a refactor is as fast as the code before it: two checkouts by turns in one run.

    git worktree add ../old COMMIT
    python benchmarks/versus.py ../old

The new checkout is this one unless another is given. Each works in child processes of its own:

- training: whole steps on random tokens, of the tiny preset and of the base preset with 2 layers instead of 6, by
  each checkout's own `benchmarks/train_engines.py`;
- decoding: a test set at once with all cores, and sentence by sentence; beam 4 and 1; float32 and int8;
- serving: `sixfold serve` with 8 clients.

In every round both do the same work, one right after the other, and which of them begins alternates, so that
neither a busy minute nor a slow drift favours one. The result of a case is the median of the rounds' ratios of
speed, new to old, with a 95% interval. The exit code is 1 if an interval lies wholly below 0.97.

Both checkouts need the same model folder: without --model the old one trains a tiny model for 4 minutes, once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import comb
from pathlib import Path

from children import HERE, Child, environment, python, started
from report import Record, publish, record, versions
from serve_load import load
from servers import server
from sixfold.machine import let_threads_sleep, num_cores
from trained import test_text, trained

SLOWER = 0.97  # an interval wholly below it is a loss of speed
CONFIDENCE = 0.95
FEWEST_ROUNDS = 6  # fewer cannot give an interval of this confidence
SIZES = {
    "tiny": {"layers": 4, "d_model": 128, "d_ff": 256, "heads": 4},
    "shrunk base": {"layers": 2, "d_model": 512, "d_ff": 2048, "heads": 8},
}
# What is done in one turn, in about a second or less: many short rounds tell more than a few long ones.
STEPS = {"tiny": 2, "shrunk base": 1}
ALONE = 25  # sentences, one by one
CLIENTS, REQUESTS = 8, 100
# The old checkout's own program does not know every size.
TRAINING_CHILD = """
import json, sys
import train_engines
train_engines.CASES["given"] = json.loads(sys.argv[1])
train_engines.main("sixfold", "given")
"""

Measure = Callable[[], float]


@dataclass(frozen=True)
class Bench:
    """What is compared, and on what."""

    old: Path
    new: Path
    model: Path | None  # training needs none
    text: Sequence[str]

    @property
    def checkouts(self) -> tuple[Path, Path]:
        """Both, the old one first."""
        return self.old, self.new


@dataclass(frozen=True)
class Case:
    """One thing that both checkouts do, with how each measures its speed."""

    name: str
    metric: str
    old: Measure
    new: Measure


@dataclass(frozen=True)
class Comparison:
    """The speeds of both checkouts in a case, round by round."""

    case: Case
    old: list[float]
    new: list[float]

    @property
    def ratios(self) -> list[float]:
        """The new speed divided by the old one, of each round."""
        return [new / old for old, new in zip(self.old, self.new, strict=True)]


# The cases. Each generator keeps its processes running until the next case is asked for.


def training(bench: Bench) -> Iterator[Case]:
    """Yield a case for each size."""
    for name, size in SIZES.items():
        command = python("-c", TRAINING_CHILD, json.dumps(size))
        with ExitStack() as running:
            children = [running.enter_context(started(command, environment(each))) for each in bench.checkouts]
            measures = [partial(training_speed, child, STEPS[name]) for child in children]
            yield Case(f"train {name}", "target_tokens_per_second", *measures)


def training_speed(child: Child, steps: int) -> float:
    """Train some steps; return the tokens in a second."""
    return child.ask(str(steps))["target_tokens_per_second"]


def decoding(bench: Bench) -> Iterator[Case]:
    """Yield a case for each precision, width of the beam and way to hand the text over."""
    alone = random.Random(1).sample(bench.text, min(ALONE, len(bench.text)))
    ways = {"file": [list(bench.text)], "one by one": [[text] for text in alone]}
    program = Path(__file__).with_name("decode_engine.py")
    for precision in ("float32", "int8"):
        command = python(program, bench.model, precision, num_cores())
        with ExitStack() as running:
            children = [running.enter_context(started(command, environment(each))) for each in bench.checkouts]
            for beam in (4, 1):
                for way, searches in ways.items():
                    job = json.dumps({"beam": beam, "searches": searches})
                    measures = [partial(decoding_speed, child, job) for child in children]
                    yield Case(f"decode {precision}, beam {beam}, {way}", "target_tokens_per_second", *measures)


def decoding_speed(child: Child, job: str) -> float:
    """Translate some texts; return the tokens in a second."""
    answer = child.ask(job)
    return answer["tokens"] / answer["seconds"]


def serving(bench: Bench) -> Iterator[Case]:
    """Yield the case of several clients."""
    assert bench.model
    with ExitStack() as running:
        servers = [running.enter_context(server(bench.model, checkout=each)) for each in bench.checkouts]
        measures = [partial(serving_speed, each.port, bench.text) for each in servers]
        yield Case(f"serve {CLIENTS} clients", "requests_per_second", *measures)


def serving_speed(port: int, texts: Sequence[str]) -> float:
    """Send some requests; return how many were answered in a second."""
    tally = asyncio.run(load(port, texts, CLIENTS, seconds=120, most=REQUESTS))
    if set(tally.statuses) != {"200"}:
        raise SystemExit(f"A server answered not only with 200: {dict(tally.statuses)}. Is the model en-de?")
    return tally.metrics()["requests_per_second"]


PARTS = {"train": training, "decode": decoding, "serve": serving}

# The comparison.


def compare(case: Case, seconds: float) -> Comparison:
    """Measure both checkouts in rounds for so many seconds; print and return what was found."""
    case.old()  # what is done once is done before the first round
    case.new()
    found = Comparison(case, [], [])
    sides = [(case.old, found.old), (case.new, found.new)]
    end = time.perf_counter() + seconds
    while len(found.new) < FEWEST_ROUNDS or time.perf_counter() < end:
        for measure, speeds in sides:
            speeds.append(measure())
        sides.reverse()
    low, high = median_interval(found.ratios)
    print(f"{case.name} {statistics.median(found.ratios):.3f} [{low:.3f}, {high:.3f}]", flush=True)
    return found


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return a confidence interval for the median of what the values are drawn from, whatever its distribution.

    It is the interval of the sign test: each value lies below the true median with probability 1/2, so a binomial
    distribution says how many values can be left out at both ends.
    """
    number, ordered = len(values), sorted(values)
    chances = (sum(comb(number, below) for below in range(left + 1)) / 2**number for left in range(number))
    left_out = sum(2 * chance <= 1 - CONFIDENCE for chance in chances) - 1
    if left_out < 0:
        raise ValueError(f"{number} values give no interval of {CONFIDENCE:.0%}: {FEWEST_ROUNDS} do")
    return ordered[left_out], ordered[-1 - left_out]


def records_of(found: Comparison) -> Iterator[Record]:
    """Yield the speed of both, and their ratio with its interval."""
    name, metric = found.case.name, found.case.metric
    for engine, speeds in (("old", found.old), ("new", found.new)):
        yield record("versus", name, engine, metric, speeds, "1/s")
    ratio = record("versus", name, "new/old", "ratio, 95% interval", found.ratios, "")
    low, high = median_interval(found.ratios)
    yield replace(ratio, low=low, high=high)


# What the command line says.


def checkout(name: str) -> Path:
    """Return the folder of a checkout, after asking it which code it runs."""
    folder = Path(name).resolve()
    asked = python("-c", "import sixfold; print(sixfold.__file__)")
    found = subprocess.run(asked, env=environment(folder), capture_output=True, text=True).stdout.strip()
    if not Path(found).is_relative_to(folder / "src"):
        raise argparse.ArgumentTypeError(
            f"expected a checkout of Sixfold, but with {folder}/src Python finds "
            f"{found or 'none'}; make one with: git worktree add {name} COMMIT"
        )
    return folder


def commit(folder: Path) -> str:
    """Return what a checkout has checked out, as far as git knows."""
    asked = ["git", "-C", str(folder), "describe", "--always", "--dirty"]
    return subprocess.run(asked, capture_output=True, text=True).stdout.strip() or "unknown"


def parsed() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=checkout, help="a checkout of the code before")
    parser.add_argument(
        "new", type=checkout, nargs="?", default=HERE, help="a checkout of the code after; this one"
    )
    parser.add_argument("--model", type=Path, help="an en-de model folder that both can read; otherwise trained")
    parser.add_argument("--text", nargs=2, metavar="FILE", help="source and reference")
    parser.add_argument("--only", choices=PARTS, help="leave the rest out")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each case")
    parser.add_argument("--quick", action="store_true", help="256 sentences, 10 seconds: two or three minutes")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure, print, and end with 1 if something became slower."""
    options = parsed()
    if options.quick:
        options.sentences, options.seconds = 256, 10.0
    let_threads_sleep()  # as the command line does; children inherit it
    parts = [options.only] if options.only else list(PARTS)
    model = options.model
    if model is None and parts != ["train"]:
        model = trained("tiny", options.old, sorted((options.old / "src").rglob("*.py")))
    texts, _ = test_text(options.text, options.sentences)
    bench = Bench(options.old, options.new, model, texts)
    cases = chain.from_iterable(PARTS[part](bench) for part in parts)
    found = [compare(case, options.seconds) for case in cases]
    both = versions() | {"old": commit(bench.old), "new": commit(bench.new)}
    records = [replace(each, versions=both) for comparison in found for each in records_of(comparison)]
    publish(records, f"{both['new']} beside {both['old']}", options.json)
    slower = [each.case.name for each in found if median_interval(each.ratios)[1] < SLOWER]
    if slower:
        raise SystemExit(f"slower than {SLOWER:g} times the speed before: {'; '.join(slower)}")


if __name__ == "__main__":
    main()
