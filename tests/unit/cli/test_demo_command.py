"""The command `sixfold demo`, run as a person without a network runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(900)
def test_without_a_network_the_demo_says_so_and_tells_its_story_with_the_phrasebook(
    tmp_path: Path, compiled_cache: Path
) -> None:
    environment = {**os.environ, "PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(compiled_cache)}
    done = subprocess.run(
        [sys.executable, "-m", "sixfold", "demo", "-o", "demo", "--minutes", "0.2"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "home-assistant is not available" in done.stdout
    assert "phrasebook: 60,000 train" in done.stdout
    assert "BLEU" in done.stdout
    assert "sixfold translate" in done.stdout
    assert (tmp_path / "demo" / "model" / "sixfold.json").is_file()
    assert (tmp_path / "demo" / "explained.html").is_file()


def test_a_second_demo_does_not_write_over_the_first(tmp_path: Path) -> None:
    (tmp_path / "demo" / "model").mkdir(parents=True)
    done = subprocess.run([sys.executable, "-m", "sixfold", "demo"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "already exists" in done.stderr
