"""`sixfold translate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from sixfold.cli.output import reader_may_leave, write_lines

if TYPE_CHECKING:
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.scoring import TokenScore
    from sixfold.decode.translate import Translation, Translator
    from sixfold.text.words import Link
    from sixfold.ticks import Tick

    class SearchFunction(Protocol):
        """Either search of a translator."""

        def __call__(
            self, texts: Sequence[str], options: SearchOptions, *, tick: Tick, first_place: int
        ) -> list[list[Translation]]:
            """Return the translations of each text."""
            ...


class Precision(StrEnum):
    """How weights are kept while translating."""

    float32 = "float32"
    int8 = "int8"


LINES_AT_ONCE = 2000
SEARCH, DRAW, CONTENT = "Searching for the best", "Drawing at random", "What must and must not be written"


def translate(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    file: Annotated[
        str, typer.Argument(help="Text to translate, one sentence a line; - is standard input.")
    ] = "-",
    n_best: Annotated[int, typer.Option(help="Translations of each line, best first.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with scores, tokens, alignment and flags.")
    ] = False,
    alternatives: Annotated[
        int, typer.Option(help="In --json, the most probable tokens in the place of each.")
    ] = 0,
    partners: Annotated[
        list[Path] | None,
        typer.Option("--with", metavar="MODEL", help="Average with another model of the same tokenizer."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        Precision, typer.Option(help="int8 is faster on a CPU, and nearly as good.")
    ] = Precision.float32,
    workers: Annotated[
        int, typer.Option(min=0, max=256, help="Processes for long inputs; 0: one for each core.")
    ] = 0,
    beam: Annotated[
        int | None, typer.Option(help="Hypotheses kept at a time; 1 is greedy.", rich_help_panel=SEARCH)
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(help="α of the GNMT length penalty.", rich_help_panel=SEARCH)
    ] = None,
    read_back: Annotated[
        float | None,
        typer.Option(
            help="What it counts that the source can be told from a translation; 0 is faster.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    diverse: Annotated[
        float | None,
        typer.Option(
            metavar="COST",
            help="What a token costs that another of the n best has; 0.5 is a good start.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    sample: Annotated[
        float | None,
        typer.Option(
            metavar="TEMPERATURE",
            help="Draw each token; 1 as probable as it is, less is more careful.",
            rich_help_panel=DRAW,
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Draw from the k most probable tokens.", rich_help_panel=DRAW)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Draw from the most probable tokens that reach p together.", rich_help_panel=DRAW),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Decides the draws.", rich_help_panel=DRAW)] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Every translation begins with it.", rich_help_panel=CONTENT)
    ] = "",
    require: Annotated[
        list[str] | None,
        typer.Option(metavar="PHRASE", help="Stands in every translation; repeatable.", rich_help_panel=CONTENT),
    ] = None,
    forbid: Annotated[
        list[str] | None,
        typer.Option(metavar="PHRASE", help="Stands in none; repeatable.", rich_help_panel=CONTENT),
    ] = None,
    protect: Annotated[
        bool,
        typer.Option(
            "--protect",
            help="Addresses, placeholders such as {name} and %s, and inline tags stay as they are.",
            rich_help_panel=CONTENT,
        ),
    ] = False,
    min_length: Annotated[int, typer.Option(help="At least so many tokens.", rich_help_panel=CONTENT)] = 0,
    max_length: Annotated[
        int | None, typer.Option(help="At most so many tokens.", rich_help_panel=CONTENT)
    ] = None,
    no_repeat: Annotated[
        int | None, typer.Option(metavar="N", help="No N tokens in a row twice.", rich_help_panel=CONTENT)
    ] = None,
) -> None:
    """Translate text, line by line.

    One line comes out for each line that goes in, in the same order (with --n-best N: N lines). Text longer than a
    model reads at once is cut, and that is said. Phrases are matched as they are written, as whole words.

    Example: echo "A man is sleeping." | sixfold translate model
    """
    from sixfold.machine import num_cores, prepare_environment

    prepare_environment(precision.value)  # before torch is loaded
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import load
    from sixfold.errors import ConfigError

    options = SearchOptions(
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        read_back=read_back,
        sample=sample,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        diverse=diverse,
        prefix=prefix,
        require=tuple(require or ()),
        forbid=tuple(forbid or ()),
        min_length=min_length,
        max_length=max_length,
        no_repeat=no_repeat,
    )
    if not 0 <= alternatives <= 100:
        raise ConfigError(f"alternatives must be from 0 to 100, but is {alternatives}.")
    if alternatives and not as_json:
        raise ConfigError("alternatives are only shown in JSON.", "Add --json")
    translator = load(model, device, partners or (), precision.value, workers or num_cores())
    translator.prepare(options)  # refuse before a line is read
    with reader_may_leave():
        if is_typed(file) and translator.prepare(options).can_stream and not (as_json or protect):
            answer_typed_lines(translator, file, options)
        else:
            search = translator.search_protected if protect else translator.search
            translate_lines(translator, search, file, options, alternatives if as_json else None)


def is_typed(file: str) -> bool:
    """Whether a person types the lines and waits for each."""
    return file == "-" and sys.stdin.isatty()


def answer_typed_lines(translator: Translator, file: str, options: SearchOptions) -> None:
    """Show each translation as it is written."""
    from sixfold.data.readers import read_lines

    for place, line in enumerate(read_lines(file)):
        for piece in translator.stream(line, options, place):
            sys.stdout.write(piece)
            sys.stdout.flush()
        write_lines([""])
        if not translator.reads_whole(line):
            say_that_input_is_cut(place + 1)


def translate_lines(
    translator: Translator, search: SearchFunction, file: str, options: SearchOptions, alternatives: int | None
) -> None:
    """Translate a file or standard input; as JSON if a number of alternatives is given."""
    from sixfold.cli.progress import progress
    from sixfold.data.readers import read_lines
    from sixfold.ticks import counted_from

    lines = read_lines(file)
    at_once = 1 if is_typed(file) else LINES_AT_ONCE
    done = 0
    with progress("translating") as tick:
        while chunk := list(islice(lines, at_once)):
            found = search(
                chunk,
                options,
                tick=counted_from(done, tick),
                first_place=done,
            )
            for number, translations in enumerate(found, start=done + 1):
                warn_of_cuts(number, translations[0])
            if alternatives is None:
                write_lines(row for translations in found for row in as_texts(translations, options.n_best))
            else:
                write_lines(as_json_rows(translator, chunk, found, alternatives))
            done += len(chunk)


def warn_of_cuts(number: int, translation: Translation) -> None:
    """Say which line was not translated whole."""
    if translation.source_is_cut:
        say_that_input_is_cut(number)
    if translation.is_cut:
        typer.echo(f"warning: the translation of line {number} reached its length limit", err=True)


def say_that_input_is_cut(number: int) -> None:
    """Say that the end of a line was not read."""
    typer.echo(
        f"warning: line {number} is longer than the model reads at once; its end is not translated", err=True
    )


def as_texts(translations: list[Translation], n_best: int) -> list[str]:
    """Return the output lines for one input line: as many for an empty one as for any other."""
    texts = [translation.text for translation in translations]
    return texts + [""] * (n_best - len(texts))


def as_json_rows(
    translator: Translator, lines: Sequence[str], found: Sequence[list[Translation]], alternatives: int
) -> Iterator[str]:
    """Yield one JSON object for each input line."""
    sources = [line for line, translations in zip(lines, found, strict=True) for _ in translations]
    targets = [each.text for translations in found for each in translations]
    scores, links = (
        iter(translator.token_scores(lines, found, alternatives)),
        iter(translator.align(sources, targets)),
    )
    for line, translations in zip(lines, found, strict=True):
        rows = [
            as_record(translator, each, next(scores)) | as_evidence(translator, line, each, next(links))
            for each in translations
        ]
        yield json.dumps({"source": line, "translations": rows}, ensure_ascii=False)


def as_evidence(
    translator: Translator, source: str, translation: Translation, links: Sequence[Link]
) -> dict[str, object]:
    """Return which words belong together, and what is suspicious."""
    from dataclasses import asdict

    flags = translator.flags(source, translation)
    return {"alignment": [asdict(link) for link in links], "flags": [asdict(flag) for flag in flags]}


def as_record(translator: Translator, translation: Translation, tokens: Sequence[TokenScore]) -> dict[str, object]:
    """Return what JSON tells of one translation."""
    pieces = translator.tokenizer.pieces([each.token for each in tokens])
    return {
        "text": translation.text,
        "score": translation.score,
        "read_back": translation.read_back,
        "log_probability": translation.log_probability,
        "num_tokens": translation.num_tokens,
        "is_cut": translation.is_cut,
        "source_is_cut": translation.source_is_cut,
        "tokens": [
            {"token": piece, "log_probability": each.log_probability} | shown_alternatives(translator, each)
            for piece, each in zip(pieces, tokens, strict=True)
        ],
    }


def shown_alternatives(translator: Translator, token: TokenScore) -> dict[str, object]:
    """Return the most probable tokens in a token's place, if they were asked for."""
    if not token.alternatives:
        return {}
    ids, log_probs = zip(*token.alternatives, strict=True)
    pieces = translator.tokenizer.pieces(ids)
    return {
        "alternatives": [
            {"token": piece, "log_probability": log_prob}
            for piece, log_prob in zip(pieces, log_probs, strict=True)
        ]
    }
