"""Sixfold: two text files in, your own translation model out.

    sixfold.train("train.en", "train.de", "model")
    sixfold.load("model").translate(["A man is sleeping."])

Names are imported when they are first used, so that `import sixfold` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import Translation, Translator
    from sixfold.errors import SixfoldError
    from sixfold.models.transformer import PRESETS, Transformer, TransformerConfig
    from sixfold.tasks import load, train
    from sixfold.text import Tokenizer
    from sixfold.training.run import Outcome

HOMES = {
    "PRESETS": "sixfold.models.transformer",
    "Outcome": "sixfold.training.run",
    "SearchOptions": "sixfold.decode.options",
    "SixfoldError": "sixfold.errors",
    "Tokenizer": "sixfold.text",
    "Transformer": "sixfold.models.transformer",
    "TransformerConfig": "sixfold.models.transformer",
    "Translation": "sixfold.decode.translate",
    "Translator": "sixfold.decode.translate",
    "load": "sixfold.tasks",
    "train": "sixfold.tasks",
}

__all__ = [
    "PRESETS",
    "Outcome",
    "SearchOptions",
    "SixfoldError",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "load",
    "train",
]


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    raise AttributeError(f"module 'sixfold' has no attribute {name!r}")
