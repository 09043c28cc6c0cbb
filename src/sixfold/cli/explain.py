"""`sixfold explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explain(
    model: Annotated[Path, typer.Argument(help="A model folder.")],
    text: Annotated[str | None, typer.Argument(help="A sentence to translate and explain.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page to write.")] = None,
    training: Annotated[bool, typer.Option("--training", help="Show how the model was trained.")] = False,
    sample: Annotated[
        Path | None,
        typer.Option(help="Sentences, one a line, to tell what each head tends to do."),
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses kept at a time; 1 is greedy.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Write one HTML page that shows what the model did: attention, choices, beam search, positions.

    The page needs nothing but a browser, now or in years: no network, no other file.

    Example: sixfold explain model "A man is sleeping." -o page.html
    """
    from sixfold.errors import ConfigError

    if training == (text is not None):
        raise ConfigError(
            "Give either a sentence or --training.",
            f'sixfold explain {model} "A man is sleeping."  or  sixfold explain {model} --training',
        )
    path = (output or Path("training.html" if training else "explain.html")).resolve()
    refuse_place(path)
    if text is None:
        refuse_other_options(sample, beam)
        page = training_page(model)
    else:
        page = sentence_page(model, text, sample, beam, device)
    write_page(path, page, output or Path(path.name))


def refuse_place(path: Path) -> None:
    """Refuse to write where a page cannot stand, or where it would destroy something else."""
    from sixfold.errors import RequestError

    if not path.parent.is_dir():
        raise RequestError(f"There is no folder {path.parent} to write the page into.", "Make it first.")
    if path.exists() and not path.is_file():
        raise RequestError(f"{path} is no file that a page could replace.", "Name a file: -o page.html")
    if (path.parent / "sixfold.json").exists():
        raise RequestError(f"{path.parent} is a model folder, which holds nothing else.", "Write it beside it.")


def refuse_other_options(sample: Path | None, beam: int | None) -> None:
    """Refuse options that a training has no use for, instead of ignoring them."""
    from sixfold.errors import ConfigError

    if sample is not None or beam is not None:
        raise ConfigError("--sample and --beam are for a sentence, not for --training.", "Leave them out.")


def refuse_other_than_a_line(text: str) -> None:
    """Refuse what a model cannot read as one sentence."""
    from sixfold.errors import DataError

    if not text.strip():
        raise DataError("The sentence is empty.", 'For example: sixfold explain model "A man is sleeping."')
    if "\n" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise DataError("The sentence must be one line of text in UTF-8.")


def training_page(model: Path) -> str:
    """Return the page of a training."""
    from sixfold.explain import read_training, render_training

    return render_training(read_training(model))


def sentence_page(model: Path, text: str, sample: Path | None, beam: int | None, device: str) -> str:
    """Return the page of a sentence."""
    from sixfold.data.readers import read_lines
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import load
    from sixfold.explain import explain, find_habits, render, sample_sentences

    refuse_other_than_a_line(text)
    options = SearchOptions(beam=beam)
    sentences = None if sample is None else list(read_lines(str(sample)))
    translator = load(model, device)
    if sentences is None:
        sentences = sample_sentences(model, translator)
    habits = find_habits(translator, sentences) if any(line.strip() for line in sentences) else None
    explanation = explain(translator, text, options, habits, model.resolve().name)
    typer.echo(explanation.translation)
    for note in explanation.notes:
        typer.echo(f"warning: {note}", err=True)
    return render(explanation)


def write_page(path: Path, page: str, shown: Path) -> None:
    """Write the page and say where it is, in the words of the user."""
    from sixfold.files import write_atomically

    content = page.encode()
    write_atomically(path, content)
    typer.echo(f"{shown}: {len(content) / 1000:,.0f} kB, open it in a browser", err=True)
