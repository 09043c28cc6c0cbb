"""Compile C for this processor on first use, and cache the library in the user's cache folder.

If anything goes wrong (no compiler, a read-only folder, a library with wrong results), torch is used instead,
which is slower, and `sixfold doctor` says why. Sources that the compiler refuses and libraries with wrong results
are remembered and not tried again; every other failure may be temporary.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

from sixfold.errors import SixfoldError, WorkError
from sixfold.kernels.cached import cached_library, forget_refusals, new_library, refusal, remember_refusal
from sixfold.kernels.trial import Failure, WrongResultError, failure_of_trial, run
from sixfold.machine import cpu_flags, cpu_model, torch_version

VARIABLE = "SIXFOLD_KERNELS"  # off: use torch only
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
WIDE = ("-march=native", "-mprefer-vector-width=512")
Targets = tuple[tuple[str, ...], ...]
TARGETS: Targets = (WIDE, ("-march=native",), ("-march=x86-64-v3",), ())  # tried in this order
TRIAL_VARIABLES = {VARIABLE: "off", "OMP_NUM_THREADS": "1"}  # a trial must not wait for another library
REFUSED_FLAG = re.compile(
    r"^([\w./-]+: )?error: .*(unrecogni[sz]ed|unknown|unsupported|bad value|invalid|not support)", re.M
)
Kernels = TypeVar("Kernels")
OPENING = threading.Lock()  # so that only one of several threads compiles a library


@dataclass(frozen=True)
class Compiled:
    """A library, or the reason why there is none."""

    library: ctypes.CDLL | None
    reason: str  # empty if there is one


@dataclass(frozen=True)
class Found(Generic[Kernels]):
    """The functions of a library, or the reason why there are none."""

    kernels: Kernels | None
    reason: str  # empty if there are


def described(found: Compiled, describe: Callable[[ctypes.CDLL], Kernels]) -> Found[Kernels]:
    """Return the functions of a library; none if its structures do not match."""
    if found.library is None:
        return Found(None, found.reason)
    try:
        return Found(describe(found.library), "")
    except WrongResultError as error:
        return Found(None, str(error))


def compiled(source: Path, trial: str, flags: tuple[str, ...] = (), is_for_any: bool = False) -> Compiled:
    """Return the library of a C file, compiling it the first time; `flags` are added to the usual ones.

    `trial` is the `module:function` that a child process calls with a new library's path: it raises AssertionError
    or WrongResultError if the library's results are wrong. With `is_for_any`, it is compiled for any processor.
    """
    if os.environ.get(VARIABLE, "").lower() in ("off", "0", "no"):
        return Compiled(None, f"{VARIABLE}=off")
    with OPENING:
        return opened(source, trial, flags, ((),) if is_for_any else TARGETS)


def forget_failures() -> None:
    """Forget refused sources and wrong libraries, so that they are compiled again when needed."""
    if forget_refusals():
        opened.cache_clear()


@cache
def opened(source: Path, trial: str, flags: tuple[str, ...], targets: Targets) -> Compiled:
    """Load a library, once per process."""
    try:
        key = library_key(source, trial, flags, targets)
        path = cached_library(key) or build(source, trial, flags, targets, key)
        return Compiled(ctypes.CDLL(str(path)), "")
    except (OSError, RuntimeError, SixfoldError) as error:  # RuntimeError: the user has no home folder
        return Compiled(None, str(error))


def library_key(source: Path, trial: str, flags: tuple[str, ...], targets: Targets) -> str:
    """Return the beginning of a library's name, which identifies its sources, compiler and machine."""
    command = (*FLAGS, *flags, *map(str, targets), trial)
    facts = (*command, cpu_model(), cpu_flags(), platform.machine(), platform.release(), torch_version())
    sources = (source, *sorted(source.parent.glob("*.h")))
    content = b"\0".join(path.read_bytes() for path in sources)
    digest = hashlib.sha256(content + "\0".join(facts).encode()).hexdigest()[:16]
    return f"{source.stem}-{digest}"


def build(source: Path, trial: str, flags: tuple[str, ...], targets: Targets, key: str) -> Path:
    """Compile the library for the most capable target that works here, and return its path."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise WorkError(f"no C compiler was found ({', '.join(COMPILERS)})")
    key_of_refusal = f"{key}-{hashlib.sha256(identity(compiler).encode()).hexdigest()[:8]}"
    if reason := refusal(key_of_refusal):
        raise WorkError(reason)
    with new_library(key) as path:
        failure = first_failure([compiler, *FLAGS, *flags], targets, source, trial, path)
        if failure and failure.is_final:
            remember_refusal(key_of_refusal, failure.reason)
        if failure:
            raise WorkError(failure.reason)
    library = cached_library(key)
    if library is None:
        raise WorkError(f"the library {key} was damaged right after it was compiled")
    return library


def identity(program: str) -> str:
    """Return a text that changes when a compiler, or another file that a library depends on, is replaced."""
    status = Path(program).stat()
    return f"{program} {status.st_size} {status.st_mtime_ns}"


def first_failure(compiler: list[str], targets: Targets, source: Path, trial: str, path: Path) -> Failure | None:
    """Compile for one target after the other until one passes its trial; return the failure if none does.

    A temporary failure ends the attempt, because a library for a less capable target would be cached for good.
    """
    failures: list[Failure] = []
    for target in targets:
        failure = failure_of_compiler([*compiler, *target], source, path)
        failure = failure or failure_of_trial(trial, path, TRIAL_VARIABLES)
        if failure is None or not failure.is_final:
            return failure
        failures.append(failure)
    return failures[0]


def failure_of_compiler(command: list[str], source: Path, path: Path) -> Failure | None:
    """Compile a source; return the failure, or None.

    An error at a line of the source or of its headers, or about a flag, is final. A full disk, exhausted memory or
    a missing header ("fatal error") is not.
    """
    done = run([*command, str(source), "-o", str(path), "-lm"], "compiling", {"LC_ALL": "C"})
    if isinstance(done, Failure):
        return done
    in_source = re.search(rf"^{re.escape(str(source.parent))}/\S+:\d+:(\d+:)? error: .*", done.stderr, re.M)
    final = in_source or REFUSED_FLAG.search(done.stderr)
    line = final.group() if final else done.stderr.strip().rpartition("\n")[2]
    return Failure(f"compiling failed: {line}", final is not None) if done.returncode else None
