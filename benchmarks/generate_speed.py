"""How fast text is generated, by Sixfold and by others with the same weights.

    python benchmarks/generate_speed.py --json generate_speed.json

A prompt of 32 tokens is continued by 128, always the most probable one that does not end the text: one text, and
for the size of GPT-2 (random weights) also eight side by side. A prompt of 512 tokens shows how fast prompts are
read. Each engine is a process of its own with both cores; they take turns, and those that wait do not compute.
Before that every engine generates once, and the tokens that differ from Sixfold's at the same precision are
counted: from the first place where rounding chose another token, the texts differ.

- `sixfold`, `sixfold-int8`: ours.
- `ctranslate2`, `ctranslate2-int8`: OpenNMT's engine in C++.
- `huggingface`: `generate` of transformers with its cache, in float32.
- `llama.cpp`, `llama.cpp-q8_0`: of `llama-cpp-python`, compiled for this machine; F32 and 8 bits.
- `roofline`: how much memory all cores read in a second. One text needs all weights read for each token; which
  share of the bandwidth that is stands beside every engine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from children import HERE, Child, environment, python, started
from generate_models import prepared
from report import Record, publish, record, take_turns
from sixfold.kernels.build import VARIABLE

ENGINES = {
    "gpt2": ("sixfold", "sixfold-int8", "ctranslate2", "ctranslate2-int8", "huggingface", "roofline"),
    "smollm2": ("sixfold", "sixfold-int8", "llama.cpp", "llama.cpp-q8_0", "huggingface", "roofline"),
}
CASES = {"gpt2-1": ("gpt2", 1), "gpt2-8": ("gpt2", 8), "smollm2-1": ("smollm2", 1)}  # models, texts side by side
PACKAGES = {"ctranslate2": "ctranslate2", "llama.cpp": "llama_cpp", "huggingface": "transformers"}
PROMPT, LONG_PROMPT, NEW_TOKENS = 32, 512, 128
BYTES_OF_WEIGHT = {"int8": 1.0, "q8_0": 34 / 32}  # in float32 there are 4
UNITS = {
    "tokens_per_second": "1/s",
    "time_to_first_token": "ms",
    "prompt_tokens_per_second": "1/s",
    "bandwidth": "GB/s",
    "bandwidth_share": "share",
    "different_tokens": "",
}

Rows = list[list[int]]  # tokens
Turns = dict[str, dict[str, list[float]]]  # the values of every metric of every engine


@dataclass(frozen=True)
class Case:
    """A model, and how many texts are written side by side."""

    name: str
    model: str
    folder: Path
    streams: int
    new_tokens: int

    def prompts(self, length: int) -> Rows:
        """Return prompts of so many tokens: of a licence if the model has learned to read, random ones if not."""
        if self.model == "gpt2":
            numbers = random.Random(1)
            return [[numbers.randrange(50_000) for _ in range(length)] for _ in range(self.streams)]
        from sixfold.models.folder import load_any_tokenizer, load_info

        folder = self.folder / "sixfold"
        text = " ".join((HERE / "LICENSE").read_text(encoding="utf-8").split())
        tokens = load_any_tokenizer(folder, load_info(folder)).encode(text)
        return [tokens[length * place : length * (place + 1)] for place in range(self.streams)]

    def num_weights(self) -> int:
        """Return how many weights are read for a token: all but the table of positions."""
        from safetensors import safe_open

        with safe_open(self.folder / "sixfold/weights.safetensors", "pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        return sum(math.prod(shape) for name, shape in shapes.items() if "position" not in name)


def generate(engine: Child, prompts: Rows, new_tokens: int) -> tuple[Rows, float]:
    """Let an engine continue prompts; return the tokens and the seconds that it took."""
    answer = engine.ask(json.dumps({"prompts": prompts, "new_tokens": new_tokens}))
    return answer["tokens"], answer["seconds"]


def measure_engine(engine: Child, case: Case) -> dict[str, float]:
    """Continue the prompts, write only their first tokens, and if there is one prompt read a long one."""
    prompts = case.prompts(PROMPT)
    measured = {
        "tokens_per_second": case.streams * case.new_tokens / generate(engine, prompts, case.new_tokens)[1],
        "time_to_first_token": 1000 * generate(engine, prompts, 1)[1],
    }
    if case.streams == 1:
        measured["prompt_tokens_per_second"] = LONG_PROMPT / generate(engine, case.prompts(LONG_PROMPT), 1)[1]
    return measured


def measure_bandwidth(engine: Child) -> dict[str, float]:
    """Read memory with all cores."""
    return {"bandwidth": engine.ask("{}")["bandwidth"] / 1e9}


def add_shares(turns: Turns, num_weights: int) -> None:
    """Add which share of the bandwidth each engine uses that reads all weights once for each token."""
    bandwidth = 1e9 * statistics.median(turns["roofline"]["bandwidth"])
    for name, metrics in turns.items():
        size = num_weights * BYTES_OF_WEIGHT.get(name.partition("-")[2], 4)
        if speeds := metrics.get("tokens_per_second"):
            metrics["bandwidth_share"] = [speed * size / bandwidth for speed in speeds]


def num_different(texts: Mapping[str, Rows], name: str) -> int:
    """Return how many tokens of an engine are not Sixfold's at the same precision."""
    ours = texts["sixfold-int8" if "-" in name else "sixfold"]
    return sum(
        token != our
        for row, our_row in zip(texts[name], ours, strict=True)
        for token, our in zip(row, our_row, strict=True)
    )


def measure(case: Case, names: Sequence[str], rounds: int) -> Iterator[Record]:
    """Yield the numbers of one case."""
    with ExitStack() as running:
        engines = {name: running.enter_context(started(command(name, case), variables(name))) for name in names}
        writers = {name: engine for name, engine in engines.items() if name != "roofline"}
        texts = {
            name: generate(writer, case.prompts(PROMPT), case.new_tokens)[0] for name, writer in writers.items()
        }
        measures = {name: partial(measure_engine, writer, case) for name, writer in writers.items()}
        if "roofline" in engines:
            measures["roofline"] = partial(measure_bandwidth, engines["roofline"])
        turns = take_turns(measures, rounds)
    if case.streams == 1 and "roofline" in names:
        add_shares(turns, case.num_weights())
    for name in texts.keys() - {"sixfold", "sixfold-int8"}:
        turns[name]["different_tokens"] = [num_different(texts, name)]
    for name, metrics in turns.items():
        for metric, values in metrics.items():
            yield record("generate_speed", case.name, name, metric, values, UNITS[metric])


def command(engine: str, case: Case) -> list[str]:
    """Return the program that generates with one engine."""
    return python(Path(__file__).with_name("generate_engines.py"), engine, case.folder)


def variables(engine: str) -> dict[str, str]:
    """Return the environment of an engine: others do not have Sixfold's kernels."""
    return environment() | ({} if engine.startswith("sixfold") else {VARIABLE: "off"})


def is_here(engine: str) -> bool:
    """Return whether the package of an engine is installed."""
    package = PACKAGES.get(engine.partition("-")[0], "sixfold")
    return importlib.util.find_spec(package) is not None


def main() -> None:
    """Read the options, measure, print."""
    every = [*dict.fromkeys(name for names in ENGINES.values() for name in names)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--engines", nargs="+", choices=every, default=[*filter(is_here, every)])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="one text of GPT-2's size, 32 new tokens, two rounds")
    options = parser.parse_args()
    if options.quick:
        options.cases, options.rounds = ["gpt2-1"], 2
    new_tokens = 32 if options.quick else NEW_TOKENS
    records = []
    for name in options.cases:
        model, streams = CASES[name]
        case = Case(name, model, prepared(model), streams, new_tokens)
        records += measure(case, [each for each in ENGINES[model] if each in options.engines], options.rounds)
    publish(records, f"Generating after a prompt of {PROMPT} tokens", options.json)


if __name__ == "__main__":
    main()
