"""Writing the clean pairs of a corpus: two aligned files, or one TSV file, and never a part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sixfold.data.content import COMPRESSED_SUFFIXES
from sixfold.data.readers import Pair
from sixfold.errors import ConfigError
from sixfold.files import replacing


def clean_paths(prefix: Path, source: Path, target: Path | None) -> tuple[Path, ...]:
    """Name the clean files after the originals: train.en.gz and train.de.gz give PREFIX.en and PREFIX.de."""
    suffixes = (".tsv",) if target is None else differing_suffixes(source, target)
    return tuple(prefix.with_name(prefix.name + suffix) for suffix in suffixes)


def differing_suffixes(source: Path, target: Path) -> tuple[str, str]:
    """Return the shortest endings that tell two names apart, or .source and .target."""
    left, right = plain_suffixes(source), plain_suffixes(target)
    for count in range(1, min(len(left), len(right)) + 1):
        if left[-count] != right[-count]:
            return "".join(left[-count:]), "".join(right[-count:])
    return ".source", ".target"


def plain_suffixes(path: Path) -> list[str]:
    """Return the suffixes of a name without that of its compression."""
    return [suffix for suffix in path.suffixes if suffix.lower() not in COMPRESSED_SUFFIXES]


def refuse_overwriting(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise if a file to write is one to read, or would be in no folder."""
    for output in outputs:
        if output.exists() and any(path.exists() and path.samefile(output) for path in inputs):
            raise ConfigError(f"The clean file {output} would replace its own input.", "Choose another prefix.")
        if not output.parent.is_dir():
            raise ConfigError(f"There is no folder {output.parent} to write into.", f"mkdir -p {output.parent}")


@contextmanager
def writing_pairs(paths: Sequence[Path]) -> Iterator[Callable[[Pair], None]]:
    """Yield a function that writes a pair; the files appear when the block ends well, and not otherwise."""
    with ExitStack() as stack:
        temporaries = [stack.enter_context(replacing(path)) for path in paths]
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in temporaries]

        def write_aligned(pair: Pair) -> None:
            files[0].write(f"{pair.source}\n")
            files[1].write(f"{pair.target}\n")

        def write_tsv(pair: Pair) -> None:
            source, target = (side.replace("\t", " ") for side in (pair.source, pair.target))
            files[0].write(f"{source}\t{target}\n")  # a tab inside a side would end it

        yield write_aligned if len(files) == 2 else write_tsv
