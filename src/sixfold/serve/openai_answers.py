"""The answers of OpenAI's API: whole, or in the parts of a stream."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from sixfold.serve.job_messages import Accepted, TokenRecord, Written, WrittenToken
from sixfold.serve.openai_fields import ChatFields, CompletionFields, SamplingFields

Record = dict[str, object]
REASONS = {"end": "stop", "stop": "stop", "length": "length", "": None}


@dataclass
class Text:
    """A text as far as it is written."""

    text: str = ""
    tokens: list[WrittenToken] = field(default_factory=list)
    finished: str = ""

    def add(self, written: Written) -> None:
        """Append what a step wrote."""
        self.text += written.text
        self.tokens += written.tokens
        self.finished = written.finished


class Answer(ABC):
    """What is said of the texts of one request."""

    prefix = ""
    kind = ""
    part_kind = ""

    def __init__(self, fields: SamplingFields, accepted: Accepted, num_texts: int) -> None:
        self.fields, self.accepted = fields, accepted
        self.texts = [Text() for _ in range(num_texts)]
        self.cached_tokens = 0  # of all prompts
        self.head: Record = {
            "id": f"{self.prefix}{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": fields.model,
        }

    @abstractmethod
    def choice(self, index: int, text: str, tokens: Sequence[WrittenToken], offset: int) -> Record:
        """Return a whole text, or one part of it that begins after so many characters."""

    @abstractmethod
    def part(self, index: int, text: str, tokens: Sequence[WrittenToken], offset: int) -> Record:
        """Return a part of a text that begins after so many characters."""

    @abstractmethod
    def opening(self, index: int) -> Record | None:
        """Return what begins a text, before its first token."""

    def prompt_number(self, index: int) -> int:
        """Return which prompt a text continues."""
        return index // self.fields.n

    def add(self, written: Written) -> Record:
        """Take note of what a step wrote, and return it as a part of a stream."""
        text = self.texts[written.index]
        offset = len(text.text)
        text.add(written)
        self.cached_tokens += written.cached_tokens
        return self.streamed(self.part(written.index, written.text, written.tokens, offset) | ending(written))

    def openings(self) -> list[Record]:
        """Return what begins a stream."""
        found = [self.opening(index) for index in range(len(self.texts))]
        return [self.streamed(each | {"finish_reason": None}) for each in found if each is not None]

    def streamed(self, choice: Record) -> Record:
        """Return a part of a stream; where usage is asked for, its last part has it and the others none."""
        usage: Record = {"usage": None} if self.has_usage else {}
        return self.head | {"object": self.part_kind, "choices": [choice]} | usage

    @property
    def has_usage(self) -> bool:
        """Whether the last part of a stream counts the tokens."""
        return self.fields.stream_options is not None and self.fields.stream_options.include_usage

    def last_part(self) -> Record:
        """Return the part of a stream that counts the tokens."""
        return self.head | {"object": self.part_kind, "choices": [], "usage": self.usage()}

    def whole(self) -> Record:
        """Return the answer to a request that does not stream."""
        choices = [
            self.choice(index, each.text, each.tokens, 0) | {"finish_reason": REASONS[each.finished]}
            for index, each in enumerate(self.texts)
        ]
        return self.head | {"object": self.kind, "choices": choices, "usage": self.usage()}

    def usage(self) -> Record:
        """Return how many tokens were read and written."""
        read = sum(map(len, self.accepted.prompt_tokens))
        written = sum(len(each.tokens) for each in self.texts)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def token_ids(self, tokens: Sequence[WrittenToken]) -> Record:
        """Return the ids of tokens, if they are asked for."""
        return {"token_ids": [token.id for token in tokens]} if self.fields.return_token_ids else {}

    def prompt_ids(self, index: int) -> Record:
        """Return the ids of a prompt's tokens, if they are asked for."""
        if not self.fields.return_token_ids:
            return {}
        return {"prompt_token_ids": self.accepted.prompt_tokens[self.prompt_number(index)]}

    def details(self, tokens: Sequence[WrittenToken]) -> list[Record]:
        """Return tokens with their log-probabilities and alternatives."""
        return [
            self.detail(token) | {"top_logprobs": [self.detail(each) for each in token.alternatives]}
            for token in tokens
        ]

    def detail(self, token: TokenRecord) -> Record:
        """Return a token with its log-probability."""
        ids = {"token_id": token.id} if self.fields.return_token_ids else {}
        return {
            "token": readable(token),
            "bytes": list(token.bytes),
            "logprob": token.log_probability,
            **ids,
        }


class Completion(Answer):
    """The answer of /v1/completions."""

    prefix, kind, part_kind = "cmpl-", "text_completion", "text_completion"

    def __init__(self, fields: CompletionFields, accepted: Accepted, num_texts: int) -> None:
        super().__init__(fields, accepted, num_texts)
        self.has_log_probabilities, self.echo = fields.logprobs is not None, fields.echo

    def choice(self, index: int, text: str, tokens: Sequence[WrittenToken], offset: int) -> Record:
        """Return a whole text."""
        text = self.prompt(index) + text if self.echo else text
        return self.part(index, text, tokens, offset) | self.prompt_ids(index)

    def part(self, index: int, text: str, tokens: Sequence[WrittenToken], offset: int) -> Record:
        """Return a part of a text."""
        offset += len(self.prompt(index))
        found = self.log_probabilities(tokens, offset) if self.has_log_probabilities else None
        return {"index": index, "text": text, "logprobs": found, **self.token_ids(tokens)}

    def opening(self, index: int) -> Record | None:
        """Return the prompt, if it is asked for."""
        ids = self.prompt_ids(index)
        if not self.echo and not ids:
            return None
        return {"index": index, "text": self.prompt(index) if self.echo else "", "logprobs": None, **ids}

    def prompt(self, index: int) -> str:
        """Return the prompt that a text continues."""
        return self.accepted.prompts[self.prompt_number(index)]

    def log_probabilities(self, tokens: Sequence[WrittenToken], offset: int) -> Record:
        """Return lists with an item for each token, and beside them the form that chat has, which tells bytes."""
        offsets = []
        for token in tokens:
            offsets.append(offset)
            offset += len(token.bytes.decode(errors="ignore"))
        return {
            "tokens": [readable(token) for token in tokens],
            "token_logprobs": [token.log_probability for token in tokens],
            "top_logprobs": [
                {readable(each): each.log_probability for each in (token, *token.alternatives)} for token in tokens
            ],
            "text_offset": offsets,
            "content": self.details(tokens),
        }


class ChatCompletion(Answer):
    """The answer of /v1/chat/completions."""

    prefix, kind, part_kind = "chatcmpl-", "chat.completion", "chat.completion.chunk"

    def __init__(self, fields: ChatFields, accepted: Accepted, num_texts: int) -> None:
        super().__init__(fields, accepted, num_texts)
        self.has_log_probabilities = fields.logprobs

    def choice(self, index: int, text: str, tokens: Sequence[WrittenToken], offset: int) -> Record:  # noqa: ARG002
        """Return a whole message."""
        message = {"role": "assistant", "content": text}
        return {"index": index, "message": message, **self.rest(tokens), **self.prompt_ids(index)}

    def part(self, index: int, text: str, tokens: Sequence[WrittenToken], offset: int) -> Record:  # noqa: ARG002
        """Return a part of a message."""
        return {"index": index, "delta": {"content": text}, **self.rest(tokens)}

    def opening(self, index: int) -> Record | None:
        """Return whose message follows."""
        opened: Record = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
        return opened | self.prompt_ids(index)

    def rest(self, tokens: Sequence[WrittenToken]) -> Record:
        """Return what is known of tokens beside their text."""
        found = {"content": self.details(tokens)} if self.has_log_probabilities else None
        return {"logprobs": found, **self.token_ids(tokens)}


def ending(written: Written) -> Record:
    """Return why a text ends, or that it does not yet."""
    return {"finish_reason": REASONS[written.finished]}


def readable(token: TokenRecord) -> str:
    """Return a token as text; a part of a character is shown by its bytes, as OpenAI does."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
