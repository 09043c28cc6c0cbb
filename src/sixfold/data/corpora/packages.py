"""One file of a published package, fetched from the index that pip or npm is configured for, and cached.

pip would build a source distribution to find its dependencies, which executes it. So pip is only asked which
indexes it uses; their file lists (PEP 503) are read here and the one file is fetched. Its digest is known in
advance and verified before the file is used. Nothing is executed or extracted.
"""

from __future__ import annotations

import ast
import base64
import http.client
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import IO, Literal

from sixfold.callbacks import OnProgress, no_progress
from sixfold.errors import DownloadError
from sixfold.files import cache_folder, make_folder, replacing
from sixfold.files import sha256 as digest_of

Index = Literal["pypi", "npm"]

MEGABYTE = 1_000_000
MAX_LIST_BYTES = 64 * MEGABYTE
MAX_FILE_BYTES = 8_000 * MEGABYTE
BLOCK_BYTES = 1 << 18
PATIENCE = 30.0  # seconds without a byte
ATTEMPTS = 3
NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ValueError)
DEFAULT_INDEX = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


def fetch_package(
    index: Index, name: str, version: str, file_suffix: str, sha256: str, on_progress: OnProgress = no_progress
) -> Path:
    """Return a package's file in the cache, fetched if it is absent or damaged, and verified by its SHA-256.

    `file_suffix` is what follows name and version: `-py3-none-any.whl`, `.tar.gz`, `.tgz` (npm). `on_progress`
    gets the megabytes fetched so far.
    """
    path = cache_folder() / f"{file_stem(name)}-{version}{file_suffix}"
    if path.is_file() and digest_of(path) == sha256:
        return path
    try:
        make_folder(path.parent)
        with replacing(path) as temporary:
            if index == "npm":
                fetch_from_npm(f"{name}@{version}", temporary)
            else:
                fetch_from_pypi(name, path.name, temporary, on_progress)
            check_digest(temporary, path.name, sha256)
    except DownloadError as error:
        message = f"{name} {version} could not be fetched: {error.message}."
        raise DownloadError(message, f"Try again; or get the file elsewhere and put it at {path}") from error
    except OSError as error:
        raise DownloadError(f"The cache folder {path.parent} cannot be used: {error.strerror}.") from error
    return path


def file_stem(name: str) -> str:
    """Return the beginning of a package's file names: `a_b` for `a-b`, `@a/b` and `a.b`."""
    return re.sub(r"[-_./]+", "_", name.removeprefix("@"))


def check_digest(path: Path, name: str, expected: str) -> None:
    """Raise unless the file has the expected digest."""
    found = digest_of(path)
    if found != expected:
        raise DownloadError(f"{name} should have the SHA-256 {expected}, but the file fetched has {found}")


def run(command: Sequence[str]) -> str:
    """Return what a command prints; if it fails, raise with the last line it printed."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=600, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(f"{Path(command[0]).name} does not run ({error})") from error
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.decode(errors="replace").split("\n") if line.strip()]
        raise DownloadError((said or [f"{Path(command[0]).name} gave no reason"])[-1])
    return done.stdout.decode(errors="replace")


# npm


def fetch_from_npm(package: str, target: Path) -> None:
    """Write the archive of an npm package to a path; none of its scripts runs."""
    npm = shutil.which("npm")
    if npm is None:
        raise DownloadError("it is an npm package, and npm is not installed")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as folder:
        run([npm, "pack", package, "--pack-destination", folder, "--ignore-scripts", "--loglevel=error"])
        archives = list(Path(folder).glob("*.tgz"))
        if len(archives) != 1:
            raise DownloadError(f"npm pack left {len(archives)} archives, and one was expected")
        archives[0].replace(target)


# PyPI, or the index that replaces it


@dataclass(frozen=True)
class PipSettings:
    """pip's configuration: which indexes it uses, and how it reaches them."""

    indexes: tuple[str, ...]
    certificates: str = ""
    proxy: str = ""

    def open(self, url: str) -> IO[bytes]:
        """Open a URL; a user and a password in it are sent as pip sends them."""
        context = ssl.create_default_context(cafile=self.certificates or None)
        handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPSHandler(context=context)]
        if self.proxy:
            handlers.append(urllib.request.ProxyHandler({"http": self.proxy, "https": self.proxy}))
        address, authorization = without_user(url)
        request = urllib.request.Request(address, headers={"Accept": "text/html, */*;q=0.1"})
        if authorization:
            request.add_unredirected_header("Authorization", authorization)
        answer: IO[bytes] = urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE)
        return answer


def without_user(url: str) -> tuple[str, str]:
    """Return a URL without the user and the password in it, and the header that carries them."""
    parts = urllib.parse.urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    token = base64.b64encode(urllib.parse.unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {token}"


def pip_settings() -> PipSettings:
    """Ask pip for its configuration; where sections disagree, pip follows the later of these."""
    said = run([sys.executable, "-m", "pip", "config", "list"])
    chosen: dict[str, str] = {}
    for section in ("global.", "download.", ":env:."):
        for line in said.splitlines():
            key, is_entry, value = line.partition("=")
            if is_entry and key.startswith(section):
                chosen[key.removeprefix(section)] = str(ast.literal_eval(value))
    if chosen.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        raise DownloadError("pip is configured to use no index")
    first = chosen.get("index-url") or run([sys.executable, "-c", DEFAULT_INDEX]).strip()
    indexes = (first, *chosen.get("extra-index-url", "").split())
    return PipSettings(indexes, chosen.get("cert", ""), chosen.get("proxy", ""))


def fetch_from_pypi(name: str, file: str, target: Path, on_progress: OnProgress) -> None:
    """Write a project's file to a path, from the first of pip's indexes that has it."""
    settings = pip_settings()
    reasons = []
    for index in settings.indexes:
        try:
            urls = [url for url in list_files(settings, index, name) if is_named(file, url)]
            if urls:
                download(settings, urls[0], target, on_progress)
                return
            reasons.append(f"pip's index has no file {file}")
        except NETWORK_ERRORS as error:
            reasons.append(f"pip's index cannot be read ({getattr(error, 'reason', error)})")
    raise DownloadError("; ".join(dict.fromkeys(reasons)))


def list_files(settings: PipSettings, index: str, name: str) -> list[str]:
    """Return the URLs of a project's files on an index."""
    page = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    links = Links()
    with settings.open(f"{page}index.html" if page.startswith("file:") else page) as answer:
        links.feed(answer.read(MAX_LIST_BYTES).decode(errors="replace"))
    return [urllib.parse.urljoin(page, link) for link in links.found]


class Links(HTMLParser):
    """Collects the targets of the links in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the address of a link."""
        if tag == "a":
            self.found += [value for key, value in attrs if key == "href" and value]


def is_named(file: str, url: str) -> bool:
    """Return whether a URL points to a file of this name; projects use `-`, `_` and `.` interchangeably."""
    found = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    return re.sub(r"[-_.]+", "-", found).lower() == re.sub(r"[-_.]+", "-", file).lower()


def download(settings: PipSettings, url: str, target: Path, on_progress: OnProgress) -> None:
    """Download a URL to a path; a broken connection is tried again."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            copy(settings, url, target, on_progress)
            return
        except NETWORK_ERRORS:
            if attempt == ATTEMPTS:
                raise


def copy(settings: PipSettings, url: str, target: Path, on_progress: OnProgress) -> None:
    """Download a URL to a path, up to a limit."""
    done = 0
    with settings.open(url) as answer, target.open("wb") as file:
        for block in iter(partial(answer.read, BLOCK_BYTES), b""):
            done += len(block)
            if done > MAX_FILE_BYTES:
                raise DownloadError(f"the file is larger than {MAX_FILE_BYTES // MEGABYTE:,} MB")
            file.write(block)
            on_progress(done // MEGABYTE)
