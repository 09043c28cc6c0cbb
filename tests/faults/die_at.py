"""Goes on with the run in a folder and kills itself with SIGKILL at the n-th time it touches the disk in it.

Run by a child of a test, with `folder` and `moment` as globals. The moments are those that Python reports before
it opens, renames, deletes or makes something, and every fsync; the file `count` says how many there were.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import sixfold

folder, moment, count = Path(globals()["folder"]), int(globals()["moment"]), Path(globals()["count"])
TOUCHES = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.truncate"})
touched = 0


def touch() -> None:
    """Count, and die at the moment chosen."""
    global touched
    touched += 1
    if touched == moment:
        os.kill(os.getpid(), signal.SIGKILL)


def hook(event: str, arguments: tuple[object, ...]) -> None:
    """Look at what Python is about to do."""
    is_write = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if (is_write or event in TOUCHES) and str(folder) in str(arguments[0]):
        touch()


def fsync(descriptor: int) -> None:
    """Die before, or wait for the disk."""
    touch()
    real_fsync(descriptor)


real_fsync, os.fsync = os.fsync, fsync
sys.addaudithook(hook)
sixfold.train(None, model=folder, resume=True)
touched_in_all, moment = touched, 0
count.write_text(str(touched_in_all))
