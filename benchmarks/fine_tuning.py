"""What fine-tuning gains on a new kind of text and loses on the base's own, by learning rate.

    python benchmarks/fine_tuning.py MODEL new.en new.de test.en test.de own-test.en own-test.de --rates 0 2e-4

The first engine is the base itself. A rate of 0 stands for the one that the plan chooses, with the bound on what
may be forgotten; with any other rate that bound is lifted, so that the rate alone decides.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from report import Record, as_options, publish, record, run

SIXFOLD = [sys.executable, "-m", "sixfold"]
AUTOMATIC = 0.0
BASE = "base"


def fine_tuned(base: Path, text: list[Path], rate: float, folder: Path) -> Path:
    """Fine-tune a model with a learning rate and return its folder."""
    settings = [] if rate == AUTOMATIC else [f"train.learning_rate={rate}", "train.max_forgetting=0"]
    run([*SIXFOLD, "train", *map(str, text), "--init", str(base), "-o", str(folder), *as_options(settings)])
    return folder


def bleu_of(model: Path, source: Path, target: Path, scratch: Path) -> float:
    """Translate a test set with a model's own search and return its BLEU."""
    output = scratch / "translations"
    output.write_text(run([*SIXFOLD, "translate", str(model), str(source)])[0], encoding="utf-8")
    found = json.loads(run([*SIXFOLD, "evaluate", str(output), str(source), str(target), "--json"])[0])
    return next(float(metric["value"]) for metric in found["metrics"] if metric["name"] == "BLEU")


def measure(options: argparse.Namespace, scratch: Path) -> Iterator[Record]:
    """Yield the scores of the base, and of what each rate makes of it, on both test sets."""
    models = {BASE: options.base}
    for rate in options.rates:
        name = "automatic" if rate == AUTOMATIC else f"rate {rate:g}"
        models[name] = fine_tuned(options.base, options.text[:2], rate, scratch / name)
    for name, model in models.items():
        for case, test in (("new text", options.text[2:4]), ("the base's own text", options.text[4:])):
            yield record("fine_tuning", case, name, "BLEU", [bleu_of(model, *test, scratch)], "")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="the model to fine-tune")
    parser.add_argument("text", type=Path, nargs=6, help="new text, its test set, the base's own test set")
    parser.add_argument("--rates", type=float, nargs="+", default=[AUTOMATIC])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        records = list(measure(options, Path(scratch)))
    publish(records, "BLEU before and after fine-tuning", options.json)


if __name__ == "__main__":
    main()
