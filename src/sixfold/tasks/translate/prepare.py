"""Prepare a corpus: from raw pairs to a tokenizer and shards, in two passes and bounded memory."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.languages import Languages
from sixfold.data.readers import Pair, Pairs
from sixfold.data.reservoir import Reservoir
from sixfold.data.shards import Corpus, Record, ShardWriter, token_type
from sixfold.errors import DataError
from sixfold.tasks.translate.recipe import DataConfig
from sixfold.text import Tokenizer
from sixfold.training.task import Given, Prepared

SAMPLE_PAIRS = 200_000  # from which subwords are learned
CHUNK_PAIRS = 10_000  # encoded at a time
FEWEST_PAIRS = 10


@dataclass(frozen=True)
class Survey:
    """The result of the first pass, which the plan is based on."""

    num_examples: int
    source_characters: float  # mean per line
    target_characters: float
    sample: Reservoir
    smallest_hash: int
    sides: Languages | None = None  # the languages or keys of source and target, if stated

    @property
    def mean_characters(self) -> float:
        """The mean length of the longer side."""
        return max(self.source_characters, self.target_characters)

    @property
    def spread(self) -> float:
        """The mean length of a word's text relative to the mean length of a text: 1 if all have equal length."""
        lengths = np.array([len(pair.source) for pair in self.sample], dtype=np.float64)
        return float((lengths**2).mean() / max(lengths.mean(), 1.0) ** 2)

    @cached_property
    def words(self) -> Counter[str]:
        """The frequency of each word of both languages in the sample."""
        counted: Counter[str] = Counter()
        for pair in self.sample:
            counted.update(pair.source.split())
            counted.update(pair.target.split())
        return counted

    @property
    def words_in_use(self) -> float:
        """The effective number of words: the perplexity of the word distribution."""
        counts = np.array([*self.words.values()], dtype=np.float64)
        probabilities = counts / max(counts.sum(), 1.0)
        return float(np.exp(-(probabilities * np.log(probabilities)).sum()))


def survey(pairs: Pairs, seed: int, on_progress: OnProgress = no_progress) -> Survey:
    """Count the pairs and keep a uniform random sample of them."""
    sample = Reservoir(SAMPLE_PAIRS, seed)
    count = source = target = 0
    smallest = 2**64
    for count, pair in enumerate(pairs, start=1):
        source, target = source + len(pair.source), target + len(pair.target)
        if pair.source and pair.target:  # an empty pair is left out, so it must not be the only one held out
            smallest = min(smallest, source_hash(pair))
        sample.offer(pair)
        if count % CHUNK_PAIRS == 0:
            on_progress(count)
    if count < FEWEST_PAIRS:
        raise DataError(
            f"There are only {count} pairs; at least {FEWEST_PAIRS} are needed for training.",
            "To get a corpus for a first try: sixfold corpus phrasebook",
        )
    return Survey(count, source / count, target / count, sample, smallest, pairs.sides)


def source_hash(pair: Pair) -> int:
    """Return a 64-bit number that depends on the source text alone."""
    return int.from_bytes(hashlib.blake2b(pair.source.encode(), digest_size=8).digest(), "little")


def learn_tokenizer(sample: Iterable[Pair], config: DataConfig) -> Tokenizer:
    """Learn one vocabulary for both languages."""
    texts = [text for pair in sample for text in (pair.source, pair.target)]
    return Tokenizer.learn(texts, config.vocabulary, config.subwords)


@dataclass
class Skipped:
    """The pairs that were left out, and why, because nothing is dropped silently."""

    what: str = "pairs"
    empty: list[int] = field(default_factory=list)  # line numbers
    too_long: list[int] = field(default_factory=list)

    def sentences(self, max_tokens: int) -> list[str]:
        """Return sentences on what was left out."""
        reasons = ((self.empty, "one side is empty"), (self.too_long, f"longer than {max_tokens} tokens"))
        return [
            f"left out {len(lines):,} {self.what}: {why} (the first on line {lines[0]:,})"
            for lines, why in reasons
            if lines
        ]


def columns_for(tokenizer: Tokenizer) -> dict[str, str]:
    """Return the columns of a pair."""
    return dict.fromkeys(("source", "target"), token_type(tokenizer.vocabulary))


def prepare(folder: Path, given: Given, on_progress: OnProgress = no_progress) -> Prepared:
    """Encode all pairs into shards, and report what was left out; without validation pairs, hold some out.

    Pairs are held out by a hash of the source, so that copies of a sentence are in the same split.
    """
    tokenizer, config = given.processor, given.recipe.data
    refuse_swapped_sides(given.train, given.valid)
    threshold = hold_out_threshold(given.survey, config) if given.valid is None else -1
    writers = {name: ShardWriter(folder / name, columns_for(tokenizer)) for name in ("train", "valid")}
    skipped, skipped_valid = Skipped(), Skipped("validation pairs")
    done = 0
    for chunk in chunks(given.train):
        splits: dict[str, list[Pair]] = {"train": [], "valid": []}
        for pair in chunk:
            splits["valid" if source_hash(pair) <= threshold else "train"].append(pair)
        for name, writer in writers.items():
            writer.write(encode(splits[name], tokenizer, config.max_tokens, skipped))
        on_progress(done := done + len(chunk))
    for chunk in chunks(given.valid or []):
        writers["valid"].write(encode(chunk, tokenizer, config.max_tokens, skipped_valid))
    for writer in writers.values():
        writer.close()
    left_out = [*skipped.sentences(config.max_tokens), *skipped_valid.sentences(config.max_tokens)]
    refuse_empty(writers, left_out)
    return Prepared(folder, tuple(left_out))


def refuse_swapped_sides(train: Pairs, valid: Pairs | None) -> None:
    """Raise if the validation text has the languages of the training text in the other order."""
    if valid is not None and train.sides and valid.sides == train.sides[::-1]:
        source, target = train.sides
        raise DataError(
            f"The training text is {source} → {target}, but the validation text is {target} → {source}.",
            f"Name the source first for both: --set 'data.languages=[{source}, {target}]'",
        )


def hold_out_threshold(surveyed: Survey, config: DataConfig) -> int:
    """Return the hash up to which pairs are held out, so that at least one is."""
    held_out = min(config.valid_pairs, max(1, surveyed.num_examples // 20))
    return max(surveyed.smallest_hash, int(2**64 * held_out / surveyed.num_examples))


def prepare_sample(folder: Path, given: Given, most: int) -> Corpus:
    """Encode a small part of the sample."""
    tokenizer, max_tokens = given.processor, given.recipe.data.max_tokens
    encoded = encode(list(islice(given.survey.sample, most)), tokenizer, max_tokens, Skipped())
    if not encoded:
        raise DataError(f"Every pair is empty or longer than {max_tokens} tokens.")
    writer = ShardWriter(folder, columns_for(tokenizer))
    writer.write(encoded)
    writer.close()
    return Corpus(folder)


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Group pairs into lists."""
    iterator = iter(pairs)
    while chunk := list(islice(iterator, CHUNK_PAIRS)):
        yield chunk


def encode(chunk: list[Pair], tokenizer: Tokenizer, max_tokens: int, skipped: Skipped) -> list[Record]:
    """Encode pairs, leaving out those that are empty or too long."""
    sources = tokenizer.encode_batch([pair.source for pair in chunk])
    targets = tokenizer.encode_batch([pair.target for pair in chunk])
    encoded = []
    for pair, source, target in zip(chunk, sources, targets, strict=True):
        if not source or not target:
            skipped.empty.append(pair.line)
        elif max(len(source), len(target)) > max_tokens:
            skipped.too_long.append(pair.line)
        else:
            encoded.append(Record({"source": source, "target": target}, pair.line))
    return encoded


def refuse_empty(writers: dict[str, ShardWriter], left_out: list[str]) -> None:
    """Raise if a split is empty."""
    for name, writer in writers.items():
        if writer.num_records == 0:
            reasons = "; ".join(left_out) or "all pairs have the same source"
            raise DataError(
                f"No pairs are left for the {name} split: {reasons}.", "Examine the text with sixfold check."
            )
