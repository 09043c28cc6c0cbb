"""The metrics log of a run, whatever ended the run before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sixfold.training.metrics_log import MetricsLog


def written(path: Path, num_steps: int) -> None:
    """Write a log of some steps, with a validation after every second."""
    log = MetricsLog(path)
    for step in range(1, num_steps + 1):
        log.write({"kind": "step", "step": step, "loss": 1 / step})
        if step % 2 == 0:
            log.write({"kind": "validation", "step": step, "sample": {"given": "Grüße\nвсем"}})
    log.close()


def records(path: Path) -> list[dict[str, object]]:
    """Read a log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_record_is_a_line_and_numbers_come_back_exactly(tmp_path: Path) -> None:
    written(tmp_path / "log.jsonl", 3)
    assert [record["step"] for record in records(tmp_path / "log.jsonl")] == [1, 2, 2, 3]
    assert records(tmp_path / "log.jsonl")[-1]["loss"] == 1 / 3


def test_what_was_flushed_is_on_disk(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "log.jsonl")
    log.write({"step": 1})
    log.flush()
    assert records(tmp_path / "log.jsonl") == [{"step": 1}]
    log.close()


def test_later_steps_are_cut_off_and_writing_goes_on(tmp_path: Path) -> None:
    written(tmp_path / "log.jsonl", 5)
    log = MetricsLog(tmp_path / "log.jsonl")
    log.cut_after(2)
    log.write({"kind": "step", "step": 3, "loss": 0.5})
    log.close()
    assert [(r["kind"], r["step"]) for r in records(tmp_path / "log.jsonl")] == [
        ("step", 1),
        ("step", 2),
        ("validation", 2),
        ("step", 3),
    ]


@pytest.mark.parametrize(
    "rest", [b'{"kind": "step", "st', b"\x00\x00\x00", b"\xff", b"7\n", b"{}\n", b'{"step": null}\n']
)
def test_the_torn_last_line_of_a_killed_run_is_dropped(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    written(path, 2)
    before = path.read_bytes()
    path.write_bytes(before + rest)
    log = MetricsLog(path)
    log.cut_after(10)
    log.close()
    assert path.read_bytes() == before
