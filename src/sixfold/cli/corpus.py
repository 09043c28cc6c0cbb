"""`sixfold corpus`: get a known corpus, or list them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sixfold.data.corpora import CorpusFiles, Split, TextCorpus

NUM_EXAMPLES = 3
EXAMPLE = 200  # characters of a text


def corpus(
    name: Annotated[str | None, typer.Argument(help="A known corpus; if left out, all are listed.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the files (default: ./NAME).")
    ] = None,
    languages: Annotated[
        str | None, typer.Option(help="Source and target language, such as en-fr (default: the corpus's own).")
    ] = None,
    pairs: Annotated[
        int | None, typer.Option(help="Pairs in train (default: all; 60,000 in generated corpora).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed for generating or for choosing the pairs to keep (default: 1).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files with other content.")] = False,
) -> None:
    """Download or generate a known corpus: files for training, validation and test.

    Example: sixfold corpus phrasebook --pairs 5000 -o phrasebook
    """
    if name is None:
        list_corpora()
        return
    from sixfold.cli.progress_bar import progress
    from sixfold.data.corpora import fetch, fetch_texts, known

    if known(name).languages is None:
        refuse_options_of_pairs(name, {"--languages": languages, "--pairs": pairs, "--seed": seed})
        with progress(f"getting {name}", unit="MB") as on_progress:
            texts = fetch_texts(name, output or Path(name), on_progress, force)
        show_texts(texts)
        return
    sides = parse_languages(languages) if languages else None
    with progress(f"getting {name}", unit="items") as on_progress:
        files = fetch(name, output or Path(name), sides, pairs, 1 if seed is None else seed, on_progress, force)
    show(files)


def refuse_options_of_pairs(name: str, options: dict[str, object]) -> None:
    """Refuse options that only apply to a corpus of pairs."""
    from sixfold.errors import ConfigError

    if given := [option for option, value in options.items() if value is not None]:
        raise ConfigError(
            f"{given[0]} is for corpora of pairs, and {name} has no pairs.", f"sixfold corpus {name}"
        )


def parse_languages(text: str) -> tuple[str, str]:
    """Read `en-de`; a language may itself contain a hyphen, as in en-zh-Hans."""
    from sixfold.data.corpora import KNOWN_CORPORA
    from sixfold.errors import ConfigError

    languages = KNOWN_CORPORA["home-assistant"].others
    cuts = [place for place, character in enumerate(text) if character == "-"]
    options = [(text[:cut], text[cut + 1 :]) for cut in cuts if 0 < cut < len(text) - 1]
    if not options:
        raise ConfigError(
            f"--languages takes two languages with a hyphen between them, but got {text!r}.", "Try en-de."
        )
    return max(options, key=lambda option: sum(language in languages for language in option))


def list_corpora() -> None:
    """Print the known corpora, one per line."""
    from rich.console import Console
    from rich.table import Table

    from sixfold.data.corpora import KNOWN_CORPORA

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("corpus", "holds", "what it is"):
        table.add_column(heading, no_wrap=heading != "what it is")
    for known in KNOWN_CORPORA.values():
        more = f" (and {len(known.others) - 2} more)" if known.others else ""
        table.add_row(known.name, "-".join(known.languages or (known.holds,)) + more, known.summary)
    Console().print(table)
    print("\nGet one: sixfold corpus phrasebook")


def show(files: CorpusFiles) -> None:
    """Print a corpus's origin, licence, size and examples, and what to type next."""
    print(f"{files.name}, {'-'.join(files.languages)}")
    print(f"  source   {files.origin}")
    print(f"  licence  {files.licence}")
    for split in files.splits.values():
        print(f"  {split.name:<8} {split.num_pairs:>7,} pairs  {split.source}  {split.target}")
    print(f"  overlap  {files.overlap:>7,} test pairs also occur in train")
    for note in files.notes:
        print(f"  {note}")
    print("\nFrom the test split:")
    for source, target in examples(files.splits["test"]):
        print(f"  {source}\n    {target}")
    train = files.splits["train"]
    print(f"\nNext: sixfold train {shell(train.source)} {shell(train.target)} -o model")


def show_texts(corpus: TextCorpus) -> None:
    """Print a text corpus's origin, licence, size and an excerpt, and what to type next."""
    print(corpus.name)
    print(f"  source   {corpus.origin}")
    print(f"  licence  {corpus.licence}")
    for split in corpus.splits.values():
        files = f", {split.num_files} files" if split.num_files > 1 else ""
        size = f"{split.num_bytes:>11,} bytes, {split.num_characters:>11,} characters{files}"
        print(f"  {split.name:<8} {size}  {split.path}")
    for note in corpus.notes:
        print(f"  {note}")
    print("\nFrom the test split:")
    print(f"  {' '.join(corpus.splits['test'].path.read_text(encoding='utf-8')[:2000].split())[:EXAMPLE]}…")
    print(f"\nNext: sixfold train {shell(corpus.splits['train'].path)} -o model")


def examples(split: Split) -> list[tuple[str, str]]:
    """Return a few pairs, spread over the split."""
    sides = [path.read_bytes().decode().split("\n")[:-1] for path in (split.source, split.target)]
    step = max(1, split.num_pairs // NUM_EXAMPLES)
    return list(zip(*(side[step // 2 :: step][:NUM_EXAMPLES] for side in sides), strict=True))


def shell(path: Path) -> str:
    """Quote a path for a shell."""
    import shlex

    return shlex.quote(str(path))
