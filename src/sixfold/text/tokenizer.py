"""Raw text to token ids and back, without loss: SentencePiece with byte fallback.

`decode(encode(text))` is exactly `text` for any string that UTF-8 can encode. A line break is encoded as a byte.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

from sixfold.errors import ConfigError, DataError, ModelFolderError
from sixfold.text.any_tokenizer import TokenizerFile
from sixfold.text.chat import PromptPart
from sixfold.text.located import Span, token_spans
from sixfold.text.special import MASK, SpecialIds

Subwords = Literal["bpe", "unigram", "characters", "bytes"]

SPACE_MARK = "\u2581"  # how SentencePiece writes a space
LEARN_CHARACTERS = 4000  # of a longer line only the beginning is used to learn subwords
NOT_LEARNED = str.maketrans(f"{SPACE_MARK}▅\t\0", "    ")  # reserved by SentencePiece: encoded as bytes
COVERAGE = 0.9995  # fraction of the characters of a text that get tokens; the rarest are encoded as bytes
NUM_RESERVED = 4 + 256  # special tokens, and one token for each byte
MODEL_TYPES: dict[Subwords, str] = {"bpe": "bpe", "unigram": "unigram", "characters": "char", "bytes": "char"}
DEFAULT_IDS = SpecialIds()
RESERVED = {DEFAULT_IDS.pad, DEFAULT_IDS.bos, DEFAULT_IDS.eos, DEFAULT_IDS.unk}


class Tokenizer:
    """A SentencePiece model and the few rules that make it lossless.

    A space is prepended to the text, so that a word has the same pieces at the start of a line as inside it;
    `decode` removes it again. SentencePiece reads the character U+2581 as a space, so that character is encoded as
    its three bytes.
    """

    file_name: TokenizerFile = "tokenizer.model"
    is_lossless = True
    space_before = True

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        self.processor = processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.load_from_serialized_proto(model)
            self.pieces(range(processor.get_piece_size()))  # raises if a piece is not valid text
        except (RuntimeError, UnicodeDecodeError) as error:
            raise ModelFolderError("The tokenizer is not a SentencePiece model.") from error
        mask = processor.piece_to_id(MASK)
        ids = processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()
        self.special = SpecialIds(*ids, mask=mask if processor.is_control(mask) else None)
        if SpecialIds(*ids) != DEFAULT_IDS:
            raise ModelFolderError("The tokenizer's padding, BOS, EOS and unknown tokens are not 0, 1, 2 and 3.")
        if DEFAULT_IDS.unk in processor.piece_to_id([SPACE_MARK, "<0x00>"]):
            raise ModelFolderError(
                "The tokenizer has no token for a space or single bytes, so it would lose text."
            )
        self.space_mark: list[int] = processor.piece_to_id([f"<0x{byte:02X}>" for byte in SPACE_MARK.encode()])

    @classmethod
    def learn(
        cls, texts: Iterable[str], vocabulary: int, subwords: Subwords = "bpe", special_tokens: Sequence[str] = ()
    ) -> Tokenizer:
        """Learn at most `vocabulary` pieces from texts; the same texts always give the same pieces.

        With characters or bytes, the vocabulary is as large as the texts need. `special_tokens` are tokens that no
        text can be encoded to.
        """
        lines = [" " + text[:LEARN_CHARACTERS].translate(NOT_LEARNED) for text in texts if text]
        if not lines:
            raise DataError("There is no text to learn subwords from.")
        if subwords == "bytes":
            lines = [" "]  # so that the only other piece is the space
        smallest = smallest_vocabulary(lines) + len(special_tokens)
        if subwords in ("characters", "bytes"):
            vocabulary = smallest
        if vocabulary < smallest:
            raise ConfigError(
                f"A vocabulary of {vocabulary:,} is too small: this text needs at least {smallest:,} "
                f"({NUM_RESERVED} are reserved, and every common character is one).",
                f"--set data.vocabulary={smallest + 1000}",
            )
        return cls(learn_pieces(lines, vocabulary, subwords, special_tokens))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a tokenizer from its file."""
        return cls(path.read_bytes())

    @property
    def vocabulary(self) -> int:
        """The size of the vocabulary."""
        return self.processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without BOS or EOS."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts."""
        return self.spell(texts)

    def encode_with_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Return the token ids of several texts, and the position of each token in the raw text."""
        rows = self.encode_batch(texts)
        return [
            (row, token_spans(text, [self.spelled[token] for token in row], self.space_before))
            for text, row in zip(texts, rows, strict=True)
        ]

    def encode_continuation(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts that continue others: no space is prepended."""
        return self.spell(texts, before="")

    def encode_parts(self, parts: Sequence[PromptPart]) -> list[int]:
        """Return the token ids of a conversation; special tokens are recognised only in the template's text."""
        encoded = (
            self.encode_template(part.text) if part.is_template else self.encode(part.text) for part in parts
        )
        return [*chain.from_iterable(encoded)]

    def encode_template(self, text: str) -> list[int]:
        """Return the token ids of a template's text, in which special tokens are written out."""
        ids: list[int] = []
        for stretch in re.split(r"(<[^<>\s]+>)", text):
            token = self.processor.piece_to_id(stretch)
            is_special = bool(stretch) and token != DEFAULT_IDS.unk and self.processor.is_control(token)
            ids += [token] if is_special else self.processor.encode(stretch)
        return ids

    def spell(self, texts: Sequence[str], before: str = " ") -> list[list[int]]:
        """Encode the stretches between the characters U+2581 of each text, and these characters as bytes."""
        stretches = [(before + text if text else "").split(SPACE_MARK) for text in texts]
        encoded = iter(self.processor.encode(list(chain.from_iterable(stretches))))
        rows = []
        for _, *rest in stretches:
            row = next(encoded)
            for _ in rest:
                row += self.space_mark + next(encoded)
            rows.append(row)
        return rows

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; special tokens decode to nothing."""
        text: str = self.processor.decode([i for i in ids if i not in RESERVED])
        return text[1:] if text.startswith(" ") else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as a readable string, with U+2581 for a space."""
        return self.processor.id_to_piece(list(ids))

    def spelling(self) -> list[bytes]:
        """Return the bytes that each token of the vocabulary decodes to; none for special tokens."""
        return list(self.spelled)

    @cached_property
    def spelled(self) -> list[bytes]:
        """The bytes of each token."""
        ids = list(range(self.vocabulary))
        found = zip(self.pieces(ids), self.processor.is_byte(ids), self.processor.is_control(ids), strict=True)
        spelled = [
            b"" if is_control else bytes.fromhex(piece[3:5]) if is_byte else piece.replace("▁", " ").encode()
            for piece, is_byte, is_control in found
        ]
        for special in RESERVED:
            spelled[special] = b""
        return spelled


def learn_pieces(
    lines: Sequence[str], vocabulary: int, subwords: Subwords, special_tokens: Sequence[str]
) -> bytes:
    """Return a SentencePiece model that is lossless."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=MODEL_TYPES[subwords],
        vocab_size=vocabulary,
        hard_vocab_limit=False,
        character_coverage=COVERAGE,
        required_chars=SPACE_MARK,  # rare in a text of long lines without spaces, and never to be bytes
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        byte_fallback=True,
        split_digits=True,
        control_symbols=list(special_tokens),
        max_sentence_length=5 * LEARN_CHARACTERS,
        pad_id=DEFAULT_IDS.pad,
        bos_id=DEFAULT_IDS.bos,
        eos_id=DEFAULT_IDS.eos,
        unk_id=DEFAULT_IDS.unk,
        minloglevel=2,
    )
    return model.getvalue()


def smallest_vocabulary(lines: Sequence[str]) -> int:
    """Return how many tokens SentencePiece insists on: the reserved ones and all characters but the rarest."""
    counts = Counter(chain.from_iterable(lines))
    total, covered, needed = counts.total(), counts.pop(" "), NUM_RESERVED + 1  # a space is never rare
    for count in sorted(counts.values(), reverse=True):
        if covered / total >= COVERAGE:
            break
        covered, needed = covered + count, needed + 1
    return needed
