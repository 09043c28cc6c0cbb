"""What a server may be told; everything that could grow has a bound here."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sixfold.errors import ConfigError
from sixfold.settings import check_bounds, setting

PAIR = re.compile(r"([A-Za-z]{2,8})-([A-Za-z]{2,8})")
SHORTEST_KEY = 16  # characters
BYTES_A_CHARACTER = 12  # at most, in a body: an escape of JSON for each half of a surrogate pair


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
    batch_tokens: int = setting(1024, "source tokens that are translated together", 1, 100_000)
    wait_seconds: float = setting(
        0.02, "how long a worker waits for those it has just answered to ask again", 0, 60
    )
    deadline_seconds: float = setting(30.0, "for the answer to a request", 0.1, 3600)
    most_waiting: int = setting(128, "requests that may be open; more are told to come back", 1, 100_000)
    most_characters: int = setting(50_000, "characters of one request", 1, 1_000_000)
    longest_body: int = setting(0, "bytes of one request; 0: enough for most_characters", 0, 1 << 30)
    header_seconds: float = setting(10.0, "for the headers of a request to arrive", 0.1, 3600)
    body_seconds: float = setting(15.0, "for its body to arrive", 0.1, 3600)
    most_connections: int = setting(1000, "connections that may be open", 1, 1_000_000)
    silence_seconds: float = setting(4.0, "after so long without a sign a worker counts as not ready", 0.1, 3600)
    hang_seconds: float = setting(30.0, "after so long it is replaced", 0.1, 3600)
    drain_seconds: float = setting(1.0, 'between "not ready" and no more connections, when told to end', 0, 3600)

    def __post_init__(self) -> None:
        check_bounds(self)
        if not self.longest_body:
            object.__setattr__(self, "longest_body", max(1 << 20, BYTES_A_CHARACTER * self.most_characters))
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
