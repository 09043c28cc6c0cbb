"""Convert our SentencePiece tokenizers to a tokenizer.json of byte-pair encoding that gives the same ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.text import Tokenizer
from sixfold.text.tokenizer import SPACE_MARK
from sixfold.text.tokenizer_json import is_byte_piece

LONGEST_PIECE = 256  # characters; merges are searched at every position of a piece

TO_MARKS = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
TO_SPACES = {"type": "Replace", "pattern": {"String": SPACE_MARK}, "content": " "}
METASPACE: dict[str, Any] = {
    "normalizer": {"type": "Sequence", "normalizers": [TO_MARKS]},
    "pre_tokenizer": None,
    "decoder": {"type": "Sequence", "decoders": [TO_SPACES, {"type": "ByteFallback"}, {"type": "Fuse"}]},
}
METASPACE_WITH_SPACE: dict[str, Any] = {
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE_MARK}, TO_MARKS]},
    "pre_tokenizer": None,
    "decoder": {
        "type": "Sequence",
        "decoders": [
            TO_SPACES,
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}


def added_token(token: int, piece: str) -> dict[str, Any]:
    """Return the description of a special token."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token, "content": piece, **flags, "special": True}


def as_tokenizer_json(tokenizer: Tokenizer) -> bytes:
    """Return the tokenizer.json of a tokenizer."""
    processor, ids = tokenizer.processor, range(tokenizer.vocabulary)
    pieces = tokenizer.pieces(ids)
    special = [i for i in ids if processor.is_control(i) or processor.is_unknown(i)]
    normal = [i for i in ids if i not in set(special) and not is_byte_piece(pieces[i])]
    ranked = {pieces[i]: -float(processor.get_score(i)) for i in normal}
    refuse_unigram(ranked)
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    content = {
        "version": "1.0",
        "added_tokens": [added_token(i, pieces[i]) for i in special],
        **METASPACE_WITH_SPACE,
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "unk_token": pieces[tokenizer.special.unk],
            "fuse_unk": True,
            "vocab": vocabulary,
            "merges": merges_by_rank(ranked, vocabulary),
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()


def merges_by_rank(ranked: Mapping[str, float], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return every way to form a piece from two others, pieces of the lowest rank first.

    This is what SentencePiece does: it merges the two adjacent pieces that give the best piece.
    """
    merges: list[tuple[float, int, int, str, str]] = []
    for piece, rank in ranked.items():
        if len(piece) > LONGEST_PIECE:
            raise ModelFolderError(f"The tokenizer has a piece of {len(piece):,} characters.")
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in ranked and right in ranked:
                merges.append((rank, ids[left], ids[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]


def refuse_unigram(ranked: Mapping[str, float]) -> None:
    """Refuse pieces that do not result from merges: the scores of unigram pieces are log-probabilities."""
    ranks = [rank for piece, rank in ranked.items() if len(piece) > 1]
    if any(not rank.is_integer() for rank in ranks):
        raise ConfigError(
            "A unigram tokenizer cannot be expressed as merges of byte-pair encoding.",
            "Train with --set data.subwords=bpe, bytes or characters.",
        )
