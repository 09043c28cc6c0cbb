"""A prefix cache: contexts that are kept after use, so that a common beginning of prompts is not read again.

A system prompt of many requests and the earlier turns of a conversation are read once. The cache is bounded; the
least recently used context is dropped first.
"""

from __future__ import annotations

from collections.abc import Sequence

from sixfold.decode.contexts import Context, ContextEngine
from sixfold.decode.generation import CHUNK, common_length
from sixfold.models.decoder_only import DecoderOnlyConfig

FLOAT_BYTES = 4  # keys and values are float32 in every precision


class KeptContexts:
    """The most recently used contexts of an engine."""

    def __init__(self, engine: ContextEngine, most_tokens: int) -> None:
        self.engine, self.most_tokens = engine, most_tokens
        self.contexts: list[Context] = []  # least recently used first

    def begin(self, prompt: Sequence[int]) -> Context:
        """Return a context with the longest cached beginning of a prompt; the rest has to be read."""
        best = max(self.contexts, key=lambda kept: common_length(kept.tokens, prompt), default=None)
        if best is None or not (known := common_length(best.tokens, prompt)):
            return self.engine.new_context()
        self.contexts.remove(best)
        self.contexts.append(best)
        context = best.fork()
        context.cut(known)
        return context

    def keep(self, context: Context) -> None:
        """Keep a context that is no longer written to, and drop those that are a beginning of it."""
        self.contexts = [each for each in self.contexts if not begins_with(context, each)]
        self.contexts.append(context)
        while self.num_tokens > self.most_tokens:
            del self.contexts[0]

    @property
    def num_tokens(self) -> int:
        """An upper bound on the tokens in memory: contexts that share their beginning take less."""
        return sum(-(-len(each.tokens) // CHUNK) * CHUNK for each in self.contexts)


def token_bytes(config: DecoderOnlyConfig) -> int:
    """Return the bytes of the keys and values of one token."""
    heads = config.key_value_heads or config.heads
    return config.layers * heads * sum(config.head_widths) * FLOAT_BYTES


def begins_with(context: Context, other: Context) -> bool:
    """Return whether a context begins with all tokens of another."""
    return common_length(context.tokens, other.tokens) == len(other.tokens)
