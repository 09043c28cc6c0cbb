"""Generation: prompts join and leave at any step, and what is written after one depends on it alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from tests.unit.decode.writers import GREEDY, KINDS, Writer, make_writer
from torch import Tensor

from sixfold.decode.contexts import Context
from sixfold.decode.generate_options import GenerateOptions
from sixfold.decode.generation import CHUNK, Continuation
from sixfold.decode.search import Stopped
from sixfold.errors import ConfigError, RequestError

DRAWS = GenerateOptions(temperature=1, top_p=1, max_tokens=12)
MANY = 100  # requests that join; about as many leave
PROMPTS = ["the old man", "a blue house and a tree", "", "größer", "a dog sees " * 6]
pytestmark = pytest.mark.usefixtures("one_core")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def writer() -> Writer:
    return make_writer()


def said(each: Continuation) -> tuple[object, ...]:
    """Return everything that a continuation tells."""
    numbers = (each.log_probabilities, each.alternatives)
    return (each.tokens, *numbers, each.text, each.finished, each.num_forgotten)


@every_kind
@pytest.mark.parametrize("text", PROMPTS)
def test_greedy_text_is_what_the_model_writes_without_a_cache(kind: str, text: str, seed: int) -> None:
    writer = make_writer(kind, seed=seed)
    [found] = writer.write(text)
    assert found.tokens == writer.written_slowly(writer.prompt(text), 12)
    expected = b"".join(writer.tokenizer.spelling()[token] for token in found.tokens).decode(errors="replace")
    assert found.text == (expected if text else expected.removeprefix(" "))


def test_log_probabilities_and_alternatives_are_the_models_own(writer: Writer) -> None:
    [found] = writer.write("the old man", replace(DRAWS, top_k=3, repetition_penalty=2.0, alternatives=4))
    tokens = writer.prompt("the old man")
    for token, log_probability, others in zip(
        found.tokens, found.log_probabilities, found.alternatives, strict=True
    ):
        expected = writer.log_probabilities(tokens)
        assert log_probability == pytest.approx(float(expected[token]), abs=1e-4)
        best = expected.topk(4)
        assert [other for other, _ in others] == best.indices.tolist()
        assert [value for _, value in others] == pytest.approx(best.values.tolist(), abs=1e-4)
        tokens.append(token)


def test_the_tokens_of_a_prompt_are_scored_where_that_is_asked_for(writer: Writer) -> None:
    tokens = writer.prompt("a dog sees " * 25)
    assert len(tokens) > CHUNK
    context = writer.engine.new_context()
    writer.engine.read([context], [tokens[:9]])  # known from before, and read again
    generation = writer.generation()
    first, second = generation.add(
        tokens, replace(GREEDY, prompt_scores=True, alternatives=2, samples=2), context=context
    )
    generation.run()
    assert first.prompt_scores == second.prompt_scores
    assert [each.token for each in first.prompt_scores] == tokens[1:]
    for place, each in enumerate(first.prompt_scores, start=1):
        expected = writer.log_probabilities(tokens[:place])
        assert each.log_probability == pytest.approx(float(expected[each.token]), abs=1e-4)
        assert [other for other, _ in each.alternatives] == expected.topk(2).indices.tolist()
    plain = writer.generation().add(tokens, replace(GREEDY, max_tokens=1))
    assert plain[0].prompt_scores == []
    with pytest.raises(ConfigError, match="slide"):
        replace(GREEDY, prompt_scores=True, slide=True)


def test_a_repetition_penalty_is_that_of_its_paper(writer: Writer) -> None:
    """Keskar et al. (2019) divide positive scores and multiply negative ones, which log-probabilities are."""
    from transformers import RepetitionPenaltyLogitsProcessor

    penalise, tokens = RepetitionPenaltyLogitsProcessor(1.7), writer.prompt("the old man")
    [found] = writer.write("the old man", replace(GREEDY, repetition_penalty=1.7))
    for token in found.tokens:
        scores = penalise(torch.tensor([tokens]), writer.log_probabilities(tokens)[None])[0]
        scores[list(writer.tokenizer.special.never_chosen)] = float("-inf")
        assert token == int(scores.argmax())
        tokens.append(token)


def test_samples_differ_and_do_not_depend_on_their_number(writer: Writer) -> None:
    many = writer.write("a dog", replace(DRAWS, samples=5))
    few = writer.write("a dog", replace(DRAWS, samples=2))
    assert [said(each) for each in many[:2]] == [said(each) for each in few]
    assert len({tuple(each.tokens) for each in many}) == 5


def test_seed_and_key_decide_the_draws(writer: Writer) -> None:
    def drawn(seed: int, key: Sequence[int]) -> tuple[int, ...]:
        return tuple(writer.write("a dog", replace(DRAWS, seed=seed), key)[0].tokens)

    cases = [(1, ()), (2, ()), (1, (1,)), (1, (2,)), (1, (1, 1))]
    assert [drawn(*case) for case in cases] == [drawn(*case) for case in cases]
    assert len({drawn(*case) for case in cases}) == len(cases)


@every_kind
def test_joining_and_leaving_changes_no_bit_of_the_others(kind: str, seed: int) -> None:
    writer, draw = make_writer(kind), random.Random(seed)
    options = [GREEDY, replace(DRAWS, alternatives=3), replace(DRAWS, samples=2, top_k=5, stop=("e",))]
    requests = [(draw.choice(PROMPTS), draw.choice(options), number) for number in range(MANY)]
    generation, running, done = writer.generation(), [], []
    waiting = [*requests]
    while waiting or not generation.is_idle:
        for text, option, number in [waiting.pop() for _ in range(min(len(waiting), draw.randrange(4)))]:
            running.append((number, generation.add(writer.prompt(text), option, (number,))))
        if running and draw.random() < 0.5:  # somebody leaves
            number, left = running.pop(draw.randrange(len(running)))
            for each in left:
                generation.remove(each)
            done.append((number, left))
        generation.step()
    for number, found in done + running:
        text, option, _ = requests[number]
        alone = writer.write(text, option, (number,))
        for each, expected in zip(found, alone, strict=True):
            count = len(each.tokens)
            assert each.tokens == expected.tokens[:count]
            assert each.log_probabilities == expected.log_probabilities[:count]
            assert each.alternatives == expected.alternatives[:count]
            assert not each.finished or said(each) == said(expected)


def test_a_request_that_joins_gets_its_first_token_within_two_steps(writer: Writer) -> None:
    generation = writer.generation()
    generation.add(writer.prompt("a dog sees " * 8), replace(GREEDY, max_tokens=40))
    generation.step()
    new = generation.add(writer.prompt("x" * 200)[:CHUNK], GREEDY)
    wrote = [*generation.step(), *generation.step()]
    assert new[0] in wrote


def test_a_long_prompt_does_not_keep_the_others_waiting() -> None:
    writer = make_writer(context=400)
    generation = writer.generation()
    [running] = generation.add(writer.prompt("a dog"), replace(GREEDY, max_tokens=10))
    generation.step()
    [long] = generation.add(writer.prompt("the old man " * 100)[:300], GREEDY)
    written = [[each is long for each in generation.step()] for _ in range(5)]
    assert written == [[False]] * 4 + [[False, True]]
    assert len(running.tokens) == 6


def test_what_is_removed_writes_no_more(writer: Writer) -> None:
    generation = writer.generation()
    first, second = generation.add(writer.prompt("a dog"), replace(DRAWS, samples=2, max_tokens=30))
    generation.step()
    generation.remove(first)
    generation.run()
    assert len(first.tokens) == 1
    assert second.finished
    assert said(second) == said(writer.write("a dog", replace(DRAWS, samples=2, max_tokens=30))[1])


def test_a_context_that_knows_the_beginning_is_not_read_again(writer: Writer) -> None:
    prompt = writer.prompt("the old man sees a dog and a house")
    context = writer.engine.new_context()
    writer.engine.read([context], [[*prompt[:6], 9, 9, 9]])
    generation, read = writer.generation(), 0
    [found] = generation.add(prompt, GREEDY, context=context)
    while not generation.is_idle:
        read += sum(len(row.chunk()) for row in generation.rows)
        generation.step()
    assert said(found) == said(writer.write("the old man sees a dog and a house")[0])
    assert read == len(prompt) - 6 + len(found.tokens) - 1
    assert [*context.tokens] == prompt + found.tokens[:-1]


def test_the_context_is_written_full_and_that_is_said(seed: int) -> None:
    writer = make_writer(context=20, seed=seed)
    found = writer.write("a dog", replace(DRAWS, max_tokens=1000, samples=30, seed=seed))
    prompt = writer.prompt("a dog")
    [full, *_] = [each for each in found if each.finished != "end"]
    assert full.finished == "length"
    assert len(prompt) + len(full.tokens) == 21  # the last token is not read
    log_probs = writer.model(torch.tensor([[*prompt, *full.tokens[:-1]]])).log_softmax(dim=-1)[0]
    expected = log_probs[len(prompt) - 1 :].gather(1, torch.tensor(full.tokens)[:, None])[:, 0].tolist()
    assert full.log_probabilities == pytest.approx(expected, abs=1e-4)


def test_a_prompt_longer_than_the_context_is_refused() -> None:
    writer = make_writer(context=20)
    with pytest.raises(RequestError, match="21 tokens, but the model's context holds 20") as caught:
        writer.generation().add([5] * 21, GREEDY)
    assert "--slide" in caught.value.hint
    assert len(writer.generation().add([5] * 20, GREEDY)) == 1


@pytest.mark.parametrize("length", [5, 20, 21, 70])
def test_a_context_that_slides_keeps_its_newest_half_at_the_first_positions(length: int, seed: int) -> None:
    writer = make_writer(context=20, seed=seed)
    prompt = [writer.tokenizer.special.bos, *torch.randint(4, 260, (length - 1,)).tolist()]
    generation = writer.generation()
    [found] = generation.add(prompt, replace(GREEDY, max_tokens=60, slide=True))
    generation.run()
    context = [*prompt]
    if len(context) > 20:
        context = context[:1] + context[-9:]
    forgotten = len(prompt) - len(context)
    for place, token in enumerate(found.tokens):
        log_probs = writer.log_probabilities(context)
        assert found.log_probabilities[place] == pytest.approx(float(log_probs[token]), abs=1e-4)
        context.append(token)
        if len(context) > 20 and place + 1 < len(found.tokens):
            forgotten += len(context) - 10
            context = context[:1] + context[-9:]
    assert found.num_forgotten == forgotten
    assert len(found.tokens) == 60 or found.finished == "end"


def test_texts_are_the_same_when_memory_runs_out(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [said(writer.write(text, DRAWS, (place,))[0]) for place, text in enumerate(PROMPTS)]
    read, sizes = writer.engine.read, []

    def crowded(contexts: Sequence[Context], tokens: Sequence[Sequence[int]]) -> Tensor:
        sizes.append(len(contexts))
        if len(contexts) > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 7 bytes")
        return read(contexts, tokens)

    monkeypatch.setattr(writer.engine, "read", crowded)
    generation = writer.generation()
    found = [generation.add(writer.prompt(text), DRAWS, (place,))[0] for place, text in enumerate(PROMPTS)]
    generation.run()
    assert [said(each) for each in found] == expected
    assert max(sizes) > 2


def test_nobody_waits_any_more_and_nothing_is_written(writer: Writer) -> None:
    generation = writer.generation()
    [found] = generation.add(writer.prompt("a dog"), GREEDY)
    answers = iter([False, False, True])
    with pytest.raises(Stopped):
        generation.run(lambda: next(answers))
    assert len(found.tokens) == 2


def test_a_stop_string_ends_the_text_and_is_not_part_of_it(writer: Writer) -> None:
    [whole] = writer.write("a dog", replace(DRAWS, max_tokens=40))
    stop = whole.text[5:8]
    [found] = writer.write("a dog", replace(DRAWS, max_tokens=40, stop=(stop,)))
    assert found.finished == "stop"
    assert found.text == whole.text[: whole.text.index(stop)]
    assert found.tokens == whole.tokens[: len(found.tokens)]


def test_the_end_token_ends_the_text(seed: int) -> None:
    writer = make_writer()
    found = writer.write("a dog", replace(DRAWS, temperature=3, max_tokens=90, samples=20, seed=seed))
    eos = writer.tokenizer.special.eos
    for each in found:
        assert (each.finished == "end") == (each.tokens[-1] == eos)
        assert eos not in each.tokens[:-1]
        assert not {*each.tokens} & {*writer.tokenizer.special.never_chosen}


def test_an_empty_prompt_is_refused(writer: Writer) -> None:
    with pytest.raises(RequestError, match="at least one token"):
        writer.generation().add([], GREEDY)


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"temperature": -1}, "temperature must be from 0 to 10, but is -1"),
        ({"temperature": float("nan")}, "temperature"),
        ({"samples": 1_000_000_000}, "samples must be from 1 to 128"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_p": 0}, "top_p"),
        ({"min_p": 1.5}, "min_p"),
        ({"stop": ("",)}, "A stop string must have 1 to 200 characters, but one is ''"),
        ({"stop": "end"}, "stop must be a list of strings"),
        ({"stop": ("x",) * 17}, "at most 16 strings"),
        ({"alternatives": 101}, "alternatives"),
    ],
)
def test_what_cannot_be_is_refused(wishes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        GenerateOptions(**wishes)  # type: ignore[arg-type]
