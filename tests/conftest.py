"""Fixtures of all tests."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest


@pytest.fixture
def seed() -> Iterator[int]:
    """Seed torch differently in every run, so that no lucky draw hides a fault; a failure prints the seed."""
    import torch

    value = int(os.environ.get("SIXFOLD_TEST_SEED") or random.SystemRandom().randrange(2**31))
    print(f"to repeat this: SIXFOLD_TEST_SEED={value}")
    torch.manual_seed(value)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tensors of a few numbers: a second thread would only be waited for
    yield value
    torch.set_num_threads(num_threads)
