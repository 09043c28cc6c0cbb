"""Raw text to token ids and back, without loss: SentencePiece with byte fallback.

Any string that UTF-8 can carry and that has no line break comes back exactly from `decode(encode(text))`.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from sixfold.errors import ConfigError, DataError, ModelFolderError
from sixfold.text.tokens import BOS_ID, EOS_ID, NUM_RESERVED, PAD_ID, UNK_ID

Subwords = Literal["bpe", "unigram"]

SPACE_MARK = "▁"  # SentencePiece's own stand-in for a space (U+2581)
LEARN_CHARACTERS = 4000  # of a longer line only this much is used to learn subwords


class Tokenizer:
    """A SentencePiece model and the few rules that make it lossless.

    A space is put before the text, so that a word has the same pieces at the start of a line as inside it,
    and is taken away again by `decode`. SentencePiece reads the character U+2581 as a space, so that
    character is spelled as its three bytes.
    """

    def __init__(self, model: bytes) -> None:
        import sentencepiece

        self.model = model
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ModelFolderError("The tokenizer is not a SentencePiece model.") from error
        if self.processor.piece_to_id("<0x00>") == UNK_ID:
            raise ModelFolderError("The tokenizer has no byte pieces, so it would lose text.")
        self.space_mark = [self.processor.piece_to_id(f"<0x{byte:02X}>") for byte in SPACE_MARK.encode()]

    @classmethod
    def learn(cls, texts: Iterable[str], vocabulary: int, subwords: Subwords = "bpe") -> Tokenizer:
        """Learn at most `vocabulary` pieces from texts; the same texts always give the same pieces."""
        import sentencepiece

        lines = [" " + text[:LEARN_CHARACTERS].replace(SPACE_MARK, "") for text in texts if text]
        if not lines:
            raise DataError("There is no text to learn subwords from.")
        smallest, largest = possible_vocabulary(lines, subwords)
        if vocabulary < smallest:
            raise ConfigError(
                f"A vocabulary of {vocabulary:,} is too small: this text needs at least {smallest:,} "
                f"({NUM_RESERVED} are reserved, and every common character is one).",
                f"--set data.vocabulary={smallest + 1000}",
            )
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=subwords,
            vocab_size=min(vocabulary, largest),
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            byte_fallback=True,
            split_digits=True,
            max_sentence_length=5 * LEARN_CHARACTERS,
            pad_id=PAD_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            unk_id=UNK_ID,
            minloglevel=2,
        )
        return cls(model.getvalue())

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a tokenizer from its file."""
        return cls(path.read_bytes())

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return self.processor.get_piece_size()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without begin or end marks."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of several texts."""
        if any(SPACE_MARK in text for text in texts):
            return [self.encode_with_space_marks(text) for text in texts]
        return self.processor.encode([" " + text if text else "" for text in texts])

    def encode_with_space_marks(self, text: str) -> list[int]:
        """Return the token ids of a text that holds the character U+2581."""
        first, *rest = text.split(SPACE_MARK)
        ids: list[int] = self.processor.encode(" " + first)
        for part in rest:
            ids += self.space_mark + self.processor.encode(part)
        return ids

    def sample_batch(self, texts: Sequence[str], dropout: float, seed: int) -> list[list[int]]:
        """Return other, random spellings of the texts: BPE-dropout, decided by the seed alone.

        SentencePiece seeds one generator a thread, when the thread first draws: hence a fresh thread.
        """
        import sentencepiece

        sampled: list[list[int]] = []

        def draw() -> None:
            sampled.extend(
                self.processor.encode(
                    [" " + text if text else "" for text in texts],
                    enable_sampling=True,
                    alpha=dropout,
                    nbest_size=-1,
                    num_threads=1,
                )
            )

        sentencepiece.set_random_generator_seed(seed)
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
        return sampled

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids; reserved ids other than bytes say nothing."""
        text: str = self.processor.decode([i for i in ids if i not in (PAD_ID, BOS_ID, EOS_ID, UNK_ID)])
        return text[1:] if text.startswith(" ") else text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return each token as people write it, with U+2581 for a space."""
        return [self.processor.id_to_piece(i) for i in ids]


def possible_vocabulary(lines: list[str], subwords: Subwords) -> tuple[int, int]:
    """Return the smallest and largest vocabulary these lines allow: SentencePiece fails outside of them."""
    words = {word for line in lines for word in line.split(" ")}
    smallest = NUM_RESERVED + len({character for word in words for character in word}) + 1
    fragments = sum(len(word) for word in words)  # a BPE merge adds one piece and uses up one boundary
    room = fragments if subwords == "bpe" else fragments // 2
    return smallest, smallest + max(room, 2)
