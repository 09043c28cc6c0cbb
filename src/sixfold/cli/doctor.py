"""`sixfold doctor`."""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from sixfold.cli.flags import AsJson

if TYPE_CHECKING:
    from rich.table import Table

    from sixfold.machine import Machine, PrecisionProbe

NOT_FOR_USERS = ("dev",)


@dataclass(frozen=True)
class Extra:
    """A group of optional packages, each with its version, or None if it is not installed."""

    name: str
    packages: Mapping[str, str | None]
    command: str  # installs it

    @property
    def is_installed(self) -> bool:
        """Whether all its packages are installed."""
        return None not in self.packages.values()


@dataclass(frozen=True)
class CompiledKernels:
    """Whether the CPU uses compiled kernels, and if not, why."""

    are_used: bool
    reason: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """The report of `sixfold doctor`."""

    python: str
    system: str
    packages: Mapping[str, str | None]
    machine: Machine
    kernels: CompiledKernels
    extras: tuple[Extra, ...]


def doctor(as_json: AsJson = False) -> None:
    """Show what this machine can do, and what was switched off and why.

    Checks cores, memory, devices and installed packages. The first run also tests in a child process which CPU
    instructions really work, and caches the result in the user's cache folder. Kernels that could not be compiled
    before are tried again.

    Example: sixfold doctor
    """
    from sixfold.kernels import retry
    from sixfold.machine import cached_probe

    retry()

    if cached_probe() is None:
        print("testing which CPU instructions work; this is done once per machine", file=sys.stderr)
    found = diagnose()
    if as_json:
        print(json.dumps(asdict(found), ensure_ascii=False))
    else:
        show(found)


def diagnose() -> Diagnosis:
    """Collect the report."""
    from sixfold import __version__
    from sixfold.kernels import activation, attention, causal_attention, dropout, mkl
    from sixfold.kernels.contexts import find_context_kernels
    from sixfold.kernels.decoding import find_kernels
    from sixfold.kernels.encoding import find_encoder_kernels
    from sixfold.machine import describe

    needed = requirements("sixfold")
    parts = (attention, causal_attention, activation, dropout)
    kernels = (find_kernels(), find_context_kernels(), find_encoder_kernels(), *(each.kernels() for each in parts))
    reasons = (*(each.reason for each in kernels), mkl.slow_because())
    missing = next(filter(None, reasons), "")
    extras = (
        Extra(name, versions(packages), f"pip install 'sixfold[{name}]'")
        for name, packages in needed.items()
        if name and name not in NOT_FOR_USERS
    )
    return Diagnosis(
        python=platform.python_version(),
        system=platform.platform(),
        packages={"sixfold": __version__, **versions(needed.get("", ()))},
        machine=describe(),
        kernels=CompiledKernels(are_used=not missing, reason=missing),
        extras=tuple(extras),
    )


def requirements(distribution: str) -> dict[str, list[str]]:
    """Return the packages that an installed distribution needs, by extra; those it always needs under "".

    Empty for one that runs from its source folder.
    """
    from importlib import metadata

    found: dict[str, list[str]] = {}
    try:
        lines = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return found
    for line in lines:
        extra = re.search(r"""extra\s*==\s*['"]([\w.-]+)['"]""", line)
        package = re.match(r"[\w.-]+", line)
        if package:
            found.setdefault(extra[1] if extra else "", []).append(package[0])
    return found


def versions(packages: list[str] | tuple[str, ...]) -> dict[str, str | None]:
    """Return the installed version of each package, None for a missing one."""
    from importlib import metadata

    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def show(found: Diagnosis) -> None:
    """Print the report for a person."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(two_columns(machine_rows(found)))
    console.print("Switched off:" if found.machine.switched_off else "Nothing had to be switched off.")
    for sentence in found.machine.switched_off:
        console.print(f"- {sentence}")
    if not found.extras:
        console.print("Packages are listed only if sixfold was installed with pip.")
        return
    console.print(two_columns(package_rows(found.packages, found.extras)))


def two_columns(rows: Iterable[tuple[str, str]]) -> Table:
    """Return rows of a name and a value as a table."""
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def machine_rows(found: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield the properties of the machine."""
    machine = found.machine
    yield "processor", machine.cpu_model
    yield "cores", str(machine.num_cores)
    yield "memory", f"{gibibytes(machine.memory_bytes)}, {gibibytes(machine.available_memory_bytes)} of it free"
    yield "devices", ", ".join(machine.devices)
    yield "bfloat16 on the CPU", in_words(machine.probe.bfloat16)
    yield "int8 on the CPU", in_words(machine.probe.int8)
    slower = f"some are missing, so the CPU is slower: {found.kernels.reason}"
    yield "compiled kernels", "used" if found.kernels.are_used else slower
    yield "system", found.system
    yield "Python", found.python
    yield "torch", machine.torch_version
    yield "sixfold", found.packages["sixfold"] or ""


def package_rows(packages: Mapping[str, str | None], extras: Iterable[Extra]) -> Iterator[tuple[str, str]]:
    """Yield the packages, and the extras with the command that installs what is missing."""
    yield "packages", listed({name: version for name, version in packages.items() if name != "sixfold"})
    for extra in extras:
        missing = "" if extra.is_installed else f": {extra.command}"
        yield f"extra {extra.name}", listed(extra.packages) + missing


def listed(packages: Mapping[str, str | None]) -> str:
    """Return packages with their versions as a phrase."""
    return ", ".join(f"{name} {version or 'not installed'}" for name, version in packages.items())


def in_words(probe: PrecisionProbe) -> str:
    """Return the result of a probe as a phrase."""
    if not probe.works:
        return f"no: {probe.failure}"
    return f"works within {probe.isa_limit}" if probe.isa_limit else "works"


def gibibytes(count: int) -> str:
    """Return a number of bytes for people."""
    return f"{count / 2**30:.1f} GiB"
