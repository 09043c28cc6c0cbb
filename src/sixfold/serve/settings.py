"""What a server may be told; everything that could grow has a bound here."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sixfold.errors import ConfigError

PAIR = re.compile(r"([A-Za-z]{2,8})-([A-Za-z]{2,8})")
SHORTEST_KEY = 16  # characters


@dataclass(frozen=True)
class ModelPlace:
    """A model folder, and its languages if the folder does not say them."""

    folder: Path
    source: str = ""
    target: str = ""


@dataclass(frozen=True)
class Settings:
    """How to serve."""

    models: tuple[ModelPlace, ...]
    host: str = "127.0.0.1"
    port: int = 5000
    keys: tuple[str, ...] = ()  # none: nobody is asked for one
    is_open: bool = False  # serve others without asking for a key
    hosts: tuple[str, ...] = ()  # names under which the server is reached, besides addresses and localhost
    origins: tuple[str, ...] = ()  # web sites whose pages may ask
    rate_limit: int = 0  # requests a minute for each key or address; 0: any number
    workers: int = 1  # processes for each model
    device: str = "auto"
    precision: Literal["float32", "int8"] = "float32"
    batch_tokens: int = 1024  # source tokens that are translated together
    wait_seconds: float = 0.02  # how long a worker waits for those it has just answered to ask again
    deadline_seconds: float = 30.0  # for the answer to a request
    most_waiting: int = 128  # requests that are not yet answered
    most_characters: int = 50_000  # of one request
    longest_body: int = 1 << 20  # bytes
    header_seconds: float = 10.0  # for the headers of a request to arrive
    body_seconds: float = 15.0  # for its body
    most_connections: int = 1000
    silence_seconds: float = 4.0  # after which a worker counts as not ready
    hang_seconds: float = 30.0  # after which it is replaced
    drain_seconds: float = 1.0  # between "not ready" and no more connections, when asked to end

    def __post_init__(self) -> None:
        if not self.models:
            raise ConfigError("There is no model to serve.", "sixfold serve MODEL")
        if not is_loopback(self.host) and not self.keys and not self.is_open:
            raise ConfigError(
                f"Others could reach {self.host}, and no key is asked for.",
                "Add --keys FILE (one key a line), or --open to serve everyone.",
            )
        short = [key for key in self.keys if len(key) < SHORTEST_KEY]
        if short:
            raise ConfigError(
                f"A key must have at least {SHORTEST_KEY} characters, but one has {len(short[0])}.",
                "python -c 'import secrets; print(secrets.token_urlsafe(32))'",
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def model_place(text: str) -> ModelPlace:
    """Read MODEL or MODEL=en-de."""
    folder, equals, languages = text.rpartition("=")
    pair = PAIR.fullmatch(languages)
    if not equals or Path(text).exists():
        return ModelPlace(Path(text))
    if not pair:
        raise ConfigError(f"The languages of {folder} must look like en-de, but are {languages!r}.")
    return ModelPlace(Path(folder), pair[1].lower(), pair[2].lower())


def read_keys(path: Path) -> tuple[str, ...]:
    """Read a file of keys, one a line; empty lines and those that begin with # are left out."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The keys cannot be read from {path}: {error}.") from error
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ConfigError(f"There is no key in {path}.", "Write one key a line.")
    return keys
