"""The files of a corpus: line-aligned text, one pair of files per split, written whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sixfold.callbacks import OnProgress
from sixfold.errors import ConfigError, DataError
from sixfold.files import sync, temporary_beside

TextPair = tuple[str, str]

SPLITS = ("train", "val", "test")
HELD_OUT = 0.02  # the fraction of a generated corpus that may go to val, and again to test
MAX_HELD_OUT = 1000
MAX_FRUITLESS = 200_000  # after this many pairs in a row without a new one the corpus is exhausted


@dataclass(frozen=True)
class KnownCorpus:
    """What a corpus is, before it is fetched; `others` are further languages either side may have."""

    name: str
    summary: str
    languages: tuple[str, str] | None  # None: no pairs
    licence: str
    origin: str
    others: tuple[str, ...] = ()
    holds: str = "pairs"  # what an example is, in a word or two


@dataclass(frozen=True)
class Split:
    """One part of a corpus: line n of `target` translates line n of `source`."""

    name: str
    source: Path
    target: Path
    num_pairs: int


@dataclass(frozen=True)
class CorpusFiles:
    """A corpus on disk; `overlap` counts the test pairs that also occur in train."""

    name: str
    languages: tuple[str, str]
    licence: str
    origin: str
    splits: dict[str, Split]
    overlap: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PairsBySplit:
    """The pairs of a corpus by split, before they are written, and notes about them for people."""

    splits: Mapping[str, list[TextPair]]
    notes: tuple[str, ...] = field(default=())


def hash_fraction(text: str) -> float:
    """Return a number from 0 up to 1 that depends on the text alone, on every machine."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def split_of(text: str, held_out: float = HELD_OUT) -> str:
    """Return the split a text belongs to, whatever the size of the corpus."""
    place = hash_fraction(text)
    return "test" if place < held_out else "val" if place < 2 * held_out else "train"


def sizes(num_pairs: int) -> dict[str, int]:
    """Return how many pairs each split gets when train gets `num_pairs`."""
    held_out = min(MAX_HELD_OUT, max(10, num_pairs // 10))
    return {"train": num_pairs, "val": held_out, "test": held_out}


def fill(
    stream: Iterable[TextPair], wanted: Mapping[str, int], on_progress: OnProgress
) -> dict[str, list[TextPair]]:
    """Assign new pairs of a stream to their splits until each split is full."""
    splits: dict[str, list[TextPair]] = {name: [] for name in SPLITS}
    seen: set[str] = set()
    missing, num_fruitless = sum(wanted.values()), 0
    for source, target in stream:
        part = split_of(source)
        num_fruitless += 1
        if source not in seen and len(splits[part]) < wanted[part]:
            seen.add(source)
            splits[part].append((source, target))
            on_progress(len(seen))
            missing, num_fruitless = missing - 1, 0
        if not missing:
            return splits
        if num_fruitless > MAX_FRUITLESS:
            break
    raise ConfigError(
        f"This corpus has only {len(seen):,} different pairs, too few for {wanted['train']:,} in train.",
        "Ask for fewer with --pairs.",
    )


def choose(pairs: list[TextPair], number: int, seed: int = 0) -> list[TextPair]:
    """Keep `number` pairs in their order: the same ones for the same seed."""
    if len(pairs) <= number:
        return pairs
    ranks = [(hash_fraction(f"{seed}\n{source}\n{target}"), place) for place, (source, target) in enumerate(pairs)]
    return [pairs[place] for _, place in sorted(sorted(ranks)[:number], key=lambda rank: rank[1])]


def overlap(splits: Mapping[str, list[TextPair]]) -> int:
    """Count the test pairs that also occur in train."""
    return len(set(splits["test"]) & set(splits["train"]))


def write_splits(
    splits: Mapping[str, list[TextPair]], folder: Path, languages: tuple[str, str], overwrite: bool
) -> dict[str, Split]:
    """Write `train.en`, `train.de` and so on: all of them, or none."""
    texts: dict[Path, str] = {}
    for name, pairs in splits.items():
        for side, language in enumerate(languages):
            texts[folder / f"{name}.{language}"] = "".join(f"{pair[side]}\n" for pair in pairs)
    if not overwrite:
        refuse_to_replace(texts)
    write_all(texts)
    return {
        name: Split(name, folder / f"{name}.{languages[0]}", folder / f"{name}.{languages[1]}", len(pairs))
        for name, pairs in splits.items()
    }


def refuse_to_replace(texts: Mapping[Path, str]) -> None:
    """Raise if a file exists with other content."""
    for path, text in texts.items():
        if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
            raise ConfigError(
                f"{path} exists with other content.",
                "Choose another folder with -o, or replace the files with --force.",
            )


def write_all(texts: Mapping[Path, str]) -> None:
    """Write every file under a temporary name, then rename them all."""
    temporary = {path: temporary_beside(path) for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary[path].write_text(text, encoding="utf-8", newline="\n")
            sync(temporary[path])
        for path, part in temporary.items():
            part.replace(path)
    except OSError as error:
        raise DataError(
            f"The corpus cannot be written: {error.strerror} ({error.filename}).",
            "Choose a folder you can write to with -o.",
        ) from error
    finally:
        for part in temporary.values():
            with suppress(OSError):
                part.unlink()
