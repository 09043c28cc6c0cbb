"""Sixfold: train and run your own Transformer on your own data.

    sixfold.train(["train.en", "train.de"], "model")        # pairs: it translates
    sixfold.load("model").translate(["A man is sleeping."])

    sixfold.train("books", "writer")                        # plain text or conversations: it continues text
    sixfold.load("writer").generate("Once upon a time")

`sixfold.nn` has the blocks of the Transformer, `sixfold.explain` shows what a model did.

Names are imported when they are first used, so that `import sixfold` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sixfold import explain, nn
    from sixfold.decode.generate import Generator
    from sixfold.decode.generate_options import GenerateOptions
    from sixfold.decode.generation import Continuation
    from sixfold.decode.options import SearchOptions
    from sixfold.decode.translate import Translation, Translator
    from sixfold.errors import SixfoldError
    from sixfold.models.encoder_decoder import PRESETS, EncoderDecoder, EncoderDecoderConfig
    from sixfold.tasks import load, train
    from sixfold.text import Tokenizer
    from sixfold.training.run import Outcome

HOMES = {
    "PRESETS": "sixfold.models.encoder_decoder",
    "Continuation": "sixfold.decode.generation",
    "GenerateOptions": "sixfold.decode.generate_options",
    "Generator": "sixfold.decode.generate",
    "Outcome": "sixfold.training.run",
    "SearchOptions": "sixfold.decode.options",
    "SixfoldError": "sixfold.errors",
    "Tokenizer": "sixfold.text",
    "EncoderDecoder": "sixfold.models.encoder_decoder",
    "EncoderDecoderConfig": "sixfold.models.encoder_decoder",
    "Translation": "sixfold.decode.translate",
    "Translator": "sixfold.decode.translate",
    "load": "sixfold.tasks",
    "train": "sixfold.tasks",
}

__all__ = [
    "PRESETS",
    "Continuation",
    "EncoderDecoder",
    "EncoderDecoderConfig",
    "GenerateOptions",
    "Generator",
    "Outcome",
    "SearchOptions",
    "SixfoldError",
    "Tokenizer",
    "Translation",
    "Translator",
    "explain",
    "load",
    "nn",
    "train",
]


ROOMS = ("explain", "nn")
FORMER_NAMES = {"Transformer": "EncoderDecoder", "TransformerConfig": "EncoderDecoderConfig"}


def __getattr__(name: str) -> object:
    name = FORMER_NAMES.get(name, name)
    if name in HOMES:
        return getattr(importlib.import_module(HOMES[name]), name)
    if name in ROOMS:
        return importlib.import_module(f"sixfold.{name}")
    raise AttributeError(f"module 'sixfold' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
