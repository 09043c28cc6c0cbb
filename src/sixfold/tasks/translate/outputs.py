"""What a system makes of a test set: a model folder translates it, a file holds translations already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from sixfold.callbacks import OnProgress
from sixfold.data.readers import read_lines
from sixfold.decode.options import SearchOptions
from sixfold.decode.translate import Translator, load
from sixfold.errors import DataError
from sixfold.evaluate.system import System


def translations_of(
    path: Path,
    sources: Sequence[str],
    references: Sequence[str],
    beam: int | None,
    device: str,
    on_progress: OnProgress,
    is_protected: bool = False,
) -> System:
    """Translate with the model in a folder, or read the translations in a file."""
    if path.is_file():
        texts = list(read_lines(path))
        if len(texts) != len(sources):
            raise DataError(f"{path} has {len(texts):,} lines, but the test set has {len(sources):,}.")
        return System(str(path), texts)
    translator = load(path, device)
    search = translator.search_protected if is_protected else translator.search
    texts = [best.text for best, *_ in search(sources, SearchOptions(beam=beam), on_progress=on_progress)]
    language = translator.info.languages.target if translator.info else ""
    return System(str(path), texts, language, perplexity(translator, sources, references))


def perplexity(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> float:
    """Return exp of the mean negative log-probability of a reference token, end tokens included."""
    scores = translator.score_pairs(sources, references)
    log_probability = sum(score.log_probability for score in scores)
    return math.exp(-log_probability / max(1, sum(score.num_tokens for score in scores)))
