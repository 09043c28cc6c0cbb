"""The cache of compiled libraries in the user's cache folder, and of the reasons why some could not be compiled.

Loading a library executes it, and a truncated one kills the process. So folder and file must belong to this user,
and a library's name ends with the digest of its content, which is verified before it is loaded.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sixfold.errors import ConfigError, WorkError
from sixfold.files import cache_folder, sha256, sync, write_atomically


def cached_library(key: str) -> Path | None:
    """Return the intact library of a key, or None."""
    folder = cache_folder()
    if not folder.exists():
        return None
    refuse_shared(folder)
    return next(filter(is_intact, sorted(folder.glob(f"{key}-*.so"))), None)


@contextlib.contextmanager
def new_library(key: str) -> Iterator[Path]:
    """Yield a path to write a library to; if the block succeeds, `cached_library` finds it."""
    folder = cache_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_shared(folder)
    with tempfile.TemporaryDirectory(prefix=f".{key}-", dir=folder) as temporary:  # its name is random
        path = Path(temporary) / "library.so"
        yield path
        path.chmod(0o600)  # only this user may load it
        sync(path)
        library = folder / f"{key}-{sha256(path)}.so"
        path.replace(library)
        sync(folder)
    for damaged in set(folder.glob(f"{key}-*.so")) - {library}:
        damaged.unlink(missing_ok=True)


def is_intact(path: Path) -> bool:
    """Return whether a library belongs to this user and its content has the digest in its name."""
    status = path.lstat()
    is_own_file = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_own_file and path.stem.endswith(f"-{sha256(path)}")


def refuse_shared(folder: Path) -> None:
    """Raise if another user could have written to a folder."""
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise WorkError(
            f"the cache folder {folder} belongs to user {status.st_uid}, but this process to user {os.geteuid()}: "
            "set XDG_CACHE_HOME to a folder of your own"
        )
    if status.st_mode & stat.S_IWOTH:
        raise WorkError(f"every user can write to the cache folder {folder}: run `chmod o-w {folder}`")


def refusal_path(key: str) -> Path:
    """Return the file with the reason why a library cannot be compiled."""
    return cache_folder() / f"{key}.refused"


def refusal(key: str) -> str:
    """Return the reason why a library cannot be compiled, or an empty string."""
    path = refusal_path(key)
    return path.read_text(encoding="utf-8") if path.exists() else ""


def remember_refusal(key: str, reason: str) -> None:
    """Cache the reason why a library cannot be compiled."""
    write_atomically(refusal_path(key), reason.encode())


def forget_refusals() -> int:
    """Delete the reasons that can be deleted, so that those libraries are tried again; return their number."""
    num_deleted = 0
    with contextlib.suppress(OSError, RuntimeError, ConfigError):
        for path in cache_folder().glob("*.refused"):
            path.unlink()
            num_deleted += 1
    return num_deleted
