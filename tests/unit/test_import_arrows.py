"""The arrows of the design: who may import whom, as pyproject.toml states it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports; exit(lint_imports(no_cache=True, no_logo=True))"


def test_imports_point_the_way_the_design_draws_them() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
    run = subprocess.run(
        [sys.executable, "-c", LINT], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 broken" in run.stdout
