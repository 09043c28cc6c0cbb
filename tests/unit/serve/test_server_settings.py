"""The settings of a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.serve.server_settings import ModelSpec, ServerSettings, parse_model_spec, read_keys

MODEL = (ModelSpec(Path("model")),)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_machines_are_not_served_without_keys_unless_open(host: str) -> None:
    with pytest.raises(ConfigError, match="without an API key"):
        ServerSettings(MODEL, host=host)
    assert ServerSettings(MODEL, host=host, keys=("k" * 16,)).keys
    assert ServerSettings(MODEL, host=host, is_open=True).is_open


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_address_needs_no_key(host: str) -> None:
    assert ServerSettings(MODEL, host=host).host == host


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ConfigError, match="16 characters"):
        ServerSettings(MODEL, keys=("short",))


@pytest.mark.parametrize("limit", [{"batch_tokens": 0}, {"deadline_seconds": 0.0}, {"most_waiting": 10**9}])
def test_a_limit_out_of_bounds_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be from"):
        ServerSettings(MODEL, **limit)  # type: ignore[arg-type]


def test_the_body_limit_follows_the_character_limit_unless_it_is_set() -> None:
    assert ServerSettings(MODEL).longest_body == 1 << 20
    assert ServerSettings(MODEL, most_characters=1_000_000).longest_body == 12_000_000
    assert ServerSettings(MODEL, most_characters=1_000_000, longest_body=5000).longest_body == 5000


def test_languages_can_be_given_after_the_model_folder(tmp_path: Path) -> None:
    assert parse_model_spec("a/b") == ModelSpec(Path("a/b"))
    assert parse_model_spec("a/b=EN-de") == ModelSpec(Path("a/b"), "en", "de")
    (tmp_path / "x=y").mkdir()
    assert parse_model_spec(f"{tmp_path}/x=y").folder == tmp_path / "x=y"
    with pytest.raises(ConfigError, match="en-de"):
        parse_model_spec("model=german")


def test_keys_are_read_from_a_file_without_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# of the office\n  first \n\nsecond\n")
    assert read_keys(path) == ("first", "second")
    path.write_text("# none\n")
    for wrong in (path, tmp_path / "absent"):
        with pytest.raises(ConfigError):
            read_keys(wrong)
