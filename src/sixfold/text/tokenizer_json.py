"""What a `tokenizer.json` says: byte-pair encoding or WordPiece, in the forms that published models use.

The file is read as plain data. Anything unknown is refused and never reaches the package `tokenizers`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sixfold.errors import ModelFolderError
from sixfold.text.any_tokenizer import TokenizerFile

FILE_NAME: TokenizerFile = "tokenizer.json"
LARGEST_FILE = 64 * 2**20  # bytes; Llama 3's has 17 MB
MOST_TOKENS = 2**20
SPACE_MARK = "\u2581"

# Known ways to split a text into words before byte pairs are merged. Others are refused: an untrusted regular
# expression could take for ever.
LLAMA_3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN_2_WORDS = LLAMA_3_WORDS.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES_OF_WORDS = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = {**BYTES_OF_WORDS, "use_regex": False}


def split_by(pattern: str) -> list[dict[str, Any]]:
    """Return the pre-tokenizer that splits a text into matches of a pattern."""
    return [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, BYTES]


WORDS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [BYTES_OF_WORDS],
    "smollm": [{"type": "Digits", "individual_digits": True}, BYTES_OF_WORDS],
    "llama-bpe": split_by(LLAMA_3_WORDS),
    "qwen2": split_by(QWEN_2_WORDS),
}
SUPPORTED = (
    "Supported: byte-level BPE with the words of GPT-2, SmolLM, Llama 3 or Qwen 2, BPE in SentencePiece's "
    "form with byte fallback (Llama 2), and WordPiece with BERT's words."
)


class OneStretch:
    """A form whose texts are tokenized whole."""

    def inside(self) -> Self:
        """Return the form for text that continues another: the same."""
        return self

    def stretches(self, text: str) -> list[str]:
        """Return the text as it is."""
        return [text]

    def between(self, ids: Mapping[str, int]) -> list[int]:  # noqa: ARG002
        """Return nothing, because a text is one stretch."""
        return []


@dataclass(frozen=True)
class ByteLevel(OneStretch):
    """Each character of a token stands for one byte (GPT-2 and its descendants)."""

    is_lossless: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = ()  # special tokens that the package asks for

    words: str  # which of WORDS
    ignore_merges: bool = False  # a word that is itself a token is not merged from its bytes
    space_before: bool = False

    def description(self) -> dict[str, Any]:
        """Return the pre-tokenizer and decoder."""
        words = {"type": "Sequence", "pretokenizers": WORDS[self.words]}
        return {"pre_tokenizer": words, "model": {"type": "BPE", "ignore_merges": self.ignore_merges}}

    def spell(self, piece: str) -> bytes:
        """Return the bytes that the characters stand for."""
        return bytes(BYTE_OF[character] for character in piece)


@dataclass(frozen=True)
class Metaspace:
    """Tokens are text with U+2581 for a space; characters without a token are encoded byte by byte (Llama 2).

    A U+2581 in the text itself would be read as a space, so it is encoded as its three bytes.
    """

    is_lossless: ClassVar[bool] = True
    needed: ClassVar[tuple[str, ...]] = ("<unk>",)

    space_before: bool = True

    def description(self) -> dict[str, Any]:
        """Return byte fallback for characters that are not in the vocabulary."""
        model = {"type": "BPE", "byte_fallback": True, "fuse_unk": True, "unk_token": "<unk>"}
        return {"pre_tokenizer": None, "model": model}

    def inside(self) -> Metaspace:
        """Return the form for text that continues another: no space is prepended."""
        return Metaspace(space_before=False)

    def stretches(self, text: str) -> list[str]:
        """Split a text at the characters U+2581, and write its spaces as U+2581."""
        before = " " if self.space_before and text else ""
        return [part.replace(" ", SPACE_MARK) for part in (before + text).split(SPACE_MARK)]

    def between(self, ids: Mapping[str, int]) -> list[int]:
        """Return the byte tokens of U+2581."""
        return [ids[f"<0x{byte:02X}>"] for byte in SPACE_MARK.encode()]

    def spell(self, piece: str) -> bytes:
        """Return the bytes of a piece: one byte, or its text."""
        if is_byte_piece(piece):
            return bytes.fromhex(piece[3:5])
        return piece.replace(SPACE_MARK, " ").encode()


@dataclass(frozen=True)
class WordPiece(OneStretch):
    """Words in pieces, the longest that fits first (BERT). It loses text: how words were spaced; where it says so
    also case, accents and control characters; and of a word that it cannot spell everything.
    """

    is_lossless: ClassVar[bool] = False
    space_before: ClassVar[bool] = True

    unknown: str  # the token of a word that cannot be spelled
    inside_word: str  # begins each piece of a word but the first
    longest_word: int  # characters; a longer one is unknown
    lowercase: bool
    strip_accents: bool
    clean_text: bool
    chinese_words: bool  # every Chinese character is a word

    @property
    def needed(self) -> tuple[str, ...]:
        """The special token that the package asks for."""
        return (self.unknown,)

    def description(self) -> dict[str, Any]:
        """Return how text becomes words, and words pieces."""
        normalizer = {
            "type": "BertNormalizer",
            "clean_text": self.clean_text,
            "handle_chinese_chars": self.chinese_words,
            "strip_accents": self.strip_accents,
            "lowercase": self.lowercase,
        }
        model = {
            "type": "WordPiece",
            "unk_token": self.unknown,
            "continuing_subword_prefix": self.inside_word,
            "max_input_chars_per_word": self.longest_word,
        }
        return {"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model}

    def spell(self, piece: str) -> bytes:
        """Return the rest of a word, or a space and the beginning of one."""
        if piece.startswith(self.inside_word):
            return piece[len(self.inside_word) :].encode()
        return b" " + piece.encode()


def is_byte_piece(piece: str) -> bool:
    """Return whether a piece stands for one byte, as <0x0A> does."""
    return re.fullmatch(r"<0x[0-9A-F]{2}>", piece) is not None


def byte_table() -> dict[int, str]:
    """Return the character that represents each byte in GPT-2's vocabulary: itself if it is printable."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(others)}


CHARACTER_OF = byte_table()
BYTE_OF = {character: byte for byte, character in CHARACTER_OF.items()}


Form = ByteLevel | Metaspace | WordPiece


@dataclass(frozen=True)
class Description:
    """The parsed content of a tokenizer.json."""

    vocabulary: dict[str, int]  # without the special tokens
    merges: list[tuple[str, str]]
    special: dict[str, int]
    form: Form


def damaged(reason: str) -> ModelFolderError:
    """Return the error for a file that cannot be parsed."""
    return ModelFolderError(f"{FILE_NAME} is damaged: {reason}")


def unsupported(what: str) -> ModelFolderError:
    """Return the error for a file with an unknown feature."""
    return ModelFolderError(f"{FILE_NAME} has {what}, which is not supported.", SUPPORTED)


def read_description(model: bytes) -> Description:
    """Read a tokenizer.json; unknown features are refused."""
    if len(model) > LARGEST_FILE:
        raise damaged(f"it has {len(model):,} bytes; at most {LARGEST_FILE:,} were expected.")
    try:
        content = json.loads(model)
        return checked(content)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(f"it is not the description of a tokenizer ({type(error).__name__}).") from error


def checked(content: dict[str, Any]) -> Description:
    """Check a description and return its parts."""
    model = content["model"]
    kind = str(model.get("type", "BPE"))
    if kind not in ("BPE", "WordPiece"):
        raise unsupported(f"a model of type {kind[:40]!r}")
    special = special_tokens(content.get("added_tokens") or [])
    vocabulary = {str(piece): number(token) for piece, token in model["vocab"].items() if piece not in special}
    ids = sorted([*vocabulary.values(), *special.values()])
    if not ids or len(ids) > MOST_TOKENS or ids != list(range(len(ids))):
        raise damaged("the ids of its tokens are not 0, 1, 2 and so on.")
    if kind == "WordPiece":
        return Description(vocabulary, [], special, word_piece(content, special))
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name):
            raise unsupported(f"a {name}")
    form = form_of(content)
    refuse_unreadable(vocabulary, special, form)
    return Description(vocabulary, [merge_of(merge) for merge in model["merges"]], special, form)


def word_piece(content: Mapping[str, Any], special: Mapping[str, int]) -> WordPiece:
    """Return how WordPiece reads text; only BERT's words are known."""
    model, normalizer = content["model"], content.get("normalizer") or {}
    if normalizer.get("type") != "BertNormalizer" or content.get("pre_tokenizer") != {"type": "BertPreTokenizer"}:
        raise unsupported("WordPiece with other words than BERT's")
    unknown, inside = str(model["unk_token"]), str(model.get("continuing_subword_prefix", "##"))
    if unknown not in special or not inside:
        raise damaged("WordPiece needs a special token for unknown words, and a prefix of pieces inside a word.")
    lowercase, accents = normalizer.get("lowercase", True), normalizer.get("strip_accents")
    return WordPiece(
        unknown,
        inside,
        number(model.get("max_input_chars_per_word", 100)),
        lowercase=bool(lowercase),
        strip_accents=bool(lowercase if accents is None else accents),
        clean_text=bool(normalizer.get("clean_text", True)),
        chinese_words=bool(normalizer.get("handle_chinese_chars", True)),
    )


def number(value: object) -> int:
    """Return a value that is an integer; refuse everything else, booleans too."""
    if type(value) is not int:
        raise TypeError(value)
    return value


def special_tokens(added: list[dict[str, Any]]) -> dict[str, int]:
    """Return the special tokens; refuse other added tokens, because they would split the text first."""
    tokens = {}
    for token in added:
        if token.get("special") is not True or not token["content"]:
            raise unsupported(f"the added token {str(token['content'])[:40]!r} that is not special")
        tokens[str(token["content"])] = number(token["id"])
    return tokens


def merge_of(merge: Any) -> tuple[str, str]:
    """Return the two halves of a merge, which older files write as one string."""
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return str(left), str(right)


def form_of(content: dict[str, Any]) -> Form:
    """Return how the vocabulary represents bytes."""
    model, words = content["model"], words_of(content.get("pre_tokenizer"))
    if words is not None and not model.get("byte_fallback"):
        if content.get("normalizer") is not None:
            raise unsupported("a normalizer, which changes the text")
        return ByteLevel(words, bool(model.get("ignore_merges")))
    if not model.get("byte_fallback"):
        raise unsupported("neither a known byte-level pre-tokenizer nor byte fallback")
    return Metaspace(space_before=puts_space_before(content))


def words_of(pre_tokenizer: dict[str, Any] | None) -> str | None:
    """Return the name of a known pre-tokenizer, or None."""
    parts = (pre_tokenizer or {}).get("pretokenizers", [pre_tokenizer])
    for name, known in WORDS.items():
        if len(parts) == len(known) and all(map(is_same, parts, known)):
            return name
    return None


def is_same(part: dict[str, Any] | None, known: dict[str, Any]) -> bool:
    """Return whether a part is equivalent to a known one; offsets do not matter."""
    ignored = {"trim_offsets", "use_regex"}
    if part is None or part.keys() - ignored != known.keys() - ignored:
        return False
    return all(part.get(key, True) == value for key, value in known.items() if key != "trim_offsets")


def puts_space_before(content: dict[str, Any]) -> bool:
    """Return whether a SentencePiece-style tokenizer prepends a space to a text."""
    to_marks = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK}
    normalizer, words = content.get("normalizer") or {}, content.get("pre_tokenizer") or {}
    normalizers = normalizer.get("normalizers", [normalizer] if normalizer else [])
    if not words and normalizers == [{"type": "Prepend", "prepend": SPACE_MARK}, to_marks]:
        return True
    if not words and normalizers == [to_marks]:
        return False
    is_metaspace = words.get("type") == "Metaspace" and words.get("replacement") == SPACE_MARK
    if is_metaspace and not normalizers and words.get("split") is False:
        if words.get("prepend_scheme") == "never":
            return False
        if words.get("prepend_scheme") in ("first", "always"):
            return True
    raise unsupported("an unknown normalizer or pre-tokenizer")


def refuse_unreadable(vocabulary: Mapping[str, int], special: Mapping[str, int], form: Form) -> None:
    """Refuse a vocabulary that lacks bytes, or has characters that represent no byte."""
    if isinstance(form, Metaspace):
        if not all(f"<0x{byte:02X}>" in vocabulary for byte in range(256)) or "<unk>" not in special:
            raise damaged("it has byte fallback, but lacks the token of a byte or <unk>.")
    elif odd := next((piece for piece in vocabulary if not BYTE_OF.keys() >= set(piece)), None):
        raise damaged(f"the token {odd[:40]!r} has characters that represent no byte.")
