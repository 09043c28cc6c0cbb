"""Hugging Face's packages without their chatter."""

from __future__ import annotations

import os


def be_quiet() -> None:
    """Tell Hugging Face, before it is imported, that it has nothing to fetch and nothing to say to developers."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
