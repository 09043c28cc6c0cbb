"""llama.cpp, if its package is installed: the reference for imported and exported GGUF files.

Its products with quantised weights also round the other factor to 8 bits, so it agrees less closely than in
float32.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sixfold.convert.compare_logits import Comparison, compare_tokens
from sixfold.convert.gguf import Precision
from sixfold.errors import WorkError
from sixfold.models.decoder_only import DecoderOnly
from sixfold.text import AnyTokenizer

if TYPE_CHECKING:
    from llama_cpp import Llama

TOLERANCE = 0.2  # mean absolute difference of log-probabilities, because of its quantised arithmetic
LONGEST = 256
NEW_TOKENS = 24
# The allowed gap in log-probability between its choice and our best token, because of its rounding.
SHORTFALL: dict[Precision, float] = {"float32": 1e-3, "float16": 2e-2, "q8_0": 1.0}
FLOAT32 = 0  # its constant for the type of keys and values


def is_installed() -> bool:
    """Return whether the package llama-cpp-python is installed."""
    return importlib.util.find_spec("llama_cpp") is not None


def open_file(path: Path, max_positions: int = LONGEST) -> Llama:
    """Open a GGUF file in llama.cpp, with keys and values in float32."""
    from llama_cpp import Llama

    length = min(LONGEST, max_positions)
    return Llama(
        str(path), n_ctx=length, n_batch=length, logits_all=True, type_k=FLOAT32, type_v=FLOAT32, verbose=False
    )


def encode(engine: Llama, text: str) -> list[int]:
    """Return the tokens of a text, special ones read as text."""
    return list(engine.tokenize(text.encode(), add_bos=False, special=False))


def compare_tokens_of(path: Path, tokenizer: AnyTokenizer) -> Comparison:
    """Compare the tokens of texts with those of llama.cpp."""
    from llama_cpp import Llama

    engine = Llama(str(path), vocab_only=True, verbose=False)
    return compare_tokens(tokenizer.encode, lambda text: encode(engine, text), "llama.cpp")


@torch.inference_mode()
def compare_greedy(
    path: Path, ours: DecoderOnly, prompts: Sequence[list[int]], precision: Precision
) -> Comparison:
    """Let llama.cpp continue prompts greedily: each token must be our best one, except for rounding."""
    engine, largest, count = open_file(path, ours.config.max_positions), 0.0, 0
    for prompt in prompts:
        row = continued(engine, prompt, min(NEW_TOKENS, ours.config.max_positions - len(prompt)))
        logits = ours(torch.tensor([row[:-1]]))[0, len(prompt) - 1 :]
        chosen = logits.gather(1, torch.tensor(row[len(prompt) :])[:, None])[:, 0]
        largest = max(largest, float((logits.max(dim=1).values - chosen).max()))
        count += len(row) - len(prompt)
    if not largest <= SHORTFALL[precision]:
        raise WorkError(
            f"llama.cpp generates another text from this file: a token that it chose has a log-probability of "
            f"{largest:.1e} below the best here. Nothing was written."
        )
    measure = "log-probability below the best at most"
    return Comparison("llama.cpp", count, "greedy tokens", measure, largest, SHORTFALL[precision])


def continued(engine: Llama, prompt: Sequence[int], count: int) -> list[int]:
    """Return a prompt and its greedy continuation."""
    row = list(prompt)
    engine.reset()
    read, new = engine.eval, row
    for _ in range(count):
        read(new)
        new = [int(np.argmax(engine.scores[len(row) - 1]))]
        row = row + new
    return row


@torch.inference_mode()
def compare_logits_of(path: Path, ours: DecoderOnly, rows: Sequence[list[int]]) -> Comparison:
    """Compare log-probabilities with those of llama.cpp."""
    engine = open_file(path, ours.config.max_positions)
    total, count = 0.0, 0
    for row in rows:
        their = scores(engine, row)
        our = ours(torch.tensor([row]))[0]
        total += float((our.log_softmax(-1) - their.log_softmax(-1)).abs().mean(-1).sum())
        count += len(row)
    if not total / count <= TOLERANCE:
        raise WorkError(
            f"The log-probabilities differ from those of llama.cpp by {total / count:.1e} on average; at most "
            f"{TOLERANCE:.1e} was expected. Nothing was written."
        )
    return Comparison("llama.cpp", count, "tokens' log-probabilities", "mean difference", total / count, TOLERANCE)


def scores(engine: Llama, row: Sequence[int]) -> Tensor:
    """Return the logits (T, V) of a row of tokens."""
    engine.reset()
    read = engine.eval
    read(list(row))
    return torch.from_numpy(np.array(engine.scores[: len(row)], dtype=np.float32))
