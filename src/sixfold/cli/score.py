"""`sixfold score`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, ModelFolder, Partners, Set
from sixfold.cli.output import reader_may_leave, write_lines
from sixfold.cli.set_option import read_languages, read_settings
from sixfold.cli.text_scores import continues_text, refuse_for_texts, score_lines
from sixfold.errors import ConfigError
from sixfold.settings import make

if TYPE_CHECKING:
    from sixfold.data.readers import Pairs
    from sixfold.decode.scoring import Score
    from sixfold.decode.translate import Translator

PAIRS_AT_ONCE = 2000


def score(
    model: ModelFolder,
    source: Annotated[str, typer.Argument(help="Source text; for a model that continues text, texts.")],
    target: Annotated[str | None, typer.Argument(help="Translations of the source text, line by line.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    settings: Set = None,
    partners: Partners = None,
    device: Device = "auto",
) -> None:
    """Print the log-probability of given translations, or of texts, under a model, one per line.

    The numbers are those that `sixfold translate --json` reports for the same text. For a model that continues
    text, each line is a whole text, and --json also reports bits per byte and every token.

    Example: sixfold score model test.en test.de
    """
    if continues_text(model):
        refuse_for_texts({"A second file": target, "--set": settings, "--with": partners})
        score_lines(model, source, as_json, device)
        return
    from sixfold.data.readers import open_pairs
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import load

    overrides, languages = read_settings("score", settings), read_languages("score", settings)
    length_penalty = make(SearchOptions, "decode", overrides.get("decode", {})).length_penalty
    if length_penalty is not None and not as_json:
        raise ConfigError("decode.length_penalty only affects the score in JSON.", "Add --json")
    translator = load(model, device, partners or ())
    with reader_may_leave():
        for scores in score_chunks(translator, open_pairs(source, target, languages=languages)):
            write_lines(as_rows(translator, scores, length_penalty) if as_json else as_numbers(scores))


def score_chunks(translator: Translator, given: Pairs) -> Iterator[list[Score]]:
    """Yield the scores of all pairs in chunks, and warn of truncated pairs."""
    from sixfold.callbacks import offset_by
    from sixfold.cli.progress_bar import progress

    pairs, done = iter(given), 0
    with progress("scoring") as on_progress:
        while chunk := list(islice(pairs, PAIRS_AT_ONCE)):
            scores = translator.score(
                [pair.source for pair in chunk], [pair.target for pair in chunk], offset_by(done, on_progress)
            )
            warn_of_cuts(scores, done)
            yield scores
            done += len(chunk)


def warn_of_cuts(scores: Sequence[Score], done: int) -> None:
    """Warn of truncated lines."""
    for number, each in enumerate(scores, start=done + 1):
        if each.is_cut:
            typer.echo(
                f"warning: line {number} is longer than the model's input limit; its end is not scored", err=True
            )


def as_numbers(scores: Sequence[Score]) -> Iterator[str]:
    """Yield one number per line."""
    for each in scores:
        yield f"{each.log_probability:.4f}"


def as_rows(translator: Translator, scores: Sequence[Score], length_penalty: float | None) -> Iterator[str]:
    """Yield one JSON object per line."""
    for each in scores:
        yield json.dumps({**asdict(each), "score": translator.penalised(each, length_penalty)})
