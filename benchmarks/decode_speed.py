"""How fast translations are found, by Sixfold and by others with the same weights.

    python benchmarks/decode_speed.py --small MODEL --base MODEL --text TEST.en TEST.de

Every engine reads raw text and writes raw text. The whole file goes through at once; then sentences go through one
at a time. The engines take turns, and the BLEU of each stands beside its speed. The length penalty is 0, because
CTranslate2 divides by a power of the length and Sixfold by GNMT's penalty: at 0 both search for the same thing,
though CTranslate2 stops before it is sure to have found it. Each engine has its best threads: Sixfold one process
a core, CTranslate2 one translator thread a core for files and the faster of one or all threads for one sentence.

Without a model, one is trained first and kept in the cache folder: the small one for 15 minutes, the base one for
30.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch

import sixfold
from report import Record, publish, record, take_turns
from sixfold.convert import ctranslate2 as to_ctranslate2
from sixfold.convert import huggingface as to_huggingface
from sixfold.data.corpora import fetch
from sixfold.data.readers import open_pairs
from sixfold.evaluate.metrics import bleu
from sixfold.files import cache_folder
from sixfold.machine import num_cores, raise_malloc_thresholds

MULTI30K = Path(__file__).parents[2] / "shared/data/multi30k"
QUICK = Path(__file__).parents[1] / "tests/compat/format-1-phrases"
MINUTES = {"small": 15.0, "base": 30.0}
BATCH = 64  # sentences, for engines that want to be told
EXTRA_TOKENS = 50

Pairs = tuple[list[str], list[str]]


class Engine(Protocol):
    """One way to translate."""

    def translate(self, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Return the translation of each text, and how many tokens they have, end marks included."""

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
    """MarianMTModel.generate."""

    def __init__(self, folder: Path) -> None:
        self.engine = to_huggingface.HuggingFaceEngine(folder)

    def translate(self, texts: Sequence[str], beam: int) -> tuple[list[str], int]:
        """Translate batches of similar length."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found, num_tokens = [""] * len(texts), 0
        for begin in range(0, len(order), BATCH):
            chosen = order[begin : begin + BATCH]
            for i, ids in zip(chosen, self.generate([texts[i] for i in chosen], beam), strict=True):
                found[i] = self.engine.tokenizer.decode(ids, skip_special_tokens=True)
                num_tokens += ids.index(2) + 1 if 2 in ids else len(ids)
        return found, num_tokens

    @torch.inference_mode()
    def generate(self, texts: list[str], beam: int) -> list[list[int]]:
        """Return the tokens of one batch, without the begin mark."""
        tokens = self.engine.tokenizer(texts, return_tensors="pt", padding=True)
        longest = tokens.input_ids.size(1) + EXTRA_TOKENS
        rows = self.engine.model.generate(**tokens, num_beams=beam, length_penalty=0.0, max_length=longest)
        return rows[:, 1:].tolist()

    def translate_one(self, text: str, beam: int) -> None:
        """Translate one text."""
        self.translate([text], beam)


def open_engines(folder: Path, scratch: Path, wanted: Sequence[str]) -> dict[str, Engine]:
    """Export the model to the others and open all."""
    if any(name.startswith("ctranslate2") for name in wanted):
        to_ctranslate2.export(folder, scratch / "ctranslate2")
    if "huggingface" in wanted:
        to_huggingface.export(folder, scratch / "huggingface")
    makers: dict[str, Callable[[], Engine]] = {
        "sixfold": lambda: Sixfold(folder, "float32"),
        "sixfold-int8": lambda: Sixfold(folder, "int8"),
        "ctranslate2": lambda: CTranslate2(scratch / "ctranslate2", "float32"),
        "ctranslate2-int8": lambda: CTranslate2(scratch / "ctranslate2", "int8"),
        "huggingface": lambda: HuggingFace(scratch / "huggingface"),
    }
    return {name: makers[name]() for name in wanted}


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
        "bleu": bleu(translations, references).value,
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


def test_text(options: argparse.Namespace) -> Pairs:
    """Return the sources and references to translate."""
    if options.text:
        pairs = list(open_pairs(*options.text))
    elif MULTI30K.is_dir() and not options.quick:
        pairs = list(open_pairs(*multi30k("test_2016_flickr")))
    else:
        pairs = list(open_pairs(*phrasebook("test")))
    chosen = pairs[: options.sentences]
    return [pair.source for pair in chosen], [pair.target for pair in chosen]


def trained(name: str) -> Path:
    """Return the folder of a model that is trained once and kept."""
    has_multi30k = MULTI30K.is_dir()
    folder = cache_folder() / "benchmarks" / f"decode-{name}-{'multi30k' if has_multi30k else 'phrasebook'}"
    if (folder / "sixfold.json").exists():
        return folder
    print(f"training the {name} model for {MINUTES[name]:g} minutes, once")
    source, target = multi30k("train") if has_multi30k else phrasebook("train")
    sixfold.train(
        source, target, folder, minutes=MINUTES[name], settings=[f"model.preset={name}", "model.norm=pre"]
    )
    return folder


def phrasebook(split: str) -> tuple[Path, Path]:
    """Return the two files of a part of the phrasebook, which is written once."""
    folder = cache_folder() / "benchmarks" / "phrasebook"
    if not folder.is_dir():
        fetch("phrasebook", folder, num_pairs=20_000)
    return folder / f"{split}.en", folder / f"{split}.de"


def multi30k(split: str) -> tuple[Path, Path]:
    """Return the two files of a part of multi30k."""
    return MULTI30K / f"{split}.en.gz", MULTI30K / f"{split}.de.gz"


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
    parser.add_argument("--quick", action="store_true", help="a tiny model of phrases, 32 sentences, one round")
    options = parser.parse_args()
    raise_malloc_thresholds()
    options.engines = options.engines or (every[:-1] if options.quick else every)
    if options.quick:
        options.sentences, options.alone, options.rounds = 32, 3, 1
        models = {"quick": QUICK}
    else:
        names = [options.only] if options.only else ["small", "base"]
        models = {name: getattr(options, name) or trained(name) for name in names}
    text = test_text(options)
    records = [each for name, folder in models.items() for each in measure(name, folder, text, options)]
    publish(records, f"Translating {len(text[0]):,} sentences", options.json)


if __name__ == "__main__":
    main()
