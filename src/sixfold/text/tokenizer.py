"""Raw text to token ids and back, without loss: SentencePiece with byte fallback.

Any string that UTF-8 can carry comes back exactly from `decode(encode(text))`. A line break is spelled as a byte.
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
from sixfold.text.chat import Part
from sixfold.text.located import Span, token_spans
from sixfold.text.special import MASK, SpecialIds

Subwords = Literal["bpe", "unigram", "characters", "bytes"]

SPACE_MARK = "\u2581"  # what SentencePiece writes for a space
LEARN_CHARACTERS = 4000  # of a longer line only this much is used to learn subwords
NOT_LEARNED = str.maketrans(f"{SPACE_MARK}▅\t\0", "    ")  # SentencePiece keeps these for itself: spelled as bytes
COVERAGE = 0.9995  # of the characters of a text; the rarest ones are spelled as bytes
NUM_RESERVED = 4 + 256  # special tokens, and one for each byte
MODEL_TYPES: dict[Subwords, str] = {"bpe": "bpe", "unigram": "unigram", "characters": "char", "bytes": "char"}
OURS = SpecialIds()
RESERVED = {OURS.pad, OURS.bos, OURS.eos, OURS.unk}


class Tokenizer:
    """A SentencePiece model and the few rules that make it lossless.

    A space is put before the text, so that a word has the same pieces at the start of a line as inside it,
    and is taken away again by `decode`. SentencePiece reads the character U+2581 as a space, so that
    character is spelled as its three bytes.
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
            self.pieces(range(processor.get_piece_size()))  # each must be text
        except (RuntimeError, UnicodeDecodeError) as error:
            raise ModelFolderError("The tokenizer is not a SentencePiece model.") from error
        mask = processor.piece_to_id(MASK)
        ids = processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()
        self.special = SpecialIds(*ids, mask=mask if processor.is_control(mask) else None)
        if SpecialIds(*ids) != OURS:
            raise ModelFolderError("The tokenizer has other reserved tokens than ours.")
        if OURS.unk in processor.piece_to_id([SPACE_MARK, "<0x00>"]):
            raise ModelFolderError("The tokenizer has no space or no byte pieces, so it would lose text.")
        self.space_mark: list[int] = processor.piece_to_id([f"<0x{byte:02X}>" for byte in SPACE_MARK.encode()])

    @classmethod
    def learn(
        cls, texts: Iterable[str], vocabulary: int, subwords: Subwords = "bpe", marks: Sequence[str] = ()
    ) -> Tokenizer:
        """Learn at most `vocabulary` pieces from texts; the same texts always give the same pieces.

        Where the subwords are characters or bytes, there are as many as are needed. `marks` are tokens of our own,
        which no text can spell.
        """
        lines = [" " + text[:LEARN_CHARACTERS].translate(NOT_LEARNED) for text in texts if text]
        if not lines:
            raise DataError("There is no text to learn subwords from.")
        if subwords == "bytes":
            lines = [" "]  # of nothing else a piece is made
        smallest = smallest_vocabulary(lines) + len(marks)
        if subwords in ("characters", "bytes"):
            vocabulary = smallest
        if vocabulary < smallest:
            raise ConfigError(
                f"A vocabulary of {vocabulary:,} is too small: this text needs at least {smallest:,} "
                f"({NUM_RESERVED} are reserved, and every common character is one).",
                f"--set data.vocabulary={smallest + 1000}",
            )
        return cls(learn_pieces(lines, vocabulary, subwords, marks))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a tokenizer from its file."""
        return cls(path.read_bytes())

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return self.processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without begin or end tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts."""
        return self.spell(texts)

    def encode_with_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Return the token ids of several texts, and where each token stands in the raw text."""
        rows = self.encode_batch(texts)
        return [
            (row, token_spans(text, [self.spelled[token] for token in row], self.space_before))
            for text, row in zip(texts, rows, strict=True)
        ]

    def encode_on(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of texts that go on where others ended: no space is put before them."""
        return self.spell(texts, before="")

    def encode_parts(self, parts: Sequence[Part]) -> list[int]:
        """Return the tokens of a conversation; special tokens are read in the marks of its template only."""
        encoded = (self.encode_mark(part.text) if part.is_mark else self.encode(part.text) for part in parts)
        return [*chain.from_iterable(encoded)]

    def encode_mark(self, text: str) -> list[int]:
        """Return the tokens of text of our own, in which special tokens are written out."""
        ids: list[int] = []
        for stretch in re.split(r"(<[^<>\s]+>)", text):
            token = self.processor.piece_to_id(stretch)
            is_mark = bool(stretch) and token != OURS.unk and self.processor.is_control(token)
            ids += [token] if is_mark else self.processor.encode(stretch)
        return ids

    def spell(self, texts: Sequence[str], before: str = " ") -> list[list[int]]:
        """Encode the stretches of each text between the characters U+2581, and put these back as bytes."""
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
        """Return the text of token ids; reserved ids other than bytes say nothing."""
        text: str = self.processor.decode([i for i in ids if i not in RESERVED])
        return text[1:] if text.startswith(" ") else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as people write it, with U+2581 for a space."""
        return self.processor.id_to_piece(list(ids))

    def spelling(self) -> list[bytes]:
        """Return the bytes that each token of the vocabulary writes; special ones write none."""
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


def learn_pieces(lines: Sequence[str], vocabulary: int, subwords: Subwords, marks: Sequence[str]) -> bytes:
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
        control_symbols=list(marks),
        max_sentence_length=5 * LEARN_CHARACTERS,
        pad_id=OURS.pad,
        bos_id=OURS.bos,
        eos_id=OURS.eos,
        unk_id=OURS.unk,
        minloglevel=2,
    )
    return model.getvalue()


def smallest_vocabulary(lines: Sequence[str]) -> int:
    """Return the reserved tokens and one for each character but the rarest: SentencePiece insists on these."""
    counts = Counter(chain.from_iterable(lines))
    total, covered, needed = counts.total(), counts.pop(" "), NUM_RESERVED + 1  # a space is never rare
    for count in sorted(counts.values(), reverse=True):
        if covered / total >= COVERAGE:
            break
        covered, needed = covered + count, needed + 1
    return needed
