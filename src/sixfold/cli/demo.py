"""`sixfold demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sixfold.data.corpora import CorpusFiles

NUM_SHOWN = 8
MOST_MINUTES = 6.0


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the corpus and the model.")] = Path(
        "demo"
    ),
    minutes: Annotated[float, typer.Option(min=0.2, help="Training time.")] = MOST_MINUTES,
    corpus: Annotated[str, typer.Option(help="A corpus of `sixfold corpus`.")] = "home-assistant",
    languages: Annotated[str, typer.Option(help="The language pair.")] = "en-de",
) -> None:
    """Run the whole workflow in minutes: corpus, check, plan, train, translate, score, explain.

    It trains a translation model on about 30,000 interface texts translated by people, and scores it on programs
    that are not in the training text.

    Example: sixfold demo
    """
    from sixfold.errors import RequestError

    if (output / "model").exists():
        raise RequestError(
            f"{output / 'model'} already exists.", f"Delete it, or choose another folder: -o {output}-2"
        )
    heading(1, "a corpus")
    files = get_corpus(corpus, output / "corpus", languages)
    train, test = files.splits["train"], files.splits["test"]
    heading(2, f"sixfold check {train.source} {train.target}")
    show_check(train.source, train.target)
    heading(3, f"sixfold train {train.source} {train.target} -o {output / 'model'} --minutes {minutes:g}")
    run_training(files, output / "model", minutes)
    heading(4, "translations of unseen texts, with --protect: placeholders stay unchanged")
    shown = show_translations(output / "model", test.source, test.target, train.source)
    heading(5, f"sixfold evaluate {output / 'model'} {test.source} {test.target} --protect")
    show_scores(output / "model", test.source, test.target, train.source)
    show_explanation(output / "model", shown[len(shown) // 2], output / "explained.html")
    heading(7, "what to type next")
    say_next(output / "model", test.source)


def show_explanation(model: Path, sentence: str, page: Path) -> None:
    """Write the page that explains a translation."""
    from sixfold.cli.explain import explain

    heading(6, f'sixfold explain {model} "{sentence}" -o {page}')
    explain(model, sentence, page)


def say_next(model: Path, text: Path) -> None:
    """Print commands to continue with."""
    typer.echo(f'  echo "Turn on the light in the kitchen." | sixfold translate {model}')
    typer.echo(f"  sixfold translate {model} --protect {text}")
    typer.echo(f"  sixfold serve {model}                          # a web page and an HTTP API")
    typer.echo("  sixfold train your.en your.de -o your-model          # all it takes is two text files")


def heading(number: int, text: str) -> None:
    """Print the heading of a step."""
    typer.secho(f"\n{number}. {text}", bold=True)


def get_corpus(name: str, folder: Path, languages: str) -> CorpusFiles:
    """Fetch the corpus; if that fails, report it and generate the phrasebook instead."""
    from sixfold.cli.corpus import parse_languages
    from sixfold.data.corpora import fetch
    from sixfold.errors import DownloadError

    try:
        files = fetch(name, folder, parse_languages(languages))
    except DownloadError as error:
        typer.echo(f"{name} is not available ({error.message}); using the phrasebook, which needs no download.")
        files = fetch("phrasebook", folder)
    counts = ", ".join(f"{split.num_pairs:,} {split.name}" for split in files.splits.values())
    typer.echo(f"{files.name}: {counts} pairs. {files.licence}. {files.origin}")
    return files


def show_check(source: Path, target: Path) -> None:
    """Run the corpus check."""
    from sixfold.cli.check import check

    check([str(source), str(target)])


def run_training(files: CorpusFiles, model: Path, minutes: float) -> None:
    """Train on the corpus with its own validation text."""
    from sixfold.tasks import train

    split, valid = files.splits["train"], files.splits["val"]
    outcome = train([split.source, split.target], model, valid=[valid.source, valid.target], minutes=minutes)
    if not outcome.finished:
        raise typer.Exit(code=130)


def show_translations(model: Path, source: Path, target: Path, train_source: Path) -> list[str]:
    """Print some translations with their references, chosen only by length among unseen texts."""
    from sixfold.data.readers import open_pairs, read_lines
    from sixfold.decode.translate import load

    known = set(read_lines(train_source))
    pairs = [pair for pair in open_pairs(source, target) if pair.source not in known]
    by_length = sorted(pairs, key=lambda pair: len(pair.source))
    chosen = by_length[len(by_length) // 4 :: max(1, len(by_length) // (2 * NUM_SHOWN))][:NUM_SHOWN]
    translations = load(model).search_protected([pair.source for pair in chosen])
    for pair, (best,) in zip(chosen, translations, strict=True):
        typer.echo(f"    {pair.source}\n  → {best.text}\n  = {pair.target}\n")
    return [pair.source for pair in chosen]


def show_scores(model: Path, source: Path, target: Path, train_source: Path) -> None:
    """Print the metrics on the test set, and BLEU on the sentences that are not in the training text."""
    from sixfold.callbacks import no_progress
    from sixfold.cli.evaluate import print_evaluation
    from sixfold.data.readers import open_pairs, read_lines
    from sixfold.evaluate.metrics import bleu
    from sixfold.evaluate.system import evaluate_system
    from sixfold.tasks.translate.outputs import translations_of

    pairs = list(open_pairs(source, target))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    system = translations_of(
        model, sources, references, beam=None, device="auto", on_progress=no_progress, is_protected=True
    )
    print_evaluation(evaluate_system(system, references))
    known = set(read_lines(train_source))
    unseen = [i for i, text in enumerate(sources) if text not in known]
    if 0 < len(unseen) < len(sources):
        metric = bleu([system.texts[i] for i in unseen], [references[i] for i in unseen])
        typer.echo(f"On the {len(unseen):,} sentences that are not in the training text: BLEU {metric.value:.2f}")
