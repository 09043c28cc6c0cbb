"""The tokenizer in a GGUF file's metadata: converted to a tokenizer.json, and from our tokenizers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from sixfold.convert.gguf_file import Value
from sixfold.convert.huggingface_tokenizer import (
    METASPACE,
    METASPACE_WITH_SPACE,
    added_token,
    merges_by_rank,
    refuse_unigram,
)
from sixfold.errors import ModelFolderError
from sixfold.text import AnyTokenizer, Tokenizer
from sixfold.text.published_tokenizer import PublishedTokenizer
from sixfold.text.tokenizer_json import WORDS, ByteLevel, Metaspace, is_byte_piece

KNOWN_WORDS = {  # of tokenizer.ggml.pre
    **{name: name for name in WORDS},
    "gpt2": "gpt-2",
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
}


class TokenType(IntEnum):
    """The types of tokens."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True)
class Tokens:
    """The metadata of a tokenizer."""

    model: str  # "gpt2" (bytes in words) or "llama" (SentencePiece)
    pre: str
    tokens: list[str]
    types: list[int]
    scores: list[float]
    merges: list[str]
    space_before: bool


# From GGUF


def tokenizer_json(fields: Mapping[str, Value]) -> bytes:
    """Return a tokenizer.json equivalent to the metadata of a file."""
    found = read_tokens(fields)
    content = byte_level(found) if found.model == "gpt2" else sentence_piece(found)
    special = {i: piece for i, piece in enumerate(found.tokens) if is_special(found.types[i])}
    added = [added_token(i, piece) for i, piece in special.items()]
    return json.dumps({"version": "1.0", **content, "added_tokens": added}, ensure_ascii=False).encode()


def read_tokens(fields: Mapping[str, Value]) -> Tokens:
    """Return the metadata, after checking that all lists have the same length."""
    model, tokens = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.tokens")
    if not isinstance(model, str) or model not in ("gpt2", "llama"):
        raise ModelFolderError(
            f"The tokenizer of this file is {str(model)[:40]!r}, which is not supported.",
            "Supported: gpt2 (byte-level BPE) and llama (SentencePiece BPE).",
        )
    if not isinstance(tokens, list):
        raise ModelFolderError("The file has no tokenizer.ggml.tokens.")
    types = numbers(fields, "tokenizer.ggml.token_type", [TokenType.NORMAL] * len(tokens))
    scores = numbers(fields, "tokenizer.ggml.scores", [0.0] * len(tokens))
    if not len(tokens) == len(types) == len(scores):
        raise ModelFolderError("The lists of the file's tokenizer have different lengths.")
    if TokenType.USER_DEFINED in types:
        odd = tokens[types.index(TokenType.USER_DEFINED)]
        raise ModelFolderError(f"The tokenizer has the user-defined token {odd[:40]!r}, which is not supported.")
    merges = fields.get("tokenizer.ggml.merges", [])
    return Tokens(
        model,
        str(fields.get("tokenizer.ggml.pre", "")),
        tokens,
        [int(each) for each in types],
        scores,
        merges if isinstance(merges, list) else [],
        fields.get("tokenizer.ggml.add_space_prefix", True) is True,
    )


def numbers(fields: Mapping[str, Value], name: str, default: Sequence[float]) -> list[float]:
    """Return a list of numbers."""
    found = fields.get(name)
    if found is None:
        return list(default)
    if isinstance(found, (str, bool, int, float, list)):
        raise ModelFolderError(f"The file's {name} is not a list of numbers.")
    return [float(each) for each in found.tolist()]


def is_special(token_type: int) -> bool:
    """Return whether a token is special."""
    return token_type in (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.UNUSED)


def byte_level(found: Tokens) -> dict[str, Any]:
    """Return the description of byte-level BPE."""
    if found.pre not in KNOWN_WORDS:
        raise ModelFolderError(
            f"The tokenizer has the pre-tokenizer {found.pre[:40]!r}, which is not supported.",
            f"Supported: {', '.join(KNOWN_WORDS)}.",
        )
    words = KNOWN_WORDS[found.pre]
    vocabulary = {piece: i for i, piece in enumerate(found.tokens) if not is_special(found.types[i])}
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": WORDS[words]},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": found.merges,
            "ignore_merges": words == "llama-bpe",
        },
    }


def sentence_piece(found: Tokens) -> dict[str, Any]:
    """Return the description of a SentencePiece model, with merges derived from its scores."""
    vocabulary = dict(zip(found.tokens, range(len(found.tokens)), strict=True))
    ranked = {
        piece: -score
        for piece, score, kind in zip(found.tokens, found.scores, found.types, strict=True)
        if kind == TokenType.NORMAL
    }
    return {
        **(METASPACE_WITH_SPACE if found.space_before else METASPACE),
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "unk_token": "<unk>",
            "fuse_unk": True,
            "vocab": vocabulary,
            "merges": merges_by_rank(ranked, vocabulary),
        },
    }


# To GGUF


def tokens_of(tokenizer: AnyTokenizer) -> Tokens:
    """Return the metadata of a tokenizer."""
    if isinstance(tokenizer, Tokenizer):
        return learned_tokens(tokenizer)
    assert isinstance(tokenizer, PublishedTokenizer)
    form = tokenizer.described.form
    if isinstance(form, ByteLevel):
        return byte_level_tokens(tokenizer, form)
    assert isinstance(form, Metaspace)  # decoder-only models have no other form
    return metaspace_tokens(tokenizer, form)


def learned_tokens(tokenizer: Tokenizer) -> Tokens:
    """Return the metadata of a tokenizer learned by Sixfold."""
    ids = range(tokenizer.vocabulary)
    processor = tokenizer.processor
    types = [
        TokenType.UNKNOWN if processor.is_unknown(i)
        else TokenType.CONTROL if processor.is_control(i)
        else TokenType.BYTE if processor.is_byte(i)
        else TokenType.NORMAL
        for i in ids
    ]  # fmt: skip
    scores = [float(processor.get_score(i)) for i in ids]
    pieces = tokenizer.pieces(ids)
    refuse_unigram({piece: -scores[i] for i, piece in enumerate(pieces) if types[i] == TokenType.NORMAL})
    return Tokens("llama", "", pieces, [*map(int, types)], scores, [], space_before=True)


def byte_level_tokens(tokenizer: PublishedTokenizer, form: ByteLevel) -> Tokens:
    """Return the metadata of byte-level BPE."""
    pieces, types = pieces_of(tokenizer)
    merges = [" ".join(merge) for merge in tokenizer.described.merges]
    return Tokens("gpt2", form.words, pieces, types, [], merges, space_before=False)


def metaspace_tokens(tokenizer: PublishedTokenizer, form: Metaspace) -> Tokens:
    """Return the metadata of a published SentencePiece-style tokenizer: scores are ranks of merges."""
    pieces, types = pieces_of(tokenizer)
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(tokenizer.described.merges):
        ranks.setdefault(left + right, rank)
    scores = [float(-ranks.get(piece, len(ranks))) for piece in pieces]
    types = [TokenType.BYTE if is_byte_piece(piece) else kind for piece, kind in zip(pieces, types, strict=True)]
    types[pieces.index("<unk>")] = TokenType.UNKNOWN
    return Tokens("llama", "", pieces, types, scores, [], form.space_before)


def pieces_of(tokenizer: PublishedTokenizer) -> tuple[list[str], list[int]]:
    """Return the string of each token, and its type."""
    described = tokenizer.described
    special = {i: piece for piece, i in described.special.items()}
    pieces = {i: piece for piece, i in described.vocabulary.items()} | special
    ids = range(tokenizer.vocabulary)
    types = [int(TokenType.CONTROL if i in special else TokenType.NORMAL) for i in ids]
    return [pieces[i] for i in ids], types


def in_metadata(found: Tokens) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a tokenizer."""
    yield "tokenizer.ggml.model", found.model
    yield "tokenizer.ggml.pre", found.pre or "default"
    yield "tokenizer.ggml.tokens", found.tokens
    yield "tokenizer.ggml.token_type", found.types
    if found.model == "llama":
        yield "tokenizer.ggml.scores", found.scores
        yield "tokenizer.ggml.add_space_prefix", found.space_before
    else:
        yield "tokenizer.ggml.merges", found.merges
