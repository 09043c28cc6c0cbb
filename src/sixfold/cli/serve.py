"""`sixfold serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sixfold.cli.flags import ENGINE, Device, InPrecision, Precision, Set
from sixfold.cli.set_option import read_settings, together
from sixfold.settings import make

if TYPE_CHECKING:
    from sixfold.serve.server_settings import ServerSettings

ACCESS = "Access"


Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL",
        help="Model folders; FOLDER=en-de if the model does not state its languages, NAME=FOLDER to rename it.",
    ),
]
Host = Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0: all.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")]
NumWorkers = Annotated[
    int, typer.Option(min=0, max=256, help="Processes per model; 0: one per core.", rich_help_panel=ENGINE)
]
Keys = Annotated[
    Path | None,
    typer.Option(help="File of API keys, one per line. Every request then needs one.", rich_help_panel=ACCESS),
]
IsOpen = Annotated[
    bool, typer.Option("--open", help="Serve other machines without API keys.", rich_help_panel=ACCESS)
]
RateLimit = Annotated[
    int,
    typer.Option(
        min=0, help="Requests per minute and client (API key or IP address); 0: no limit.", rich_help_panel=ACCESS
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Accepted host name besides localhost; repeatable.", rich_help_panel=ACCESS),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="Web site that may send requests; repeatable.", rich_help_panel=ACCESS),
]


def serve(
    models: Models,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    device: Device = "auto",
    precision: InPrecision = Precision.float32,
    workers: NumWorkers = 1,
    keys: Keys = None,
    is_open: IsOpen = False,
    rate_limit: RateLimit = 0,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    settings: Set = None,
) -> None:
    """Serve models over HTTP: a web page, and APIs that many programs support.

    Models that translate get the APIs of LibreTranslate and DeepL, models that generate get OpenAI's.

    The server listens on this machine only, unless --host says otherwise; other machines then need an API key
    (--keys). On SIGTERM or Ctrl-C it finishes the requests in progress.

    Example: sixfold serve model
    """
    from sixfold.machine import num_cores
    from sixfold.serve.server_settings import ServerSettings, parse_model_spec, read_keys

    values = {
        "models": tuple(map(parse_model_spec, models)),
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
    run_server(
        make(ServerSettings, "serve", together("serve", values, read_settings("serve", settings).get("serve")))
    )


def run_server(settings: ServerSettings) -> None:
    """Serve until a signal ends the server; if a package is missing, raise with how to install it."""
    from sixfold.errors import MissingExtraError

    try:
        from sixfold.serve.server import run
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "fastapi", "serve", "Serving") from error
    run(settings)
