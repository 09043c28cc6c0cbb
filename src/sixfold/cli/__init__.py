"""The command line: a thin layer over the public API, one file per command.

Commands import what they need when they run, so that `sixfold --help` answers at once.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from functools import wraps
from typing import Annotated, TextIO

import typer

from sixfold.cli.answer import answer
from sixfold.cli.check import check
from sixfold.cli.classify import classify
from sixfold.cli.command import Command, help_of
from sixfold.cli.corpus import corpus
from sixfold.cli.demo import demo
from sixfold.cli.doctor import doctor
from sixfold.cli.embed import embed
from sixfold.cli.evaluate import evaluate
from sixfold.cli.explain import explain
from sixfold.cli.export import export
from sixfold.cli.fill import fill
from sixfold.cli.generate import generate
from sixfold.cli.import_ import import_
from sixfold.cli.match import match
from sixfold.cli.plan import plan
from sixfold.cli.score import score
from sixfold.cli.serve import serve
from sixfold.cli.tag import tag
from sixfold.cli.train import train
from sixfold.cli.translate import translate
from sixfold.errors import SixfoldError
from sixfold.kernels import prepare
from sixfold.machine import let_threads_sleep, prepare_environment

LONGEST_MESSAGE = 4000  # characters

app = typer.Typer(
    name="sixfold",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help='Train and run your own Transformer ("Attention Is All You Need") on your own data: '
    "models that translate, continue text, classify and more.",
    epilog="Start with: [bold]sixfold demo[/bold]",
)
for command in (
    demo,
    train,
    translate,
    generate,
    classify,
    tag,
    answer,
    fill,
    embed,
    match,
    evaluate,
    score,
    explain,
    export,
    import_,
    serve,
    check,
    plan,
    corpus,
    doctor,
):
    app.command(command.__name__.strip("_"), cls=Command, help=help_of(command))(command)


def print_version(is_wanted: bool) -> None:
    """Print the version and exit."""
    if is_wanted:
        import sixfold

        print(f"sixfold {sixfold.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Handle the options before the command."""
    if debug:
        os.environ["SIXFOLD_DEBUG"] = "1"
    prepare()  # before a command imports torch


def main() -> None:
    """Run the command line: 0 done, 1 the work failed, 2 the request or input was wrong."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # UTF-8 in any locale (FAULTS 42)
            # A path that a C locale cannot decode is written as the bytes it was read as.
            stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    show_former_keys()
    let_threads_sleep()
    prepare_environment()
    try:
        app()
    except SixfoldError as error:
        sys.exit(report(error))


def show_former_keys() -> None:
    """Print warnings about former names of keys like other messages."""
    usual = warnings.showwarning

    @wraps(usual)
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, FutureWarning):
            print(f"warning: {harmless(str(message))}", file=sys.stderr)
        else:
            usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show


def report(error: SixfoldError) -> int:
    """Print an error with its hint, and return the exit code."""
    if os.environ.get("SIXFOLD_DEBUG"):
        traceback.print_exception(error)
    print(f"error: {harmless(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {harmless(error.hint)}", file=sys.stderr)
    return error.exit_code


def harmless(message: str) -> str:
    """Return a message without terminal control codes: what it quotes may come from a hostile file."""
    shown = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]} …"
    return "".join(sign if sign.isprintable() or sign == "\n" else ascii(sign)[1:-1] for sign in shown)
