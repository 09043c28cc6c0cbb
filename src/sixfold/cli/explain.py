"""`sixfold explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import Device, ModelFolder, Set
from sixfold.cli.set_option import read_settings, together
from sixfold.errors import ConfigError, DataError, ModelFolderError, RequestError
from sixfold.settings import make
from sixfold.text.chat import Message

if TYPE_CHECKING:
    from sixfold.decode.generate_options import GenerateOptions
    from sixfold.explain.page import Page

TRANSLATIONS, TEXTS = "Models that translate", "Models that continue text"

Text = Annotated[
    str | None, typer.Argument(help="A sentence to translate, or a text to continue, and to explain.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="The HTML file to write.")]
Training = Annotated[bool, typer.Option("--training", help="Show the training curves instead.")]
Sample = Annotated[Path | None, typer.Option(help="Texts to measure head roles on, one per line.")]
Beam = Annotated[int | None, typer.Option(help="Beam width; 1: greedy search.", rich_help_panel=TRANSLATIONS)]
Read = Annotated[
    bool,
    typer.Option("--read", help="Show how the model reads the text; continue nothing.", rich_help_panel=TEXTS),
]
Chat = Annotated[bool, typer.Option("--chat", help="The text is a message to be answered.", rich_help_panel=TEXTS)]
MaxTokens = Annotated[
    int | None, typer.Option(help="Explain the first so many tokens that it writes.", rich_help_panel=TEXTS)
]


def explain(
    model: ModelFolder,
    text: Text = None,
    output: Output = None,
    training: Training = False,
    sample: Sample = None,
    beam: Beam = None,
    read: Read = False,
    chat: Chat = False,
    max_tokens: MaxTokens = None,
    settings: Set = None,
    device: Device = "auto",
) -> None:
    """Write an HTML page that shows how a model translates, continues or reads a text.

    Attention of every head, head roles, the probability of each token and its alternatives, positions, and the
    beam search of a translation. The page is self-contained: it opens from disk in any browser, without a network.
    A text goes on as `sixfold generate` continues it.

    Example: sixfold explain model "A man is sleeping." -o page.html
    """
    if training == (text is not None):
        raise ConfigError(
            "Give either a text or --training, not both or neither.",
            f'sixfold explain {model} "A man is sleeping."  or  sixfold explain {model} --training',
        )
    path = (output or Path("training.html" if training else "explain.html")).resolve()
    check_output(path)
    of_translations: dict[str, object] = {"--beam": beam}
    of_texts: dict[str, object] = {"--read": read, "--chat": chat, "--max-tokens": max_tokens, "--set": settings}
    if text is None:
        refuse_given({"--sample": sample, **of_translations, **of_texts}, "--training shows no text.")
        page = training_page(model)
    elif task_of(model) == "translate":
        refuse_given(of_texts, "This model translates.")
        page = translation_page(model, text, sample, beam, device)
    else:
        refuse_given(of_translations, "This model continues text.")
        page = text_page(model, text, sample, device, TextWishes(read, chat, max_tokens, settings))
    write_page(path, page, output or Path(path.name))


def check_output(path: Path) -> None:
    """Refuse an output path that is not a file, or that lies in a model folder."""
    if not path.parent.is_dir():
        raise RequestError(f"The folder {path.parent} does not exist.", f"mkdir -p {path.parent}")
    if path.exists() and not path.is_file():
        raise RequestError(f"{path} exists and is not a regular file.", "Choose another file: -o page.html")
    if (path.parent / "sixfold.json").exists():
        raise RequestError(
            f"{path.parent} is a model folder; pages cannot be written into it.",
            "Choose another folder: -o page.html",
        )


def refuse_given(flags: Mapping[str, object], why: str) -> None:
    """Refuse flags that say nothing here, instead of ignoring them."""
    if given := [flag for flag, value in flags.items() if value not in (None, False)]:
        raise ConfigError(f"{why} It takes no {given[0]}.", f"Leave {given[0]} out.")


def task_of(model: Path) -> str:
    """Return the task of a model, if there is a page for it."""
    from sixfold.models.folder import load_info

    task = load_info(model).task
    if task not in ("translate", "generate"):
        raise ModelFolderError(
            f"There is no page for the task {task!r} of {model}: only for translate and generate.",
            f"Its training has one: sixfold explain {model} --training",
        )
    return task


def check_sentence(text: str) -> None:
    """Refuse a sentence that is empty, has several lines or is not valid Unicode."""
    if not text.strip():
        raise DataError("The sentence is empty.", 'For example: sixfold explain model "A man is sleeping."')
    check_text(text)
    if "\n" in text:
        raise DataError("The sentence must be a single line.")


def check_text(text: str) -> None:
    """Refuse a text that is not valid Unicode."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError("The text must be valid UTF-8.")


def training_page(model: Path) -> str:
    """Return the page of a training run."""
    from sixfold.explain import read_training, render_training

    return render_training(read_training(model))


def sample_lines(sample: Path | None) -> list[str] | None:
    """Return the texts to measure on, if they were given."""
    from sixfold.data.readers import read_lines

    return None if sample is None else list(read_lines(str(sample)))


def translation_page(model: Path, text: str, sample: Path | None, beam: int | None, device: str) -> str:
    """Return the explain page of a sentence, and print its translation and warnings."""
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import load
    from sixfold.explain import explain, measure_head_roles, sample_sentences

    check_sentence(text)
    options, lines = SearchOptions(beam=beam), sample_lines(sample)
    translator = load(model, device)
    sentences = sample_sentences(model, translator) if lines is None else lines
    head_roles = measure_head_roles(translator, sentences) if any(line.strip() for line in sentences) else None
    explanation = explain(translator, text, options, head_roles, model.resolve().name)
    return shown(explanation, explanation.translation)


@dataclass(frozen=True)
class TextWishes:
    """How a text is to be explained."""

    read: bool
    chat: bool
    max_tokens: int | None
    settings: Sequence[str] | None

    def options(self) -> GenerateOptions:
        """Return how to write, from the flag and `--set`."""
        from sixfold.decode.generate_options import GenerateOptions

        given = read_settings("explain", self.settings).get("decode")
        if self.read:
            writing = {"--chat": self.chat, "--max-tokens": self.max_tokens, "--set": given}
            refuse_given(writing, "--read writes nothing.")
        return make(GenerateOptions, "decode", together("decode", {"max_tokens": self.max_tokens}, given))


def text_page(model: Path, text: str, sample: Path | None, device: str, wishes: TextWishes) -> str:
    """Return the explain page of a text, and print what the model wrote and warnings."""
    from sixfold.decode.generate import load
    from sixfold.explain import explain_continuation, explain_text, measure_text_heads, sample_texts

    check_text(text)
    options, lines = wishes.options(), sample_lines(sample)
    generator = load(model, device)
    texts = sample_texts(model, generator) if lines is None else lines
    head_roles = measure_text_heads(generator, texts) if any(line.strip() for line in texts) else None
    name = model.resolve().name
    if wishes.read:
        explanation = explain_text(generator, text, head_roles, name)
        return shown(explanation, explanation.how)
    prompt = [Message("user", text)] if wishes.chat else text
    explanation = explain_continuation(generator, prompt, options, head_roles, name)
    return shown(explanation, explanation.continuation)


def shown(explanation: Page, result: str) -> str:
    """Return the page of an explanation, and print its result and warnings."""
    from sixfold.explain import render

    typer.echo(result)
    for note in explanation.notes:
        typer.echo(f"warning: {note}", err=True)
    return render(explanation)


def write_page(path: Path, page: str, shown: Path) -> None:
    """Write the page and report its path, as the user gave it."""
    from sixfold.files import write_atomically

    content = page.encode()
    write_atomically(path, content)
    typer.echo(f"{shown}: {len(content) / 1000:,.0f} kB; open it in a browser", err=True)
