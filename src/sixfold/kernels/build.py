"""C, compiled for this processor on first use and kept in the user's cache folder.

Whatever goes wrong (no compiler, a folder that cannot be written, a library that does not compute what it should),
work goes on without it, only slower, and `sixfold doctor` says why. A new library is first tried in a child
process, because a processor that traps its own instructions kills whoever tries them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sixfold.errors import WorkError
from sixfold.files import cache_folder, replacing
from sixfold.machine import cpu_flags, cpu_model

VARIABLE = "SIXFOLD_KERNELS"  # off: do without
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
WIDE = ("-march=native", "-mprefer-vector-width=512")
Targets = tuple[tuple[str, ...], ...]
TARGETS: Targets = (WIDE, ("-march=native",), ("-march=x86-64-v3",), ())  # tried in this order
SECONDS = 120.0
OPENING = threading.Lock()  # threads that need a library at the same time must not all compile it


@dataclass(frozen=True)
class Compiled:
    """A library, or why there is none."""

    library: ctypes.CDLL | None
    reason: str  # empty if there is one


def compiled(source: Path, trial: str, flags: tuple[str, ...] = (), is_for_any: bool = False) -> Compiled:
    """Return the library of a C file, compiling it the first time, with some flags more than usual.

    `trial` is the `module:function` that a child process calls with a new library's path: it raises if the library
    does not compute what it should. `is_for_any` says that no processor would be better served than any other.
    """
    if os.environ.get(VARIABLE, "").lower() in ("off", "0", "no"):
        return Compiled(None, f"{VARIABLE} says so")
    with OPENING:
        return opened(source, trial, flags, ((),) if is_for_any else TARGETS)


@cache
def opened(source: Path, trial: str, flags: tuple[str, ...], targets: Targets) -> Compiled:
    """Load a library, once in a process."""
    try:
        path = library_path(source, trial, flags, targets)
        if not path.exists():
            build(source, trial, flags, targets, path)
        return Compiled(ctypes.CDLL(str(path)), "")
    except (OSError, RuntimeError, WorkError, subprocess.SubprocessError) as error:  # RuntimeError: nobody's home
        return Compiled(None, str(error))


def library_path(source: Path, trial: str, flags: tuple[str, ...], targets: Targets) -> Path:
    """Return the file of the library made of this source for this processor."""
    command = (*FLAGS, *flags, *map(str, targets), trial)
    facts = (*command, cpu_model(), cpu_flags(), platform.machine(), platform.release())
    digest = hashlib.sha256(source.read_bytes() + "\0".join(facts).encode()).hexdigest()[:16]
    return cache_folder() / f"{source.stem}-{digest}.so"


def build(source: Path, trial: str, flags: tuple[str, ...], targets: Targets, path: Path) -> None:
    """Compile the library for the most capable target that works here; a failure is remembered."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise WorkError(f"no C compiler ({', '.join(COMPILERS)}) was found")
    path.parent.mkdir(parents=True, exist_ok=True)
    note = path.with_name(f"{path.stem}-{hashlib.sha256(identity(compiler).encode()).hexdigest()[:8]}.txt")
    if note.exists():
        raise WorkError(note.read_text(encoding="utf-8"))
    with replacing(path) as temporary:
        failure = first_failure([compiler, *FLAGS, *flags], targets, source, trial, temporary)
        if failure:
            note.write_text(failure, encoding="utf-8")
            raise WorkError(failure)


def identity(program: str) -> str:
    """Return what changes when a compiler, or whatever else a library depends on, is exchanged."""
    status = Path(program).stat()
    return f"{program} {status.st_size} {status.st_mtime_ns}"


def first_failure(compiler: list[str], targets: Targets, source: Path, trial: str, path: Path) -> str:
    """Compile for one target after the other until one passes its trial; return what went wrong if none does."""
    module, _, function = trial.partition(":")
    child = [sys.executable, "-P", "-c", f"import sys; from {module} import {function}; {function}(sys.argv[1])"]
    failures = []
    for target in targets:
        command = [*compiler, *target, str(source), "-o", str(path), "-lm"]
        failure = failure_of(command, "compiling") or failure_of([*child, str(path)], "the trial")
        if not failure:
            return ""
        failures.append(failure)
    return failures[0]


def failure_of(command: list[str], what: str) -> str:
    """Run a command; return how it failed, or nothing."""
    environment = os.environ | {VARIABLE: "off", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, env=environment, check=False
    )
    if done.returncode < 0:
        return f"{what} died with signal {-done.returncode}"
    last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return f"{what} failed: {last_line}" if done.returncode else ""
