"""Whether `sixfold plan` is right: its predictions, compared with the training itself.

    python benchmarks/plan_accuracy.py --json plan_accuracy.json

Each case is planned and then trained to its end, on the phrasebook or on two files of your own. The value is the
measurement divided by the prediction: 1 is right, and 0.8 to 1.2 is right within 20%.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

from report import Record, as_options, publish, record, run, take_turns
from sixfold.data.corpora import fetch

PAIRS = 29_000
CASES = {
    "quick": ("model.layers=2", "model.d_model=256", "model.d_ff=512", "model.heads=4", "train.batch_tokens=384"),
    "tiny": ("model.preset=tiny", "train.batch_tokens=4096"),
    "small": ("model.preset=small", "train.batch_tokens=1024"),
    "two models": ("model.preset=tiny", "model.ensemble=2", "train.batch_tokens=1024"),
}
STEPS = {"quick": 1200, "tiny": 240, "small": 500, "two models": 500}
FEW_STEPS = 60
CHECKPOINTS = 6


def compare(case: str, steps: int, corpus: list[str]) -> dict[str, float]:
    """Plan a training, do it, and return the measurements divided by the predictions."""
    chosen = (*CASES[case], f"train.steps={steps}", f"train.checkpoint_every={steps // CHECKPOINTS}")
    settings = as_options((*chosen, "train.patience=0"))
    sixfold = [sys.executable, "-m", "sixfold"]
    predicted = json.loads(run([*sixfold, "plan", *corpus, *settings, "--json"])[0])
    with tempfile.TemporaryDirectory() as scratch:
        folder, began = Path(scratch) / "model", time.monotonic()
        _, memory = run([*sixfold, "train", *corpus, "-o", str(folder), *settings])
        seconds = time.monotonic() - began
        log = [json.loads(line) for line in (folder / "training" / "log.jsonl").read_text().splitlines()]
        disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {
        "seconds": seconds / predicted["seconds"],
        "seconds a step": seconds_a_step(log) / predicted["speed"]["seconds_a_step"],
        "memory": memory * 2**20 / predicted["memory_bytes"],
        "disk": disk / predicted["disk_bytes"],
    }


def seconds_a_step(log: list[dict[str, float]]) -> float:
    """Return the mean time from one step to the next, without those between which a validation lies."""
    times = [
        after["seconds"] - before["seconds"]
        for before, after in pairwise(log)
        if before["kind"] == after["kind"] == "step"
    ]
    return sum(times) / len(times)


def measure(steps: dict[str, int], corpus: list[str], rounds: int) -> Iterator[Record]:
    """Yield the ratios of all cases, each with its number of steps."""
    turns = take_turns({case: partial(compare, case, some, corpus) for case, some in steps.items()}, rounds)
    for case, metrics in turns.items():
        for metric, values in metrics.items():
            yield record("plan_accuracy", case, "sixfold", metric, values, "of plan")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="*", help="source and target text; by default the phrasebook")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="the tiny model, a few steps: rougher")
    options = parser.parse_args()
    steps = {"tiny": FEW_STEPS} if options.quick else {case: STEPS[case] for case in options.cases}
    with tempfile.TemporaryDirectory() as scratch:
        corpus = options.corpus
        if not corpus:
            fetch("phrasebook", Path(scratch) / "phrasebook", num_pairs=PAIRS)
            corpus = [str(Path(scratch) / "phrasebook" / f"train.{side}") for side in ("en", "de")]
        records = list(measure(steps, corpus, options.rounds))
    publish(records, "Training: measured, divided by predicted", options.json)


if __name__ == "__main__":
    main()
