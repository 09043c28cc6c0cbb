"""Files that survive a crash: written atomically and verified by digest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from sixfold.errors import ConfigError, WorkError


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


BLANK = "0" * 64  # the placeholder of the digest in a sealed text


def seal(text: str) -> bytes:
    """Replace BLANK in a text by the SHA-256 of that text."""
    return text.replace(BLANK, hashlib.sha256(text.encode()).hexdigest(), 1).encode()


def is_sealed(content: bytes, digest: str) -> bool:
    """Return whether sealed content still matches its digest."""
    blank = content.replace(digest.encode(), BLANK.encode(), 1) if len(digest) == len(BLANK) else b""
    return hashlib.sha256(blank).hexdigest() == digest


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file atomically: a crash at any moment leaves the old or the new content."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it replaces `path` when the block succeeds."""
    temporary = temporary_beside(path)
    try:
        with writing(path):
            yield temporary
            make_durable(temporary)
            temporary.replace(path)
            sync(path.parent)
    finally:
        with contextlib.suppress(OSError):  # after a success it no longer exists
            temporary.unlink()


def temporary_beside(path: Path) -> Path:
    """Return a unique hidden name next to a path: containers may share folders and process ids."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write to `path` into an error with a hint."""
    try:
        yield
    except OSError as error:
        raise WorkError(f"Cannot write {path}: {error.strerror or error}.", disk_hint(error)) from error


def sync(path: Path) -> None:
    """Wait until a file or a folder has reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_durable(path: Path) -> None:
    """Give a new file the mode that the umask allows, and wait until it has reached the disk."""
    path.chmod(0o666 & ~current_umask())  # safetensors writes mode 0600 whatever the umask
    sync(path)


def make_folder(path: Path) -> None:
    """Create a folder and those above it, and wait until they have reached the disk."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def current_umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def disk_hint(error: OSError) -> str:
    """Return what to do about a failed write."""
    if error.errno in (28, 27, 122):  # ENOSPC, EFBIG, EDQUOT
        return "The disk is full or a limit was reached: make room and try again. The previous content is intact."
    return "Check that the folder exists and may be written to."


def cache_folder() -> Path:
    """Return the user's cache folder for Sixfold."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if not home.is_absolute():  # otherwise each working folder would have its own cache, maybe another user's
        raise ConfigError(
            f"XDG_CACHE_HOME must be an absolute path, but is {str(home)!r}.",
            f"export XDG_CACHE_HOME={home.absolute()}",
        )
    return home / "sixfold"
