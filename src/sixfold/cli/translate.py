"""`sixfold translate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from sixfold.cli.flags import ENGINE, Device, InPrecision, ModelFolder, Partners, Precision, Set
from sixfold.cli.output import is_typed, reader_may_leave, refuse_unseen, write_lines, write_piece
from sixfold.cli.set_option import read_settings, together
from sixfold.cli.token_records import token_records
from sixfold.settings import check_bounds, make, meanings, setting

if TYPE_CHECKING:
    from sixfold.callbacks import OnProgress
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.scoring import TokenScore
    from sixfold.decode.translate import Translation, Translator
    from sixfold.text.words import Link

    class SearchFunction(Protocol):
        """Either search of a translator."""

        def __call__(
            self, texts: Sequence[str], options: SearchOptions, *, on_progress: OnProgress, first_place: int
        ) -> list[list[Translation]]:
            """Return the translations of each text."""
            ...


LINES_AT_ONCE = 2000
CONTENT = "What translations contain"


@dataclass(frozen=True)
class JsonOptions:
    """The options of the JSON output."""

    alternatives: int = setting(
        0, "how many of the most probable tokens to show at each position in --json", 0, 100
    )

    def __post_init__(self) -> None:
        check_bounds(self)


InputFile = Annotated[str, typer.Argument(help="Text to translate, one sentence per line; - is standard input.")]
Beam = Annotated[int | None, typer.Option(help="Beam size; 1: greedy search.")]
NBest = Annotated[int | None, typer.Option(help="Number of translations of each line, best first.")]
Sample = Annotated[
    float | None,
    typer.Option(
        metavar="TEMPERATURE",
        help="Sample each token at this temperature instead of searching; higher is more varied.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object per line, with scores, tokens, alignment and warnings.")
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PHRASE", help="Phrase that every translation must contain; repeatable.", rich_help_panel=CONTENT
    ),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PHRASE", help="Phrase that no translation may contain; repeatable.", rich_help_panel=CONTENT
    ),
]
Protect = Annotated[
    bool,
    typer.Option(
        "--protect",
        help="Keep addresses, placeholders such as {name} and %s, and inline tags unchanged.",
        rich_help_panel=CONTENT,
    ),
]
NumWorkers = Annotated[
    int,
    typer.Option(min=0, max=256, help="Processes for long inputs; 0: one per core.", rich_help_panel=ENGINE),
]


def translate(
    model: ModelFolder,
    file: InputFile = "-",
    beam: Beam = None,
    n_best: NBest = None,
    sample: Sample = None,
    as_json: AsJson = False,
    settings: Set = None,
    require: Require = None,
    forbid: Forbid = None,
    protect: Protect = False,
    partners: Partners = None,
    precision: InPrecision = Precision.float32,
    workers: NumWorkers = 0,
    device: Device = "auto",
) -> None:
    """Translate text, line by line.

    Prints one line for each input line, in the same order (with --n-best N: N lines). Lines longer than the
    model's input limit are truncated with a warning. Phrases are matched case-sensitively, as whole words.

    Example: echo "A man is sleeping." | sixfold translate model --beam 8
    """
    from sixfold.machine import num_cores, prepare_environment

    prepare_environment(precision.value)  # before torch is loaded
    from sixfold.decode.translate import load

    flags = {"beam": beam, "n_best": n_best, "sample": sample, "require": require, "forbid": forbid}
    options, in_json = read_options(flags, settings)
    refuse_unseen(in_json.alternatives, as_json)
    translator = load(model, device, partners or (), precision.value, workers or num_cores())
    can_stream = translator.decoder.plan(options).can_stream  # checks the options before a line is read
    with reader_may_leave():
        if is_typed(file) and can_stream and not (as_json or protect):
            answer_typed_lines(translator, file, options)
        else:
            search = translator.search_protected if protect else translator.search
            translate_lines(translator, search, file, options, in_json.alternatives if as_json else None)


def read_options(
    flags: Mapping[str, object | None], settings: Sequence[str] | None
) -> tuple[SearchOptions, JsonOptions]:
    """Return the options of the search and of the JSON output, from flags and `--set`."""
    from sixfold.decode.options import SearchOptions

    values = together("decode", flags, read_settings("translate", settings).get("decode"))
    in_json = {name: values.pop(name) for name in meanings(JsonOptions) if name in values}
    return make(SearchOptions, "decode", values), make(JsonOptions, "decode", in_json)


def answer_typed_lines(translator: Translator, file: str, options: SearchOptions) -> None:
    """Show each translation as it is generated."""
    from sixfold.data.readers import read_lines

    for place, line in enumerate(read_lines(file)):
        for piece in translator.stream(line, options, place):
            write_piece(piece)
        write_lines([""])
        if not translator.reads_whole(line):
            say_that_input_is_cut(place + 1)


def translate_lines(
    translator: Translator, search: SearchFunction, file: str, options: SearchOptions, alternatives: int | None
) -> None:
    """Translate a file or standard input; with JSON output if a number of alternatives is given."""
    from sixfold.callbacks import offset_by
    from sixfold.cli.progress_bar import progress
    from sixfold.data.readers import read_lines

    lines = read_lines(file)
    at_once = 1 if is_typed(file) else LINES_AT_ONCE
    done = 0
    with progress("translating") as on_progress:
        while chunk := list(islice(lines, at_once)):
            found = search(
                chunk,
                options,
                on_progress=offset_by(done, on_progress),
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
    """Warn of a line that was not translated completely."""
    if translation.source_is_cut:
        say_that_input_is_cut(number)
    if translation.is_cut:
        typer.echo(f"warning: the translation of line {number} reached its length limit", err=True)


def say_that_input_is_cut(number: int) -> None:
    """Warn that the end of a line was not read."""
    typer.echo(
        f"warning: line {number} is longer than the model's input limit; its end is not translated", err=True
    )


def as_texts(translations: list[Translation], n_best: int) -> list[str]:
    """Return the output lines for one input line; an empty line gets as many as any other."""
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
    """Return the word alignment and the warnings."""
    flags = translator.flags(source, translation)
    return {"alignment": [asdict(link) for link in links], "flags": [asdict(flag) for flag in flags]}


def as_record(translator: Translator, translation: Translation, tokens: Sequence[TokenScore]) -> dict[str, object]:
    """Return the JSON record of one translation."""
    return {
        "text": translation.text,
        "score": translation.score,
        "log_probability": translation.log_probability,
        "num_tokens": translation.num_tokens,
        "is_cut": translation.is_cut,
        "source_is_cut": translation.source_is_cut,
        "tokens": token_records(translator.tokenizer, tokens),
    }
