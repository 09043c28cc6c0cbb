"""What `import sixfold` offers, and how one finds it."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

import sixfold

SOURCE = str(Path(__file__).parents[2] / "src")


def test_dir_lists_every_public_name_and_no_import_of_ours() -> None:
    names = dir(sixfold)
    assert set(sixfold.__all__) <= set(names)
    assert {name for name in names if not name.startswith("__")} == set(sixfold.__all__)


@pytest.mark.parametrize("name", sixfold.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(sixfold, name) is not None


def test_the_blocks_and_the_explanations_are_there_after_importing_sixfold_alone() -> None:
    code = "import sys, sixfold; sixfold.nn.MultiHeadAttention; sixfold.explain.explain"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": SOURCE}, check=True, timeout=120)


@pytest.mark.parametrize("name", ["train", "load"])
def test_the_help_of_a_function_says_what_each_parameter_is(name: str) -> None:
    lines = pydoc.plain(pydoc.render_doc(getattr(sixfold, name))).splitlines()
    explained = {word for line in lines if ": " in line for word in line.strip().partition(": ")[0].split(", ")}
    assert set(inspect.signature(getattr(sixfold, name)).parameters) <= explained


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        getattr(sixfold, "trian")  # noqa: B009
