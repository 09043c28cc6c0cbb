"""Faults in numbers: a training run killed hundreds of times, damaged and hostile model folders by the thousand.

Every process is a real one and every kill a real SIGKILL; children start from a server that has all imported.
One table: row (of the faults listed in docs/faults.md), tries, survived, lost. `--quick` tries less of everything.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import runpy
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from ctypes import c_int
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sixfold
from report import record
from sixfold.errors import ModelFolderError, SixfoldError
from sixfold.files import sha256
from sixfold.models.folder import load_info, load_members, load_tokenizer, save_model
from sixfold.models.weights import weights_of
from sixfold.training.checkpoint import OPTIMIZER, STATE, WEIGHTS, CheckpointStore
from sixfold.training.progress import Silence, StepReport

ROOT = Path(__file__).parents[1]
STORED = ROOT / "tests" / "compat" / "format-1"
DIE_AT = str(ROOT / "tests" / "faults" / "die_at.py")
FILES = ("sixfold.json", "weights.safetensors", "tokenizer.model")
STEPS, INTERVAL = 60, 10
SETTINGS = (
    "model.layers=1", "model.d_model=32", "model.heads=2", "model.d_ff=64", "model.dropout=0.1",
    "data.vocabulary=300", f"train.steps={STEPS}", "train.warmup_steps=10",
    f"train.checkpoint_every={INTERVAL}", "train.batch_tokens=256", "train.schedule=linear_decay",
    "train.learning_rate=0.002", "train.max_grad_norm=1", "train.average=5", "train.ema=0.99",
    "train.valid_sentences=8", "train.patience=0",
)  # fmt: skip
WORDS = {
    "en": ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"],
}
MEGABYTE = 2**20
context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Row:
    """What came of one campaign; `lost` counts the tries that did not end as promised."""

    row: str
    fault: str
    tries: int
    survived: int
    lost: int
    note: str = ""


def main() -> None:
    arguments = parse_arguments()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core: the same order of sums in every process
    context.set_forkserver_preload(["sixfold.training.run", "torch._dynamo", "sacrebleu", "report"])
    few = arguments.quick
    with tempfile.TemporaryDirectory() as name:
        place, draw = Path(name), random.Random(arguments.seed)
        reference = unbroken_run(place)
        rows = [
            kill_at_random_moments(place, reference, 6 if few else arguments.kills, draw),
            die_at_every_touch(place, reference, step=20 if few else 1),
            *damage_checkpoints(place, reference, 50, draw),
            *damage_model_folders(place, 50, draw),
            mutate_model_folders(place, 100 if few else arguments.mutations, arguments.seed),
        ]
    show(rows)
    if arguments.json:
        records = [
            record("faults", f"{row.row} {row.fault}", "sixfold", metric, [float(getattr(row, metric))], "tries")
            for row in rows
            for metric in ("tries", "survived", "lost")
        ]
        arguments.json.write_text(json.dumps([asdict(each) for each in records], indent=1) + "\n")
    sys.exit(any(row.lost for row in rows))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def show(rows: list[Row]) -> None:
    table = Table(title="faults")
    for heading in ("row", "fault"):
        table.add_column(heading)
    for heading in ("tries", "survived", "lost"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(row.row, row.fault, f"{row.tries:,}", f"{row.survived:,}", f"{row.lost:,}", row.note)
    Console(width=140).print(table)


# A training run that is killed


@dataclass(frozen=True)
class Reference:
    """A run that was never stopped: its text, its folder and what must come out of every other."""

    corpus: tuple[Path, Path]
    folder: Path
    result: tuple[list[dict[str, object]], dict[str, str]]


class Steps(Silence):
    """Tells the parent which step is done, and at once: not even SIGKILL can make it late."""

    def __init__(self, step_done: c_int) -> None:
        self.step_done = step_done

    def step(self, report: StepReport) -> None:
        """Count a step."""
        self.step_done.value = report.step


def unbroken_run(place: Path) -> Reference:
    """Train once without a fault."""
    draw = random.Random(5)
    rows = [[draw.randrange(10) for _ in range(draw.randint(2, 7))] for _ in range(400)]
    for language, words in WORDS.items():
        text = "".join(" ".join(words[number] for number in row) + "\n" for row in rows)
        (place / f"train.{language}").write_text(text, encoding="utf-8")
    corpus = place / "train.en", place / "train.de"
    run_child(sixfold.train, (*corpus, place / "unbroken"), {"settings": SETTINGS})
    return Reference(corpus, place / "unbroken", result_of(place / "unbroken"))


def run_child(
    work: Callable[..., object], arguments: tuple[object, ...], options: dict[str, object]
) -> int | None:
    """Do a work in a process of its own and return its exit code."""
    process = context.Process(target=work, args=arguments, kwargs=options)
    process.start()
    process.join()
    return process.exitcode


def result_of(folder: Path) -> tuple[list[dict[str, object]], dict[str, str]]:
    """Return the log without its clock, and the digests of everything trained."""
    lines = (folder / "training" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    log = [{key: value for key, value in json.loads(line).items() if key != "seconds"} for line in lines]
    last = folder / "training" / "checkpoints" / f"step-{STEPS:08d}"
    paths = (folder / "weights.safetensors", last / WEIGHTS, last / OPTIMIZER)
    return log, {str(path.relative_to(folder)): sha256(path) for path in paths}


def saved_steps(folder: Path) -> list[int]:
    """Return the steps that have a checkpoint."""
    names = (path.name for path in (folder / "training" / "checkpoints").glob("step-*"))
    return sorted(int(name.removeprefix("step-")) for name in names)


def kill_at_random_moments(place: Path, reference: Reference, num_kills: int, draw: random.Random) -> Row:
    """Kill runs again and again, at all kinds of moments, until each has come to its end; compare every bit."""
    kills = differing = most_lost = run_number = 0
    while kills < num_kills:
        folder, run_number = place / f"killed-{run_number}", run_number + 1
        for is_killed, num_lost in lives(folder, reference, draw):
            kills += is_killed
            most_lost = max(most_lost, num_lost)
        differing += result_of(folder) != reference.result
        shutil.rmtree(folder)
    is_lost = differing + (most_lost > INTERVAL)
    note = f"{run_number} runs, {differing} differing; at most {most_lost} steps lost, the interval is {INTERVAL}"
    return Row("1, 9", "kill -9 at a random moment", kills, kills - is_lost, is_lost, note)


def lives(folder: Path, reference: Reference, draw: random.Random) -> Iterator[tuple[bool, int]]:
    """Run to the end through many deaths; yield for each life whether it was killed and the steps it cost."""
    step_done = context.RawValue("i", 0)  # without a lock, which the dead would keep
    while True:
        is_begun = bool(saved_steps(folder))
        before = saved_steps(folder)[-1] if is_begun else 0
        num_lost, step_done.value = max(0, step_done.value - before), before
        options: dict[str, object] = {"progress": Steps(step_done)}
        options |= {"resume": True} if is_begun else {"settings": SETTINGS}
        arguments = (None, None, folder) if is_begun else (*reference.corpus, folder)
        process = context.Process(target=sixfold.train, args=arguments, kwargs=options)
        process.start()
        wait_for_the_moment(process, folder, step_done, draw)
        process.kill()
        process.join()
        if process.exitcode == 0:
            return
        if process.exitcode != -9:
            raise RuntimeError(f"a run ended with {process.exitcode}")
        yield True, num_lost


def wait_for_the_moment(
    process: multiprocessing.process.BaseProcess, folder: Path, step_done: c_int, draw: random.Random
) -> None:
    """Wait for a moment of some kind: any, a step, a validation, a save, or what comes after it."""
    checkpoints, first = folder / "training" / "checkpoints", step_done.value
    newest = saved_steps(folder)[-1:]
    kinds: list[Callable[[], bool]] = [
        lambda: True,
        lambda: step_done.value > first,
        lambda: step_done.value >= first + INTERVAL,  # validation comes next
        lambda: any(checkpoints.glob(".saving-*")),
        lambda: saved_steps(folder)[-1:] > newest,
    ]
    is_time, end = draw.choice(kinds), time.monotonic() + 60
    while process.is_alive() and not is_time() and time.monotonic() < end:
        time.sleep(0.0005)
    process.join(draw.random() * draw.choice([0.002, 0.05, 0.5]))


def die_at_every_touch(place: Path, reference: Reference, step: int) -> Row:
    """Let a run kill itself at each of its touches of the disk, from one checkpoint to the last."""
    folder, count = place / "touching", place / "count"
    tries = lost = moment = 0
    num_moments = sys.maxsize
    while moment < num_moments:
        copy_up_to(reference.folder, folder, STEPS - INTERVAL)
        variables = {"folder": str(folder), "moment": moment, "count": str(count)}
        code = run_child(runpy.run_path, (DIE_AT, variables), {})
        if moment == 0:
            num_moments = int(count.read_text())
        else:
            is_close = saved_steps(folder)[-1] >= STEPS - INTERVAL
            resumed = run_child(sixfold.train, (None, None, folder), {"resume": True})
            tries += 1
            lost += not (code == -9 and is_close and resumed == 0 and result_of(folder) == reference.result)
        shutil.rmtree(folder)
        moment += step
    return Row("2", "killed at every touch of the disk", tries, tries - lost, lost, "every bit compared")


def copy_up_to(source: Path, folder: Path, step: int) -> None:
    """Copy a run as it would be had the process died after saving that step."""
    shutil.copytree(source, folder)
    for saved in saved_steps(folder):
        if saved > step:
            shutil.rmtree(folder / "training" / "checkpoints" / f"step-{saved:08d}")


# Damage


def flip(content: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


HARMS: dict[str, Callable[[bytes, random.Random], bytes]] = {"a bit flipped": flip, "cut short": cut}


def damage_checkpoints(place: Path, reference: Reference, num_tries: int, draw: random.Random) -> Iterator[Row]:
    """Damage the newest checkpoint and look for the file's name and for the checkpoint before."""
    copy_up_to(reference.folder, place / "damaged", STEPS)
    store = CheckpointStore(place / "damaged" / "training" / "checkpoints")
    for harm, change in HARMS.items():
        survived = 0
        for number in range(num_tries):
            path = store.path(STEPS) / (WEIGHTS, OPTIMIZER, STATE)[number % 3]
            content = path.read_bytes()
            path.write_bytes(change(content, draw))
            found, problems = store.newest()
            is_named = len(problems) == 1 and path.name in problems[0] and str(path.parent) in problems[0]
            survived += is_named and found.state["step"] == STEPS - INTERVAL
            path.write_bytes(content)
        yield Row(
            "12", f"checkpoint: {harm}", num_tries, survived, num_tries - survived, "named, the one before taken"
        )


def damage_model_folders(place: Path, num_tries: int, draw: random.Random) -> Iterator[Row]:
    """Damage a model folder and look for the file's name."""
    folder = place / "model"
    write_model(folder)
    for harm, change in HARMS.items():
        survived = 0
        for number in range(num_tries):
            path = folder / FILES[number % 3]
            content = path.read_bytes()
            path.write_bytes(change(content, draw))
            try:
                sixfold.load(folder, "cpu")
            except ModelFolderError as error:
                survived += str(path) in error.message
            path.write_bytes(content)
        yield Row("3", f"model folder: {harm}", num_tries, survived, num_tries - survived, "detected and named")


def write_model(folder: Path) -> None:
    """Write the stored model as a folder of today."""
    info = load_info(STORED)
    members = [weights_of(model) for model in load_members(STORED, info)]
    save_model(folder, info, members, load_tokenizer(STORED, info), "# A model card\n")


# Hostile folders


def mutate_model_folders(place: Path, num_tries: int, seed: int) -> Row:
    """Load mutated folders in children that report on each; a child that dies is a loss, and the next goes on."""
    write_model(place / "original")
    counts = {"refused": 0, "loaded": 0, "crashed": 0, "failed": 0, "touched": 0, "greedy": 0}
    number, most_memory = 0, 0
    while number < num_tries:
        receiver, sender = context.Pipe(duplex=False)
        arguments = (sender, place, seed, number, num_tries)
        process = context.Process(target=load_mutated_folders, args=arguments)
        process.start()
        sender.close()
        try:
            while True:
                outcome, memory, touches = receiver.recv()
                counts[outcome] += 1
                counts["touched"] += touches > 0
                counts["greedy"] += memory > 500 * MEGABYTE
                most_memory = max(most_memory, memory)
                number += 1
        except EOFError:
            process.join()
        if number < num_tries:
            counts["crashed"] += 1
            number += 1
    lost = sum(counts[name] for name in ("crashed", "failed", "touched", "greedy"))
    note = f"{counts['refused']:,} refused, {counts['loaded']:,} harmless, {counts['crashed']} crashes, "
    note += f"{counts['touched']} executed or wrote; at most {most_memory / MEGABYTE:.0f} MB each"
    return Row("29-31", "mutated model folder", num_tries, num_tries - lost, lost, note)


DANGEROUS = (
    "pickle.find_class",
    "os.system",
    "subprocess.Popen",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "socket.",
)


def load_mutated_folders(sender: Connection, place: Path, seed: int, begin: int, end: int) -> None:
    """Load and try mutated folders; say of each what came of it, the memory it took, and what it touched."""
    touches: list[str] = []
    is_watching = False

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if is_watching and (is_write or event.startswith(DANGEROUS)):
            touches.append(event)

    sys.addaudithook(watch)
    sixfold.load(place / "original", "cpu").translate(["one"], beam=1)
    for number in range(begin, end):
        folder = place / f"mutated-{number}"
        shutil.copytree(place / "original", folder)
        mutate(folder, random.Random(f"{seed} {number}"))
        forget_peak_memory()
        before, touches[:] = memory("VmRSS"), []
        is_watching = True
        outcome = attempt(folder)
        is_watching = False
        sender.send((outcome, memory("VmHWM") - before, len(touches)))
        shutil.rmtree(folder)
    sender.close()


def attempt(folder: Path) -> str:
    """Load a folder and translate with it."""
    try:
        sixfold.load(folder, "cpu").translate(["one two", "größer"], beam=2)
    except SixfoldError:
        return "refused"
    except Exception as error:  # whatever it is, it should have been one of ours
        print(f"{folder.name}: {error!r}", file=sys.stderr)
        return "failed"
    return "loaded"


def forget_peak_memory() -> None:
    """Let the kernel begin anew to remember the largest memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def memory(name: str) -> int:
    """Return a number of bytes from the kernel's account of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


ODD_VALUES: tuple[object, ...] = (
    0, -1, 1, 7, 2**31, 2**63, 10**9, 10**30, 1e308, -0.5, float("nan"), True, None, "", "x" * 1000, "../../etc",
    "/", "\0", "\x1b[2J", [], {}, [[]], {"a": {}}, "transformer", "__class__", "!!python/object/apply:os.system",
)  # fmt: skip


def mutate(folder: Path, draw: random.Random) -> None:
    """Change a model folder as damage or malice would, mostly with digests that are right."""
    kinds = (mutate_bytes, mutate_config, mutate_config, mutate_header, mutate_header, mutate_place)
    draw.choice(kinds)(folder, draw)


def mutate_bytes(folder: Path, draw: random.Random) -> None:
    """Change the bytes of a file, and its digest with them."""
    name = draw.choice(FILES)
    content = bytearray((folder / name).read_bytes())
    for _ in range(draw.choice([1, 1, 4, 100])):
        content[draw.randrange(len(content))] = draw.randrange(256)
    kind = draw.randrange(6)
    if kind == 0:
        del content[draw.randrange(len(content)) :]
    elif kind == 1:
        content += draw.randbytes(draw.choice([1, 100, 10_000]))
    elif kind == 2:
        content = bytearray(draw.randbytes(draw.choice([0, 1, 8, 1000])))
    elif kind == 3:
        begin = draw.randrange(len(content))
        content[begin:begin] = content[: draw.randrange(2000)]
    (folder / name).write_bytes(content)
    seal_again(folder, name)


def seal_again(folder: Path, name: str) -> None:
    """Put the digest of a changed file into the configuration, as its author could."""
    try:
        config = json.loads((folder / "sixfold.json").read_bytes())
        config["files"].pop("sixfold.json", None)
        if name != "sixfold.json":
            config["files"][name] = {"sha256": sha256(folder / name)}
        (folder / "sixfold.json").write_text(json.dumps(config))
    except (ValueError, LookupError, TypeError, AttributeError):
        pass  # the configuration itself is beyond repair


def mutate_config(folder: Path, draw: random.Random) -> None:
    """Change one value of the configuration, at any depth."""
    config = json.loads((folder / "sixfold.json").read_bytes())
    config["files"].pop("sixfold.json", None)
    part = config
    while draw.random() < 0.7 and (
        inner := [value for value in part.values() if isinstance(value, dict) and value]
    ):
        part = draw.choice(inner)
    key = draw.choice(list(part))
    if draw.random() < 0.2:
        del part[key]
    elif draw.random() < 0.2:
        part[str(draw.choice(ODD_VALUES))] = part[key]
    else:
        part[key] = draw.choice(ODD_VALUES)
    (folder / "sixfold.json").write_text(json.dumps(config))


def mutate_header(folder: Path, draw: random.Random) -> None:
    """Change what the header of the weights says of one tensor, or of its own length."""
    path = folder / "weights.safetensors"
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = draw.choice([name for name in header if name != "__metadata__"])
    kind = draw.choice(["shape", "dtype", "data_offsets", "value", "name", "length", "twice"])
    if kind == "shape":
        header[name]["shape"] = [draw.choice([0, 1, -1, 2**31, 2**63, 10**18]) for _ in range(draw.randrange(4))]
    elif kind == "dtype":
        header[name]["dtype"] = draw.choice(["F16", "BF16", "I64", "BOOL", "F64", "F8_E4M3", "X", 3])
    elif kind == "data_offsets":
        header[name]["data_offsets"] = [draw.choice([0, 4, -4, len(data), 2**64, 10**30]) for _ in range(2)]
    elif kind == "value":
        header[name][draw.choice(["shape", "dtype", "data_offsets", "x"])] = draw.choice(ODD_VALUES)
    elif kind == "name":
        header[str(draw.choice(ODD_VALUES))] = header.pop(name)
    elif kind == "twice":
        header["another"] = header[name]
    text = json.dumps(header).encode()
    claimed = draw.choice([0, 1, 2**32, 2**63, 2**64 - 1, 10**8]) if kind == "length" else len(text)
    path.write_bytes(struct.pack("<Q", claimed) + text + data)
    seal_again(folder, path.name)


def mutate_place(folder: Path, draw: random.Random) -> None:
    """Put something else where a file should be: another file, a link, a folder, a pipe, a giant."""
    name, other = draw.sample(FILES, 2)
    path, outside = folder / name, folder.parent / f"{folder.name}-outside"
    kind = draw.choice(["another", "link", "link inside", "folder", "pipe", "giant", "missing"])
    content = (folder / other).read_bytes()
    moved = path.read_bytes()
    path.unlink()
    if kind == "another":
        path.write_bytes(content)
    elif kind == "link":
        outside.write_bytes(moved)
        path.symlink_to(outside)
    elif kind == "link inside":
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "giant":
        with path.open("wb") as file:
            file.write(moved)
            file.truncate(draw.choice([5, 100, 200]) * MEGABYTE)  # sparse: it takes no disk
    if kind == "another" or (kind == "giant" and name != "sixfold.json"):  # a giant must not fill our own memory
        seal_again(folder, name)


if __name__ == "__main__":
    main()
