"""The settings of a server; everything that could grow without bound has a limit here."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sixfold.errors import ConfigError
from sixfold.serve.http_errors import OPENAI
from sixfold.settings import check_bounds, setting

LANGUAGE_PAIR = re.compile(r"([A-Za-z]{2,8})-([A-Za-z]{2,8})")
MODEL_NAME = re.compile(r"[\w.:-]{1,100}")
SHORTEST_KEY = 16  # characters
BYTES_PER_CHARACTER = 12  # at most, in JSON: a surrogate pair is two escape sequences of six bytes


@dataclass(frozen=True)
class ModelSpec:
    """A model folder, with its languages if the folder does not state them, and a name other than the folder's."""

    folder: Path
    source: str = ""
    target: str = ""
    name: str = ""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of the server."""

    models: tuple[ModelSpec, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    keys: tuple[str, ...] = ()  # empty: no API key is required
    is_open: bool = False  # serve other machines without an API key
    hosts: tuple[str, ...] = ()  # accepted host names, besides IP addresses and localhost
    origins: tuple[str, ...] = ()  # web sites whose pages may send requests (CORS)
    rate_limit: int = 0  # requests per minute and API key or IP address; 0: unlimited
    workers: int = 1  # processes per model
    device: str = "auto"
    precision: Literal["float32", "int8"] = "float32"
    batch_tokens: int = setting(1024, "source tokens per batch", 1, 100_000)
    wait_seconds: float = setting(
        0.02, "seconds a worker waits for new requests of the clients it has just answered", 0, 60
    )
    deadline_seconds: float = setting(30.0, "seconds to answer a request", 0.1, 3600)
    generation_seconds: float = setting(300.0, "seconds to answer a request to generate text", 0.1, 36_000)
    most_texts: int = setting(32, "texts that a worker generates at the same time; others wait", 1, 4096)
    context_mebibytes: int = setting(
        4096, "memory of a worker for the texts that it is generating, in MiB", 1, 1 << 20
    )
    cache_mebibytes: int = setting(
        256, "memory of a worker's cache of prompts, which later requests may begin with, in MiB", 0, 1 << 20
    )
    most_waiting: int = setting(128, "requests in progress; more are answered with 503", 1, 100_000)
    most_characters: int = setting(50_000, "characters per request", 1, 1_000_000)
    longest_body: int = setting(0, "bytes per request body; 0: enough for most_characters", 0, 1 << 30)
    header_seconds: float = setting(10.0, "seconds to receive the headers of a request", 0.1, 3600)
    body_seconds: float = setting(15.0, "seconds to receive the body of a request", 0.1, 3600)
    stall_seconds: float = setting(
        30.0, "seconds after which a client that reads nothing of its response is disconnected", 0.1, 3600
    )
    most_connections: int = setting(1000, "open connections", 1, 1_000_000)
    silence_seconds: float = setting(
        4.0, "seconds without a heartbeat after which a worker is not ready", 0.1, 3600
    )
    hang_seconds: float = setting(30.0, "seconds without a heartbeat after which a worker is replaced", 0.1, 3600)
    drain_seconds: float = setting(
        1.0, "seconds on shutdown between /ready turning to 503 and refusing new connections", 0, 3600
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if not self.longest_body:
            object.__setattr__(self, "longest_body", max(1 << 20, BYTES_PER_CHARACTER * self.most_characters))
        if not self.models:
            raise ConfigError("There is no model to serve.", "sixfold serve MODEL")
        if not is_loopback(self.host) and not self.keys and not self.is_open:
            raise ConfigError(
                f"Serving on {self.host} would give other machines access without an API key.",
                "Add --keys FILE (one API key per line), or --open to serve everyone.",
            )
        short = [key for key in self.keys if len(key) < SHORTEST_KEY]
        if short:
            raise ConfigError(
                f"An API key must have at least {SHORTEST_KEY} characters, but one has {len(short[0])}.",
                "Generate one: python -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )

    @property
    def longest_answer(self) -> float:
        """The seconds after which every request is answered."""
        return max(self.deadline_seconds, self.generation_seconds)

    def seconds_to_answer(self, path: str) -> float:
        """Return the deadline of a request."""
        return self.generation_seconds if path.startswith(OPENAI) else self.deadline_seconds


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse_model_spec(text: str) -> ModelSpec:
    """Parse MODEL, MODEL=en-de or NAME=MODEL."""
    folder, equals, languages = text.rpartition("=")
    pair = LANGUAGE_PAIR.fullmatch(languages)
    if not equals or Path(text).exists():
        return ModelSpec(Path(text))
    name, _, named = text.partition("=")
    if MODEL_NAME.fullmatch(name) and Path(named).is_dir() and not Path(folder).is_dir():
        return ModelSpec(Path(named), name=name)
    if not pair:
        raise ConfigError(
            f"The languages of {folder} must look like en-de, but are {languages!r}.",
            f"sixfold serve {folder}=en-de",
        )
    return ModelSpec(Path(folder), pair[1].lower(), pair[2].lower())


def read_keys(path: Path) -> tuple[str, ...]:
    """Read a file of API keys, one per line; empty lines and lines that begin with # are ignored."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The file of API keys {path} cannot be read: {error}.") from error
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ConfigError(f"There is no API key in {path}.", "Write one per line.")
    return keys
