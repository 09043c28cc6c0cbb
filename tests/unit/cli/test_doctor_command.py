"""`sixfold doctor`."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401  loaded first, so that the command cannot set a limit on this process
import typer
from typer.testing import CliRunner

from sixfold.cli.doctor import Extra, doctor, package_rows, requirements, versions
from sixfold.kernels import build, dropout
from sixfold.kernels.trial import Failure
from sixfold.machine import PROBE_COMMAND, CpuProbe, PrecisionProbe, store_probe

app = typer.Typer()
app.command()(doctor)


@pytest.fixture
def cache(compiled_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache folder that knows a CPU on which bfloat16 needs a limit and int8 dies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(compiled_cache))
    bfloat16 = PrecisionProbe("bfloat16", True, "AVX512_CORE", "died with SIGILL")
    int8 = PrecisionProbe("int8", False, "", "died with SIGILL")
    store_probe(CpuProbe(bfloat16, int8), PROBE_COMMAND)
    return compiled_cache


@pytest.mark.usefixtures("cache")
def test_the_table_says_what_is_there_and_what_was_switched_off():
    result = CliRunner().invoke(app)
    assert result.exit_code == 0
    for words in ("cores", "memory", "devices", "Python", "torch", "works within AVX512_CORE"):
        assert words in result.stdout
    assert "- int8 on the CPU: a test of it died with SIGILL." in result.stdout
    assert "testing" not in result.stderr  # nothing is tried again


@pytest.mark.usefixtures("cache")
def test_json_says_the_same_to_a_program():
    result = CliRunner().invoke(app, ["--json"])
    found = json.loads(result.stdout)
    assert found["machine"]["num_cores"] >= 1
    assert found["machine"]["devices"][-1] == "cpu"
    assert found["machine"]["probe"]["int8"]["works"] is False
    assert len(found["machine"]["switched_off"]) >= 2
    assert found["packages"]["sixfold"]
    assert found["kernels"]["are_used"] is (found["kernels"]["reason"] == "")


@pytest.mark.usefixtures("cache")
def test_compiled_kernels_that_are_not_used_are_named_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SIXFOLD_KERNELS", "off")
    result = CliRunner().invoke(app)
    assert "some are missing, so the CPU is slower: SIXFOLD_KERNELS=off" in result.stdout


def test_kernels_that_could_not_be_compiled_are_tried_again(cache: Path, monkeypatch: pytest.MonkeyPatch):
    failure = Failure("compiling failed: long ago", is_final=True)
    monkeypatch.setattr(build, "first_failure", lambda *_: failure)
    monkeypatch.setattr(build, "opened", functools.cache(build.opened.__wrapped__))
    for library in (cache / "sixfold").glob("dropout-*.so"):
        library.unlink()  # or else nothing would be compiled
    assert dropout.kernels().reason == failure.reason
    assert list((cache / "sixfold").glob("*.refused"))
    tried: list[str] = []
    again = Failure("compiling failed: no space left on the device", is_final=False)
    monkeypatch.setattr(build, "first_failure", lambda *_: tried.append("again") or again)
    result = CliRunner().invoke(app)
    assert tried
    assert "no space left" in result.stdout
    assert "long ago" not in result.stdout


@pytest.mark.usefixtures("cache")
def test_the_command_answers_with_code_0_and_only_json_on_standard_output():
    program = "from sixfold.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor", "--json"], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["python"]


METADATA = """Metadata-Version: 2.4
Name: figment
Version: 1.0
Requires-Dist: numpy>=1.26
Requires-Dist: ruamel.yaml>=0.18
Provides-Extra: formats
Requires-Dist: pyarrow>=15; extra == 'formats'
Requires-Dist: no-such-package; (python_version > "3.8") and extra == "absent"
"""


@pytest.fixture
def figment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a distribution that consists of its metadata."""
    folder = tmp_path / "figment-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "figment"


def test_requirements_come_from_the_installed_metadata(figment):
    expected = {"": ["numpy", "ruamel.yaml"], "formats": ["pyarrow"], "absent": ["no-such-package"]}
    assert requirements(figment) == expected


def test_a_distribution_that_is_not_installed_has_no_known_requirements():
    assert requirements("no-such-package") == {}


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    assert versions(["no-such-package"]) == {"no-such-package": None}
    extra = Extra("serve", {"no-such-package": None}, "pip install 'sixfold[serve]'")

    assert list(package_rows({"sixfold": "1", "numpy": "2.0"}, [extra])) == [
        ("packages", "numpy 2.0"),
        ("extra serve", "no-such-package not installed: pip install 'sixfold[serve]'"),
    ]
