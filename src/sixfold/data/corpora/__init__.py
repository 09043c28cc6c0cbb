"""Known corpora, for people who have no text of their own: `fetch("phrasebook", folder)`.

Each corpus is one file here that says what it is (`ABOUT`) and where its pairs or its texts come from; `files`
deals with splits and plain text: `fetch_texts("wikitext-2", folder)`.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora import (
    brown,
    cmudict,
    dates,
    enwik8,
    gutenberg,
    home_assistant,
    imdb,
    phrasebook,
    spam,
    trec,
    wikitext,
)
from sixfold.data.corpora.files import CorpusFiles, KnownCorpus, PairsBySplit, Split, overlap, write_splits
from sixfold.data.corpora.texts import TextCorpus, TextSplit, write_texts
from sixfold.errors import ConfigError

__all__ = [
    "KNOWN_CORPORA",
    "CorpusFiles",
    "KnownCorpus",
    "Split",
    "TextCorpus",
    "TextSplit",
    "fetch",
    "fetch_texts",
    "known",
]

OF_PAIRS = {each.ABOUT.name: each for each in (phrasebook, home_assistant, cmudict, dates)}
OF_TEXTS = {each.ABOUT.name: each for each in (wikitext, enwik8, gutenberg, trec, imdb, spam, brown)}
KNOWN_CORPORA = {name: each.ABOUT for name, each in (OF_PAIRS | OF_TEXTS).items()}


def fetch(
    name: str,
    folder: Path,
    languages: tuple[str, str] | None = None,
    num_pairs: int | None = None,
    seed: int = 1,
    on_progress: OnProgress = no_progress,
    overwrite: bool = False,
) -> CorpusFiles:
    """Write a known corpus to a folder as `train`, `val` and `test`, two line-aligned files each.

    `languages` defaults to those of the corpus (en-de where it has translations). `num_pairs` is the size of
    train; `seed` decides what is generated, or which pairs are kept when there are more. Existing files with other
    content are not replaced unless `overwrite` is set.
    """
    corpus = known(name)
    chosen = checked_languages(corpus, languages)
    if num_pairs is not None and num_pairs < 1:
        raise ConfigError(f"A corpus needs at least 1 pair: num_pairs={num_pairs}.", "Leave it out for all.")
    pairs = load(corpus.name, chosen, num_pairs, seed, on_progress)
    splits = write_splits(pairs.splits, Path(folder), chosen, overwrite)
    return CorpusFiles(name, chosen, corpus.licence, corpus.origin, splits, overlap(pairs.splits), pairs.notes)


def load(
    name: str, languages: tuple[str, str], num_pairs: int | None, seed: int, on_progress: OnProgress
) -> PairsBySplit:
    """Get the pairs from the corpus's own module."""
    if name == "home-assistant":
        return home_assistant.load(languages, num_pairs, seed, on_progress)
    return OF_PAIRS[name].load(num_pairs, seed, on_progress)


def fetch_texts(
    name: str, folder: Path, on_progress: OnProgress = no_progress, overwrite: bool = False
) -> TextCorpus:
    """Write a known corpus without pairs to a folder: `train`, `val` and `test`, each a file or a folder of files.

    Existing files with other content are not replaced unless `overwrite` is set.
    """
    corpus = known(name)
    if corpus.languages is not None:
        raise ConfigError(
            f"The corpus {name} consists of pairs, and texts were expected.",
            f"Corpora of texts: {', '.join(OF_TEXTS)}.",
        )
    texts = OF_TEXTS[name].load(on_progress)
    splits = write_texts(texts, Path(folder), overwrite)
    return TextCorpus(name, corpus.licence, corpus.origin, splits, texts.notes)


def known(name: str) -> KnownCorpus:
    """Return the corpus of this name; if there is none, raise and suggest the nearest."""
    if name not in KNOWN_CORPORA:
        raise ConfigError(
            f"There is no corpus {name!r}.{nearest(name, [*KNOWN_CORPORA])}",
            f"Known: {', '.join(KNOWN_CORPORA)}.",
        )
    return KNOWN_CORPORA[name]


def checked_languages(corpus: KnownCorpus, languages: tuple[str, str] | None) -> tuple[str, str]:
    """Return the languages if the corpus has both, its own for None; otherwise raise and name those it has."""
    if corpus.languages is None:
        raise ConfigError(f"The corpus {corpus.name} has no pairs.", f"Corpora of pairs: {', '.join(OF_PAIRS)}.")
    if languages is None:
        return corpus.languages
    if languages == corpus.languages:
        return languages
    if not corpus.others:
        raise ConfigError(
            f"The corpus {corpus.name} exists only as {'-'.join(corpus.languages)}, not as {'-'.join(languages)}.",
            "Leave --languages out. The corpus home-assistant has many languages.",
        )
    for language in languages:
        if language not in corpus.others:
            raise ConfigError(
                f"The corpus {corpus.name} has no language {language!r}.{nearest(language, corpus.others)}",
                f"Known: {', '.join(corpus.others)}.",
            )
    if languages[0] == languages[1]:
        raise ConfigError(f"The two languages are the same: {languages[0]}.", "Try --languages en-de.")
    return languages


def nearest(name: str, options: Sequence[str]) -> str:
    """Return ` Did you mean ...?` if one of the options is close, else an empty string."""
    lowered = {option.lower(): option for option in options}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.5)
    return f" Did you mean {lowered[close[0]]}?" if close else ""
