"""From raw pairs to a tokenizer and a prepared corpus: two passes over the text, in bounded memory."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from sixfold.data.readers import Pair, Pairs
from sixfold.data.sample import Sample
from sixfold.data.shards import Corpus, EncodedPair, ShardWriter
from sixfold.errors import DataError
from sixfold.files import sha256, write_atomically
from sixfold.models.folder import Json
from sixfold.text import Tokenizer
from sixfold.ticks import Tick, silent
from sixfold.training.recipe import DataConfig

SAMPLE_PAIRS = 200_000  # pairs that subwords are learned from
CHUNK_PAIRS = 10_000  # pairs encoded at a time
FEWEST_PAIRS = 10


@dataclass(frozen=True)
class Survey:
    """What one pass over the pairs found: enough to plan with."""

    num_pairs: int
    source_characters: float  # mean of a line
    target_characters: float
    sample: Sample
    smallest_hash: int

    @property
    def mean_characters(self) -> float:
        """The mean length of the longer side."""
        return max(self.source_characters, self.target_characters)

    @property
    def spread(self) -> float:
        """How much longer the text is that a word stands in, on average, than a text is: 1 if all are as long."""
        lengths = np.array([len(pair.source) for pair in self.sample], dtype=np.float64)
        return float((lengths**2).mean() / max(lengths.mean(), 1.0) ** 2)

    @cached_property
    def words(self) -> Counter[str]:
        """How often each word of both languages stands in the sample."""
        counted: Counter[str] = Counter()
        for pair in self.sample:
            counted.update(pair.source.split())
            counted.update(pair.target.split())
        return counted

    @property
    def words_in_use(self) -> float:
        """Among how many words the choice would be as open if all were as frequent: e to their entropy."""
        counts = np.array([*self.words.values()], dtype=np.float64)
        shares = counts / max(counts.sum(), 1.0)
        return float(np.exp(-(shares * np.log(shares)).sum()))


def survey(pairs: Pairs, seed: int, tick: Tick = silent) -> Survey:
    """Count the pairs and keep a uniform random sample of them."""
    sample = Sample(SAMPLE_PAIRS, seed)
    count = source = target = 0
    smallest = 2**64
    for count, pair in enumerate(pairs, start=1):
        source, target = source + len(pair.source), target + len(pair.target)
        if pair.source and pair.target:  # an empty one will be left out, and cannot be all that is held out
            smallest = min(smallest, source_hash(pair))
        sample.offer(pair)
        if count % CHUNK_PAIRS == 0:
            tick(count)
    if count < FEWEST_PAIRS:
        raise DataError(
            f"There are {count} pairs: too few to train on; at least {FEWEST_PAIRS} are needed.",
            "For a corpus to try with: sixfold corpus phrasebook",
        )
    return Survey(count, source / count, target / count, sample, smallest)


def source_hash(pair: Pair) -> int:
    """Return a 64-bit number that depends on the source text alone."""
    return int.from_bytes(hashlib.blake2b(pair.source.encode(), digest_size=8).digest(), "little")


def learn_tokenizer(sample: Iterable[Pair], config: DataConfig) -> Tokenizer:
    """Learn one vocabulary for both languages."""
    texts = [text for pair in sample for text in (pair.source, pair.target)]
    return Tokenizer.learn(texts, config.vocabulary, config.subwords)


@dataclass
class Skipped:
    """Pairs that were left out, and why: nothing is dropped silently."""

    what: str = "pairs"
    empty: list[int] = field(default_factory=list)  # line numbers
    too_long: list[int] = field(default_factory=list)

    def sentences(self, max_tokens: int) -> list[str]:
        """Say in plain words what was left out."""
        reasons = ((self.empty, "one side is empty"), (self.too_long, f"longer than {max_tokens} tokens"))
        return [
            f"left out {len(lines):,} {self.what}: {why} (the first on line {lines[0]:,})"
            for lines, why in reasons
            if lines
        ]


@dataclass(frozen=True)
class Prepared:
    """A corpus ready to train on."""

    folder: Path
    vocabulary: int

    def train(self) -> Corpus:
        """Open the training split."""
        return Corpus(self.folder / "train", self.vocabulary)

    def valid(self) -> Corpus:
        """Open the validation split."""
        return Corpus(self.folder / "valid", self.vocabulary)


def prepare(
    folder: Path,
    pairs: Pairs,
    valid: Pairs | None,
    tokenizer: Tokenizer,
    config: DataConfig,
    surveyed: Survey,
    tick: Tick = silent,
) -> tuple[Prepared, list[str]]:
    """Encode all pairs into shards, and say what was left out; without validation pairs, hold some out.

    They are held out by a hash of their source, so that copies of a sentence fall on one side.
    """
    wanted = min(config.valid_pairs, max(1, surveyed.num_pairs // 20))
    threshold = max(surveyed.smallest_hash, int(2**64 * wanted / surveyed.num_pairs)) if valid is None else -1
    writers = {name: ShardWriter(folder / name, tokenizer.vocabulary) for name in ("train", "valid")}
    skipped, skipped_valid = Skipped(), Skipped("validation pairs")
    done = 0
    for chunk in chunks(pairs):
        splits: dict[str, list[Pair]] = {"train": [], "valid": []}
        for pair in chunk:
            splits["valid" if source_hash(pair) <= threshold else "train"].append(pair)
        for name, writer in writers.items():
            writer.write(encode(splits[name], tokenizer, config.max_tokens, skipped))
        tick(done := done + len(chunk))
    for chunk in chunks(valid or []):
        writers["valid"].write(encode(chunk, tokenizer, config.max_tokens, skipped_valid))
    for writer in writers.values():
        writer.close()
    left_out = [*skipped.sentences(config.max_tokens), *skipped_valid.sentences(config.max_tokens)]
    refuse_empty(writers, left_out)
    return Prepared(folder, tokenizer.vocabulary), left_out


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs in lists."""
    iterator = iter(pairs)
    while chunk := list(islice(iterator, CHUNK_PAIRS)):
        yield chunk


def encode(chunk: list[Pair], tokenizer: Tokenizer, max_tokens: int, skipped: Skipped) -> list[EncodedPair]:
    """Turn pairs into token ids, without those that are empty or too long."""
    sources = tokenizer.encode_batch([pair.source for pair in chunk])
    targets = tokenizer.encode_batch([pair.target for pair in chunk])
    encoded = []
    for pair, source, target in zip(chunk, sources, targets, strict=True):
        if not source or not target:
            skipped.empty.append(pair.line)
        elif max(len(source), len(target)) > max_tokens:
            skipped.too_long.append(pair.line)
        else:
            encoded.append(EncodedPair(source, target, pair.line))
    return encoded


def refuse_empty(writers: dict[str, ShardWriter], left_out: list[str]) -> None:
    """Raise if a split ended up with nothing in it."""
    for name, writer in writers.items():
        if writer.num_pairs == 0:
            reasons = "; ".join(left_out) or "all pairs have the same source"
            raise DataError(f"No pairs are left for the {name} split: {reasons}.", "See `sixfold check`.")


def fingerprint(paths: Iterable[Path]) -> list[dict[str, Json]]:
    """Return what identifies the input files."""
    return [
        {"path": str(path.resolve()), "bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in paths
        if path.is_file()
    ]


def write_fingerprint(path: Path, files: list[dict[str, Json]]) -> None:
    """Remember the input files."""
    write_atomically(path, json.dumps(files, indent=1).encode())


def refuse_changed_input(path: Path) -> list[str]:
    """Raise if an input file's content changed since it was prepared; return which files are gone."""
    gone = []
    for known in json.loads(path.read_bytes()):
        file = Path(known["path"])
        if not file.is_file():
            gone.append(str(file))
        elif file.stat().st_size != known["bytes"] or sha256(file) != known["sha256"]:
            raise DataError(
                f"{file} has changed since this training began.",
                "Put the old file back to go on, or train the new one in another folder.",
            )
    return gone
