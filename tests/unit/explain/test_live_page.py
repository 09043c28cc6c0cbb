"""The live training page is served to this machine only, and follows the metrics log."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from sixfold.explain.live_page import live_training_page

STEP = {
    "kind": "step", "step": 1, "loss": 2.0, "grad_norm": 1.0, "learning_rate": 1e-3, "targets": 9,
    "epoch": 0, "seconds": 1.0,
}  # fmt: skip


def test_the_page_is_served_before_the_first_step_and_its_data_follows_the_metrics_log(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with live_training_page(folder) as address:
        page = urlopen(address).read().decode()
        assert '"num_steps":0' in page
        assert '"is_live":true' in page
        (folder / "training").mkdir(parents=True)
        (folder / "training" / "log.jsonl").write_text(json.dumps(STEP) + "\n")
        assert json.load(urlopen(f"{address}training.json"))["num_steps"] == 1


def test_two_trainings_can_be_shown_at_once(tmp_path: Path) -> None:
    with live_training_page(tmp_path) as one, live_training_page(tmp_path) as other:
        assert one != other
        assert urlopen(other).status == 200


@pytest.mark.parametrize(
    ("path", "host", "status"), [("/", "evil.example", 421), ("/../secret", "localhost", 404)]
)
def test_other_host_names_and_paths_are_refused(tmp_path: Path, path: str, host: str, status: int) -> None:
    with live_training_page(tmp_path) as address:
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1"
        connection = HTTPConnection(parts.hostname, parts.port or 0)
        connection.request("GET", path, headers={"Host": host})
        assert connection.getresponse().status == status
