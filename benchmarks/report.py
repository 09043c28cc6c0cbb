"""What every benchmark shares: rounds that take turns, records with their spread, one table, one JSON file."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Record:
    """One measured number: the median of its repeats, with the smallest and the largest of them."""

    benchmark: str
    case: str
    engine: str
    metric: str
    value: float
    low: float
    high: float
    repeats: int
    unit: str
    machine: str = field(default_factory=lambda: machine())
    versions: dict[str, str] = field(default_factory=lambda: versions())


def record(benchmark: str, case: str, engine: str, metric: str, values: Sequence[float], unit: str) -> Record:
    """Return the record of one number that was measured several times."""
    middle = float(statistics.median(values))
    return Record(benchmark, case, engine, metric, middle, min(values), max(values), len(values), unit)


def counted(benchmark: str, case: str, engine: str, metric: str, number: int, unit: str) -> Record:
    """Return the record of a count, which says nothing about speed: it is made without importing sixfold."""
    return Record(benchmark, case, engine, metric, number, number, number, 1, unit, machine=processor())


def take_turns(
    measures: Mapping[str, Callable[[], dict[str, float]]], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Run all measures in every round, one after the other, so that a busy minute touches all alike."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            for metric, value in measure().items():
                found[name].setdefault(metric, []).append(value)
    return found


def as_options(settings: Iterable[str]) -> list[str]:
    """Return the options of `sixfold train` that say these settings."""
    return [word for setting in settings for word in ("--set", setting)]


def run(command: list[str]) -> tuple[str, float]:
    """Run a process; return what it printed and its peak memory in megabytes."""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed")  # it has said why
        output.seek(0)
        return output.read(), usage.ru_maxrss / 1024


def machine() -> str:
    """Return the processor's name and how many cores may be used."""
    from sixfold.machine import num_cores  # here, so that a benchmark can count without importing sixfold

    return f"{processor()}, {num_cores()} cores"


def processor() -> str:
    """Return the processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of what was measured."""
    found = {"python": platform.python_version()}
    for package in ("sixfold", "torch", "transformers", "ctranslate2", "llama-cpp-python"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def shown(number: float) -> str:
    """Return a number with the digits that mean something."""
    return f"{number:,.4g}" if abs(number) < 1000 else f"{number:,.0f}"


def publish(records: Sequence[Record], title: str, json_file: Path | None) -> None:
    """Print the table, and write the records if a file is given."""
    table = Table(title=title)
    for heading in ("case", "engine", "metric"):
        table.add_column(heading)
    for heading in ("median", "lowest", "highest", "unit"):
        table.add_column(heading, justify="right")
    for each in records:
        numbers = map(shown, (each.value, each.low, each.high))
        table.add_row(each.case, each.engine, each.metric, *numbers, each.unit)
    Console().print(table)
    write_records(records, json_file)


def write_records(records: Sequence[Record], json_file: Path | None) -> None:
    """Write the records if a file is given."""
    if json_file:
        json_file.write_text(json.dumps([asdict(each) for each in records], indent=1) + "\n")
