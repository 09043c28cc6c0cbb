"""The responses of OpenAI's API: whole, or as the parts of a stream."""

from __future__ import annotations

import codecs
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate

from sixfold.serve.job_messages import Accepted, TokenRecord, Written, WrittenToken
from sixfold.serve.openai_fields import ChatFields, CompletionFields, SamplingFields

Record = dict[str, object]
REASONS = {"end": "stop", "stop": "stop", "length": "length", "": None}


class Text:
    """The text generated so far after a prompt."""

    def __init__(self, prompt: str) -> None:
        self.prompt, self.text, self.finished = prompt, "", ""
        self.prompt_tokens: list[WrittenToken] = []  # if requested
        self.tokens: list[WrittenToken] = []
        self.offsets: list[
            int
        ] = []  # the character offset of each token, counted from the beginning of the prompt
        self.decoder, self.end = codecs.getincrementaldecoder("utf-8")("replace"), len(prompt)

    def add(self, written: Written) -> None:
        """Append the result of a step."""
        self.text += written.text
        self.tokens += written.tokens
        self.prompt_tokens += written.prompt
        self.finished = written.finished
        for token in written.tokens:
            self.offsets.append(self.end)
            self.end += len(self.decoder.decode(token.bytes))  # 0 for a token with an incomplete character

    @property
    def prompt_offsets(self) -> list[int]:
        """The character offset of each token of the prompt; a prepended space is not counted."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        lengths = [len(decoder.decode(token.bytes)) for token in self.prompt_tokens]
        ends = accumulate(lengths, initial=len(self.prompt) - sum(lengths))
        return [max(0, end) for end in ends][: len(lengths)]


class Answer(ABC):
    """The response to one request."""

    prefix = ""
    kind = ""
    part_kind = ""

    def __init__(self, fields: SamplingFields, accepted: Accepted, num_texts: int) -> None:
        self.fields, self.accepted = fields, accepted
        self.texts = [Text(accepted.prompts[index // fields.n]) for index in range(num_texts)]
        self.cached_tokens = 0  # of all prompts
        self.head: Record = {
            "id": f"{self.prefix}{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": fields.model,
        }

    @abstractmethod
    def choice(self, index: int) -> Record:
        """Return a whole text."""

    @abstractmethod
    def part(self, written: Written) -> Record:
        """Return the part of a text from one step."""

    @abstractmethod
    def opening(self, index: int) -> Record | None:
        """Return the first part of a text, before its first token."""

    def add(self, written: Written) -> Record:
        """Record the result of a step, and return it as a part of a stream."""
        self.texts[written.index].add(written)
        self.cached_tokens += written.cached_tokens
        return self.streamed(self.part(written) | {"finish_reason": REASONS[written.finished]})

    def openings(self) -> list[Record]:
        """Return the first parts of a stream."""
        found = [self.opening(index) for index in range(len(self.texts))]
        return [self.streamed(each | {"finish_reason": None}) for each in found if each is not None]

    def streamed(self, choice: Record) -> Record:
        """Return a part of a stream; if usage is requested, only the last part has it."""
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
        """Return the whole response to a request without streaming."""
        choices = [
            self.choice(index) | {"finish_reason": REASONS[each.finished]} for index, each in enumerate(self.texts)
        ]
        return self.head | {"object": self.kind, "choices": choices, "usage": self.usage()}

    def usage(self) -> Record:
        """Return the numbers of prompt tokens and generated tokens."""
        read = sum(map(len, self.accepted.prompt_tokens))
        written = sum(len(each.tokens) for each in self.texts)
        return {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
        }

    def token_ids(self, tokens: Sequence[WrittenToken]) -> Record:
        """Return the ids of tokens, if requested."""
        return {"token_ids": [token.id for token in tokens]} if self.fields.return_token_ids else {}

    def prompt_ids(self, index: int) -> Record:
        """Return the ids of a prompt's tokens, if requested."""
        if not self.fields.return_token_ids:
            return {}
        return {"prompt_token_ids": self.accepted.prompt_tokens[index // self.fields.n]}

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
    """The response of /v1/completions."""

    prefix, kind, part_kind = "cmpl-", "text_completion", "text_completion"

    def __init__(self, fields: CompletionFields, accepted: Accepted, num_texts: int) -> None:
        super().__init__(fields, accepted, num_texts)
        self.has_log_probabilities, self.echo = fields.logprobs is not None, fields.echo

    def choice(self, index: int) -> Record:
        """Return a whole text."""
        text = self.texts[index]
        tokens, offsets = [*text.prompt_tokens, *text.tokens], [*text.prompt_offsets, *text.offsets]
        return {
            "index": index,
            "text": text.prompt + text.text if self.echo else text.text,
            "logprobs": self.log_probabilities(tokens, offsets),
            **self.token_ids(text.tokens),
            **self.prompt_ids(index),
        }

    def part(self, written: Written) -> Record:
        """Return the part of a text from one step."""
        offsets = self.texts[written.index].offsets
        found = self.log_probabilities(written.tokens, offsets[len(offsets) - len(written.tokens) :])
        return {
            "index": written.index,
            "text": written.text,
            "logprobs": found,
            **self.token_ids(written.tokens),
        }

    def opening(self, index: int) -> Record | None:
        """Return the prompt, if requested."""
        ids = self.prompt_ids(index)
        if not self.echo and not ids:
            return None
        return {"index": index, "text": self.texts[index].prompt if self.echo else "", "logprobs": None, **ids}

    def log_probabilities(self, tokens: Sequence[WrittenToken], offsets: Sequence[int]) -> Record | None:
        """Return lists with an item per token, and also chat's format, which has bytes."""
        if not self.has_log_probabilities:
            return None
        return {
            "tokens": [readable(token) for token in tokens],
            "token_logprobs": [token.log_probability for token in tokens],
            "top_logprobs": [alternatives(token) for token in tokens],
            "text_offset": [*offsets],
            "content": self.details(tokens),
        }


class ChatCompletion(Answer):
    """The response of /v1/chat/completions."""

    prefix, kind, part_kind = "chatcmpl-", "chat.completion", "chat.completion.chunk"

    def __init__(self, fields: ChatFields, accepted: Accepted, num_texts: int) -> None:
        super().__init__(fields, accepted, num_texts)
        self.has_log_probabilities = fields.logprobs

    def choice(self, index: int) -> Record:
        """Return a whole message."""
        text = self.texts[index]
        message = {"role": "assistant", "content": text.text}
        return {"index": index, "message": message, **self.rest(text.tokens), **self.prompt_ids(index)}

    def part(self, written: Written) -> Record:
        """Return the part of a message from one step."""
        return {"index": written.index, "delta": {"content": written.text}, **self.rest(written.tokens)}

    def opening(self, index: int) -> Record | None:
        """Return the role of the message."""
        opened: Record = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
        return opened | self.prompt_ids(index)

    def rest(self, tokens: Sequence[WrittenToken]) -> Record:
        """Return the details of tokens besides their text."""
        found = {"content": self.details(tokens)} if self.has_log_probabilities else None
        return {"logprobs": found, **self.token_ids(tokens)}


def alternatives(token: WrittenToken) -> Record | None:
    """Return a token and its alternatives as texts with their log-probabilities."""
    if token.log_probability is None:
        return None
    return {readable(each): each.log_probability for each in (token, *token.alternatives)}


def readable(token: TokenRecord) -> str:
    """Return a token as text; an incomplete character is shown by its bytes, as in OpenAI's API."""
    try:
        return token.bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.bytes)
