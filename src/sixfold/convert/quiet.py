"""Silence Hugging Face's packages."""

from __future__ import annotations

import os


def be_quiet() -> None:
    """Before importing Hugging Face's packages, disable downloads and messages for developers."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
