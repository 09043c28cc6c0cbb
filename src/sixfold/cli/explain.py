"""`sixfold explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sixfold.cli.flags import Device, ModelFolder


def explain(
    model: ModelFolder,
    text: Annotated[str | None, typer.Argument(help="The sentence to translate and explain.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The HTML file to write.")] = None,
    training: Annotated[bool, typer.Option("--training", help="Show the training curves instead.")] = False,
    sample: Annotated[
        Path | None,
        typer.Option(help="Sentences to measure head roles on, one per line."),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Beam width; 1: greedy search.")] = None,
    device: Device = "auto",
) -> None:
    """Write an HTML page that shows how a sentence is translated: attention, probabilities, beam search and more.

    The page is self-contained: it opens from disk in any browser, without a network.

    Example: sixfold explain model "A man is sleeping." -o page.html
    """
    from sixfold.errors import ConfigError

    if training == (text is not None):
        raise ConfigError(
            "Give either a sentence or --training, not both or neither.",
            f'sixfold explain {model} "A man is sleeping."  or  sixfold explain {model} --training',
        )
    path = (output or Path("training.html" if training else "explain.html")).resolve()
    check_output(path)
    if text is None:
        check_training_options(sample, beam)
        page = training_page(model)
    else:
        page = sentence_page(model, text, sample, beam, device)
    write_page(path, page, output or Path(path.name))


def check_output(path: Path) -> None:
    """Refuse an output path that is not a file, or that lies in a model folder."""
    from sixfold.errors import RequestError

    if not path.parent.is_dir():
        raise RequestError(f"The folder {path.parent} does not exist.", f"mkdir -p {path.parent}")
    if path.exists() and not path.is_file():
        raise RequestError(f"{path} exists and is not a regular file.", "Choose another file: -o page.html")
    if (path.parent / "sixfold.json").exists():
        raise RequestError(
            f"{path.parent} is a model folder; pages cannot be written into it.",
            "Choose another folder: -o page.html",
        )


def check_training_options(sample: Path | None, beam: int | None) -> None:
    """Refuse options that only apply to a sentence, instead of ignoring them."""
    from sixfold.errors import ConfigError

    if sample is not None or beam is not None:
        raise ConfigError("--sample and --beam apply to a sentence, not to --training.", "Leave them out.")


def check_sentence(text: str) -> None:
    """Refuse a sentence that is empty, has several lines or is not valid Unicode."""
    from sixfold.errors import DataError

    if not text.strip():
        raise DataError("The sentence is empty.", 'For example: sixfold explain model "A man is sleeping."')
    if "\n" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError("The sentence must be a single line of valid UTF-8.")


def training_page(model: Path) -> str:
    """Return the page of a training run."""
    from sixfold.explain import read_training, render_training

    return render_training(read_training(model))


def sentence_page(model: Path, text: str, sample: Path | None, beam: int | None, device: str) -> str:
    """Return the explain page of a sentence, and print its translation and warnings."""
    from sixfold.data.readers import read_lines
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import load
    from sixfold.explain import explain, measure_head_roles, render, sample_sentences

    check_sentence(text)
    options = SearchOptions(beam=beam)
    sentences = None if sample is None else list(read_lines(str(sample)))
    translator = load(model, device)
    if sentences is None:
        sentences = sample_sentences(model, translator)
    head_roles = measure_head_roles(translator, sentences) if any(line.strip() for line in sentences) else None
    explanation = explain(translator, text, options, head_roles, model.resolve().name)
    typer.echo(explanation.translation)
    for note in explanation.notes:
        typer.echo(f"warning: {note}", err=True)
    return render(explanation)


def write_page(path: Path, page: str, shown: Path) -> None:
    """Write the page and report its path, as the user gave it."""
    from sixfold.files import write_atomically

    content = page.encode()
    write_atomically(path, content)
    typer.echo(f"{shown}: {len(content) / 1000:,.0f} kB; open it in a browser", err=True)
