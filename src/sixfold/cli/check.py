"""`sixfold check`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import AsJson, Examples, Set
from sixfold.cli.set_option import read_settings
from sixfold.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from sixfold.data.checks.report import CheckRequest, Count, Finding, Lengths, Report
    from sixfold.training.task import Task

ForTask = Annotated[str | None, typer.Option(help="What the data is for; by default, detected from the data.")]
TestSet = Annotated[
    list[str] | None,
    typer.Option("--test", metavar="FILE or SOURCE TARGET", help="A test set that must not be in the data."),
]
CleanPrefix = Annotated[
    Path | None,
    typer.Option(
        metavar="PREFIX",
        help="Write the clean data: PREFIX.en and PREFIX.de, PREFIX.tsv, PREFIX.txt or PREFIX.jsonl.",
    ),
]


def check(
    inputs: Examples,
    task: ForTask = None,
    test: TestSet = None,
    as_json: AsJson = False,
    write_clean: CleanPrefix = None,
    settings: Set = None,
) -> None:
    """Check data for faults before training on it: pairs, plain text or conversations.

    Finds duplicates, empty and overlong examples, control characters, encoding damage, mixed languages, records
    that cannot be read, and what is also in a test set; in pairs also misaligned lines and wrong lengths, in text
    boilerplate, in conversations missing answers and contradictions.

    Examples: sixfold check train.en train.de --test test.en test.de --write-clean clean; sixfold check books/
    """
    from sixfold.cli.progress_bar import progress
    from sixfold.data.checks.report import CheckRequest
    from sixfold.data.streams import keep_pipes
    from sixfold.tasks.registry import task_for

    request = CheckRequest(
        keep_pipes(inputs), keep_pipes(test or []), read_settings("check", settings), write_clean
    )
    chosen = task_for(request.inputs, task, "check")
    refuse_unused(chosen, request)
    with progress("checking") as on_progress:
        report = chosen.check(request, on_progress)
    if as_json:
        print(json.dumps({"task": chosen.name, **report.record()}, ensure_ascii=False))
    else:
        show(report)
    if report.written:
        print(kept(report), file=sys.stderr)


def refuse_unused(task: Task, request: CheckRequest) -> None:
    """Refuse a setting that does not apply to this kind of data."""
    known = task.recipe.known()["data"]
    for key in request.overrides.get("data", {}):
        if key not in known:
            raise ConfigError(f"data.{key} does not apply to the task {task.name}.", "Leave it out.")


def kept(report: Report) -> str:
    """Return a line on what was written."""
    counts = " and ".join(f"{count.clean:,} of {count.total:,} {count.unit}" for count in report.counts)
    return f"kept {counts}: {' and '.join(map(str, report.written))}"


def show(report: Report) -> None:
    """Print the report for a person."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 120)
    for part, lengths in report.lengths.items():
        name = report.names.get(part, part)
        console.print(f"{part}{'' if name == part else f' ({name})'}: {describe(lengths)}")
    for fact in report.facts:
        console.print(fact)
    if report.findings:
        console.print(table_of(report))
    console.print(verdict(report))


def describe(lengths: Lengths) -> str:
    """Return lengths as a phrase."""
    return (
        f"{mean(lengths.mean_words)} words on average (99% have at most {lengths.p99_words:,}), "
        f"{mean(lengths.mean_characters)} characters (at most {lengths.p99_characters:,})"
    )


def mean(value: float) -> str:
    """Return a mean with a sensible number of digits."""
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def table_of(report: Report) -> Table:
    """Return the findings as a table."""
    from rich.table import Table

    totals = {count.unit: count.total for count in report.counts}
    table = Table()
    table.add_column("fault", no_wrap=True)
    table.add_column("found", justify="right", no_wrap=True)
    table.add_column("share", justify="right")
    table.add_column("first lines")
    table.add_column("what it means")
    for finding in report.findings:
        found = f"{finding.count:,} {one_or_many(finding.unit, finding.count)}"
        share = percent(finding.count, totals[finding.unit]) if finding.unit in totals else ""
        table.add_row(finding.kind, found, share, places(finding, report.num_files > 1), finding.meaning)
    return table


def one_or_many(unit: str, count: int) -> str:
    """Return the unit of a count: pairs, or pair."""
    return unit.removesuffix("s") if count == 1 else unit


def percent(count: int, total: int) -> str:
    """Return a percentage; a small one is never rounded to zero."""
    return f"{count / total:.2%}" if count >= total / 10_000 else "<0.01%"


def places(finding: Finding, has_many_files: bool) -> str:
    """Return the lines of a finding, with their files if there are several, and … if there are more."""
    if has_many_files:
        shown = [f"{Path(file).name}:{line}" for file, line in zip(finding.files, finding.lines, strict=True)]
    else:
        shown = [str(line) for line in finding.lines]
    return ", ".join(shown) + (" …" if finding.count > len(shown) else "")


def verdict(report: Report) -> str:
    """Return the report as a sentence for each unit counted."""
    if report.urgent:
        return f"{amount(report.counts[0])}, but {report.urgent}"
    if not report.findings:
        return f"{', '.join(map(amount, report.counts))}, and no faults were found."
    if all(count.clean == count.total for count in report.counts):
        return f"{' and '.join(map(amount, report.counts))}: nothing needs to be removed."
    return " ".join(map(sentence, report.counts))


def amount(count: Count) -> str:
    """Return a count with its unit."""
    return f"{count.total:,} {one_or_many(count.unit, count.total)}"


def sentence(count: Count) -> str:
    """Return a count, and how many of them have a fault for which they are removed."""
    faulty = count.total - count.clean
    if not faulty:
        return f"{amount(count)}, {'all ' if count.total > 1 else ''}clean."
    are = "is" if count.clean == 1 else "are"
    share = percent(faulty, count.total)
    return f"{amount(count)}, {faulty:,} of them ({share}) with a fault; {count.clean:,} {are} clean."
