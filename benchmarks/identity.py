"""Whether a refactor changed any result: two checkouts do the same work on one machine, and all of it is compared.

    python benchmarks/identity.py OLD_CHECKOUT [NEW_CHECKOUT]

Each checkout runs its own command line in processes of its own. It generates a corpus, trains on it with a shrunk
`paper-base`, with the automatic recipe and as an ensemble of two, scores and translates with what it trained, and
translates with the stored models of the old checkout's tests/compat. Compared to the bit: the corpus, the loss of
every step, every tensor of the last checkpoint (weights and optimizer) and of the published folder, and every
log-probability, score and text. Tensors that were renamed are found by the table RENAMED.

The exit code is 0 if all is equal, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

from report import as_options, counted, write_records

# How the old checkout's tensors are called in the new one, where the new one has none of the old name.
RENAMED = [
    (r"\bembedding\.", "source.embedding."),
    (r"\bsource_positions\.", "source.positions."),
    (r"\btarget_positions\.", "target.positions."),
    (r"\b(encoder\.layers\.\d+)\.attention\.", r"\1.self_attention."),
    (r"\b(encoder\.layers\.\d+)\.attention_residual\.norm\.", r"\1.self_attention_norm."),
    (r"\b(self_attention|cross_attention|feed_forward)_residual\.norm\.", r"\1_norm."),
]
SHAPE = ("model.layers=2", "model.d_model=64", "model.d_ff=128", "model.heads=4")
SHRUNK = (*SHAPE, "data.vocabulary=1000", "train.batch_tokens=1024", "train.warmup_steps=30")
RETIRED = ("train.both_ways=0", "train.ema=0")  # what only one of the automatic recipes does
TWO_MODELS = "model.members=2"  # the former name of model.ensemble, which both checkouts understand
CASES = {
    "paper-base, shrunk": ["--recipe", "paper-base", *as_options(SHRUNK)],
    "automatic recipe": as_options(RETIRED),
    "ensemble of two": as_options((*RETIRED, TWO_MODELS)),
}
CORPUS_PAIRS, VALID_SENTENCES = 3000, 50
SEARCHES = {"beam 1": ("--beam", "1"), "3 best": ("--n-best", "3", "--json")}
OF_A_TRANSLATION = ("text", "score", "log_probability", "num_tokens")  # what is compared of its JSON
ORIGIN = "import importlib.util; print(importlib.util.find_spec('sixfold').origin)"

Things = Mapping[str, object]  # what is compared: each text, number or tensor by its name
read_json = partial(json.loads, parse_float=str, parse_constant=str)  # numbers as written: -0.0 is not 0.0


@dataclass(frozen=True)
class Effort:
    """How much is computed."""

    steps: dict[str, int]  # of each case
    scored: int  # pairs
    translated: int  # sentences, by each model that was trained


FULL = Effort(dict(zip(CASES, (60, 60, 20), strict=True)), scored=200, translated=20)
QUICK = Effort(dict(zip(CASES, (20, 20, 10), strict=True)), scored=40, translated=5)


@dataclass(frozen=True)
class Checkout:
    """A version of Sixfold, and the folder that it works in."""

    root: Path
    folder: Path

    def run(self, *words: str) -> str:
        """Run Python with this version of Sixfold and return what it prints."""
        command = [sys.executable, "-P", *words]
        environment = os.environ | {"PYTHONPATH": str(self.root / "src")}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            raise SystemExit(f"In {self.root} this failed: {' '.join(command)}\n{done.stderr}")
        return done.stdout

    def sixfold(self, *words: str) -> str:
        """Run a command of Sixfold's command line and return what it prints."""
        return self.run("-m", "sixfold", *words)

    def check(self) -> None:
        """Refuse a folder whose Sixfold is not the one that Python finds."""
        expected, found = self.root / "src/sixfold/__init__.py", self.run("-c", ORIGIN).strip()
        if not expected.is_file() or not expected.samefile(found):
            raise SystemExit(f"{self.root} must be a checkout of Sixfold, but Python imports {found}.")


@dataclass(frozen=True)
class Comparison:
    """What came of comparing the same things of both checkouts."""

    case: str
    what: str
    compared: int
    different: int
    first: str  # what differs first, and how

    @property
    def is_equal(self) -> bool:
        """Whether there was something to compare, and nothing differs."""
        return self.compared > 0 and self.different == 0


def results(checkout: Checkout, effort: Effort, stored: Path) -> Iterator[tuple[str, str, Things]]:
    """Do all the work with a checkout; yield what is to be compared, with its case and what it is."""
    checkout.sixfold("corpus", "phrasebook", "--pairs", str(CORPUS_PAIRS), "-o", "corpus")
    yield "corpus", "lines", by_line(sorted((checkout.folder / "corpus").iterdir()))
    for side in ("en", "de"):
        lines = (checkout.folder / "corpus" / f"test.{side}").read_text(encoding="utf-8").split("\n")
        for name, number in (("scored", effort.scored), ("translated", effort.translated)):
            (checkout.folder / f"{name}.{side}").write_text("\n".join(lines[:number]) + "\n", encoding="utf-8")
    for case, options in CASES.items():
        for what, things in trained(checkout, case, options, effort.steps[case]):
            yield case, what, things
    for model in sorted(stored.glob("format-*")):
        for what, things in translated(checkout, model, stored / f"source-{model.name}.txt"):
            yield model.name, what, things


def trained(checkout: Checkout, case: str, options: list[str], steps: int) -> Iterator[tuple[str, Things]]:
    """Train a model and use it; yield what is to be compared."""
    length = (f"train.steps={steps}", f"train.checkpoint_every={steps // 2}")
    settings = as_options((*length, f"train.valid_sentences={VALID_SENTENCES}"))
    texts = ("corpus/train.en", "corpus/train.de", "--valid", "corpus/val.en", "corpus/val.de")
    checkout.sixfold("train", *texts, "-o", case, "--seed", "1", "--device", "cpu", *options, *settings)
    folder = checkout.folder / case
    checkpoint = max((folder / "training/checkpoints").glob("step-*"))
    yield "losses", losses(folder / "training/log.jsonl")
    yield "weights of the checkpoint", tensors([checkpoint / "weights.safetensors"])
    yield "optimizer's tensors", tensors([checkpoint / "optimizer.safetensors"])
    yield "published weights", tensors(folder.glob("weights*.safetensors"))
    rows = checkout.sixfold("score", case, "scored.en", "scored.de", "--json", "--device", "cpu").splitlines()
    yield "scores", {f"pair {n}": read_json(row)["log_probability"] for n, row in enumerate(rows, start=1)}
    yield "translations", translations(checkout, folder, Path("translated.en"), SEARCHES["3 best"])


def translated(checkout: Checkout, model: Path, source: Path) -> Iterator[tuple[str, Things]]:
    """Translate with a stored model in several ways; yield what is to be compared."""
    for name, options in {"default beam": (), **SEARCHES}.items():
        yield f"translations, {name}", translations(checkout, model, source, options)


def translations(checkout: Checkout, model: Path, source: Path, options: Iterable[str]) -> Things:
    """Return the translations of a text: each as it is written, or what its JSON tells of all that were found."""
    output = checkout.sixfold("translate", str(model), str(source), "--device", "cpu", *options)
    lines = output.removesuffix("\n").split("\n")
    if "--json" not in options:
        return {f"line {number}": line for number, line in enumerate(lines, start=1)}
    return {
        f"line {number}, translation {place}, {key}": found[key]
        for number, line in enumerate(lines, start=1)
        for place, found in enumerate(read_json(line)["translations"], start=1)
        for key in OF_A_TRANSLATION
    }


def by_line(files: Iterable[Path]) -> Things:
    """Return the lines of some files."""
    return {
        f"{file.name}, line {number}": line
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), start=1)
    }


def losses(log: Path) -> Things:
    """Return the loss of each step."""
    records = map(read_json, log.read_text(encoding="utf-8").splitlines())
    return {f"step {each['step']}": each["loss"] for each in records if each["kind"] == "step"}


def tensors(files: Iterable[Path]) -> Things:
    """Return the tensors of some files; of several files, each is a member of an ensemble."""
    ordered = sorted(files, key=place_of)
    found: dict[str, object] = {}
    for member, file in enumerate(ordered):
        prefix = f"models.{member}." if len(ordered) > 1 else ""
        found.update({prefix + name: tensor for name, tensor in load_file(file).items()})
    return found


def place_of(file: Path) -> int:
    """Return which file of an ensemble this is: weights, weights-2, weights-3, …"""
    number = re.search(r"-(\d+)$", file.stem)
    return int(number[1]) if number else 1


def compare_all(before: Checkout, after: Checkout, effort: Effort) -> list[Comparison]:
    """Let both checkouts work, side by side because much of it is waiting for Python to start; compare."""
    stored = before.root / "tests/compat"
    if not any(stored.glob("format-*")):
        raise SystemExit(f"The old checkout must hold stored models, but there is no folder format-* in {stored}.")
    with ThreadPoolExecutor(2) as pool:
        old, new = pool.map(lambda checkout: list(results(checkout, effort, stored)), (before, after))
    return [
        compare(case, what, things, others) for (case, what, things), (_, _, others) in zip(old, new, strict=True)
    ]


def compare(case: str, what: str, old: Things, new: Things) -> Comparison:
    """Compare things by their names; what only one of the checkouts has differs too."""
    names = {name: new_name(name, new) for name in old}
    pairs = [(name, difference(old[name], new.get(other))) for name, other in names.items()]
    differences = [f"{name}: {how}" for name, how in pairs if how]
    differences += [f"{name}: only in the new checkout" for name in sorted(new.keys() - names.values())]
    return Comparison(case, what, len(old), len(differences), differences[0] if differences else "")


def new_name(name: str, known: Things) -> str:
    """Return what a thing of the old checkout is called in the new one."""
    if name in known:
        return name
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name


def difference(old: object, new: object) -> str:
    """Return how two things differ, or nothing if they are equal to the bit."""
    if new is None:
        return "only in the old checkout"
    if not (isinstance(old, np.ndarray) and isinstance(new, np.ndarray)):
        return "" if old == new else f"{old!r} became {new!r}"
    if (old.dtype, old.shape) != (new.dtype, new.shape):
        return f"{old.dtype} {old.shape} became {new.dtype} {new.shape}"
    return "" if old.tobytes() == new.tobytes() else f"values differ by up to {np.abs(old - new).max():.3g}"


def show(comparisons: list[Comparison], title: str) -> None:
    """Print the table."""
    table = Table(title=title)
    for heading in ("case", "what"):
        table.add_column(heading)
    for heading in ("compared", "different"):
        table.add_column(heading, justify="right")
    table.add_column("the first that differs", overflow="fold")
    for each in comparisons:
        first = each.first or ("" if each.compared else "there was nothing to compare")
        table.add_row(each.case, each.what, f"{each.compared:,}", f"{each.different:,}", first)
    Console().print(table)


def main() -> int:
    """Read the options, compare, print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="a checkout of the version before")
    parser.add_argument("new", type=Path, nargs="?", default=Path(__file__).parents[1], help="by default this one")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer steps, pairs and sentences")
    options = parser.parse_args()
    effort = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        before, after = Checkout(options.old.resolve(), Path(old)), Checkout(options.new.resolve(), Path(new))
        before.check()
        after.check()
        comparisons = compare_all(before, after, effort)
    show(comparisons, f"{before.root} and {after.root}")
    records = [
        counted("identity", each.case, "sixfold", f"{each.what}: {metric}", getattr(each, metric), "count")
        for each in comparisons
        for metric in ("compared", "different")
    ]
    write_records(records, options.json)
    return 0 if all(each.is_equal for each in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
