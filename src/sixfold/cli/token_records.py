"""The JSON records of tokens: the token, its log-probability, and its alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sixfold.decode.scoring import TokenScore
    from sixfold.text import AnyTokenizer


def token_records(tokenizer: AnyTokenizer, tokens: Sequence[TokenScore]) -> list[dict[str, object]]:
    """Return a record for each token, with its alternatives if there are any."""
    pieces = tokenizer.pieces([each.token for each in tokens])
    return [
        {"token": piece, "log_probability": each.log_probability} | shown_alternatives(tokenizer, each)
        for piece, each in zip(pieces, tokens, strict=True)
    ]


def shown_alternatives(tokenizer: AnyTokenizer, token: TokenScore) -> dict[str, object]:
    """Return the most probable tokens at a token's position, if requested."""
    if not token.alternatives:
        return {}
    ids, log_probs = zip(*token.alternatives, strict=True)
    pieces = tokenizer.pieces(ids)
    return {
        "alternatives": [
            {"token": piece, "log_probability": log_prob}
            for piece, log_prob in zip(pieces, log_probs, strict=True)
        ]
    }
