"""Odd machines: traps, locales, users who may not write, small shared memory; and what we depend on."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sixfold.machine import ISA_VARIABLE

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "compat" / "format-1"
SECONDS = 120


# A CPU that traps the instructions it advertises

TRAPPED = """
import sys
from sixfold import machine
stub = (sys.executable, "-I", "-S", "-c", '''
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
open(%(log)r, "a").write("probed ")
if os.environ.get("ONEDNN_MAX_CPU_ISA", "") not in ("AVX512_CORE", "AVX2"): os.kill(os.getpid(), signal.SIGILL)
''')
for function in (machine.cpu_probe, machine.cached_probe, machine.prepare_environment, machine.describe):
    defaults = function.__defaults__
    function.__defaults__ = tuple(stub if each is machine.PROBE_COMMAND else each for each in defaults)
from sixfold.cli import main
main()
"""


def test_where_the_cpu_dies_of_its_own_instructions_we_live_and_say_so_and_ask_only_once(
    tmp_path: Path, compiled_cache: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != ISA_VARIABLE}
    environment |= {"XDG_CACHE_HOME": str(compiled_cache), "PYTHONPATH": str(ROOT / "src")}
    outputs = []
    for arguments in (["doctor"], ["doctor", "--json"]):
        done = subprocess.run(
            [sys.executable, "-c", TRAPPED % {"log": str(tmp_path / "log")}, *arguments],
            env=environment, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
        probed = (tmp_path / "log").read_text().count("probed")
    assert "works within AVX512_CORE" in outputs[0]
    assert "died with SIGILL without this limit" in outputs[0]
    assert json.loads(outputs[1])["machine"]["probe"]["int8"]["isa_limit"] == "AVX512_CORE"
    assert probed == 10  # without a limit and with each from the highest to AVX512_CORE, for two precisions, once
    assert -signal.SIGILL != 132


# Locales

SEVERAL = """
import os, sys
from sixfold.cli import main
for words in %a:
    sys.argv = ["sixfold", *map(os.fsdecode, words)]  # as the system hands them over
    try:
        main()
    except SystemExit as stopped:
        print("ended with", stopped.code or 0)
"""


def test_the_locale_changes_nothing_in_any_command(tmp_path: Path) -> None:
    folder = tmp_path / "größe 日本"
    folder.mkdir()
    for name, word in (("Größe.en", "größer"), ("ziel.de", "naïve")):
        (folder / name).write_text("".join(f"{word} {n}\n" for n in range(40)), encoding="utf-8")
    source, target = str(folder / "Größe.en"), str(folder / "ziel.de")
    few = ["data.vocabulary=400", "model.layers=1", "model.d_model=16", "model.d_ff=16", "model.heads=2"]
    few += ["train.steps=2", "train.batch_tokens=256", "train.valid_sentences=2"]
    options = [word for setting in few for word in ("--set", setting)]
    results = {}
    for name, variables in {
        "utf-8": {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"},
        "c": {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    }.items():
        model = str(folder / f"{name}-modell")
        words = [
            ["train", source, target, "-o", model, *options],
            ["translate", str(MODEL), source, "--beam", "1"],
            ["score", model, source, target],
            ["check", source, target, "--json"],
            ["evaluate", target, source, target, "--json"],
            ["translate", str(folder / "fehlt")],
        ]
        done = subprocess.run(
            [sys.executable, "-c", SEVERAL % ([list(map(os.fsencode, row)) for row in words],)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}, capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        messages = done.stderr.decode("utf-8")
        assert "Traceback" not in messages, messages
        assert "fehlt" in messages
        results[name] = done.stdout.decode("utf-8")
        assert results[name].count("ended with 0") == 5
        written = json.loads(Path(model, "sixfold.json").read_text(encoding="utf-8"))
        assert [file["path"] for file in written["corpus"]["files"]] == ["Größe.en", "ziel.de"]
    assert results["c"] == results["utf-8"]


# Users who may not write


UNPRIVILEGED = """
import os, sys
import sixfold
import sixfold.cli.progress_bar, sixfold.cli.translate, sixfold.training.run
from sixfold.cli import main
sixfold.load(sys.argv[2], "cpu").translate(["one"], beam=1)  # imports all it needs while it may read everything
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    sixfold.train(sys.argv[2] + "/../a", sys.argv[2] + "/../b", sys.argv[2] + "/new")
except sixfold.errors.RequestError as error:
    print(error.message, file=sys.stderr)
main()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may not write")
def test_translating_writes_nothing_and_needs_no_right_to() -> None:
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model"
        shutil.copytree(MODEL, model)
        for side in ("a", "b"):
            Path(place, side).write_text("one\n", encoding="utf-8")
        for path in (Path(place), model, *model.iterdir()):
            path.chmod(0o555 if path.is_dir() else 0o444)
        before = {path: path.stat().st_mtime_ns for path in (model, *model.iterdir())}
        done = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED, "translate", str(model), "--beam", "1"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": "/nonexistent", "XDG_CACHE_HOME": ""},
            input=b"one two\n\nthree\n", capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.count(b"\n") == 3
        assert b"Cannot write to" in done.stderr
        assert {path: path.stat().st_mtime_ns for path in (model, *model.iterdir())} == before


# Shared memory

WATCHED = """
import sys
from pathlib import Path
import sixfold
sixfold.train(*sys.argv[1:4], settings=sys.argv[4:])
sixfold.load(sys.argv[3]).translate(["one two"])
print("/dev/shm" in Path("/proc/self/maps").read_text(), "multiprocessing.shared_memory" in sys.modules)
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say what is mapped")
def test_neither_training_nor_translating_uses_shared_memory(
    tmp_path: Path, corpus: tuple[Path, Path], settings: tuple[str, ...], environment: dict[str, str]
) -> None:
    arguments = [*map(str, corpus), str(tmp_path / "model"), *settings, "train.steps=2"]
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.stdout == "False False\n", done.stderr
    sources = " ".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert "DataLoader" not in sources
    assert "share_memory" not in sources


# What we depend on


def requirement_names(lines: list[str]) -> set[str]:
    """Return the packages of requirement lines."""
    return {re.split(r"[<>=!~\[; ]", line)[0].lower() for line in lines}


def test_few_packages_are_needed_and_every_one_states_a_lowest_version() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(project["dependencies"]) <= 10
    assert all(">=" in line for line in project["dependencies"])
    lowest = {line.split(">=")[0]: line.split(">=")[1] for line in project["dependencies"]}
    # torch before 2.6 could execute code with weights_only=True (CVE-2025-32434), and safetensors matter as much.
    assert tuple(map(int, lowest["torch"].split("."))) >= (2, 6)
    assert not {"pyyaml", "dill", "joblib", "cloudpickle"} & requirement_names(project["dependencies"])
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert re.search(r"^torch==\d", constraints, re.MULTILINE)


def test_no_known_weakness_is_installed() -> None:
    if shutil.which("pip-audit") is None:
        pytest.skip("pip-audit is not installed")
    done = subprocess.run(
        ["pip-audit", "--progress-spinner", "off", "--skip-editable", "--format", "json"],
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    if "ConnectionError" in done.stderr or not done.stdout:
        pytest.skip("the database of weaknesses cannot be reached")
    audited = [each for each in json.loads(done.stdout)["dependencies"] if "skip_reason" not in each]
    if not audited:
        pytest.skip("the database of weaknesses cannot be reached")
    assert {each["name"]: each["vulns"] for each in audited if each["vulns"]} == {}
