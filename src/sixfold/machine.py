"""What this machine can do: cores, memory, devices, and which CPU instructions really work.

Importing this module does not load torch: `prepare_environment` must be able to run before torch does.
The functions that read system files take the folder that stands for `/`, so that a test can bring its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from sixfold.errors import ConfigError, SixfoldError
from sixfold.files import cache_folder, write_atomically

SYSTEM = Path("/")
UNKNOWN_MEMORY = 4 << 30  # assumed where the system does not say

# Cores and memory: the limits of the container count, not those of the host.


def num_cores(root: Path = SYSTEM) -> int:
    """Return how many cores this process may use: by affinity and container quota, at least 1."""
    quota = cpu_quota(root)
    cores = allowed_cores()
    return cores if quota is None else max(1, min(cores, int(quota)))


def allowed_cores() -> int:
    """Return the cores this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota(root: Path = SYSTEM) -> float | None:
    """Return the container's CPU quota in cores, or None if there is none."""
    quotas = []
    for folder in cgroup_folders("cpu", root):
        words = read(folder / "cpu.max").split()  # v2: "150000 100000", or "max 100000"
        words = words or [read(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        if all(word.isdigit() for word in words) and int(words[1]) > 0:  # v1 says -1 where v2 says max
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def memory_bytes(root: Path = SYSTEM) -> int:
    """Return the total usable memory: the machine's, or less if the container is limited."""
    total, _ = physical_memory(root)
    return min([total, *(limit for limit, _ in memory_limits(root))])


def available_memory_bytes(root: Path = SYSTEM) -> int:
    """Return the memory that can still be allocated without swapping or being killed."""
    _, available = physical_memory(root)
    return min([available, *(max(0, limit - used) for limit, used in memory_limits(root))])


def physical_memory(root: Path) -> tuple[int, int]:
    """Return the machine's memory, total and available; half counts as available if only the total is known."""
    kibibytes = table(read(root / "proc/meminfo"))
    total = kibibytes.get("MemTotal:", 0) << 10
    if not total and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    total = total if total > 0 else UNKNOWN_MEMORY
    return total, kibibytes["MemAvailable:"] << 10 if "MemAvailable:" in kibibytes else total // 2


def memory_limits(root: Path) -> Iterator[tuple[int, int]]:
    """Yield the limits on this process's memory, each with the part in use that cannot be reclaimed at once."""
    for folder in cgroup_folders("memory", root):
        for limit, used, reclaimable in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            if (text := read(folder / limit).strip()).isdigit():
                cache = table(read(folder / "memory.stat")).get(reclaimable, 0)
                yield int(text), max(0, int(read(folder / used).strip() or 0) - cache)


def cgroup_folders(controller: str, root: Path) -> Iterator[Path]:
    """Yield the cgroup folders that may limit this process: its own groups and their parents, v2 and v1.

    A container often sees its own group mounted at the top while /proc names the path it has on the host, so
    folders that do not exist are among them.
    """
    for line in (read(root / "proc/self/cgroup") or "0::/").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath(path.lstrip("/"))
        for mount in (controllers, controller) if controllers else ("", "unified"):
            yield from (root / "sys/fs/cgroup" / mount / level for level in (group, *group.parents))


def read(path: Path) -> str:
    """Return a system file's text, or an empty string if it is missing or not readable."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def table(text: str) -> dict[str, int]:
    """Return the numbers of a file with one name and one number per line."""
    lines = (line.split() for line in text.splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


# Devices.


def choose_device(name: str = "auto") -> str:
    """Return the device to compute on: the requested one, or the best available."""
    return pick_device(name, available_devices())


def available_devices() -> tuple[str, ...]:
    """Return the devices that torch can use, best first."""
    import torch

    gpus = [f"cuda:{index}" for index in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    apple = ["mps"] if torch.backends.mps.is_available() else []
    return (*gpus, *apple, "cpu")


def pick_device(name: str, available: Sequence[str]) -> str:
    """Return the device of that name, where `auto` is the best and `cuda` is the current GPU."""
    families = [device.partition(":")[0] for device in available]
    if name == "auto":
        return families[0]
    if name in available or name in families:
        return name
    raise ConfigError(
        f"The device {name!r} is not available: torch {torch_version()} finds {', '.join(available)}.",
        "Leave the device at auto, or name one of these.",
    )


# Which CPU instructions really work.

ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
ISA_LIMITS = (  # oneDNN's names, highest first; all without AMX, which is what virtual machines trap
    "AVX512_CORE_FP16",
    "AVX512_CORE_BF16",
    "AVX512_CORE_VNNI",
    "AVX512_CORE",
    "AVX2",
    "SSE41",
)
PROBE_SECONDS = 60.0
PROBED_PRECISIONS = ("bfloat16", "int8")
SENT_BY_OTHERS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")  # such as the kernel when memory runs out
PROBE_PROGRAM = """
import sys, warnings
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is an answer here, not worth a core file
except (ImportError, OSError, ValueError):
    pass
warnings.simplefilter("ignore")
import torch

torch.set_num_threads(1)
if sys.argv[1] == "bfloat16":
    layer = torch.nn.Linear(128, 128, dtype=torch.bfloat16)
    layer(torch.ones(64, 128, dtype=torch.bfloat16)).sum().backward()
    heads = torch.ones(1, 2, 64, 64, dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
else:
    torch._int_mm(torch.ones(64, 128, dtype=torch.int8), torch.ones(128, 64, dtype=torch.int8))
    if "onednn" in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = "onednn"
        weight = torch.quantize_per_tensor(torch.ones(128, 128), 0.1, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(weight, None)
        torch.ops.quantized.linear_dynamic(torch.ones(64, 128), packed)
"""
PROBE_COMMAND = (sys.executable, "-P", "-c", PROBE_PROGRAM)  # -P: a torch.py in the current folder is not torch


@dataclass(frozen=True)
class PrecisionProbe:
    """What happened when a child process computed in one precision on this CPU."""

    precision: str
    works: bool
    isa_limit: str  # the value of ONEDNN_MAX_CPU_ISA it needs; empty if it needs none
    failure: str  # what happened without the limit; empty if nothing did
    is_final: bool = True  # the processor decided; False if a child hung or was killed, which may not happen again


@dataclass(frozen=True)
class CpuProbe:
    """Which precisions work on this CPU, and with which instruction limit."""

    bfloat16: PrecisionProbe
    int8: PrecisionProbe

    @property
    def isa_limit(self) -> str:
        """The value of ONEDNN_MAX_CPU_ISA with which every usable precision works, or an empty string."""
        limits = [probe.isa_limit for probe in (self.bfloat16, self.int8) if probe.isa_limit]
        return max(limits, key=ISA_LIMITS.index, default="")


@dataclass(frozen=True)
class Trial:
    """The result of a child process."""

    failure: str = ""  # empty: all went well
    is_crash: bool = False  # the processor ended it

    @property
    def is_final(self) -> bool:
        """Whether the result is the same every time on this processor."""
        return self.is_crash or not self.failure


def cpu_probe(command: Sequence[str] = PROBE_COMMAND) -> CpuProbe:
    """Return what works on this CPU, tested in a child process the first time and cached afterwards.

    Only results that the processor decided are cached: if memory ran out, for example, the next process tests
    again.

    A virtual machine may advertise AMX and trap it: bfloat16 and oneDNN's int8 then die with SIGILL, which no CPU
    flag reveals. So they are tried, in a child process that may die.
    """
    found = cached_probe(command)
    if found is None:
        found = CpuProbe(*(probe_precision(precision, command) for precision in PROBED_PRECISIONS))
        if found.bfloat16.is_final and found.int8.is_final:
            store_probe(found, command)
    return found


def probe_precision(precision: str, command: Sequence[str]) -> PrecisionProbe:
    """Find the highest instruction limit with which a child survives computing in a precision."""
    free = run_child(precision, "", command)
    if not free.is_crash or platform.machine().lower() not in ("x86_64", "amd64"):
        return PrecisionProbe(precision, not free.failure, "", free.failure, free.is_final)
    is_final = True
    for limit in ISA_LIMITS:
        trial = run_child(precision, limit, command)
        is_final &= trial.is_final
        if not trial.failure:
            return PrecisionProbe(precision, True, limit, free.failure, is_final)
    return PrecisionProbe(precision, False, "", free.failure, is_final)


def run_child(precision: str, isa_limit: str, command: Sequence[str]) -> Trial:
    """Compute in a child process; return the result."""
    environment = {name: value for name, value in os.environ.items() if name != ISA_VARIABLE}
    if isa_limit:
        environment[ISA_VARIABLE] = isa_limit
    try:
        done = subprocess.run(
            [*command, precision],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Trial(f"did not finish within {PROBE_SECONDS:.0f} s")
    except OSError as error:
        return Trial(f"could not be tried: {error}")
    return judged(done.returncode, done.stderr.decode(errors="replace"))


def judged(exit_code: int, said: str) -> Trial:
    """Return the result of a child that ended with this exit code."""
    if exit_code < 0:
        killed_by = signal.Signals(-exit_code).name
        return Trial(f"died with {killed_by}", killed_by not in SENT_BY_OTHERS)
    if exit_code > 255:  # Windows ends a crashed process with the number of the exception
        return Trial(f"died with exception {exit_code:#x}", True)
    last_line = said.strip().rpartition("\n")[2]
    return Trial(f"failed: {last_line}" if exit_code else "")


def cached_probe(command: Sequence[str] = PROBE_COMMAND) -> CpuProbe | None:
    """Return what an earlier probe on this machine and this torch found, or None."""
    try:
        content = json.loads(read(probe_path(command)))
        return CpuProbe(*(PrecisionProbe(**content[precision]) for precision in PROBED_PRECISIONS))
    except (ValueError, TypeError, KeyError):  # absent, cut short, or of another version: probe again
        return None
    except (ConfigError, RuntimeError):  # there is no cache folder
        return None


def store_probe(found: CpuProbe, command: Sequence[str]) -> None:
    """Cache the result of a probe; if that fails, the next process probes again."""
    with contextlib.suppress(OSError, RuntimeError, SixfoldError):  # RuntimeError: the user has no home folder
        path = probe_path(command)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, json.dumps(asdict(found), indent=1).encode())


def probe_path(command: Sequence[str]) -> Path:
    """Return the file for this probe on this processor, kernel and torch."""
    facts = (cpu_model(), cpu_flags(), platform.release(), torch_version(), *command)
    digest = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
    return cache_folder() / f"cpu-{digest}.json"


def prepare_environment(precision: str = "float32", command: Sequence[str] = PROBE_COMMAND) -> bool:
    """Prevent crashes on a CPU that traps its own instructions; return whether the precision is safe here.

    Call it before torch is imported: oneDNN reads its limit once, so afterwards a limit that is not yet in the
    environment counts as not there, and the answer is no. float32 is always safe and never starts a probe (it
    applies what an earlier one found, so that other precisions stay possible in the process); `bfloat16` and
    `int8` start it where this machine has not been asked before. A limit that the user has set stays.
    """
    if precision not in ("float32", *PROBED_PRECISIONS):
        known = ", ".join(("float32", *PROBED_PRECISIONS))
        raise ConfigError(f"The precision {precision!r} is unknown.", f"Choose one of {known}.")
    is_float32 = precision == "float32"
    found = cached_probe(command) if is_float32 else cpu_probe(command)
    if found and found.isa_limit and "torch" not in sys.modules:
        os.environ.setdefault(ISA_VARIABLE, found.isa_limit)
    if is_float32 or found is None:
        return True
    result = found.bfloat16 if precision == "bfloat16" else found.int8
    return result.works and is_within(os.environ.get(ISA_VARIABLE, ""), result.isa_limit)


def is_within(isa_limit: str, needed: str) -> bool:
    """Return whether a limit in force is as strict as the one needed."""
    if not needed:
        return True
    limit = isa_limit.upper()
    return limit in ISA_LIMITS and ISA_LIMITS.index(limit) >= ISA_LIMITS.index(needed)


# Threads that wait for each other.


def let_threads_sleep() -> None:
    """Make OpenMP's threads spin only briefly while waiting; call it before torch is imported.

    By default they spin for a long time, and on a busy machine they starve the thread that they wait for: a
    training step was up to 30 times slower. Without spinning an idle machine is a third slower, with brief
    spinning a twelfth (docs/log.md). The user's own settings are kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


# Memory that glibc keeps.

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEEP_ALL = 2**31 - 1
MMAP_THRESHOLDS = (1 << 30, 32 << 20)  # older glibc refuses more than 32 MiB


def raise_malloc_thresholds() -> bool:
    """Make glibc keep large freed buffers for the next step, and return whether it agreed.

    By default it maps every large buffer again and the kernel clears its pages at each step. The drawback is that
    the process keeps memory once used. Without glibc nothing is done; with another allocator (jemalloc by
    LD_PRELOAD) glibc agrees, but it has no effect.
    """
    mallopt = of_glibc("mallopt")
    if mallopt is None:
        return False
    raised = any(mallopt(M_MMAP_THRESHOLD, threshold) for threshold in MMAP_THRESHOLDS)
    return bool(mallopt(M_TRIM_THRESHOLD, KEEP_ALL)) and raised


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out; torch's CPU allocator only says so in its text."""
    words = ("out of memory", "allocate memory", "not enough memory")
    is_said_by_type = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_said_by_type or any(each in str(error) for each in words)


def return_freed_memory() -> None:
    """Return glibc's free memory to the system, before work that needs other buffers."""
    if malloc_trim := of_glibc("malloc_trim"):
        malloc_trim(0)


def of_glibc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library, or None if that is not glibc."""
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", {}):
        return None
    return getattr(ctypes.CDLL(None), name, None)


# Everything in one place.


@dataclass(frozen=True)
class Machine:
    """The capabilities of this machine, and what was switched off and why."""

    cpu_model: str
    num_cores: int
    memory_bytes: int
    available_memory_bytes: int
    devices: tuple[str, ...]
    torch_version: str
    probe: CpuProbe
    switched_off: tuple[str, ...]  # one sentence each


def describe(command: Sequence[str] = PROBE_COMMAND) -> Machine:
    """Describe the machine, probing its CPU if that has not been done; imports torch."""
    probe = cpu_probe(command)
    prepare_environment(command=command)
    return Machine(
        cpu_model=cpu_model(),
        num_cores=num_cores(),
        memory_bytes=memory_bytes(),
        available_memory_bytes=available_memory_bytes(),
        devices=available_devices(),
        torch_version=torch_version(),
        probe=probe,
        switched_off=(*missing_cores(num_cores(), os.cpu_count() or 1), *missing_instructions(probe)),
    )


def missing_cores(usable: int, present: int) -> Iterator[str]:
    """Yield why not every core is used, if some are not."""
    if usable < present:
        yield f"{present - usable} of {present} cores: this process's quota or affinity allows {usable}."


def missing_instructions(probe: CpuProbe) -> Iterator[str]:
    """Yield what does not work on the CPU."""
    for result in (probe.bfloat16, probe.int8):
        if not result.works:
            yield f"{result.precision} on the CPU: a test of it {result.failure}."
        elif result.isa_limit:
            yield (
                f"CPU instructions beyond {result.isa_limit} ({ISA_VARIABLE}): "
                f"a test of {result.precision} {result.failure} without this limit."
            )


def cpu_model(root: Path = SYSTEM) -> str:
    """Return the processor's name."""
    return cpu_fact("model name", root) or platform.processor() or platform.machine() or "unknown"


def cpu_flags(root: Path = SYSTEM) -> str:
    """Return the instructions that the processor advertises, if the system lists them."""
    return cpu_fact("flags", root) or cpu_fact("Features", root)


def cpu_fact(name: str, root: Path) -> str:
    """Return a value of the first processor in /proc/cpuinfo, or an empty string."""
    for line in read(root / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def torch_version() -> str:
    """Return torch's version without importing it."""
    from importlib import metadata

    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return "(not installed)"
