"""The text and the models that several benchmarks share: a model is trained once and kept in the cache folder.

The text is Multi30k if it is there, in `$SIXFOLD_DATA/multi30k` or, without that variable, in
`../shared/data/multi30k` beside the checkout; otherwise it is the phrasebook.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from children import HERE, environment, python
from report import as_options
from sixfold.files import cache_folder, sha256

MINUTES = {"tiny": 4.0, "small": 15.0, "base": 30.0}
PHRASEBOOK_PAIRS = 20_000

Pairs = tuple[list[str], list[str]]


def trained(preset: str, checkout: Path = HERE, made_from: Iterable[Path] = ()) -> Path:
    """Return the folder of a model of this preset, trained by a checkout the first time.

    The folder's name depends on the text, on the options and on the content of further files that the model is
    made from, such as the code.
    """
    corpus, source, target = training_text()
    settings = as_options((f"model.preset={preset}", "model.norm=pre"))
    options = ["--minutes", f"{MINUTES[preset]:g}", *settings]
    parts = [*map(sha256, (source, target, *made_from)), *options]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    folder = kept(f"{preset}-{corpus}-{key}")
    return made_once(folder, ["train", str(source), str(target), *options], checkout)


def made_once(folder: Path, command: Sequence[str], checkout: Path = HERE) -> Path:
    """Return a folder that a command of `sixfold` writes; it runs if the folder is not there yet."""
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        print(f"making {folder}, once: sixfold {' '.join(command)}", flush=True)
        whole = python("-m", "sixfold", *command, "-o", unfinished)
        if subprocess.run(whole, env=environment(checkout)).returncode:
            raise SystemExit(f"{' '.join(whole)} failed")  # it has said why
        unfinished.rename(folder)
    return folder


def kept(name: str) -> Path:
    """Return where a folder of this name is kept."""
    return cache_folder() / "benchmarks" / name


def training_text() -> tuple[str, Path, Path]:
    """Return the name of the corpus, and its two files to train on."""
    return ("multi30k", *multi30k("train")) if multi30k_folder().is_dir() else ("phrasebook", *phrasebook("train"))


def test_text(files: Sequence[str] | None, num_sentences: int) -> Pairs:
    """Return sources and references: of two given files, or of the corpus's test set."""
    if files:
        source, target = map(Path, files)
    elif multi30k_folder().is_dir():
        source, target = multi30k("test_2016_flickr")
    else:
        source, target = phrasebook("test")
    return lines(source)[:num_sentences], lines(target)[:num_sentences]


def multi30k_folder() -> Path:
    """Return where Multi30k would be."""
    return Path(os.environ.get("SIXFOLD_DATA") or HERE.parent / "shared/data") / "multi30k"


def multi30k(split: str) -> tuple[Path, Path]:
    """Return the two files of a part of Multi30k."""
    return multi30k_folder() / f"{split}.en.gz", multi30k_folder() / f"{split}.de.gz"


def phrasebook(split: str) -> tuple[Path, Path]:
    """Return the two files of a part of the phrasebook, which is generated once."""
    folder = made_once(
        kept(f"phrasebook-{PHRASEBOOK_PAIRS}"), ["corpus", "phrasebook", "--pairs", str(PHRASEBOOK_PAIRS)]
    )
    return folder / f"{split}.en", folder / f"{split}.de"


def lines(path: Path) -> list[str]:
    """Return the lines of a text file, which may be compressed."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode().removesuffix("\n").split("\n")
