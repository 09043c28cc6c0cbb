"""Match: the lines of a file that are nearest to a text by meaning, with an index of their vectors.

An index holds the vectors of lines and a digest of each, so that after a change only the new lines are embedded.

Shapes: N lines, d = d_model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sixfold.callbacks import OnProgress, no_progress
from sixfold.errors import DataError
from sixfold.files import write_atomically
from sixfold.tasks.embed import Embedder, Vectors

FORMAT = "sixfold index 1"
DIGEST_BYTES = 16  # of a line
Digests = NDArray[np.uint8]


@dataclass(frozen=True)
class Match:
    """A line, and the cosine between its vector and that of the query."""

    line: int  # counted from 1
    score: float


@dataclass(frozen=True)
class Index:
    """The vectors (N, d) of the lines of a file, and the digests (N, 16) of the lines."""

    vectors: Vectors
    digests: Digests

    def nearest(self, query: Vectors, count: int) -> list[Match]:
        """Return the nearest lines to a query's vector (d,), nearest first; among equals the earlier line."""
        scores = np.einsum("nd,d->n", self.vectors, query)
        best = np.argsort(-scores, kind="stable")[:count]
        return [Match(int(line) + 1, float(scores[line])) for line in best]


def build_index(
    embedder: Embedder, lines: Sequence[str], known: Index | None = None, on_progress: OnProgress = no_progress
) -> tuple[Index, int]:
    """Return the index of lines, and how many of them were embedded: the rest is taken from an index."""
    digests = digests_of(lines)
    places = {} if known is None else {each.tobytes(): place for place, each in enumerate(known.digests)}
    vectors = np.empty((len(lines), embedder.width), dtype=np.float32)
    new: dict[str, list[int]] = {}
    for number, (line, digest) in enumerate(zip(lines, digests, strict=True)):
        place = places.get(digest.tobytes())
        if place is not None and known is not None:
            vectors[number] = known.vectors[place]
        else:
            new.setdefault(line, []).append(number)
    for numbers, vector in zip(new.values(), embedder.embed(list(new), on_progress), strict=True):
        vectors[numbers] = vector
    return Index(vectors, digests), len(new)


def digests_of(lines: Sequence[str]) -> Digests:
    """Return the digest of each line."""
    each = (hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES) for line in lines)
    return np.frombuffer(b"".join(digest.digest() for digest in each), dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def save_index(path: Path, index: Index, model: str) -> None:
    """Write an index; `model` tells what made its vectors."""
    tensors: dict[str, NDArray[Any]] = {"vectors": index.vectors, "digests": index.digests}
    write_atomically(path, save(tensors, {"format": FORMAT, "model": model}))


def load_index(path: Path, model: str, width: int) -> Index | None:
    """Read an index, or None if there is none or another model made it; what is no index is refused."""
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="np") as file:
            said = file.metadata() or {}
            if said.get("format") != FORMAT:
                raise DataError(f"{path} is no index of sixfold match.", "Give another path with --index.")
            if said.get("model") != model:
                return None
            index = Index(file.get_tensor("vectors"), file.get_tensor("digests"))
    except (SafetensorError, OSError) as error:
        raise DataError(
            f"{path} is no index of sixfold match: {error}", "Give another path with --index."
        ) from error
    count = len(index.digests)
    shapes = [(index.vectors.shape, (count, width)), (index.digests.shape, (count, DIGEST_BYTES))]
    if any(found != expected for found, expected in shapes) or index.vectors.dtype != np.float32:
        raise DataError(f"{path} is damaged.", "Remove it; it will be made again.")
    return index


def maker(embedder: Embedder, precision: str) -> str:
    """Return what tells apart the models whose vectors differ: the digests of their files, and the precision."""
    files = embedder.info.files
    digests = [files[name].sha256 for name in sorted(files) if name != "sixfold.json"]
    return hashlib.sha256(" ".join([*digests, precision]).encode()).hexdigest()
