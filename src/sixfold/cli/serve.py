"""`sixfold serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.set_option import read_settings, together
from sixfold.cli.translate import Precision
from sixfold.settings import make

if TYPE_CHECKING:
    from sixfold.serve.settings import Settings

WHO = "Who may ask"


def serve(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL", help="Model folders; MODEL=en-de if one does not say its languages."),
    ],
    host: Annotated[str, typer.Option(help="The address to serve at; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 5000,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[
        Precision, typer.Option(help="int8 is faster on a CPU, and nearly as good.")
    ] = Precision.float32,
    workers: Annotated[
        int, typer.Option(min=0, max=256, help="Processes for each model; 0: one for each core.")
    ] = 1,
    keys: Annotated[
        Path | None,
        typer.Option(help="A file of API keys, one a line; every request needs one.", rich_help_panel=WHO),
    ] = None,
    is_open: Annotated[
        bool, typer.Option("--open", help="Serve other machines without keys.", rich_help_panel=WHO)
    ] = False,
    rate_limit: Annotated[
        int, typer.Option(min=0, help="Requests a minute for each key or address; 0: any.", rich_help_panel=WHO)
    ] = 0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name the server is reached under; repeatable.", rich_help_panel=WHO),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A site whose pages may ask (CORS); repeatable.", rich_help_panel=WHO),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Limits: see below; for example serve.batch_tokens=512; repeatable.",
        ),
    ] = None,
) -> None:
    """Serve models: a web page to translate with, and the HTTP interfaces of LibreTranslate and DeepL.

    Only this machine can reach it, unless another host is given; then a file of keys is needed. SIGTERM and Ctrl-C
    let what is under way finish.

    Example: sixfold serve model
    """
    from sixfold.machine import num_cores
    from sixfold.serve.settings import Settings, model_place, read_keys

    values = {
        "models": tuple(map(model_place, models)),
        "host": host,
        "port": port,
        "device": device,
        "precision": precision.value,
        "keys": read_keys(keys) if keys else (),
        "is_open": is_open,
        "rate_limit": rate_limit,
        "hosts": tuple(allow_host or ()),
        "origins": tuple(allow_origin or ()),
        "workers": workers or num_cores(),
    }
    run_server(make(Settings, "serve", together("serve", values, read_settings("serve", settings).get("serve"))))


def run_server(settings: Settings) -> None:
    """Serve until told to end; without the packages it takes, say how to get them."""
    from sixfold.errors import MissingExtraError

    try:
        from sixfold.serve.server import run
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", "Serving") from error
    run(settings)
