"""The worker that generates: who joins its batch and who leaves it, counted in steps; nobody else notices."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from sixfold.decode.generate import Generator, load
from sixfold.decode.worker_protocol import Message
from sixfold.serve.generate_job import GenerateJob
from sixfold.serve.job_messages import TextRequest

OPTIONS: dict[str, Any] = {
    "max_tokens": 8, "temperature": None, "top_p": None, "top_k": None, "min_p": None, "repetition_penalty": None,
    "stop": (), "seed": 1, "samples": 1, "alternatives": 0,
}  # fmt: skip
MEBIBYTE = 1 << 20
pytestmark = pytest.mark.usefixtures("one_core")


class ScriptedParent:
    """A parent that says something before certain steps and leaves after the last one."""

    def __init__(self, script: Mapping[int, Sequence[Message]], num_steps: int) -> None:
        self.script, self.num_steps = script, num_steps
        self.step = 0
        self.heard: list[Message] = []  # one message after each step

    def wait(self) -> Message:
        """Nobody waits here: an idle worker goes on to the next step."""
        return {"cancel": []}

    def messages(self) -> Iterator[Message]:
        """Yield what is said before the next step."""
        if self.step == self.num_steps:
            raise EOFError
        yield from self.script.get(self.step, ())
        self.step += 1

    def tell(self, message: Message) -> None:
        """Hear what a step has brought."""
        self.heard.append(message)

    def events(self, request: int) -> list[tuple[int, dict[str, Any]]]:
        """Return what was heard of a request, each with the number of its step."""
        return [
            (step, event)
            for step, message in enumerate(self.heard)
            for event in cast("list[dict[str, Any]]", message["events"])
            if event["id"] == request
        ]

    def tokens(self, request: int) -> list[tuple[int, float]]:
        """Return the tokens of a request with every bit of their log-probabilities."""
        written = [event["written"] for _, event in self.events(request) if "written" in event]
        return [(token["id"], token["log_probability"]) for each in written for token in each["tokens"]]

    def finished(self, request: int) -> bool:
        """Whether the text of a request is whole."""
        return any(event.get("written", {}).get("finished") for _, event in self.events(request))


@pytest.fixture(scope="module")
def generator(chat_model: Path) -> Generator:
    return load(chat_model, "cpu")


def add(number: int, prompt: str | list[int], **options: object) -> Message:
    """Return the message that adds a request."""
    return {"add": number, "request": asdict(TextRequest([prompt], options={**OPTIONS, **options}))}


def run(
    generator: Generator,
    script: Mapping[int, Sequence[Message]],
    num_steps: int,
    texts: int = 64,
    context_bytes: int = 64 * MEBIBYTE,
) -> ScriptedParent:
    """Return what is heard from a worker to which all this is said."""
    parent = ScriptedParent(script, num_steps)
    with pytest.raises(EOFError):
        GenerateJob(generator, texts, MEBIBYTE, context_bytes).work(parent)  # type: ignore[arg-type]
    return parent


def endless(number: int) -> Message:
    """Return a request that is still being written when a test ends."""
    return add(number, [1, 300 + number], max_tokens=200, seed=number)


def test_the_first_token_of_a_short_prompt_comes_within_two_steps_of_a_running_batch(generator: Generator) -> None:
    prompt = [1, *range(300, 363)]
    assert len(prompt) == 64
    script = {0: [endless(number) for number in range(8)], 5: [add(99, prompt)]}
    parent = run(generator, script, 8)
    first = next(step for step, event in parent.events(99) if "written" in event)
    assert first - 5 < 2
    assert parent.heard[5]["running"] == 9


def test_a_long_prompt_keeps_nobody_waiting(generator: Generator) -> None:
    script = {0: [add(1, [1, 300], max_tokens=200)], 3: [add(2, [1, *[310] * 200])]}
    parent = run(generator, script, 8)
    steps = [step for step, event in parent.events(1) if "written" in event]
    assert steps == [*range(len(steps))]
    assert parent.tokens(2)


def test_many_prompts_that_come_at_once_are_read_in_several_steps(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [add(number, [1, *[310 + number] * 63], max_tokens=4) for number in range(1, 7)]
    together = run(generator, {0: [endless(0)], 3: requests}, 12)
    num_weights = sum(each.numel() for each in generator.model.parameters())
    monkeypatch.setattr("sixfold.serve.generate_job.MOST_WORK", 100 * num_weights)
    parent = run(generator, {0: [endless(0)], 3: requests}, 12)
    first = [min(step for step, event in parent.events(number) if "written" in event) for number in range(1, 7)]
    assert first == [3, 3, 4, 4, 5, 5]
    assert [step for step, event in parent.events(0) if "written" in event] == [*range(12)]
    for number in range(1, 7):
        assert parent.tokens(number) == together.tokens(number)


def test_a_cancelled_request_leaves_before_the_next_step_and_the_others_keep_every_bit(
    generator: Generator,
) -> None:
    requests = [add(number, f"one two {number}", seed=number, max_tokens=12) for number in range(4)]
    alone = run(generator, {0: requests[:1] + requests[2:]}, 14)
    left = run(generator, {0: requests, 4: [{"cancel": [1]}]}, 14)
    assert max(step for step, _ in left.events(1)) < 4
    for number in (0, 2, 3):
        assert left.tokens(number) == alone.tokens(number)
    assert left.heard[3]["running"] - left.heard[4]["running"] >= 1  # type: ignore[operator]


def test_two_hundred_joins_and_leaves_change_no_bit_of_any_other_text(generator: Generator, seed: int) -> None:
    draw = random.Random(seed)
    kinds = [("one " * draw.randint(1, 40), draw.randrange(100)) for _ in range(12)]

    def request(number: int, kind: int) -> Message:
        prompt, own_seed = kinds[kind]
        return add(number, prompt, seed=own_seed, max_tokens=6)

    alone = [run(generator, {0: [request(0, kind)]}, 12).tokens(0) for kind in range(12)]
    script: dict[int, list[Message]] = defaultdict(list)
    kind_of = {number: draw.randrange(12) for number in range(200)}
    leaving = {number for number in kind_of if draw.random() < 0.3}
    for number, kind in kind_of.items():
        joined = draw.randrange(60)
        script[joined].append(request(number, kind))
        if number in leaving:
            script[joined + draw.randint(1, 5)].append({"cancel": [number]})
    parent = run(generator, script, 80)
    for number, kind in kind_of.items():
        found = parent.tokens(number)
        assert found == alone[kind][: len(found)]
        assert number in leaving or parent.finished(number)
    assert parent.heard[-1]["running"] == 0


def test_prompts_wait_in_order_where_the_batch_is_full(generator: Generator) -> None:
    script = {0: [add(number, "one", max_tokens=3, temperature=0) for number in range(3)]}
    parent = run(generator, script, 12, texts=1)
    assert {message["running"] for message in parent.heard} <= {0, 1}
    begun = [min(step for step, event in parent.events(number) if "written" in event) for number in range(3)]
    assert begun == sorted(set(begun))
    assert parent.tokens(0) == parent.tokens(1) == parent.tokens(2)


def test_a_request_with_many_prompts_does_not_make_the_others_wait_for_all_of_them(generator: Generator) -> None:
    many: Message = {
        "add": 1,
        "request": asdict(TextRequest(["one"] * 12, options={**OPTIONS, "max_tokens": 3, "temperature": 0})),
    }
    parent = run(generator, {0: [many], 1: [add(2, "two", max_tokens=3)]}, 30, texts=2)
    done = [step for step, event in parent.events(2) if event.get("written", {}).get("finished")]
    assert len(done) == 1
    assert sum("written" in event for step, event in parent.events(1) if step > done[0]) > 12
    assert len({event["written"]["index"] for _, event in parent.events(1) if "written" in event}) == 12


def test_texts_that_may_need_more_memory_than_there_is_wait(generator: Generator) -> None:
    bytes_of_a_token = 2 * 4 * 32 * 4  # layers, heads, a key and a value of 16 numbers each, bytes of a number
    requests = [add(number, [1, *[310] * 99], max_tokens=5 * number) for number in (1, 2, 3)]
    parent = run(generator, {0: requests}, 40, context_bytes=200 * bytes_of_a_token)
    assert {message["running"] for message in parent.heard} == {0, 1}
    assert all(map(parent.finished, (1, 2, 3)))
    alone = run(generator, {0: [add(1, "one")]}, 12, context_bytes=1)
    assert alone.finished(1)


def test_a_waiting_request_that_is_cancelled_never_begins(generator: Generator) -> None:
    parent = run(generator, {0: [add(1, "one"), add(2, "two")], 1: [{"cancel": [2]}]}, 16, texts=1)
    assert parent.finished(1)
    assert not parent.tokens(2)


def test_a_bug_fails_what_runs_and_the_worker_goes_on(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, steps = generator.engine.read, iter(range(100))

    def failing(*arguments: Any) -> Any:
        if next(steps) == 2:
            raise ZeroDivisionError
        return read(*arguments)

    monkeypatch.setattr(generator.engine, "read", failing)
    parent = run(generator, {0: [add(1, "one")], 4: [add(2, "two", max_tokens=3)]}, 10)
    assert "error" in parent.events(1)[-1][1]
    assert not parent.finished(1)
    assert parent.finished(2)


def test_a_bug_in_reading_a_prompt_fails_that_request_alone(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = generator.encode

    def failing(prompt: str) -> list[int]:
        return encode(prompt) if prompt != "bad" else [1 // 0]

    monkeypatch.setattr(generator, "encode", failing)
    empty: Message = {"add": 3, "request": asdict(TextRequest([], options=OPTIONS))}
    parent = run(generator, {0: [add(1, "one")], 2: [add(2, "bad"), empty]}, 12)
    for number in (2, 3):
        [(step, event)] = parent.events(number)
        assert (step, "error" in event) == (2, True)
    assert parent.finished(1)


def test_a_request_that_is_refused_disturbs_nobody(generator: Generator) -> None:
    wrong = [
        add(2, "one " * 300),
        add(3, [10**9]),
        add(4, []),
        add(5, "x", temperature=99),
        add(6, "x", stop=("",)),
    ]
    parent = run(generator, {0: [add(1, "one")], 2: wrong}, 12)
    for number in range(2, 7):
        [(step, event)] = parent.events(number)
        assert (step, "error" in event) == (2, True)
    assert parent.finished(1)


def test_what_is_kept_of_a_conversation_is_not_read_again(generator: Generator) -> None:
    prompt = [1, *[310, 320] * 40]
    parent = run(generator, {0: [add(1, prompt, max_tokens=2)], 5: [add(2, [*prompt, 330], max_tokens=2)]}, 9)
    cached = [event["written"]["cached_tokens"] for _, event in parent.events(2) if "written" in event]
    assert cached[0] >= len(prompt)
    alone = run(generator, {0: [add(2, [*prompt, 330], max_tokens=2)]}, 4)
    assert parent.tokens(2) == alone.tokens(2)
