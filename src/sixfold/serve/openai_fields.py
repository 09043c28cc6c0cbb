"""The fields of OpenAI's API. Fields that a decoder-only model cannot honour are refused, not ignored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from sixfold.serve.job_messages import TextRequest
from sixfold.serve.request_fields import TextOrList

MOST_PROMPTS, MOST_SAMPLES, MOST_STOPS, MOST_ALTERNATIVES, MOST_MESSAGES = 64, 16, 16, 20, 1000
MOST_TOKENS = 1_000_000  # in practice, the model's context is the limit
LEGACY_TOKENS = 16  # OpenAI's default for completions


def refuse_unless_neutral(value: JsonValue) -> JsonValue:
    """Refuse an unsupported field, unless its value requests nothing."""
    if value in (None, False, 0, "", [], {}):
        return value
    raise PydanticCustomError("unsupported", "this is not supported here; leave it out")


Unsupported = Annotated[JsonValue, BeforeValidator(refuse_unless_neutral), Field(description="Not supported.")]
NoEffect = Annotated[JsonValue, Field(description="No effect; clients send it.")]


class StreamOptions(BaseModel):
    """What a stream contains."""

    model_config = ConfigDict(extra="forbid")

    include_usage: bool = False
    include_obfuscation: NoEffect = None


class SamplingFields(BaseModel):
    """The fields of both routes."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str = Field(description="The name of a served model.", max_length=200)
    max_tokens: int | None = Field(None, ge=1, le=MOST_TOKENS, description="Maximum number of generated tokens.")
    temperature: float | None = Field(
        None, ge=0, le=2, description="Sampling temperature; 0: always the most probable token."
    )
    top_p: float | None = Field(
        None, gt=0, le=1, description="Sample from the most probable tokens whose probabilities add up to p."
    )
    n: int = Field(1, ge=1, le=MOST_SAMPLES, description="Number of texts for each prompt.")
    stop: TextOrList = Field([], max_length=MOST_STOPS, description="Strings before which the text ends.")
    seed: int | None = Field(None, ge=0, le=2**63 - 1, description="The same seed gives the same text.")
    stream: bool = Field(False, description="Send the text while it is generated.")
    stream_options: StreamOptions | None = Field(None, description="include_usage: count tokens at the end.")
    top_k: int | None = Field(
        None, ge=0, le=1_000_000, description="Sample from the k most probable tokens; 0: from all."
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="Exclude tokens less than p times as probable as the best."
    )
    repetition_penalty: float | None = Field(None, gt=0, le=10, description="Above 1: fewer repetitions.")
    return_token_ids: bool = Field(False, description="Add the ids of all tokens to the answer.")

    presence_penalty: Unsupported = None
    frequency_penalty: Unsupported = None
    logit_bias: Unsupported = None
    user: NoEffect = None
    metadata: NoEffect = None
    store: NoEffect = None
    service_tier: NoEffect = None
    safety_identifier: NoEffect = None
    prompt_cache_key: NoEffect = None

    @model_validator(mode="before")
    @classmethod
    def without_null(cls, fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """Treat null as an omitted field."""
        return {name: value for name, value in fields.items() if value is not None}

    @field_validator("stream_options")
    @classmethod
    def refuse_without_stream(cls, value: StreamOptions, others: ValidationInfo) -> StreamOptions:
        """Refuse options of streaming without streaming."""
        if not others.data.get("stream"):
            raise PydanticCustomError("contradiction", "this is only for streams; add stream=true")
        return value

    @property
    def num_alternatives(self) -> int | None:
        """The number of alternatives to return for each token; None: no probabilities either."""
        raise NotImplementedError

    @property
    def most_tokens(self) -> int | None:
        """The maximum number of tokens of a text."""
        return self.max_tokens

    def options(self) -> dict[str, object]:
        """Return the options of generation; None: the model folder's default."""
        return {
            "max_tokens": self.most_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
            "stop": tuple(self.stop or ()),
            "seed": self.seed,
            "samples": self.n,
            "alternatives": self.num_alternatives or 0,
        }

    def texts(self) -> list[str]:
        """Return all texts of the request."""
        raise NotImplementedError

    def request(self) -> TextRequest:
        """Return the request for the worker."""
        raise NotImplementedError


def as_prompts(value: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    """Return the prompts of a request; a list of token ids is one."""
    if isinstance(value, str) or (value and isinstance(value[0], int)):
        return [value]
    return [*value]


class CompletionFields(SamplingFields):
    """A prompt to continue."""

    prompt: str | list[str] | list[int] | list[list[int]] = Field(description="A text, its tokens, or several.")
    logprobs: int | None = Field(
        None, ge=0, le=MOST_ALTERNATIVES, description="Return log-probabilities, with this many alternatives."
    )
    echo: bool = Field(False, description="Return the prompt too.")
    suffix: Unsupported = None
    best_of: Annotated[Literal[1] | None, Field(description="Only 1.")] = None

    @field_validator("prompt")
    @classmethod
    def refuse_too_many(cls, value: str | list[str] | list[int] | list[list[int]]) -> object:
        """Refuse no prompt, and more than can be asked for at once."""
        if not 1 <= (count := len(as_prompts(value))) <= MOST_PROMPTS:
            problem = f"there must be from 1 to {MOST_PROMPTS} prompts, but there are {count:,}"
            raise PydanticCustomError("count", problem)
        return value

    @field_validator("echo")
    @classmethod
    def refuse_streamed_prompt(cls, value: bool, others: ValidationInfo) -> bool:
        """Refuse to stream the log-probabilities of the prompt."""
        if value and others.data.get("stream") and others.data.get("logprobs") is not None:
            raise PydanticCustomError("contradiction", "the log-probabilities of a prompt cannot be streamed")
        return value

    @property
    def scores_prompt(self) -> bool:
        """Whether the prompt's tokens are returned with their log-probabilities."""
        return self.echo and self.logprobs is not None

    @property
    def num_alternatives(self) -> int | None:
        """The number of alternatives to return for each token."""
        return self.logprobs

    @property
    def most_tokens(self) -> int | None:
        """The maximum number of tokens of a text."""
        return self.max_tokens or LEGACY_TOKENS

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts."""
        return as_prompts(self.prompt)

    def texts(self) -> list[str]:
        """Return all texts of the request."""
        return [each for each in (*self.prompts, *self.stop) if isinstance(each, str)]

    def request(self) -> TextRequest:
        """Return the request for the worker."""
        return TextRequest(prompts=self.prompts, options={**self.options(), "prompt_scores": self.scores_prompt})


class TextPart(BaseModel):
    """A piece of a message."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"]
    text: str


class MessageFields(BaseModel):
    """A message of a conversation."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: NoEffect = None
    refusal: Unsupported = None
    tool_calls: Unsupported = None
    function_call: Unsupported = None
    audio: Unsupported = None
    annotations: NoEffect = None

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)

    def record(self) -> dict[str, str]:
        """Return the message for a chat template."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.text}


class ResponseFormat(BaseModel):
    """The form of an answer."""

    type: Literal["text"]


class ChatFields(SamplingFields):
    """A conversation to continue."""

    messages: list[MessageFields] = Field(
        min_length=1, max_length=MOST_MESSAGES, description="The conversation so far."
    )
    max_completion_tokens: int | None = Field(None, ge=1, le=MOST_TOKENS, description="As max_tokens.")
    logprobs: bool = Field(False, description="Return log-probabilities.")
    top_logprobs: int | None = Field(
        None, ge=0, le=MOST_ALTERNATIVES, description="Number of alternatives of each token."
    )
    response_format: ResponseFormat | None = Field(None, description='Only {"type": "text"}.')
    tools: Unsupported = None
    functions: Unsupported = None
    tool_choice: Annotated[Literal["none", "auto"] | None, Field(description="No tools are supported.")] = None
    parallel_tool_calls: NoEffect = None
    modalities: Annotated[list[Literal["text"]] | None, Field(description="Only text.")] = None

    @field_validator("top_logprobs")
    @classmethod
    def refuse_unseen_alternatives(cls, value: int, others: ValidationInfo) -> int:
        """Refuse alternatives that would not be returned."""
        if value and not others.data.get("logprobs"):
            raise PydanticCustomError("contradiction", "these are only returned with logprobs=true")
        return value

    @property
    def num_alternatives(self) -> int | None:
        """The number of alternatives to return for each token."""
        return (self.top_logprobs or 0) if self.logprobs else None

    @property
    def most_tokens(self) -> int | None:
        """The maximum number of tokens of an answer."""
        return self.max_completion_tokens or self.max_tokens

    def texts(self) -> list[str]:
        """Return all texts of the request."""
        return [*(message.text for message in self.messages), *self.stop]

    def request(self) -> TextRequest:
        """Return the request for the worker."""
        return TextRequest(messages=[message.record() for message in self.messages], options=self.options())
