"""OpenAI's API, used by its own client."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from sixfold.decode.generate import load
from sixfold.decode.generate_options import GenerateOptions

if TYPE_CHECKING:
    from tests.conftest import Served

KEY, OTHER = "a key that nobody guesses", "another key of ours"
PROMPT = "one two three"
ASKED: dict[str, Any] = {"model": "parrot", "prompt": PROMPT, "max_tokens": 12, "seed": 5}
TALK = [{"role": "system", "content": "Count."}, {"role": "user", "content": PROMPT}]
CHAT: dict[str, Any] = {"model": "parrot", "messages": TALK, "max_completion_tokens": 12, "seed": 5}


@pytest.fixture
def client(writing_server: Served) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{writing_server.address}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def streamed(chunks: Any) -> str:
    """Return the text of a stream of completions."""
    return "".join(choice.text for chunk in chunks for choice in chunk.choices)


def test_the_models_are_listed_and_described(client: OpenAI) -> None:
    [model] = client.models.list().data
    assert model.id == "parrot"
    assert client.models.retrieve("parrot") == model
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("parakeet")
    assert caught.value.code == "model_not_found"


def test_a_completion_is_what_the_model_writes(client: OpenAI, chat_model: Path) -> None:
    answer = client.completions.create(**{**ASKED, "temperature": 0})
    options = GenerateOptions(temperature=0, max_tokens=12)
    assert answer.choices[0].text == load(chat_model).generate(PROMPT, options)
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_has_the_text_of_the_whole_answer(client: OpenAI) -> None:
    whole = client.completions.create(**ASKED, n=2)
    parts = [*client.completions.create(**ASKED, n=2, stream=True)]
    for choice in whole.choices:
        written = [part.choices[0] for part in parts if part.choices[0].index == choice.index]
        assert "".join(part.text for part in written) == choice.text
        assert [part.finish_reason for part in written] == [None] * (len(written) - 1) + [choice.finish_reason]
    assert len(parts) > 2


def test_a_stream_counts_tokens_at_its_end_where_that_is_asked_for(client: OpenAI) -> None:
    asked = {**CHAT, "stream": True}
    *parts, last = client.chat.completions.create(**asked, stream_options={"include_usage": True})
    whole = client.chat.completions.create(**CHAT)
    assert last.choices == []
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert all(part.usage is None for part in (*parts, *client.chat.completions.create(**asked)))


def test_a_chat_streams_a_message_of_the_assistant(client: OpenAI) -> None:
    whole = client.chat.completions.create(**CHAT)
    first, *parts = client.chat.completions.create(**CHAT, stream=True)
    assert whole.choices[0].message.role == first.choices[0].delta.role == "assistant"
    assert "".join(part.choices[0].delta.content for part in parts) == whole.choices[0].message.content
    assert parts[-1].choices[0].finish_reason == whole.choices[0].finish_reason


def test_a_chat_is_what_the_model_answers(client: OpenAI, chat_model: Path) -> None:
    answer = client.chat.completions.create(**{**CHAT, "temperature": 0})
    options = GenerateOptions(temperature=0, max_tokens=12)
    assert answer.choices[0].message.content == load(chat_model).chat(TALK, options)


def test_an_answer_can_be_sent_back_as_a_turn(client: OpenAI) -> None:
    answer = client.chat.completions.create(**CHAT).choices[0].message
    again = client.chat.completions.create(**{**CHAT, "messages": [*TALK, answer, TALK[1]]})
    assert again.choices[0].message.role == "assistant"


def test_content_may_be_a_list_of_texts(client: OpenAI) -> None:
    parts = [{"type": "text", "text": PROMPT[:4]}, {"type": "text", "text": PROMPT[4:]}]
    listed = client.chat.completions.create(**{**CHAT, "messages": [TALK[0], {"role": "user", "content": parts}]})
    assert listed.choices[0].message.content == client.chat.completions.create(**CHAT).choices[0].message.content


def test_log_probabilities_come_with_the_most_probable_tokens(client: OpenAI) -> None:
    greedy = {"temperature": 0, "max_tokens": 4}
    found = client.completions.create(**{**ASKED, **greedy}, logprobs=3).choices[0].logprobs
    assert len(found.tokens) == len(found.token_logprobs) == len(found.top_logprobs) == len(found.text_offset)
    assert found.text_offset[0] == len(PROMPT)
    for token, log_probability, others in zip(found.tokens, found.token_logprobs, found.top_logprobs, strict=True):
        assert others[token] == log_probability == max(others.values())
    asked = {**CHAT, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    for token in client.chat.completions.create(**asked).choices[0].logprobs.content:
        best, second = token.top_logprobs
        assert (best.token, best.logprob, best.bytes) == (token.token, token.logprob, token.bytes)
        assert best.logprob >= second.logprob


def test_without_being_asked_for_there_are_no_log_probabilities(client: OpenAI) -> None:
    assert client.completions.create(**ASKED).choices[0].logprobs is None
    assert client.chat.completions.create(**CHAT).choices[0].logprobs is None


def test_a_stop_string_ends_the_text_and_is_no_part_of_it(client: OpenAI) -> None:
    whole = client.completions.create(**ASKED).choices[0].text
    stop = whole[len(whole) // 2 :][:2]
    stopped = client.completions.create(**ASKED, stop=stop).choices[0]
    assert stopped.text == whole[: whole.index(stop)]
    assert stopped.finish_reason == "stop"
    assert streamed(client.completions.create(**ASKED, stop=[stop], stream=True)) == stopped.text


def test_several_prompts_of_text_or_tokens_are_continued_in_order(client: OpenAI) -> None:
    prompts = [PROMPT, "four five", "six"]
    together = client.completions.create(**{**ASKED, "prompt": prompts, "temperature": 0}, n=2)
    alone = [client.completions.create(**{**ASKED, "prompt": each, "temperature": 0}) for each in prompts]
    assert [choice.index for choice in together.choices] == [*range(6)]
    assert [choice.text for choice in together.choices[::2]] == [each.choices[0].text for each in alone]
    ids = [prompt_ids(client, each) for each in prompts]
    tokens = client.completions.create(**{**ASKED, "prompt": ids, "temperature": 0})
    assert [choice.text for choice in tokens.choices] == [each.choices[0].text for each in alone]


def prompt_ids(client: OpenAI, prompt: str) -> list[int]:
    """Return the tokens of a prompt, as the server tells them."""
    answer = client.completions.create(**{**ASKED, "prompt": prompt}, extra_body={"return_token_ids": True})
    return answer.choices[0].prompt_token_ids


def test_token_ids_continue_exactly_where_they_end(client: OpenAI) -> None:
    greedy = {**ASKED, "temperature": 0, "extra_body": {"return_token_ids": True}}
    whole = client.completions.create(**greedy).choices[0]
    begun = [*whole.prompt_token_ids, *whole.token_ids[:4]]
    rest = client.completions.create(**{**greedy, "prompt": begun, "max_tokens": 8}).choices[0]
    assert rest.token_ids == whole.token_ids[4:]


def test_an_echo_begins_with_the_prompt(client: OpenAI) -> None:
    plain = client.completions.create(**ASKED).choices[0].text
    assert client.completions.create(**ASKED, echo=True).choices[0].text == PROMPT + plain
    assert streamed(client.completions.create(**ASKED, echo=True, stream=True)) == PROMPT + plain


def test_an_echo_with_log_probabilities_scores_the_prompt(client: OpenAI, chat_model: Path) -> None:
    asked = {**ASKED, "prompt": [PROMPT, "four five six seven"], "temperature": 0, "max_tokens": 1}
    generator = load(chat_model)
    for prompt, choice in zip(
        asked["prompt"], client.completions.create(**asked, echo=True, logprobs=1).choices, strict=True
    ):
        ids, found = generator.encode(prompt), choice.logprobs
        [expected] = generator.token_log_probabilities([ids])
        assert found.token_logprobs[0] is found.top_logprobs[0] is None
        assert found.token_logprobs[1 : len(ids)] == pytest.approx(expected, abs=1e-4)
        assert len(found.tokens) == len(found.token_logprobs) == len(found.text_offset) > len(ids)
        assert all(number <= max(others.values()) for number, others in told(found)[1:])
        assert choice.text.startswith(prompt)
    with pytest.raises(openai.BadRequestError, match="cannot be streamed"):
        client.completions.create(**asked, echo=True, logprobs=1, stream=True)


def told(found: Any) -> list[tuple[float, dict[str, float]]]:
    """Return the log-probability of each token, and those of its place."""
    return [*zip(found.token_logprobs, found.top_logprobs, strict=True)]


@pytest.mark.parametrize("echo", [False, True])
def test_offsets_tell_where_tokens_begin(client: OpenAI, echo: bool) -> None:
    asked = {**ASKED, "prompt": "größer 日本", "max_tokens": 40, "logprobs": 0}
    whole = client.completions.create(**asked, echo=True) if echo else client.completions.create(**asked)
    text = whole.choices[0].text if echo else "größer 日本" + whole.choices[0].text
    found = whole.choices[0].logprobs
    ends = [*found.text_offset[1:], len(text)]
    for token, begin, end in zip(found.tokens, found.text_offset, ends, strict=True):
        if token and not token.startswith("bytes:") and "\ufffd" not in text[:end]:
            assert text[begin:end] == (token if begin else token.removeprefix(" "))
    if not echo:
        parts = [part.choices[0] for part in client.completions.create(**asked, stream=True)]
        assert [offset for part in parts for offset in part.logprobs.text_offset] == found.text_offset


def test_a_seed_gives_the_same_text_alone_and_under_load(client: OpenAI, writing_server: Served) -> None:
    alone = [client.completions.create(**{**ASKED, "seed": seed}).choices[0].text for seed in range(4)]

    async def load() -> list[str]:
        async with AsyncOpenAI(
            base_url=f"{writing_server.address}/v1", api_key="none", max_retries=0, timeout=120
        ) as many:
            asking = [
                many.completions.create(**{**ASKED, "seed": number % 4, "prompt": PROMPT, "max_tokens": 12})
                for number in range(24)
            ]
            return [answer.choices[0].text for answer in await asyncio.gather(*asking)]

    assert asyncio.run(load()) == alone * 6
    assert len(set(alone)) > 1


def test_an_asynchronous_stream_has_the_same_text(client: OpenAI, writing_server: Served) -> None:
    async def text() -> str:
        async with AsyncOpenAI(base_url=f"{writing_server.address}/v1", api_key="none", timeout=120) as many:
            chunks = await many.completions.create(**ASKED, stream=True)
            return "".join([chunk.choices[0].text async for chunk in chunks])

    assert asyncio.run(text()) == client.completions.create(**ASKED).choices[0].text


@pytest.mark.parametrize(
    ("change", "status", "parameter", "code", "words"),
    [
        ({"model": "parakeet"}, 404, "model", "model_not_found", "parrot"),
        ({"prompt": "one " * 300}, 400, None, "context_length_exceeded", "holds 256"),
        ({"prompt": [1, 10**6]}, 400, None, None, "no token 1000000"),
        ({"prompt": [[]]}, 400, None, None, "at least one token"),
        ({"temperature": -1}, 400, "temperature", None, "greater than or equal to 0"),
        ({"n": 10**6}, 400, "n", None, "less than or equal to"),
        ({"max_tokens": 0}, 400, "max_tokens", None, "greater than or equal to 1"),
        ({"stop": ""}, 400, None, None, "stop string"),
        ({"stop": ["x"] * 100}, 400, None, None, "at most"),
        ({"suffix": "the end"}, 400, "suffix", None, "not supported"),
        ({"presence_penalty": 0.5}, 400, "presence_penalty", None, "not supported"),
        ({"logit_bias": {"5": 1}}, 400, "logit_bias", None, "not supported"),
        ({"best_of": 3}, 400, "best_of", None, "1"),
        ({"stream_options": {"include_usage": True}}, 400, "stream_options", None, "only for streams"),
        ({"temperature": float("nan")}, 400, "temperature", None, "less than"),
        ({"max_tokens": 10**400}, 400, "max_tokens", None, ""),
        ({"prompt": {}}, 400, "prompt.str", None, ""),
        ({"prompt": []}, 400, "prompt", None, "from 1 to 64 prompts, but there are 0"),
        ({"prompt": ["x"] * 65}, 400, "prompt", None, "but there are 65"),
        ({"extra_body": {"beam": 5}}, 400, "beam", None, "Known fields"),
        ({"prompt": "\ud800"}, 400, None, None, "surrogate"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused_in_openais_form(
    client: OpenAI, change: dict[str, Any], status: int, parameter: str | None, code: str | None, words: str
) -> None:
    fields = {**ASKED, **change}
    extra = fields.pop("extra_body", {})
    content = json.dumps(fields | extra)
    response = httpx.post(f"{client.base_url}completions", content=content)
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", parameter, code)
    assert words in error["message"]


def test_a_stream_that_is_refused_is_an_error_and_no_stream(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="too long"):
        client.completions.create(**{**ASKED, "prompt": "one " * 300}, stream=True)


def test_fields_that_ask_for_nothing_are_accepted(client: OpenAI) -> None:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "user": "someone", "best_of": 1}
    assert client.completions.create(**ASKED, **neutral).choices[0].text
    assert client.chat.completions.create(
        **CHAT, tools=openai.NOT_GIVEN, response_format={"type": "text"}, store=False
    )
    nothing = ("stop", "n", "stream", "stream_options", "logprobs", "top_logprobs", "seed", "tools", "logit_bias")
    empty = client.chat.completions.create(**{**CHAT, "seed": None, **dict.fromkeys(nothing)})
    assert empty.choices[0].message.role == "assistant"
    assert client.completions.create(**{**ASKED, "echo": None, "best_of": None, "top_p": None}).choices


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"response_format": {"type": "json_object"}},
        {"top_logprobs": 21, "logprobs": True},
        {"top_logprobs": 3},
        {"reasoning_effort": "high"},
    ],
)
def test_a_chat_that_cannot_be_had_is_refused(client: OpenAI, change: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**{**CHAT, **change})


def test_a_text_ends_where_the_context_does(client: OpenAI) -> None:
    answer = client.completions.create(**{**ASKED, "prompt": "one " * 230, "max_tokens": 10_000})
    assert answer.usage.total_tokens <= 257
    assert answer.choices[0].finish_reason in ("length", "stop")


def test_a_prompt_that_begins_like_an_earlier_one_is_read_from_memory(start_server: Any, chat_model: Path) -> None:
    served = start_server(chat_model)
    system = {"role": "system", "content": "one two three four five six seven eight nine ten " * 4}
    talks = [[system, {"role": "user", "content": each}] for each in ("one", "two")]
    with OpenAI(base_url=f"{served.address}/v1", api_key="none", timeout=120) as client:
        first, second = (client.chat.completions.create(**{**CHAT, "messages": talk}) for talk in talks)
        assert first.usage.prompt_tokens_details.cached_tokens == 0
        assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 5
        alone = start_server(chat_model)
        with OpenAI(base_url=f"{alone.address}/v1", api_key="none", timeout=120) as other:
            unshared = other.chat.completions.create(**{**CHAT, "messages": talks[1]})
        assert second.choices[0].message.content == unshared.choices[0].message.content


def test_models_of_several_tasks_are_served_together(
    start_server: Callable[..., Served], chat_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(chat_model, tmp_path / "other")
    translator = Path(__file__).parents[2] / "compat" / "format-1-phrases"
    served = start_server(translator, chat_model, f"second={tmp_path / 'other'}")
    with OpenAI(base_url=f"{served.address}/v1", api_key="none", timeout=120) as client:
        assert [model.id for model in client.models.list()] == ["parrot", "second"]
        first, second = (client.completions.create(**{**ASKED, "model": name}) for name in ("parrot", "second"))
        assert first.choices[0].text == second.choices[0].text
    with httpx.Client(base_url=served.address, timeout=60) as plain:
        asked = {"q": "The dog sleeps.", "source": "en", "target": "de"}
        assert plain.post("/translate", json=asked).status_code == 200
        assert "Translate" in plain.get("/").text
        assert "/page/write.js" in plain.get("/write").text


@pytest.fixture(scope="module")
def strict(start_server: Callable[..., Served], chat_model: Path) -> Served:
    """A server that refuses much."""
    return start_server(
        chat_model, keys=[KEY, OTHER], rate_limit=10, most_waiting=1, most_texts=2, generation_seconds=2.0
    )


ENDLESS: dict[str, Any] = {**ASKED, "prompt": [PROMPT] * 64, "n": 16, "max_tokens": 250}  # minutes of work


def test_errors_are_the_exceptions_that_the_client_knows(strict: Served) -> None:
    def asking(key: str) -> OpenAI:
        return OpenAI(base_url=f"{strict.address}/v1", api_key=key, max_retries=0, timeout=60)

    with asking("wrong") as client, pytest.raises(openai.AuthenticationError) as refused:
        client.completions.create(**ASKED)
    assert refused.value.code == "invalid_api_key"
    with asking(KEY) as client:
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="parrot", input="x")
        with pytest.raises(openai.APIStatusError, match="No answer within 2 s") as late:
            client.completions.create(**ENDLESS)
        assert late.value.status_code == 503
        with pytest.raises(openai.APIError, match="No answer within 2 s"):
            list(client.completions.create(**ENDLESS, stream=True))
        while httpx.get(f"{strict.address}/v1/models", headers={"authorization": f"Bearer {KEY}"}).is_success:
            pass
        with pytest.raises(openai.RateLimitError, match="at most 10 requests") as limited:
            client.models.list()
        assert int(limited.value.response.headers["retry-after"]) >= 1
        assert limited.value.code == "rate_limit_exceeded"


def test_a_server_that_is_full_says_so_and_one_that_ended_a_stream_is_free(strict: Served) -> None:
    with OpenAI(base_url=f"{strict.address}/v1", api_key=OTHER, max_retries=0, timeout=60) as client:
        stream = client.completions.create(**ENDLESS, echo=True, stream=True)
        assert next(iter(stream)).choices[0].text == PROMPT
        with pytest.raises(openai.InternalServerError, match="Too many requests") as full:
            client.completions.create(**ASKED)
        assert full.value.status_code == 503
        assert int(full.value.response.headers["retry-after"]) >= 1
        stream.close()
        assert client.with_options(max_retries=5).completions.create(**ASKED).choices


def test_a_server_of_translation_models_has_no_openai_api(server: Served) -> None:
    assert httpx.get(f"{server.address}/v1/models").status_code == 404
    assert httpx.get(f"{server.address}/write").status_code == 404


def test_the_metrics_count_tokens_and_texts(client: OpenAI, writing_server: Served) -> None:
    def metric(name: str) -> float:
        lines = httpx.get(f"{writing_server.address}/metrics").text.splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))

    names = "sixfold_generated_tokens_total", "sixfold_prompt_tokens_total", "sixfold_first_token_seconds_count"
    before = [metric(name) for name in names]
    usage = client.completions.create(**ASKED, n=2).usage
    written, read, firsts = (metric(name) - old for name, old in zip(names, before, strict=True))
    assert (written, read, firsts) == (usage.completion_tokens, usage.prompt_tokens, 2)
    assert metric("sixfold_running_texts") == metric("sixfold_waiting_texts") == 0
