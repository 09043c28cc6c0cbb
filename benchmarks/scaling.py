"""How training speed and memory grow with the sentences, the vocabulary, the batch and the corpus.

    python benchmarks/scaling.py --json scaling.json

One thing varies at a time around the tiny model (4 + 4 layers of width 128, vocabulary 8,000, 4,096 tokens a step,
16 tokens a sentence). Every point is a process of its own, so that its peak memory is its own; they take turns.
For the corpus, `sixfold train` itself runs on the phrasebook, repeated until it has so many pairs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from report import Record, as_options, publish, record, run, take_turns
from sixfold.data.corpora import fetch

USUAL = {"sentence length": 16, "vocabulary": 8000, "batch tokens": 4096}
POINTS = {
    "sentence length": (8, 16, 32, 64, 128, 256, 512),
    "vocabulary": (1000, 4000, 8000, 16_000, 32_000),
    "batch tokens": (256, 1024, 4096, 16_384),
}
PAIRS, REPEATS = 29_000, (1, 10, 50)
Measure = Callable[[], dict[str, float]]
UNITS = {"target_tokens_per_second": "1/s", "peak_memory": "MB", "seconds_to_prepare": "s"}


def train_steps(length: int, vocabulary: int, batch_tokens: int, steps: int) -> None:
    """Train on random sentences of one length and print the speed (in a process of its own)."""
    import torch

    from sixfold.machine import num_cores, raise_malloc_thresholds
    from sixfold.models.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig
    from train_engines import steps_of

    raise_malloc_thresholds()
    torch.set_num_threads(num_cores())
    model = EncoderDecoder(EncoderDecoderConfig(**PRESETS["tiny"].model_dump(), vocabulary=vocabulary)).train()
    step, began, sentences = steps_of(model, batch_tokens), 0.0, max(1, batch_tokens // length)
    for number in range(steps + 2):
        if number == 2:  # the first steps allocate
            began = time.perf_counter()
        source, target_in, target_out = torch.randint(5, vocabulary, (3, sentences, length))
        step((source, target_in, target_out))
    speed = steps * sentences * length / (time.perf_counter() - began)
    print(json.dumps({"target_tokens_per_second": speed}))


def measure_steps(point: dict[str, int]) -> dict[str, float]:
    """Measure one point of the first three."""
    steps = max(2, 24_000 // point["batch tokens"])
    child = [sys.executable, __file__, "--child", *map(str, [*point.values(), steps])]
    answer, memory = run(child)
    return json.loads(answer) | {"peak_memory": memory}


def measure_corpus(source: Path, target: Path, folder: Path) -> dict[str, float]:
    """Train a few steps on a corpus with the command itself."""
    settings = (
        *("model.preset=tiny", "data.vocabulary=4000", "train.batch_tokens=4096"),
        *("train.steps=30", "train.checkpoint_every=30", "train.valid_sentences=20"),
    )
    command = [sys.executable, "-m", "sixfold", "train", str(source), str(target), "-o", str(folder)]
    _, memory = run([*command, *as_options(settings)])
    log = map(json.loads, (folder / "training" / "log.jsonl").read_text().splitlines())
    first, *others = [line for line in log if line["kind"] == "step"]
    seconds = others[-1]["seconds"] - first["seconds"]
    return {
        "target_tokens_per_second": sum(line["target_tokens"] for line in others) / seconds,
        "peak_memory": memory,
        "seconds_to_prepare": first["seconds"],
    }


def measure(rounds: int, points: dict[str, tuple[int, ...]], repeats: tuple[int, ...]) -> Iterator[Record]:
    """Yield all records."""
    for name, values in points.items():
        measures = {f"{value:,}": partial(measure_steps, USUAL | {name: value}) for value in values}
        yield from records(name, take_turns(measures, rounds))
    with tempfile.TemporaryDirectory() as scratch:
        yield from records("pairs", take_turns(corpus_measures(Path(scratch), repeats), 1))


def corpus_measures(scratch: Path, repeats: tuple[int, ...]) -> dict[str, Measure]:
    """Write the corpora, and return what measures each."""
    fetch("phrasebook", scratch / "phrasebook", num_pairs=PAIRS)
    texts = {side: (scratch / "phrasebook" / f"train.{side}").read_text(encoding="utf-8") for side in ("en", "de")}
    measures: dict[str, Measure] = {}
    for repeat in repeats:
        paths = [scratch / f"{repeat}.{side}" for side in texts]
        for path, text in zip(paths, texts.values(), strict=True):
            with path.open("w", encoding="utf-8") as file:
                file.writelines(text for _ in range(repeat))
        pairs = repeat * texts["en"].count("\n")
        measures[f"{pairs:,}"] = partial(measure_corpus, *paths, scratch / f"model-{repeat}")
    return measures


def records(name: str, turns: dict[str, dict[str, list[float]]]) -> Iterator[Record]:
    """Yield the records of what varied."""
    for value, metrics in turns.items():
        for metric, numbers in metrics.items():
            yield record("scaling", f"{name} {value}", "sixfold", metric, numbers, UNITS[metric])


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[*POINTS, "pairs"], default=[*POINTS, "pairs"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="two points each, one round")
    parser.add_argument("--child", nargs=4, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train_steps(*options.child)
        return
    points, repeats = POINTS, REPEATS
    if options.quick:
        points, repeats, options.rounds = {name: values[1:3] for name, values in POINTS.items()}, REPEATS[:2], 1
    points = {name: values for name, values in points.items() if name in options.only}
    repeats = repeats if "pairs" in options.only else ()
    publish(list(measure(options.rounds, points, repeats)), "Scaling of training", options.json)


if __name__ == "__main__":
    main()
