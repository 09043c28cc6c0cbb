"""Sentences to vectors: how many a second beside Hugging Face and onnxruntime, and how alike.

    python benchmarks/embed_speed.py TEXTS [--quick] [--json FILE]

TEXTS is a file with a sentence a line, of which the first thousand are taken; all-MiniLM-L6-v2 is fetched by name.
Every engine is a process of its own with all cores that it may use; they take turns. Time counts from raw text to
vectors in memory. The others get batches of 32 sorted by length, as sentence-transformers makes them. The graph of
onnxruntime is made by `torch.onnx.export`, its int8 weights by `quantize_dynamic`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from report import Record, publish, record, take_turns

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Vectors]
NUM_TEXTS, BATCH = 1000, 32
NEIGHBOURS = 10


# Engines: each gets a model and gives the function from texts to vectors.


def sixfold(folder: Path, precision: str) -> Embed:
    """Embed with a model folder."""
    import sixfold

    return sixfold.load(folder / "sixfold", precision=precision).embed  # type: ignore[arg-type]


def huggingface(folder: Path, _: str) -> Embed:
    """Embed with transformers."""
    import torch
    import transformers

    model = transformers.BertModel.from_pretrained(folder / "huggingface").eval()

    @torch.inference_mode()
    def hidden(inputs: dict[str, NDArray[np.int64]]) -> Vectors:
        tensors = {name: torch.from_numpy(each) for name, each in inputs.items()}
        return np.asarray(model(**tensors).last_hidden_state.numpy())

    return partial(embed_in_batches, tokenizer_of(folder), hidden)


def onnxruntime(folder: Path, precision: str) -> Embed:
    """Embed with onnxruntime."""
    import onnxruntime as engine

    session = engine.InferenceSession(str(folder / f"{precision}.onnx"), providers=["CPUExecutionProvider"])
    names = {each.name for each in session.get_inputs()}

    def hidden(inputs: dict[str, NDArray[np.int64]]) -> Vectors:
        return np.asarray(session.run(None, {name: each for name, each in inputs.items() if name in names})[0])

    return partial(embed_in_batches, tokenizer_of(folder), hidden)


def tokenizer_of(folder: Path) -> Callable[..., dict[str, NDArray[np.int64]]]:
    """Return the tokenizer of the published model."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "huggingface")
    return partial(tokenizer, padding=True, truncation=True, max_length=256, return_tensors="np")


def embed_in_batches(
    tokenizer: Callable[..., dict[str, NDArray[np.int64]]],
    hidden: Callable[[dict[str, NDArray[np.int64]]], Vectors],
    texts: Sequence[str],
) -> Vectors:
    """Embed texts in batches of similar length, as sentence-transformers does."""
    order = np.argsort([-len(text) for text in texts])
    found: list[Vectors] = []
    for begin in range(0, len(order), BATCH):
        inputs = dict(tokenizer([texts[i] for i in order[begin : begin + BATCH]]))
        present = inputs["attention_mask"][:, :, None]
        means = (hidden(inputs) * present).sum(axis=1) / present.sum(axis=1)
        found.append(means / np.linalg.norm(means, axis=1, keepdims=True))
    vectors = np.empty_like(np.concatenate(found))
    vectors[order] = np.concatenate(found)
    return vectors


ENGINES: dict[str, tuple[Callable[[Path, str], Embed], str]] = {
    "sixfold": (sixfold, "float32"),
    "sixfold int8": (sixfold, "int8"),
    "huggingface": (huggingface, "float32"),
    "onnxruntime": (onnxruntime, "float32"),
    "onnxruntime int8": (onnxruntime, "int8"),
}


def serve(name: str, folder: Path, texts: Sequence[str]) -> None:
    """Embed the texts once for each line that comes, and say how many a second."""
    engine, precision = ENGINES[name]
    embed = engine(folder, precision)
    np.save(folder / f"{name}.npy", embed(texts))
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        embed(texts)
        print(len(texts) / (time.perf_counter() - begin), flush=True)


# The parent: models, turns, and what agrees.


def write_models(folder: Path) -> None:
    """Write the published model, ours, and the graphs of onnxruntime."""
    import shutil

    import torch
    import transformers
    from onnxruntime.quantization import quantize_dynamic

    from sixfold.convert.import_model import import_model
    from sixfold.convert.known_models import KNOWN_MODELS, fetched

    with fetched(KNOWN_MODELS["minilm"]) as published:
        shutil.copytree(published, folder / "huggingface")
    import_model(str(folder / "huggingface"), folder / "sixfold")
    model = transformers.BertModel.from_pretrained(folder / "huggingface").eval()
    tokens = torch.randint(1000, 2000, (2, 9))
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "token_type_ids": tokens * 0}
    batch, length = torch.export.Dim("batch", min=1, max=4096), torch.export.Dim("length", min=2, max=512)
    shapes = {name: {0: batch, 1: length} for name in inputs}
    torch.onnx.export(model, (), folder / "float32.onnx", kwargs=inputs, dynamic_shapes=shapes, dynamo=True)
    quantize_dynamic(folder / "float32.onnx", folder / "int8.onnx")


def start(name: str, folder: Path, texts: Path) -> subprocess.Popen[str]:
    """Start the process of an engine and wait until it has embedded once."""
    command = [sys.executable, __file__, str(texts), "--engine", name, "--folder", str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    while (line := process.stdout.readline()) != "ready\n":
        if not line:
            raise SystemExit(f"{name} failed")  # it has said why
    return process


def measure(process: subprocess.Popen[str]) -> dict[str, float]:
    """Let an engine embed all texts once."""
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    return {"speed": float(process.stdout.readline())}


def neighbours(vectors: Vectors) -> NDArray[np.int64]:
    """Return the nearest others of each vector, nearest first."""
    products = vectors @ vectors.T
    np.fill_diagonal(products, -np.inf)
    return np.argsort(-products, axis=1, kind="stable")[:, :NEIGHBOURS]


def agreement(folder: Path, name: str) -> list[Record]:
    """Return how alike the vectors of an engine and of Hugging Face are."""
    ours, theirs = np.load(folder / f"{name}.npy"), np.load(folder / "huggingface.npy")
    near, expected = neighbours(ours), neighbours(theirs)
    first = float((near[:, 0] == expected[:, 0]).mean() * 100)
    difference = float(np.abs(ours - theirs).max())
    return [
        record("embed_speed", "minilm", name, "largest_difference", [difference], "1"),
        record("embed_speed", "minilm", name, "same_nearest", [first], "%"),
    ]


def main() -> None:
    """Measure, or serve as one of the engines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        texts = arguments.texts.read_text(encoding="utf-8").splitlines()[:NUM_TEXTS]
        serve(arguments.engine, arguments.folder, texts)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        write_models(folder)
        processes = {name: stack.enter_context(start(name, folder, arguments.texts)) for name in ENGINES}
        found = take_turns(
            {name: partial(measure, process) for name, process in processes.items()},
            2 if arguments.quick else arguments.rounds,
        )
        records = [record("embed_speed", "minilm", name, "speed", found[name]["speed"], "1/s") for name in ENGINES]
        alike = [each for name in ENGINES if name != "huggingface" for each in agreement(folder, name)]
        publish([*records, *alike], f"{NUM_TEXTS} sentences to vectors", arguments.json)


if __name__ == "__main__":
    main()
