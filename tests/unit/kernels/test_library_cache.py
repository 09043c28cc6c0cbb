"""A cached library is loaded only if it is intact and this user's own; every other one is compiled again."""

from __future__ import annotations

import os
import random
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.files import cache_folder, replacing
from sixfold.kernels import build, cached

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

ANSWER = "int answer(void) { return 42; }\n"
NOBODY = 65534
OPEN = (
    "import sys; from pathlib import Path; from sixfold.kernels import build;"
    "found = build.compiled(Path(sys.argv[1]), sys.argv[2]);"
    "print(found.library and found.library.answer(), found.reason)"
)


TRIAL = "kernel_trial:trial"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a small C file, with an empty cache and a trial that only `sys.path` can reach."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(build.VARIABLE, raising=False)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "kernel_trial.py").write_text(
        "import ctypes, os, signal\n"
        "from sixfold.kernels.trial import WrongResultError\n"
        "def trial(path):\n"
        "    answer = ctypes.CDLL(path).answer()\n"
        "    if answer < 0: os.kill(os.getpid(), -answer)\n"
        "    if answer == 7: raise MemoryError('no memory left')\n"
        "    if answer != 42: raise WrongResultError('the answer is wrong')\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "modules")
    path = tmp_path / "answer.c"
    path.write_text(ANSWER)
    build.opened.cache_clear()
    yield path
    build.opened.cache_clear()


def compiled(source: Path) -> build.Compiled:
    """Return the library as a new process would find it."""
    build.opened.cache_clear()
    return build.compiled(source, TRIAL)


def in_new_process(source: Path) -> str:
    """Return the answer of the library and why there is none, from a process that a damaged library may kill."""
    path = os.pathsep.join(map(str, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(source), TRIAL],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def only_library() -> Path:
    [path] = cache_folder().glob("*.so")
    return path


def flip(content: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": lambda content, draw: content[: draw.randrange(len(content))],
    "foreign": lambda _, draw: Path(draw.choice([sys.executable, "/bin/sh", __file__])).read_bytes(),
    "flipped": flip,
    "longer": lambda content, draw: content + draw.randbytes(9),
}


def test_twenty_damaged_libraries_of_twenty_are_compiled_again(source: Path) -> None:
    assert in_new_process(source) == "42"
    path, draw = only_library(), random.Random(5)
    content = path.read_bytes()
    for damage in [damage for damage in DAMAGES.values() for _ in range(5)]:
        path.write_bytes(damage(content, draw))
        assert in_new_process(source) == "42"
        assert only_library().read_bytes() == content


def test_a_library_of_another_source_is_compiled_again(source: Path) -> None:
    assert compiled(source).library is not None
    stale = only_library()
    source.write_text("int more(void) { return 1; }\n" + ANSWER)
    found = compiled(source).library
    assert found is not None
    assert found.more() == 1
    assert stale.exists()  # an installation beside this one may need it


@needs_root
def test_a_library_of_another_user_is_compiled_again(source: Path) -> None:
    assert compiled(source).library is not None
    path = only_library()
    os.chown(path, NOBODY, NOBODY)
    assert compiled(source).library is not None
    assert only_library().stat().st_uid == os.geteuid()


def test_a_link_is_not_followed_to_a_library(source: Path, tmp_path: Path) -> None:
    assert compiled(source).library is not None
    path = only_library()
    path.rename(tmp_path / "elsewhere.so")
    path.symlink_to(tmp_path / "elsewhere.so")
    assert compiled(source).library is not None
    assert not only_library().is_symlink()


@needs_root
def test_the_cache_folder_of_another_user_is_refused(source: Path) -> None:
    assert compiled(source).library is not None
    os.chown(cache_folder(), NOBODY, NOBODY)
    found = compiled(source)
    assert found.library is None
    assert f"belongs to user {NOBODY}" in found.reason


def test_a_cache_folder_to_which_every_user_can_write_is_refused(source: Path) -> None:
    cache_folder().mkdir(parents=True)
    cache_folder().chmod(0o777)
    found = compiled(source)
    assert found.library is None
    assert "chmod o-w" in found.reason


def test_whatever_the_umask_only_the_user_can_write_to_the_cache(source: Path) -> None:
    before = os.umask(0)
    try:
        assert compiled(source).library is not None
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700
    assert stat.S_IMODE(only_library().stat().st_mode) == 0o600


def test_a_relative_cache_folder_is_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    found = compiled(source)
    assert found.library is None
    assert "XDG_CACHE_HOME must be an absolute path" in found.reason
    assert not (tmp_path / "here").exists()
    with pytest.raises(ConfigError):
        cache_folder()


def test_two_containers_with_the_same_process_id_write_under_different_names(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with cached.new_library("answer") as one, cached.new_library("answer") as other:
        assert one != other
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    with replacing(tmp_path / "file") as one, replacing(tmp_path / "file") as other:
        assert one != other
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    assert source.exists()


# What is remembered


def remembered() -> list[Path]:
    return list(cache_folder().glob("*.refused"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("int answer(void) { return fortytwo; }\n", "compiling failed: .*fortytwo"),
        (ANSWER.replace("42", "41"), "the trial failed: the answer is wrong"),
        (ANSWER.replace("42", "-4"), "the trial died with SIGILL"),
    ],
)
def test_what_the_compiler_or_the_results_refuse_is_not_tried_again(
    source: Path, content: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_text(content)
    first = compiled(source)
    assert first.library is None
    assert re.search(reason, first.reason)
    monkeypatch.setattr(build, "first_failure", lambda *_: pytest.fail("it was tried again"))
    assert compiled(source) == first


@pytest.mark.parametrize(
    "content",
    [
        ANSWER.replace("42", "7"),  # memory ran out in the trial
        ANSWER.replace("42", "-9"),  # the system killed it
        '#include "header-to-come.h"\n' + ANSWER,
    ],
)
def test_a_temporary_failure_is_not_remembered(source: Path, content: str) -> None:
    source.write_text(content)
    assert compiled(source).reason
    assert not remembered()


def test_a_full_disk_is_not_remembered(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    message = f"{source}:1: fatal error: error writing to /tmp/x.s: No space left on device"
    (programs / "cc").write_text(f"#!/bin/sh\necho '{message}' >&2\nexit 1\n")
    (programs / "cc").chmod(0o755)
    before = os.environ["PATH"]
    monkeypatch.setenv("PATH", f"{programs}:{before}")
    assert "No space left" in compiled(source).reason
    assert not remembered()
    (programs / "cc").unlink()
    assert compiled(source).library is not None


def test_a_temporary_failure_does_not_leave_a_library_for_a_lesser_target(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write_text("#ifndef BEST\n#define BEST 42\n#endif\n" + ANSWER.replace("42", "BEST"))
    monkeypatch.setattr(build, "TARGETS", (("-DBEST=7",), ()))
    assert "no memory left" in compiled(source).reason
    monkeypatch.setattr(build, "TARGETS", (("-DBEST=41",), ()))
    assert compiled(source).library is not None


@pytest.mark.parametrize("flags", [("-no-such-flag",), ("-march=no-such-processor",)])
def test_a_flag_that_the_compiler_does_not_know_leads_to_the_next_target(
    source: Path, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "TARGETS", (flags, ()))
    assert compiled(source).library is not None


def test_a_failure_that_is_remembered_can_be_forgotten(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write_text(ANSWER.replace("42", "41"))
    assert compiled(source).library is None
    assert remembered()
    build.forget_failures()
    assert not remembered()
    tried: list[object] = []
    monkeypatch.setattr(build, "first_failure", lambda *given: tried.append(given))
    compiled(source)
    assert tried
