"""Cores, memory, devices, and CPU instructions that are advertised and do not work."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sixfold import machine
from sixfold.errors import ConfigError
from sixfold.machine import (
    ISA_LIMITS,
    ISA_VARIABLE,
    CpuProbe,
    PrecisionProbe,
    allowed_cores,
    available_memory_bytes,
    cached_probe,
    choose_device,
    cpu_model,
    cpu_probe,
    cpu_quota,
    describe,
    is_within,
    memory_bytes,
    missing_cores,
    missing_instructions,
    num_cores,
    pick_device,
    prepare_environment,
    raise_malloc_thresholds,
)

GIB = 2**30
on_x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="x86 has these limits")
on_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these thresholds")


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write system files under a folder that stands for /."""
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def crashing_command(*survivable: str, log: Path | None = None) -> list[str]:
    """Return a probe that kills itself with SIGILL unless the instruction limit is one of those given."""
    program = (
        "import os, resource, signal, sys\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        f"limit = os.environ.get({ISA_VARIABLE!r}, '')\n"
        f"if {str(log or '')!r}: open({str(log or '')!r}, 'a').write(f'{{sys.argv[1]}} {{limit}}\\n')\n"
        f"if limit not in {survivable!r}: os.kill(os.getpid(), signal.SIGILL)\n"
    )
    return [sys.executable, "-I", "-S", "-c", program]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the test a cache folder of its own and an environment without a limit."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(ISA_VARIABLE, "")  # so that it is put back afterwards
    monkeypatch.delenv(ISA_VARIABLE)
    return tmp_path / "cache" / "sixfold"


@pytest.fixture
def before_torch(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the process look as it does before torch loads; nothing in such a test may load it."""
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return cache


# Cores.


@pytest.mark.parametrize(
    ("cpu_max", "quota"), [("150000 100000", 1.5), ("400000 100000", 4.0), ("max 100000", None), ("", None)]
)
def test_a_container_quota_is_read_from_cgroup_v2(tmp_path, cpu_max, quota):
    assert cpu_quota(tree(tmp_path, {"sys/fs/cgroup/cpu.max": cpu_max})) == quota


@pytest.mark.parametrize(("quota_us", "quota"), [("250000", 2.5), ("-1", None)])
def test_a_container_quota_is_read_from_cgroup_v1(tmp_path, quota_us, quota):
    group = "sys/fs/cgroup/cpu,cpuacct"
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "3:memory:/\n2:cpu,cpuacct:/docker/abc\n",
            f"{group}/cpu.cfs_quota_us": quota_us,
            f"{group}/cpu.cfs_period_us": "100000",
        },
    )
    assert cpu_quota(root) == quota


def test_the_tightest_quota_around_the_process_counts(tmp_path):
    group = "sys/fs/cgroup"
    files = {
        "proc/self/cgroup": "0::/pod/container\n",
        f"{group}/cpu.max": "max 100000",
        f"{group}/pod/cpu.max": "200000 100000",
        f"{group}/pod/container/cpu.max": "800000 100000",
    }
    assert cpu_quota(tree(tmp_path, files)) == 2.0


def test_the_group_of_somebody_else_does_not_bind_us(tmp_path):
    files = {"proc/self/cgroup": "0::/ours\n", "sys/fs/cgroup/theirs/cpu.max": "100000 100000"}
    assert cpu_quota(tree(tmp_path, files)) is None


@given(quota=st.integers(1, 10**7), period=st.integers(1000, 10**6))
def test_the_cores_are_the_floor_of_the_quota_and_at_least_one(tmp_path_factory, quota, period):
    root = tree(tmp_path_factory.mktemp("root"), {"sys/fs/cgroup/cpu.max": f"{quota} {period}"})
    assert num_cores(root) == max(1, min(allowed_cores(), quota // period))


def test_without_a_quota_every_allowed_core_is_used(tmp_path):
    assert num_cores(tmp_path) == allowed_cores() >= 1


# Memory.

MEMINFO = "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\nHugePages_Total: 0\n"


def test_memory_is_the_machines_where_nothing_limits_it(tmp_path):
    root = tree(tmp_path, {"proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "max"})
    assert memory_bytes(root) == 16 * GIB
    assert available_memory_bytes(root) == 8 * GIB


def test_a_container_limit_bounds_memory_and_file_cache_counts_as_free(tmp_path):
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/box\n",
        "sys/fs/cgroup/box/memory.max": str(4 * GIB),
        "sys/fs/cgroup/box/memory.current": str(3 * GIB),
        "sys/fs/cgroup/box/memory.stat": f"anon 5\ninactive_file {GIB}\n",
    }
    root = tree(tmp_path, files)
    assert memory_bytes(root) == 4 * GIB
    assert available_memory_bytes(root) == 2 * GIB


def test_the_unlimited_value_of_cgroup_v1_is_no_limit(tmp_path):
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:memory:/box\n",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "1000",
    }
    assert memory_bytes(tree(tmp_path, files)) == 16 * GIB


def test_a_limit_that_is_used_up_leaves_nothing_rather_than_less(tmp_path):
    files = {"proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "10", "sys/fs/cgroup/memory.current": "20"}
    assert available_memory_bytes(tree(tmp_path, files)) == 0


def test_a_system_without_these_files_still_has_memory(tmp_path):
    assert 0 < available_memory_bytes(tmp_path) <= memory_bytes(tmp_path)


def test_this_machine_has_memory_left():
    assert 0 < available_memory_bytes() <= memory_bytes()


# Devices.


@pytest.mark.parametrize(
    ("name", "available", "chosen"),
    [
        ("auto", ("cuda:0", "cuda:1", "cpu"), "cuda"),
        ("auto", ("mps", "cpu"), "mps"),
        ("auto", ("cpu",), "cpu"),
        ("cuda", ("cuda:0", "cpu"), "cuda"),
        ("cuda:1", ("cuda:0", "cuda:1", "cpu"), "cuda:1"),
        ("cpu", ("cuda:0", "cpu"), "cpu"),
    ],
)
def test_a_device_is_chosen_by_name_or_the_best_is(name, available, chosen):
    assert pick_device(name, available) == chosen


@pytest.mark.parametrize("name", ["cuda", "cuda:2", "mps", "tpu", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(ConfigError, match=r"finds cpu"):
        pick_device(name, ("cpu",))


def test_the_cpu_is_always_there():
    assert choose_device("cpu") == "cpu"


# The probe.


@pytest.mark.usefixtures("cache")
def test_a_probe_that_survives_needs_no_limit():
    found = cpu_probe(crashing_command("", *ISA_LIMITS))
    assert found.bfloat16 == PrecisionProbe("bfloat16", True, "", "")
    assert found.int8 == PrecisionProbe("int8", True, "", "")
    assert found.isa_limit == ""


@on_x86
@pytest.mark.usefixtures("cache")
def test_a_crash_finds_the_highest_limit_that_survives():
    found = cpu_probe(crashing_command("AVX512_CORE", "AVX2", "SSE41"))
    assert found.bfloat16 == PrecisionProbe("bfloat16", True, "AVX512_CORE", "died with SIGILL")
    assert found.isa_limit == "AVX512_CORE"


@on_x86
@pytest.mark.usefixtures("before_torch")
def test_a_crash_under_every_limit_switches_the_precision_off():
    command = crashing_command()
    assert cpu_probe(command).int8 == PrecisionProbe("int8", False, "", "died with SIGILL")
    assert not prepare_environment("int8", command)
    assert ISA_VARIABLE not in os.environ


@pytest.mark.usefixtures("cache")
def test_an_ordinary_failure_is_reported_and_not_tried_again_with_limits(tmp_path):
    log = tmp_path / "log"
    program = f"import sys; open({str(log)!r}, 'a').write('x'); sys.exit('no such operator')"
    found = cpu_probe([sys.executable, "-I", "-S", "-c", program])
    assert found.bfloat16 == PrecisionProbe("bfloat16", False, "", "failed: no such operator", is_final=False)
    assert log.read_text() == "xx"  # once for each precision


@pytest.mark.usefixtures("cache")
def test_a_probe_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(machine, "PROBE_SECONDS", 0.3)
    found = cpu_probe([sys.executable, "-I", "-S", "-c", "import time; time.sleep(30)"])
    assert not found.bfloat16.works
    assert "did not finish" in found.bfloat16.failure


@pytest.mark.usefixtures("cache")
def test_a_probe_that_cannot_start_is_a_no_and_no_error(tmp_path):
    found = cpu_probe([str(tmp_path / "absent")])
    assert not found.int8.works
    assert "could not be tried" in found.int8.failure


@pytest.mark.usefixtures("cache")
def test_a_machine_is_probed_once(tmp_path):
    command = crashing_command("", log=tmp_path / "log")
    assert cpu_probe(command) == cpu_probe(command)
    assert (tmp_path / "log").read_text() == "bfloat16 \nint8 \n"


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("ends", ["sys.exit('out of memory')", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_what_the_processor_did_not_decide_is_asked_again(tmp_path: Path, ends: str) -> None:
    marker = tmp_path / "tried"
    program = f"""
import os, pathlib, signal, sys
tried = pathlib.Path({str(marker)!r} + sys.argv[1])
if not tried.exists():
    tried.touch()
    {ends}
"""
    command = [sys.executable, "-I", "-S", "-c", program]
    assert not cpu_probe(command).int8.works
    assert cached_probe(command) is None
    assert cpu_probe(command).int8.works
    assert cached_probe(command) == cpu_probe(command)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"bfloat16": {}, "int8": {}}', '{"int8": 1}'])
def test_a_damaged_cache_is_probed_again(cache, content):
    command = crashing_command("")
    found = cpu_probe(command)
    (path,) = cache.iterdir()
    path.write_text(content)
    assert cached_probe(command) is None
    assert cpu_probe(command) == found
    assert json.loads(path.read_text())["int8"]["works"] is True


@pytest.mark.usefixtures("cache")
def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cpu_probe(crashing_command("")).int8.works


@pytest.mark.usefixtures("cache")
def test_the_probe_ignores_a_torch_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')")
    monkeypatch.chdir(tmp_path)
    found = cpu_probe()  # the real one, which must also give an answer on any machine
    assert "wrong" not in found.bfloat16.failure + found.int8.failure
    assert found.bfloat16.works or found.bfloat16.failure
    assert found.int8.works or found.int8.failure


# The environment.


@on_x86
@pytest.mark.usefixtures("before_torch")
def test_a_limit_that_is_needed_is_set_before_torch_loads():
    assert prepare_environment("bfloat16", crashing_command("AVX2"))
    assert os.environ[ISA_VARIABLE] == "AVX2"


@pytest.mark.usefixtures("before_torch")
def test_float32_never_starts_a_probe(tmp_path):
    assert prepare_environment(command=crashing_command(log=tmp_path / "log"))
    assert not (tmp_path / "log").exists()
    assert ISA_VARIABLE not in os.environ


@on_x86
@pytest.mark.usefixtures("before_torch")
def test_float32_applies_what_an_earlier_probe_found():
    command = crashing_command("AVX2")
    cpu_probe(command)
    assert prepare_environment("float32", command)
    assert os.environ[ISA_VARIABLE] == "AVX2"


@on_x86
@pytest.mark.usefixtures("cache")
def test_after_torch_has_loaded_a_missing_limit_makes_the_precision_unsafe(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", machine)  # any module: only its presence is looked at
    assert not prepare_environment("int8", crashing_command("AVX2"))
    assert ISA_VARIABLE not in os.environ


@on_x86
@pytest.mark.parametrize(("theirs", "is_safe"), [("SSE41", True), ("avx2", True), ("AVX512_CORE", False)])
@pytest.mark.usefixtures("before_torch")
def test_a_limit_that_the_user_set_stays(monkeypatch, theirs, is_safe):
    monkeypatch.setenv(ISA_VARIABLE, theirs)
    assert prepare_environment("int8", crashing_command("AVX2")) is is_safe
    assert os.environ[ISA_VARIABLE] == theirs


@pytest.mark.usefixtures("cache")
def test_an_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match="float7"):
        prepare_environment("float7", crashing_command(""))


def test_no_limit_is_as_strict_as_none_needed():
    assert is_within("", "")
    assert not is_within("", "AVX2")
    assert not is_within("DEFAULT", "AVX2")


def test_importing_and_preparing_do_not_load_torch():
    program = (
        "import sys; from sixfold import machine; machine.prepare_environment(); machine.num_cores();"
        "machine.raise_malloc_thresholds(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


# Memory that glibc keeps.

FAULTS_OF_ALLOCATING = """
import ctypes, resource, sys
from sixfold.machine import raise_malloc_thresholds
if sys.argv[1] == "raised":
    assert raise_malloc_thresholds()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
size, faults = 24 << 20, lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(20):
    if turn == 4:
        before = faults()
    buffers = [libc.malloc(size + (turn << 12)) for _ in range(2)]
    for buffer in buffers:
        ctypes.memset(buffer, 1, size)
    for buffer in buffers:
        libc.free(buffer)
print(faults() - before)
"""


@on_glibc
def test_raised_thresholds_spare_the_kernel_from_clearing_the_same_pages_again():
    def faults(which: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", FAULTS_OF_ALLOCATING, which], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    assert faults("raised") < faults("default") / 4


@on_glibc
def test_the_thresholds_report_that_they_took_effect():
    assert raise_malloc_thresholds()


RESIDENT_AFTER_FREEING = """
import ctypes
from sixfold.machine import raise_malloc_thresholds, return_freed_memory
raise_malloc_thresholds()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
resident = lambda: int(open("/proc/self/smaps_rollup").read().split("Rss:")[1].split()[0]) << 10
before, buffers = resident(), [libc.malloc(24 << 20) for _ in range(4)]
for buffer in buffers:
    ctypes.memset(buffer, 1, 24 << 20)
for buffer in buffers[:3]:  # the last one lies above them
    libc.free(buffer)
grown = lambda: round((resident() - before) / 2**20)  # megabytes; a few pages were there before
kept = grown()
return_freed_memory()
print(kept, grown())
"""


@on_glibc
def test_freed_memory_that_was_kept_is_given_back_when_asked_for():
    done = subprocess.run(
        [sys.executable, "-c", RESIDENT_AFTER_FREEING], capture_output=True, text=True, check=True
    )
    kept, left = map(int, done.stdout.split())
    assert kept >= 96
    assert left <= 32


# The description.


@pytest.mark.usefixtures("cache")
def test_the_description_says_what_is_there():
    import torch

    found = describe(crashing_command(""))
    assert found.devices[-1] == "cpu"
    assert found.num_cores >= 1
    assert found.torch_version.partition("+")[0] == torch.__version__.partition("+")[0]
    assert found.probe.bfloat16.works


def test_what_is_switched_off_is_said_with_the_reason():
    limited = PrecisionProbe("bfloat16", True, "AVX512_CORE", "died with SIGILL")
    broken = PrecisionProbe("int8", False, "", "died with SIGILL")
    first, second = missing_instructions(CpuProbe(limited, broken))
    assert "beyond AVX512_CORE" in first
    assert "SIGILL" in first
    assert second == "int8 on the CPU: a test of it died with SIGILL."


def test_cores_that_a_quota_takes_away_are_said():
    assert list(missing_cores(2, 2)) == []
    assert list(missing_cores(2, 8)) == ["6 of 8 cores: this process's quota or affinity allows 2."]


def test_the_processor_is_named_from_the_first_entry(tmp_path):
    root = tree(tmp_path, {"proc/cpuinfo": "processor : 0\nmodel name\t: Fast One\n\nmodel name\t: Other\n"})
    assert cpu_model(root) == "Fast One"


# Threads that wait for each other


@pytest.mark.parametrize("own", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_waiting_threads_spin_briefly_unless_the_user_decided(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    machine.let_threads_sleep()
    found = {name: os.environ[name] for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY") if name in os.environ}
    assert found == (own or {"GOMP_SPINCOUNT": "2000"})
