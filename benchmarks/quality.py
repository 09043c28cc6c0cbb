"""How good the models get: held-out BLEU against the number of pairs, and with one choice changed at a time.

    python benchmarks/quality.py train.en train.de val.en val.de --pairs 3000 10000 29000 --minutes 20
    python benchmarks/quality.py train.en train.de val.en val.de --pairs 5000 --minutes 5 --changes all --seeds 1 2

Every run is `sixfold train` with the automatic recipe on so many pairs, drawn at random, and with one change. The
seeds are those of the training; the pairs are the same for all. The value is the median over the seeds. Without
files it is the phrasebook that is learned, which is no test of quality.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from report import Record, as_options, publish, record, run, take_turns
from sixfold.data.corpora import fetch
from sixfold.data.readers import open_pairs

AUTOMATIC = "automatic recipe"
OWN_MODEL = ("model.norm=pre", "model.dropout=0.3")  # what a model of one's own does not take from the plan
CHANGES = {
    AUTOMATIC: (),
    "one model": ("model.ensemble=1",),
    "two models": ("model.ensemble=2",),
    "four models": ("model.ensemble=4",),
    "dropout 0.1": ("model.dropout=0.1",),
    "dropout 0.2": ("model.dropout=0.2",),
    "dropout 0.4": ("model.dropout=0.4",),
    "constant dropout": ("train.dropout_warmup=0",),
    "no label smoothing": ("train.label_smoothing=0",),
    "moving average 0.998": ("train.ema=0.998",),
    "no averaging": ("train.average=1",),
    "the paper's schedule": ("train.schedule=inverse_square_root", "train.warmup_steps=400"),
    "post-norm": ("model.norm=post", "train.warmup_steps=400"),
    "random initialisation": ("train.initialise=random",),
    "learning rate 0.001": ("train.learning_rate=0.001",),
    "learning rate 0.004": ("train.learning_rate=0.004",),
    "2,048 tokens a step": ("train.batch_tokens=2048",),
    "quick model": (*OWN_MODEL, "model.layers=2", "model.d_model=256", "model.d_ff=512", "model.heads=4"),
    "small model": (*OWN_MODEL, "model.preset=small"),
}
Corpus = tuple[Path, Path]


def train_and_score(
    change: str, train: Corpus, valid: Corpus, minutes: float, seeds: Iterator[int]
) -> dict[str, float]:
    """Train with the next seed and return the scores on the held-out text."""
    sixfold, seed = [sys.executable, "-m", "sixfold"], str(next(seeds))
    with tempfile.TemporaryDirectory() as scratch:
        model, output = Path(scratch) / "model", Path(scratch) / "translations"
        options = ["-o", str(model), "--minutes", str(minutes), "--seed", seed]
        options += as_options(CHANGES[change])
        run([*sixfold, "train", *map(str, train), "--valid", *map(str, valid), *options])
        output.write_text(run([*sixfold, "translate", str(model), str(valid[0])])[0], encoding="utf-8")
        evaluate = [*sixfold, "evaluate", str(output), *map(str, valid), "--json"]
        cased, lowercased = (scores(run([*evaluate, *more])[0]) for more in ([], ["--lowercase"]))
    print(f"{change}, seed {seed}: {cased}", file=sys.stderr, flush=True)  # the table comes when all is done
    return cased | {"BLEU, lowercased": lowercased["BLEU"]}


def scores(evaluation: str) -> dict[str, float]:
    """Return the scores that `sixfold evaluate --json` printed."""
    return {metric["name"]: metric["value"] for metric in json.loads(evaluation)["metrics"]}


def draw(corpus: Corpus, num_pairs: int, folder: Path) -> Corpus:
    """Write so many pairs of a corpus, drawn at random, into files of their own."""
    pairs = list(open_pairs(*corpus))
    if len(pairs) < num_pairs:
        raise SystemExit(f"{corpus[0]} and {corpus[1]} hold {len(pairs):,} pairs, not {num_pairs:,}")
    chosen = random.Random(1).sample(pairs, num_pairs)
    source, target = folder / f"{num_pairs}.source", folder / f"{num_pairs}.target"
    source.write_text("".join(f"{pair.source}\n" for pair in chosen), encoding="utf-8")
    target.write_text("".join(f"{pair.target}\n" for pair in chosen), encoding="utf-8")
    return source, target


def phrasebook(num_pairs: int, folder: Path) -> list[Path]:
    """Write the phrasebook with so many pairs to train on."""
    fetch("phrasebook", folder, num_pairs=num_pairs)
    return [folder / f"{split}.{side}" for split in ("train", "val") for side in ("en", "de")]


def measure(corpora: list[Corpus], valid: Corpus, options: argparse.Namespace) -> Iterator[Record]:
    """Train on all corpora with all changes, seed by seed, and yield the scores."""
    for num_pairs, train in zip(options.pairs, corpora, strict=True):
        measures = {
            change: partial(train_and_score, change, train, valid, options.minutes, iter(options.seeds))
            for change in options.changes
        }
        for change, metrics in take_turns(measures, len(options.seeds)).items():
            for metric, values in metrics.items():
                yield record("quality", f"{num_pairs:,} pairs", change, metric, values, "")


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="*", help="train and held-out, both languages of each")
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000])
    parser.add_argument("--minutes", type=float, default=10, help="for each training")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--changes", nargs="+", choices=[*CHANGES, "all"], default=[AUTOMATIC])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="5,000 pairs for 24 seconds")
    options = parser.parse_args()
    if len(options.text) not in (0, 4):
        parser.error(f"give four files, train and held-out in both languages, or none; got {len(options.text)}")
    if options.quick:
        options.pairs, options.minutes = [5000], 0.4
    if "all" in options.changes:
        options.changes = [*CHANGES]
    with tempfile.TemporaryDirectory() as scratch:
        source, target, *held_out = options.text or phrasebook(max(options.pairs), Path(scratch))
        corpora = [draw((source, target), num_pairs, Path(scratch)) for num_pairs in options.pairs]
        records = list(measure(corpora, (held_out[0], held_out[1]), options))
    publish(records, f"Held-out quality after {options.minutes:g} minutes", options.json)


if __name__ == "__main__":
    main()
