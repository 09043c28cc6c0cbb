"""Settings: one definition says their names, meanings, types and bounds, and one reader reads them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sixfold.errors import ConfigError
from sixfold.settings import bounds, check_bounds, make, meanings, parse_settings, setting

KNOWN = {"oven": ("degrees", "minutes", "bake_time"), "cake": ("name", "layers")}


@dataclass(frozen=True)
class Oven:
    """A dataclass with settings, and a field that is none."""

    name: str = "ours"
    degrees: int = setting(180, "how hot it is", 50, 300)
    minutes: float | None = setting(None, "how long it is on", 0, 600)
    label: str = setting("", "what it says")
    trays: tuple[str, ...] = setting((), "what stands in it")

    def __post_init__(self) -> None:
        check_bounds(self)


def test_a_definition_tells_meanings_and_bounds() -> None:
    assert list(meanings(Oven)) == ["degrees", "minutes", "label", "trays"]
    assert meanings(Oven)["degrees"] == "how hot it is"
    assert bounds(Oven) == {"degrees": (50, 300), "minutes": (0, 600)}
    assert Oven() == Oven("ours", 180, None, "", ())


@pytest.mark.parametrize("wrong", [49, 301, float("nan")])
def test_a_number_out_of_bounds_is_refused(wrong: float) -> None:
    with pytest.raises(ConfigError, match="degrees must be from 50 to 300"):
        Oven(degrees=wrong)  # type: ignore[arg-type]


def test_values_of_the_right_type_make_the_dataclass() -> None:
    values = {"degrees": 200, "minutes": 3, "label": "hot", "trays": ["one", "two"]}
    assert make(Oven, "oven", values) == Oven("ours", 200, 3.0, "hot", ("one", "two"))


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("degrees", "hot", ""),
        ("degrees", 99.5, ""),
        ("label", 5, "--set 'oven.label=\"5\"'"),
        ("trays", "one", "--set 'oven.trays=[one, two]'"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_whole_name(name: str, value: object, hint: str) -> None:
    with pytest.raises(ConfigError, match=f"oven.{name} cannot be {value!r}") as raised:
        make(Oven, "oven", {name: value})
    assert raised.value.hint.endswith(hint)


def test_values_are_read_as_yaml_and_the_last_of_a_key_counts() -> None:
    settings = ["oven.degrees=50", "cake.name='7'", "cake.layers = [1, 2]", "oven.degrees=1e2", "cake.name=a=b"]
    assert parse_settings(settings, KNOWN) == {
        "oven": {"degrees": 100.0},
        "cake": {"name": "a=b", "layers": [1, 2]},
    }


@pytest.mark.parametrize("wrong", ["oven.degrees", "degrees=5", "oven=5", "=5", "", "oven.=5"])
def test_what_is_no_setting_is_refused_with_an_example(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"--set takes part\.key=value") as raised:
        parse_settings([wrong], KNOWN)
    assert raised.value.hint == "For example --set oven.degrees=…"


@pytest.mark.parametrize("value", ["[1", "{a: ", "2020-13-45", "!!python/name:os.system", "'", "@"])
def test_a_value_that_is_not_yaml_is_refused_with_its_name(value: str) -> None:
    with pytest.raises(ConfigError, match=r"--set cake\.name="):
        parse_settings([f"cake.name={value}"], KNOWN)


@pytest.mark.parametrize(
    ("wrong", "unknown", "hint"),
    [
        ("oven.degree=1", "oven.degree", "Did you mean degrees?"),
        ("oven.bt=1", "oven.bt", "Did you mean bake_time?"),
        ("ofen.degrees=1", "'ofen'", "Did you mean oven?"),
        ("oven.layers=1", "oven.layers", "Did you mean cake.layers?"),
        ("cake.zzz=1", "cake.zzz", "Known: name, layers."),
    ],
)
def test_what_is_unknown_is_refused_and_the_nearest_suggested(wrong: str, unknown: str, hint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_settings([wrong], KNOWN)
    assert unknown in raised.value.message
    assert raised.value.hint == hint
