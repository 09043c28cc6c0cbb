"""What a server may be told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sixfold.errors import ConfigError
from sixfold.serve.server_settings import ModelPlace, Settings, model_place, read_keys

MODEL = (ModelPlace(Path("model")),)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_others_are_not_served_without_keys_unless_that_is_said(host: str) -> None:
    with pytest.raises(ConfigError, match="no key"):
        Settings(MODEL, host=host)
    assert Settings(MODEL, host=host, keys=("k" * 16,)).keys
    assert Settings(MODEL, host=host, is_open=True).is_open


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_key(host: str) -> None:
    assert Settings(MODEL, host=host).host == host


def test_a_key_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ConfigError, match="16 characters"):
        Settings(MODEL, keys=("short",))


@pytest.mark.parametrize("limit", [{"batch_tokens": 0}, {"deadline_seconds": 0.0}, {"most_waiting": 10**9}])
def test_a_limit_out_of_bounds_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be from"):
        Settings(MODEL, **limit)  # type: ignore[arg-type]


def test_a_body_has_room_for_all_characters_unless_its_length_is_given() -> None:
    assert Settings(MODEL).longest_body == 1 << 20
    assert Settings(MODEL, most_characters=1_000_000).longest_body == 12_000_000
    assert Settings(MODEL, most_characters=1_000_000, longest_body=5000).longest_body == 5000


def test_languages_may_stand_behind_a_model(tmp_path: Path) -> None:
    assert model_place("a/b") == ModelPlace(Path("a/b"))
    assert model_place("a/b=EN-de") == ModelPlace(Path("a/b"), "en", "de")
    (tmp_path / "x=y").mkdir()
    assert model_place(f"{tmp_path}/x=y").folder == tmp_path / "x=y"
    with pytest.raises(ConfigError, match="en-de"):
        model_place("model=german")


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("# of the office\n  first \n\nsecond\n")
    assert read_keys(path) == ("first", "second")
    path.write_text("# none\n")
    for wrong in (path, tmp_path / "absent"):
        with pytest.raises(ConfigError):
            read_keys(wrong)
