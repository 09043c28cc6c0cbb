"""How well language models predict unseen text after so many minutes of training, beside Hugging Face's GPT-2.

    python benchmarks/language_quality.py --corpus wikitext-2 --minutes 10
    python benchmarks/language_quality.py --corpus book.txt --minutes 2 --set model.d_model=192

Ours is `sixfold train` with the automatic recipe, and what `--set` changes. The peer is `GPT2LMHeadModel` with as
many layers of the same width in a plain loop (`language_quality_peer.py`): the same tokenizer, rows and order, as
many tokens a step, AdamW with ours' β, weight decay, clipping and linear decay, and of `--rates` the best on val
after `--sweep-minutes`. All its minutes are steps; of ours reading, tokenizer and validations are a part. Where
there are two cores both train at the same time, each on its own; on one core one after the other. `sixfold
evaluate` measures both: bits per byte, in windows that overlap by half. Test is read once, at the end. Of a file
of one's own the last two twentieths are val and test.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from children import python
from report import Record, as_options, publish, record, run
from trained import kept, made_once

CORPORA = ("wikitext-2", "enwik8")
RATES = (1e-3, 2e-3, 4e-3, 8e-3)
PEER = Path(__file__).with_name("language_quality_peer.py")
SIXFOLD = python("-m", "sixfold")


@dataclass(frozen=True)
class Corpus:
    """A text in three parts."""

    name: str
    folder: Path

    def part(self, split: str) -> str:
        """Return the path of train, val or test."""
        return str(self.folder / f"{split}.txt")


def corpus_of(name: str, scratch: Path) -> Corpus:
    """Get a known corpus, once, or divide a file."""
    if name in CORPORA:
        return Corpus(name, made_once(kept(name), ["corpus", name]))
    content = Path(name).read_bytes()
    cuts = [0, *(content.rindex(b"\n", 0, len(content) * part // 20) + 1 for part in (18, 19)), len(content)]
    for split, begin, end in zip(("train", "val", "test"), cuts, cuts[1:], strict=True):
        (scratch / f"{split}.txt").write_bytes(content[begin:end])
    return Corpus(Path(name).name, scratch)


def ours(corpus: Corpus, options: argparse.Namespace, folder: Path, *settings: str) -> list[str]:
    """Return the command that trains ours."""
    chosen = ["--minutes", f"{options.minutes:g}", "--seed", str(options.seed)]
    chosen += as_options((*options.settings, *settings))
    return [*SIXFOLD, "train", corpus.part("train"), "--valid", corpus.part("val"), "-o", str(folder), *chosen]


def peer(prepared: Path, minutes: float, rate: float, folder: Path) -> list[str]:
    """Return the command that trains the peer on the rows of a run of ours."""
    return python(PEER, prepared, folder, "--minutes", f"{minutes:g}", "--rate", f"{rate:g}")


def on_cores(commands: Sequence[list[str]]) -> list[str]:
    """Run commands, each on a core of its own, as many at a time as there are; return what they print."""
    cores, free = os.sched_getaffinity(0), SimpleQueue[int]()
    for core in cores:
        free.put(core)

    def on_one(command: list[str]) -> str:
        core = free.get()
        try:
            return run(["taskset", "-c", str(core), *command])[0]
        finally:
            free.put(core)

    with ThreadPoolExecutor(len(cores)) as pool:
        return [*pool.map(on_one, commands)]


def bits_per_byte(models: Sequence[Path], text: str) -> list[float]:
    """Return how many bits each model needs for a byte of a text."""
    found = on_cores([[*SIXFOLD, "evaluate", str(model), text, "--json"] for model in models])
    return [float(json.loads(each)["bits_per_byte"]) for each in found]


def sweep(corpus: Corpus, prepared: Path, options: argparse.Namespace, scratch: Path) -> dict[float, float]:
    """Return what the peer reaches on val with each learning rate in a short training."""
    folders = [scratch / f"peer-{rate:g}" for rate in options.rates]
    jobs = zip(options.rates, folders, strict=True)
    on_cores([peer(prepared, options.sweep_minutes, rate, folder) for rate, folder in jobs])
    return dict(zip(options.rates, bits_per_byte(folders, corpus.part("val")), strict=True))


def measured(case: str, engine: str, split: str, bits: float) -> Record:
    """Return the record of one score."""
    return record("language_quality", case, engine, f"bits per byte, {split}", [bits], "bit")


def measure(options: argparse.Namespace, scratch: Path) -> Iterator[Record]:
    """Train both, and yield what they reach."""
    corpus, prepared = corpus_of(options.corpus, scratch), scratch / "prepared"
    run(ours(corpus, options, prepared, "train.steps=1"))
    rate = options.rates[0]
    if len(options.rates) > 1:
        swept = sweep(corpus, prepared, options, scratch)
        rate = min(swept, key=lambda each: swept[each])
        for each, bits in swept.items():
            case = f"{corpus.name}, {options.sweep_minutes:g} min"
            yield measured(case, f"huggingface, rate {each:g}", "val", bits)
    engines = {"sixfold": scratch / "ours", f"huggingface, rate {rate:g}": scratch / "peer"}
    folders = [*engines.values()]
    trained = on_cores([ours(corpus, options, folders[0]), peer(prepared, options.minutes, rate, folders[1])])
    print(trained[1], file=sys.stderr, flush=True)
    for split in ("val", "test"):
        for engine, bits in zip(engines, bits_per_byte(folders, corpus.part(split)), strict=True):
            yield measured(f"{corpus.name}, {options.minutes:g} min", engine, split, bits)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="wikitext-2", help=f"{' or '.join(CORPORA)}, or a file of text")
    parser.add_argument("--minutes", type=float, default=10, help="for each training")
    parser.add_argument(
        "--rates", type=float, nargs="+", default=RATES, help="that the peer tries, if there are several"
    )
    parser.add_argument("--sweep-minutes", type=float, default=1.5, help="for each of these")
    parser.add_argument("--set", dest="settings", action="append", default=[], help="as sixfold train takes it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to keep the models")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="wikitext-2 for 20 seconds, one rate")
    options = parser.parse_args()
    if options.quick:
        options.corpus, options.minutes, options.rates, options.sweep_minutes = "wikitext-2", 0.33, [4e-3], 0.1
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        records = list(measure(options, folder))
    publish(records, "Unseen text after training: fewer bits are better", options.json)


if __name__ == "__main__":
    main()
