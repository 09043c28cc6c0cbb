"""`sixfold check`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.set_option import read_languages

if TYPE_CHECKING:
    from rich.table import Table

    from sixfold.data.corpus_check import Finding, LengthStatistics, Report
    from sixfold.data.readers import Pairs


def check(
    source: Annotated[
        Path, typer.Argument(help="Source text, or one file that holds both sides; - is standard input.")
    ],
    target: Annotated[Path | None, typer.Argument(help="Target text, line n for line n.")] = None,
    test: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--test",
            metavar="SOURCE TARGET",
            help="A test set (or two folders of them) that must not be in the text.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    write_clean: Annotated[
        Path | None,
        typer.Option(
            "--write-clean",
            metavar="PREFIX",
            help="Write the clean pairs: PREFIX.en and PREFIX.de, or PREFIX.tsv (tabs inside become spaces).",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=r"See below; for example 'data.languages=\[en, de]'."),
    ] = None,
) -> None:
    """Check parallel text for faults before training on it.

    Finds empty, overlong, duplicate and untranslated pairs, lengths that do not match, wrong scripts, control
    characters, encoding damage, misaligned lines, and pairs that are also in a test set.
    Reads line-aligned files, TSV, JSONL, TMX, Parquet and PO, also compressed, or folders of them.

    Example: sixfold check train.en train.de --test test.en test.de --write-clean clean
    """
    from sixfold.data.clean import clean_paths, refuse_overwriting
    from sixfold.data.readers import open_pairs

    languages = read_languages("check", settings)
    pairs = open_pairs(source, target, languages=languages)
    test_pairs = open_pairs(*test, languages=languages) if test else None
    outputs = clean_paths(write_clean, source, target) if write_clean else ()
    refuse_overwriting(outputs, pairs.paths)
    report = checked(pairs, test_pairs, outputs)
    if as_json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    else:
        show(report, pairs.sides or ("source", "target"), len(pairs.parts) > 1)
    if outputs:
        kept = f"kept {report.num_clean:,} of {report.num_pairs:,} pairs"
        print(f"{kept}: {' and '.join(map(str, outputs))}", file=sys.stderr)


def checked(pairs: Pairs, test_pairs: Pairs | None, outputs: Sequence[Path]) -> Report:
    """Check the pairs, and write the clean ones if there is a place for them."""
    from sixfold.cli.progress_bar import progress
    from sixfold.data.clean import writing_pairs
    from sixfold.data.corpus_check import check_pairs

    writing = writing_pairs(outputs) if outputs else nullcontext(lambda _: None)
    with writing as keep, progress("checking") as on_progress:
        return check_pairs(pairs, test_pairs, on_progress, keep=keep)


def show(report: Report, sides: tuple[str, str], has_many_files: bool) -> None:
    """Print the report for a person."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 120)
    for side, name, lengths in zip(("source", "target"), sides, (report.source, report.target), strict=True):
        console.print(f"{side}{'' if name == side else f' ({name})'}: {describe(lengths)}")
    if report.findings:
        console.print(table_of(report, has_many_files))
    console.print(verdict(report))


def describe(lengths: LengthStatistics) -> str:
    """Return the lengths of a side as a phrase."""
    return (
        f"{lengths.mean_words:,} words a line (99% have at most {lengths.p99_words:,}), "
        f"{lengths.mean_characters:,} characters (at most {lengths.p99_characters:,})"
    )


def table_of(report: Report, has_many_files: bool) -> Table:
    """Return the findings as a table."""
    from rich.table import Table

    table = Table()
    table.add_column("fault", no_wrap=True)
    table.add_column("pairs", justify="right")
    table.add_column("share", justify="right")
    table.add_column("first lines")
    table.add_column("what it means")
    for finding in report.findings:
        first_lines = places(finding, has_many_files)
        share = percent(finding.count, report.num_pairs)
        table.add_row(finding.kind, f"{finding.count:,}", share, first_lines, finding.meaning)
    return table


def percent(count: int, total: int) -> str:
    """Return a percentage that never rounds something to nothing."""
    return f"{count / total:.2%}" if count >= total / 10_000 else "<0.01%"


def places(finding: Finding, has_many_files: bool) -> str:
    """Return the lines of a finding, with their files if there are several; … says that there are more."""
    if has_many_files:
        shown = [f"{Path(file).name}:{line}" for file, line in zip(finding.files, finding.lines, strict=True)]
    else:
        shown = [str(line) for line in finding.lines]
    return ", ".join(shown) + (" …" if finding.count > len(shown) else "")


def verdict(report: Report) -> str:
    """Return the report in one line."""
    pairs = f"{report.num_pairs:,} {'pair' if report.num_pairs == 1 else 'pairs'}"
    num_faulty = report.num_pairs - report.num_clean
    if any(not finding.is_removed for finding in report.findings):
        return f"{pairs}, but source and target are misaligned: fix that first."
    if not num_faulty:
        return f"{pairs}, and no faults were found."
    share = percent(num_faulty, report.num_pairs)
    return f"{pairs}, {num_faulty:,} of them ({share}) with a fault; {report.num_clean:,} are clean."
