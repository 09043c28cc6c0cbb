"""The metrics log of a run, log.jsonl: one JSON record for each step and each validation."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sixfold.files import write_atomically, writing


class MetricsLog:
    """Appends records; a resumed run first removes those after its checkpoint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("a", encoding="utf-8")

    def write(self, record: dict[str, object]) -> None:
        """Append a record."""
        with writing(self.path):
            self.file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def flush(self) -> None:
        """Wait until everything written so far has reached the disk."""
        with writing(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())

    def cut_after(self, step: int) -> None:
        """Remove the records of later steps: they will be written again."""
        self.file.close()
        kept = [line for line in self.path.read_bytes().splitlines(keepends=True) if is_up_to(line, step)]
        write_atomically(self.path, b"".join(kept))
        self.file = self.path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Finish the file."""
        self.file.close()


def is_up_to(line: bytes, step: int) -> bool:
    """Return whether a line is a complete record of this step or an earlier one."""
    try:
        return int(json.loads(line)["step"]) <= step
    except (ValueError, KeyError, TypeError):  # an incomplete last line of a killed process
        return False
