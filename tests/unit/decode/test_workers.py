"""Several processes: the same translations in the same order, and never a wait without end."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
import torch

import sixfold
from sixfold.decode import token_budget
from sixfold.decode import workers as pool
from sixfold.decode.options import SearchOptions
from sixfold.decode.search import Hypothesis
from sixfold.decode.translate import Translator
from sixfold.decode.worker_protocol import Message, Origin
from sixfold.decode.workers import Child, SearchBatch, Workers, batch_message
from sixfold.errors import ConfigError, ModelFolderError, WorkError
from sixfold.kernels.build import VARIABLE
from sixfold.models.folder import load_info, load_members, load_tokenizer, save_model
from sixfold.models.weights import weights_of

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "tests" / "compat" / "format-1-phrases"
TEXTS = ["Old man", "The dog sees.", "A small house and a tree.", "Blue", "", "The woman paints a window."] * 6


@pytest.fixture(scope="module")
def alone() -> Translator:
    """Return a translator of one process."""
    return sixfold.load(MODEL, "cpu")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches so small that several processes have work."""
    monkeypatch.setattr(token_budget, "BATCH_TOKENS", 64)


@pytest.fixture
def shared() -> Iterator[Translator]:
    """Return a translator of two processes."""
    translator = sixfold.load(MODEL, "cpu", num_workers=2)
    yield translator
    workers(translator).close()


def workers(translator: Translator) -> Workers:
    """Return what shares the translator's work."""
    assert translator.decoder.workers is not None
    return translator.decoder.workers


def wait_for_child(translator: Translator) -> Child:
    """Return the other process when it is ready."""
    [child] = workers(translator).children
    assert eventually(lambda: child.is_ready)
    return child


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether something becomes true within a minute."""
    begun = time.monotonic()
    while not holds() and time.monotonic() - begun < 60:
        time.sleep(0.05)
    return holds()


def slow_down(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> list[SearchBatch]:
    """Let this process search slowly, so that the others get their share; return what is searched here."""
    ours: list[SearchBatch] = []
    decode_batch = translator.decoder.decode_batch

    def search(batch: SearchBatch) -> list[list[Hypothesis]]:
        time.sleep(0.1)
        ours.append(batch)
        return decode_batch(batch)

    monkeypatch.setattr(translator.decoder, "decode_batch", search)
    return ours


def watch_sending(monkeypatch: pytest.MonkeyPatch) -> list[SearchBatch]:
    """Return a list to which every batch is added that another process is sent."""
    sent: list[SearchBatch] = []

    def message(batch: SearchBatch) -> Message:
        sent.append(batch)
        return batch_message(batch)

    monkeypatch.setattr(pool, "batch_message", message)
    return sent


def test_two_processes_find_what_one_finds_in_the_same_order(
    shared: Translator, alone: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    assert shared.search(TEXTS, on_progress=done.append) == alone.search(TEXTS)
    assert done[-1] == sum(map(bool, TEXTS))
    child, ours, sent = wait_for_child(shared), slow_down(shared, monkeypatch), watch_sending(monkeypatch)
    wishes = (
        SearchOptions(n_best=3),
        SearchOptions(sample=1.0, n_best=2, seed=5),
        SearchOptions(forbid=("Hund",)),
    )
    for options in wishes:
        assert shared.search(TEXTS, options) == alone.search(TEXTS, options)  # every bit of a score
    assert ours
    assert sent
    assert workers(shared).children == [child], "it was started once"


def test_partners_and_int8_are_opened_by_the_others_as_here(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sixfold.load(MODEL, "cpu", [MODEL], "int8").search(TEXTS)
    shared = sixfold.load(MODEL, "cpu", [MODEL], "int8", num_workers=3)
    shared.search(TEXTS)
    assert len(workers(shared).children) == 2
    for child in workers(shared).children:
        assert eventually(lambda child=child: child.is_ready)
    slow_down(shared, monkeypatch)
    sent = watch_sending(monkeypatch)
    assert shared.search(TEXTS) == expected
    assert sent
    workers(shared).close()


def test_a_few_texts_stay_in_this_process(shared: Translator) -> None:
    shared.translate(["old man", "blue"])
    assert not workers(shared).children


def test_a_translator_made_in_memory_works_alone(alone: Translator) -> None:
    made = Translator(alone.models, alone.tokenizer, alone.decode)
    assert made.decoder.workers is None
    assert made.search(TEXTS) == alone.search(TEXTS)


def test_a_process_that_dies_is_an_error_and_the_next_search_starts_another(
    shared: Translator, alone: Translator
) -> None:
    shared.search(TEXTS)
    child = wait_for_child(shared)
    os.kill(child.worker.process.pid, signal.SIGKILL)
    with pytest.raises(WorkError, match="exit code -9"):
        shared.search(TEXTS)
    assert shared.search(TEXTS) == alone.search(TEXTS)


def test_a_process_that_dies_before_it_is_ready_is_an_error(shared: Translator) -> None:
    workers(shared).start(shared.decoder)
    [child] = workers(shared).children
    os.kill(child.worker.process.pid, signal.SIGKILL)
    with pytest.raises(WorkError, match="exit code -9"):
        shared.search(TEXTS)


def test_closing_leaves_no_process_behind(shared: Translator) -> None:
    shared.search(TEXTS)
    [child] = workers(shared).children
    workers(shared).close()
    assert child.worker.process.returncode is not None


def test_a_translator_that_is_forgotten_takes_its_processes_along() -> None:
    forgotten = sixfold.load(MODEL, "cpu", num_workers=2)
    forgotten.search(TEXTS)
    [child] = workers(forgotten).children
    del forgotten
    gc.collect()
    assert child.worker.process.returncode is not None


PARENT = """
import sys, time
import sixfold
translator = sixfold.load(sys.argv[1], "cpu", num_workers=2)
workers = translator.decoder.workers
workers.start(translator.decoder)
print(workers.children[0].worker.process.pid, flush=True)
time.sleep(600)
"""


def test_a_process_ends_with_its_parent_and_leaves_ctrl_c_to_it() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", PARENT, str(MODEL)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.getsid(pid) == pid, "a terminal sends Ctrl-C to the processes of its own session"
        parent.kill()
    assert eventually(lambda: has_ended(pid))


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or nobody has asked yet how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_model_that_was_replaced_since_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    shared = sixfold.load(folder, "cpu", num_workers=2)
    replace_by_another(folder)
    slow_down(shared, monkeypatch)
    with pytest.raises(ModelFolderError, match="was replaced after it was opened") as caught:
        shared.search(TEXTS * 20)
    assert str(folder) in caught.value.message
    assert not workers(shared).children


def replace_by_another(folder: Path) -> None:
    """Write a model into a folder that differs from the one there in one weight."""
    info = load_info(folder)
    [model] = load_members(folder, info)
    weights = weights_of(model)
    with torch.no_grad():
        next(iter(weights.values())).view(-1)[0] += 1
    save_model(folder, info.model_copy(update={"format": 2}), [weights], load_tokenizer(folder, info), "")


def test_a_folder_that_is_gone_is_said_as_it_would_be_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    monkeypatch.chdir(tmp_path)
    shared = sixfold.load("model", "cpu", num_workers=2)
    monkeypatch.chdir("/")
    shutil.rmtree(folder)
    slow_down(shared, monkeypatch)
    with pytest.raises(ModelFolderError, match=f"no model folder {folder}"):
        shared.search(TEXTS * 20)


def test_what_another_process_refuses_is_raised_here_as_what_it_is(shared: Translator) -> None:
    workers(shared).start(shared.decoder)
    [child] = workers(shared).children
    todo: SimpleQueue[tuple[int, SearchBatch]] = SimpleQueue()
    done: SimpleQueue[tuple[int, list[list[Hypothesis]]] | Exception] = SimpleQueue()
    todo.put((0, SearchBatch([[5, 6]], [0], SearchOptions(beam=2, n_best=3))))
    child.work(workers(shared).fingerprint, todo, done)
    error = done.get()
    assert isinstance(error, ConfigError)
    assert error.message == "n-best must be from 1 to the beam (2), but is 3."
    assert error.hint.startswith("Use a larger beam")


def test_a_process_computes_with_what_its_parent_computes_with(
    alone: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, str]] = []

    class Started:
        def __init__(self, _: object, environment: dict[str, str], has_kernels: bool) -> None:
            started.append(("on" if has_kernels else "off", environment[VARIABLE]))

        def end(self) -> None:
            pass

    monkeypatch.setattr(pool, "Child", Started)
    for has_kernels, mkl_is_slow_because in ((True, "torch was first"), (False, "")):
        found = type("BatchHypotheses", (), {"kernels": has_kernels or None})
        monkeypatch.setattr(pool, "find_kernels", lambda found=found: found)
        monkeypatch.setattr("sixfold.kernels.mkl.slow_because", lambda reason=mkl_is_slow_because: reason)
        Workers(Origin(str(MODEL)), 2).start(alone.decoder)
    assert started == [("on", "off"), ("off", "on")]
