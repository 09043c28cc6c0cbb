"""llama.cpp beside us, where its package is installed: the reference for GGUF files, from it and to it.

Its products with quantised weights round the other factor to 8 bits too: it agrees less closely than float32 does.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sixfold.convert.compare_logits import TEXTS, LogitComparison, compare_tokens
from sixfold.errors import WorkError
from sixfold.models.decoder_only import DecoderOnly
from sixfold.text import AnyTokenizer

if TYPE_CHECKING:
    from llama_cpp import Llama

TOLERANCE = 0.1  # mean absolute difference of a log-probability, by tokens of its own quantised arithmetic
LONGEST = 256
FLOAT32 = 0  # its number for the type of keys and values


def is_installed() -> bool:
    """Whether the package llama-cpp-python is there."""
    return importlib.util.find_spec("llama_cpp") is not None


def open_file(path: Path) -> Llama:
    """Open a GGUF file in llama.cpp, with keys and values in float32."""
    from llama_cpp import Llama

    return Llama(
        str(path), n_ctx=LONGEST, n_batch=LONGEST, logits_all=True, type_k=FLOAT32, type_v=FLOAT32, verbose=False
    )


def encode(engine: Llama, text: str) -> list[int]:
    """Return the tokens of a text, special ones read as text."""
    return list(engine.tokenize(text.encode(), add_bos=False, special=False))


@torch.inference_mode()
def compare_logits_of(
    path: Path, ours: DecoderOnly, tokenizer: AnyTokenizer, rows: Sequence[list[int]]
) -> LogitComparison:
    """Compare tokens and log-probabilities of the texts with those of llama.cpp."""
    engine = open_file(path)
    compare_tokens(tokenizer, lambda text: encode(engine, text), "llama.cpp")
    total, count = 0.0, 0
    for row in rows[: len(TEXTS)]:
        their = scores(engine, row)
        our = ours(torch.tensor([row]))[0]
        total += float((our.log_softmax(-1) - their.log_softmax(-1)).abs().mean(-1).sum())
        count += len(row)
    if not total / count <= TOLERANCE:
        raise WorkError(
            f"The log-probabilities differ from those of llama.cpp by {total / count:.1e} on average; at most "
            f"{TOLERANCE:.1e} was expected. Nothing was written."
        )
    measure = "mean difference of a log-probability"
    return LogitComparison("llama.cpp", count, measure, total / count, TOLERANCE)


def scores(engine: Llama, row: Sequence[int]) -> Tensor:
    """Return the logits (T, V) of a row of tokens."""
    engine.reset()
    read = engine.eval
    read(list(row))
    return torch.from_numpy(np.array(engine.scores[: len(row)], dtype=np.float32))
