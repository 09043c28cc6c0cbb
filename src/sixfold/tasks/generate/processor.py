"""Encode text for a decoder-only model: a tokenizer, start and end tokens, and the chat template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sixfold.data.conversations import Conversation
from sixfold.data.packing import Stretch
from sixfold.data.shards import token_type
from sixfold.data.texts import Piece
from sixfold.files import write_atomically
from sixfold.models.folder import ModelInfo, Processor, load_any_tokenizer, open_tokenizer
from sixfold.text import AnyTokenizer, Tokenizer
from sixfold.text.chat import ROLE_TOKENS, SIXFOLD_TEMPLATE, ChatTemplate, conversation_tokens
from sixfold.text.tokenizer import Subwords

DESCRIPTION = "processor.json"
CHAT = "chat.json"  # apart, because a model of text that learns conversations keeps all else of its base
AS_JSON = TypeAdapter(ChatTemplate)
SIZE_TYPE = "<u2"  # for the number of bytes of a token


@dataclass(frozen=True)
class TextProcessor:
    """A tokenizer, the start token of every text, and the chat template if there is one."""

    tokenizer: AnyTokenizer
    decoder_start: int | None
    chat: ChatTemplate | None = None

    @property
    def described(self) -> Processor:
        """Its description in the model folder."""
        return Processor(
            tokenizer=self.tokenizer.file_name,
            special=self.tokenizer.special,
            decoder_start=self.decoder_start,
            chat=self.chat,
        )

    @cached_property
    def token_sizes(self) -> NDArray[np.uint16]:
        """The number of bytes of each token."""
        return np.array([len(spelled) for spelled in self.tokenizer.spelling()], dtype=np.uint16)

    @property
    def before(self) -> list[int]:
        """The tokens before every text."""
        return [] if self.decoder_start is None else [self.decoder_start]

    def columns(self, has_answers: bool, has_sizes: bool) -> dict[str, str]:
        """Return the columns of a row; the number of bytes of each token is for validation only."""
        sizes = {"sizes": SIZE_TYPE} if has_sizes else {}
        answer = {"answer": "|u1"} if has_answers else {}
        return {"tokens": token_type(self.tokenizer.vocabulary), **sizes, **answer, "starts": "<i4"}

    def encode(self, pieces: Sequence[tuple[Piece, bool]]) -> list[Stretch]:
        """Return the tokens of pieces; the flag says whether a piece continues the one before it."""
        texts = [piece.text for piece, _ in pieces]
        whole = iter(self.tokenizer.encode_batch([piece.text for piece, _ in pieces if piece.is_first]))
        rest = iter(self.tokenizer.encode_continuation([piece.text for piece, _ in pieces if not piece.is_first]))
        encoded = [next(whole if piece.is_first else rest) for piece, _ in pieces]
        return [
            self.stretch(piece, tokens, len(text.encode()), is_new=not goes_on)
            for (piece, goes_on), text, tokens in zip(pieces, texts, encoded, strict=True)
        ]

    def stretch(self, piece: Piece, tokens: list[int], num_bytes: int, is_new: bool) -> Stretch:
        """Return the tokens of a piece, with the start and end tokens of its document."""
        before = self.before if piece.is_first else []
        after = [self.tokenizer.special.eos] if piece.is_last else []
        sizes = [0] * len(before) + self.sizes(tokens, num_bytes) + [0] * len(after)
        return Stretch({"tokens": [*before, *tokens, *after], "sizes": sizes}, piece.line, is_new)

    def sizes(self, tokens: Sequence[int], num_bytes: int) -> list[int]:
        """Return the number of bytes of each token, `num_bytes` in total, without a space prepended to it."""
        sizes: list[int] = self.token_sizes[np.asarray(tokens, dtype=np.int64)].tolist()
        added = sum(sizes) - num_bytes
        for place, size in enumerate(sizes):
            if added <= 0:
                break
            sizes[place] = max(0, size - added)
            added -= size - sizes[place]
        return sizes

    def encode_conversation(self, conversation: Conversation) -> Stretch:
        """Return the tokens of a conversation, with those that the assistant writes marked."""
        assert self.chat is not None
        found, is_answer = conversation_tokens(self.tokenizer, self.chat, conversation.messages)
        answers = [message.content for message in conversation.messages if message.role == "assistant"]
        written = "".join(answer.strip() if self.chat.strips else answer for answer in answers)
        of_answers = iter(
            self.sizes([t for t, own in zip(found, is_answer, strict=True) if own], len(written.encode()))
        )
        sizes = [next(of_answers) if own else 0 for own in is_answer]
        before = [] if found[:1] == self.before else self.before
        none = [0] * len(before)
        return Stretch(
            {"tokens": [*before, *found], "sizes": none + sizes, "answer": [*none, *map(int, is_answer)]},
            conversation.line,
        )

    def save(self, folder: Path) -> list[Path]:
        """Write the files of a processor; return them."""
        without_chat = self.described.model_copy(update={"chat": None})
        contents = {
            self.tokenizer.file_name: self.tokenizer.model,
            DESCRIPTION: without_chat.model_dump_json().encode(),
        }
        if self.chat is not None:
            contents[CHAT] = AS_JSON.dump_json(self.chat)
        for name, content in contents.items():
            write_atomically(folder / name, content)
        return [folder / name for name in contents]

    @classmethod
    def load(cls, folder: Path) -> TextProcessor:
        """Read a processor written by `save`."""
        described = Processor.model_validate_json((folder / DESCRIPTION).read_bytes())
        tokenizer = open_tokenizer(folder / described.tokenizer, described.special)
        chat = AS_JSON.validate_json((folder / CHAT).read_bytes()) if (folder / CHAT).is_file() else None
        return cls(tokenizer, described.decoder_start, chat)

    @classmethod
    def learn(cls, texts: Iterable[str], vocabulary: int, subwords: Subwords, has_chat: bool) -> TextProcessor:
        """Learn subwords; the role tokens are included, so that any model can learn conversations later."""
        tokenizer = Tokenizer.learn(texts, vocabulary, subwords, ROLE_TOKENS)
        return cls(tokenizer, tokenizer.special.bos, SIXFOLD_TEMPLATE if has_chat else None)

    @classmethod
    def of_base(cls, folder: Path, info: ModelInfo, has_chat: bool) -> TextProcessor:
        """Return the base's processor, with a template added if there are conversations and it has none."""
        own, tokenizer = info.processors["text"], load_any_tokenizer(folder, info)
        chat = own.chat or (template_for(tokenizer) if has_chat else None)
        return cls(tokenizer, own.decoder_start, chat)


def template_for(tokenizer: AnyTokenizer) -> ChatTemplate:
    """Return the template of Sixfold's models, or one in plain words if the tokenizer lacks the role tokens."""
    if isinstance(tokenizer, Tokenizer) and len(tokenizer.encode_parts([*SIXFOLD_TEMPLATE.parts([])])) == 1:
        return SIXFOLD_TEMPLATE
    end = tokenizer.pieces([tokenizer.special.eos])[0]
    return ChatTemplate(("System: ", "\n"), ("User: ", "\n"), ("Assistant: ", end))
