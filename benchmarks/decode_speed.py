"""How fast translations are found, by Sixfold and by others with the same weights.

    python benchmarks/decode_speed.py --small MODEL --base MODEL --text TEST.en TEST.de

Every engine reads raw text and writes raw text. The whole file goes through at once; then sentences go through one
at a time. The engines take turns, and the BLEU of each stands beside its speed. The length penalty is 0, because
CTranslate2 divides by a power of the length and Sixfold by GNMT's penalty: at 0 both search for the same thing,
though CTranslate2 stops before it is sure to have found it. Each engine has its best threads: Sixfold one process
a core, CTranslate2 one translator thread a core for files and the faster of one or all threads for one sentence.

Without a model, one is trained first and kept in the cache folder: the small one for 15 minutes, the base one for
30, the tiny one of --quick for 4.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
from sacrebleu import corpus_bleu

import sixfold
from children import python
from report import Record, publish, record, run, take_turns
from sixfold.machine import num_cores, raise_malloc_thresholds
from trained import Pairs, test_text, trained

BATCH = 64  # sentences, for engines that want to be told
EXTRA_TOKENS = 50


class Engine(Protocol):
    """One way to translate."""

    def translate(self, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Return the translation of each text, and how many tokens they have, end tokens included."""

    def translate_one(self, text: str, beam: int) -> None:
        """Translate one text as fast as possible."""


class Sixfold:
    """Ours."""

    def __init__(self, folder: Path, precision: str) -> None:
        self.many = sixfold.load(folder, "cpu", precision=precision, num_workers=num_cores())

    def translate(self, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Translate with a process a core."""
        found = self.many.search(texts, sixfold.SearchOptions(beam=beam, length_penalty=0.0))
        return [best.text for best, *_ in found], sum(best.num_tokens for best, *_ in found)

    def translate_one(self, text: str, beam: int) -> None:
        """Translate in this process."""
        self.translate([text], beam)


class CTranslate2:
    """OpenNMT's engine in C++."""

    def __init__(self, folder: Path, compute_type: str) -> None:
        import ctranslate2
        import sentencepiece

        cores = num_cores()
        self.tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        self.many = ctranslate2.Translator(
            str(folder), compute_type=compute_type, inter_threads=cores, intra_threads=1
        )
        self.ones = [
            ctranslate2.Translator(str(folder), compute_type=compute_type, inter_threads=1, intra_threads=threads)
            for threads in {1, cores}
        ]
        self.fastest: ctranslate2.Translator | None = None

    def translate(self, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Translate with a thread a core."""
        return self.run(self.many, texts, beam)

    def run(self, translator: object, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Translate with one of the translators."""
        pieces = self.tokenizer.encode(list(texts), out_type=str)
        results = translator.translate_batch(  # type: ignore[attr-defined]
            pieces,
            beam_size=beam,
            length_penalty=0,
            max_batch_size=BATCH,
            max_decoding_length=max(map(len, pieces)) + EXTRA_TOKENS,
        )
        found = [result.hypotheses[0] for result in results]
        return [self.tokenizer.decode(each) for each in found], sum(len(each) + 1 for each in found)

    def translate_one(self, text: str, beam: int) -> None:
        """Translate with whichever number of threads was faster at first."""
        if self.fastest is None:
            times = [
                statistics.median(timed(lambda: self.run(each, [text], beam)) for _ in range(9))  # noqa: B023
                for each in self.ones
            ]
            self.fastest = self.ones[times.index(min(times))]
        self.run(self.fastest, [text], beam)


class HuggingFace:
    """`generate` of Hugging Face's Marian, or of its Pegasus for a pre-norm model."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForSeq2SeqLM, MarianTokenizer

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends a package that it does not use
            self.tokenizer = MarianTokenizer.from_pretrained(folder)
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def translate(self, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Translate batches of similar length."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found, num_tokens = [""] * len(texts), 0
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            for i, ids in zip(chosen, self.generate([texts[i] for i in chosen], beam), strict=True):
                found[i] = self.tokenizer.decode(ids, skip_special_tokens=True)
                num_tokens += ids.index(2) + 1 if 2 in ids else len(ids)
        return found, num_tokens

    @torch.inference_mode()
    def generate(self, texts: list[str], beam: int) -> list[list[int]]:
        """Return the tokens of one batch, without the begin token."""
        tokens = self.tokenizer(texts, return_tensors="pt", padding=True)
        longest = tokens.input_ids.size(1) + EXTRA_TOKENS
        rows = self.model.generate(**tokens, num_beams=beam, length_penalty=0.0, max_length=longest)
        return rows[:, 1:].tolist()

    def translate_one(self, text: str, beam: int) -> None:
        """Translate one text."""
        self.translate([text], beam)


def open_engines(folder: Path, scratch: Path, names: Sequence[str]) -> dict[str, Engine]:
    """Export the model to the others and open all."""
    for other in {name.removesuffix("-int8") for name in names} - {"sixfold"}:
        run(python("-m", "sixfold", "export", folder, "--to", other, "-o", scratch / other))
    makers: dict[str, Callable[[], Engine]] = {
        "sixfold": lambda: Sixfold(folder, "float32"),
        "sixfold-int8": lambda: Sixfold(folder, "int8"),
        "ctranslate2": lambda: CTranslate2(scratch / "ctranslate2", "float32"),
        "ctranslate2-int8": lambda: CTranslate2(scratch / "ctranslate2", "int8"),
        "huggingface": lambda: HuggingFace(scratch / "huggingface"),
    }
    return {name: makers[name]() for name in names}


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure_file(engine: Engine, text: Pairs, beam: int) -> dict[str, float]:
    """Translate the whole file."""
    sources, references = text
    began = time.perf_counter()
    translations, num_tokens = engine.translate(sources, beam)
    seconds = time.perf_counter() - began
    return {
        "sentences_per_second": len(sources) / seconds,
        "target_tokens_per_second": num_tokens / seconds,
        "bleu": corpus_bleu(translations, [references], force=True).score,
    }


def measure_latency(engine: Engine, sources: Sequence[str], beam: int) -> dict[str, float]:
    """Translate sentences one at a time."""
    engine.translate_one(sources[0], beam)
    times = sorted(1000 * timed(lambda: engine.translate_one(text, beam)) for text in sources)  # noqa: B023
    return {"latency_median": statistics.median(times), "latency_p95": times[int(0.95 * len(times))]}


UNITS = {"sentences_per_second": "1/s", "target_tokens_per_second": "1/s", "bleu": "BLEU"}


def measure(name: str, folder: Path, text: Pairs, options: argparse.Namespace) -> Iterator[Record]:
    """Yield the numbers of one model."""
    alone = random.Random(1).sample(text[0], min(options.alone, len(text[0])))
    with tempfile.TemporaryDirectory() as scratch:
        engines = open_engines(folder, Path(scratch), options.engines)
        for beam in (4, 1):
            for each in engines.values():  # start what is started once
                each.translate(text[0], beam)
            measures = {
                engine_name: lambda engine=engine, beam=beam: (  # type: ignore[misc]
                    measure_file(engine, text, beam) | measure_latency(engine, alone, beam)
                )
                for engine_name, engine in engines.items()
            }
            case = f"{name}, {'greedy' if beam == 1 else f'beam {beam}'}"
            for engine_name, metrics in take_turns(measures, options.rounds).items():
                for metric, values in metrics.items():
                    unit = UNITS.get(metric, "ms")
                    yield record("decode_speed", case, engine_name, metric, values, unit)


def main() -> None:
    """Read the options, measure, print."""
    every = ["sixfold", "sixfold-int8", "ctranslate2", "ctranslate2-int8", "huggingface"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=Path, help="a model folder; otherwise one is trained")
    parser.add_argument("--base", type=Path, help="a model folder; otherwise one is trained")
    parser.add_argument("--only", choices=["small", "base"], help="leave the other model out")
    parser.add_argument("--text", nargs=2, metavar="FILE", help="source and reference")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--alone", type=int, default=100, help="sentences that are translated one at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", nargs="+", choices=every, help="all; with --quick all but huggingface")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="the tiny model, 256 sentences, three rounds")
    options = parser.parse_args()
    raise_malloc_thresholds()
    options.engines = options.engines or (every[:-1] if options.quick else every)
    if options.quick:
        options.sentences, options.alone, options.rounds = 256, 25, 3
        models = {"tiny": trained("tiny")}
    else:
        names = [options.only] if options.only else ["small", "base"]
        models = {name: getattr(options, name) or trained(name) for name in names}
    text = test_text(options.text, options.sentences)
    records = [each for name, folder in models.items() for each in measure(name, folder, text, options)]
    publish(records, f"Translating {len(text[0]):,} sentences", options.json)


if __name__ == "__main__":
    main()
