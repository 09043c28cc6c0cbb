"""Files that survive a crash: the old content or the new, nothing half written and nothing left over."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import pytest

from sixfold import files
from sixfold.errors import WorkError
from sixfold.files import replacing, sha256, write_atomically


def names(folder: Path) -> list[str]:
    """Return everything in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_and_replaced_without_leftovers(tmp_path: Path) -> None:
    for content in (b"old", b"new and longer", b""):
        write_atomically(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
        assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.ENOSPC, "full"), WorkError),
        (ValueError(), ValueError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, error: BaseException, raised: type[BaseException]
) -> None:
    write_atomically(tmp_path / "file", b"old")

    def write_half() -> None:
        with replacing(tmp_path / "file") as temporary:
            temporary.write_bytes(b"half of the n")
            raise error

    with pytest.raises(raised):
        write_half()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_last_moment_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write_atomically(tmp_path / "file", b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(*((os, "fsync", fail) if call == "fsync" else (Path, "replace", fail)))
    with pytest.raises(WorkError, match="Input/output error"):
        write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_the_content_is_on_disk_before_it_takes_its_place_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    sync, replace = files.sync, Path.replace

    def recorded_sync(path: Path) -> None:
        calls.append(f"sync {'folder' if path.is_dir() else path.read_bytes().decode()}")
        sync(path)

    def recorded_replace(path: Path, target: Path) -> Path:
        calls.append("replace")
        return replace(path, target)

    monkeypatch.setattr(files, "sync", recorded_sync)
    monkeypatch.setattr(Path, "replace", recorded_replace)
    write_atomically(tmp_path / "file", b"new")
    assert calls == ["sync new", "replace", "sync folder"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_decides_who_may_read_a_file(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "file") as temporary:
            temporary.touch(mode=0o600)  # as safetensors does
        assert files.current_umask() == umask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_place_that_cannot_be_written_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    places = [tmp_path / "missing" / "new", tmp_path / "file" / "new", tmp_path / "folder", tmp_path / ("n" * 300)]
    for path in places:
        with pytest.raises(WorkError, match="Cannot write") as failed:
            write_atomically(path, b"new")
        assert str(path) in failed.value.message
        assert failed.value.hint
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(WorkError, match="Permission denied"):
        write_atomically(tmp_path / "file", b"new")
    assert names(tmp_path) == []


def test_a_read_only_disk_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("open", "unlink", "write_bytes"):  # even to delete what is not there is refused
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(WorkError, match="Read-only file system"):
        write_atomically(tmp_path / "file", b"new")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_called_full(number: int) -> None:
    assert "full" in files.disk_hint(OSError(number, os.strerror(number)))
    assert "full" not in files.disk_hint(PermissionError(errno.EACCES, "Permission denied"))


@pytest.mark.parametrize("size", [0, 1, 2**20 + 1])
def test_the_digest_is_that_of_the_whole_content(tmp_path: Path, size: int) -> None:
    content = bytes(i % 251 for i in range(size))
    (tmp_path / "file").write_bytes(content)
    assert sha256(tmp_path / "file") == hashlib.sha256(content).hexdigest()
