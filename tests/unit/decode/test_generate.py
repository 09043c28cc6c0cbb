"""A generator: texts after prompts, conversations, and the log-probabilities of given texts."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sixfold.decode.generate import Generator, load
from sixfold.decode.generate_options import GenerateOptions
from sixfold.decode.search import Stopped
from sixfold.decode.text_scoring import token_log_probabilities, windows
from sixfold.errors import ConfigError, ModelFolderError, RequestError
from sixfold.text.chat import Message, conversation_tokens

pytestmark = pytest.mark.usefixtures("one_core")
OPTIONS = GenerateOptions(max_tokens=20, temperature=1, seed=3)
PROMPTS = ["one two", "", "sechs", "größer", "one two three four five six seven " * 3]
TALK = [Message("user", "one two three"), Message("assistant", "eins zwei"), Message("user", "four")]


@pytest.fixture(scope="module")
def generator(chat_model: Path) -> Generator:
    return load(chat_model)


def test_a_list_of_prompts_gives_a_list_of_texts_and_one_prompt_one_text(generator: Generator) -> None:
    texts = generator.generate(PROMPTS, OPTIONS)
    assert texts[0] == generator.generate(PROMPTS[0], OPTIONS)
    assert len(texts) == len(PROMPTS)


def test_a_text_depends_on_its_place_in_the_input_alone(generator: Generator) -> None:
    many = [PROMPTS[place % 5] for place in range(80)]  # more than are written side by side
    together = generator.continuations(many, OPTIONS)
    for place in (0, 7, 79):
        alone = [*generator.written([generator.encode(many[place])], OPTIONS, first_place=place)]
        assert alone[0][0].log_probabilities == together[place][0].log_probabilities


def test_samples_of_a_prompt_come_together(generator: Generator) -> None:
    found = generator.continuations(PROMPTS, replace(OPTIONS, samples=3))
    assert [len(each) for each in found] == [3] * len(PROMPTS)
    with pytest.raises(ConfigError, match="one text for each prompt"):
        generator.generate("one", replace(OPTIONS, samples=2))
    with pytest.raises(ConfigError, match="can be streamed"):
        generator.stream("one", replace(OPTIONS, samples=2))


def test_streamed_pieces_are_the_text(generator: Generator) -> None:
    for prompt in PROMPTS:
        stream = generator.stream(prompt, OPTIONS)
        pieces = [*stream]
        assert "".join(pieces) == generator.generate(prompt, OPTIONS)
        assert all(pieces)
        assert stream.continuation.finished


def test_what_is_generated_has_the_score_that_it_was_generated_with(generator: Generator) -> None:
    [found] = generator.continuations(["one two"], replace(OPTIONS, temperature=2, max_tokens=100, samples=4))
    rows = [[*each.prompt, *each.tokens] for each in found]
    for each, scores in zip(found, token_log_probabilities(generator.engine, rows), strict=True):
        assert scores[len(each.prompt) - 1 :] == each.log_probabilities


def test_a_score_is_that_of_one_pass_over_the_text(generator: Generator) -> None:
    text = "one two three größer"
    score = generator.score(text)
    ids = [*generator.encode(text), generator.tokenizer.special.eos]
    log_probs = generator.model(torch.tensor([ids[:-1]])).log_softmax(dim=-1)[0]
    expected = log_probs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
    assert score.log_probabilities == pytest.approx(expected, abs=1e-4)
    assert score.tokens == (*ids[1:],)
    assert score.num_bytes == len(text.encode())
    assert score.bits_per_byte == pytest.approx(-sum(expected) / math.log(2) / score.num_bytes)
    assert score.perplexity == pytest.approx(math.exp(-sum(expected) / len(expected)))


def test_a_text_longer_than_the_context_is_scored_in_windows_that_overlap_by_half(generator: Generator) -> None:
    text = " ".join(["one two three"] * 300)
    score = generator.score(text)
    ids, most = generator.encode(text), generator.engine.max_positions
    row = [*ids, generator.tokenizer.special.eos]
    expected = []
    for begin in range(0, len(ids), most // 2):
        new = row[begin : begin + most + 1]
        log_probs = generator.model(torch.tensor([new[:-1]])).log_softmax(dim=-1)[0]
        numbers = log_probs.gather(1, torch.tensor(new[1:])[:, None])[:, 0].tolist()
        expected += numbers if begin == 0 else numbers[most // 2 :]
        if begin + most >= len(ids):
            break
    assert len(ids) > 2 * most
    assert score.num_tokens == len(ids)
    assert score.log_probabilities == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("length", "most"), [(1, 8), (8, 8), (9, 8), (100, 8), (100, 7), (5, 2)])
def test_windows_score_every_token_once_with_half_a_context_before_it(length: int, most: int) -> None:
    found = [*windows(0, length, most)]
    assert [place for each in found for place in range(each.scored, each.end)] == [*range(length)]
    assert all(0 < each.length <= most for each in found)
    assert all(each.scored - each.begin >= most // 2 for each in found[1:])


def test_a_score_does_not_depend_on_the_other_texts(generator: Generator) -> None:
    texts = [*PROMPTS, "one " * 400, "x"]
    together = generator.score(texts)
    assert [generator.score(text) for text in texts] == together
    assert generator.score([]) == []


def test_an_empty_text_is_only_its_end(generator: Generator) -> None:
    score = generator.score("")
    assert score.tokens == (generator.tokenizer.special.eos,)
    assert score.num_bytes == 0


def test_a_conversation_is_written_as_it_was_in_training(generator: Generator) -> None:
    assert generator.processor.chat is not None
    prompt = generator.encode_chat(TALK)
    whole, _ = conversation_tokens(
        generator.tokenizer, generator.processor.chat, [*TALK, Message("assistant", "vier")]
    )
    assert prompt == [generator.processor.decoder_start, *whole][: len(prompt)]
    assert len(whole) > len(prompt) - 1


def test_the_next_turn_of_a_conversation_reads_only_what_is_new(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, counts = generator.engine.read, []

    def counted(contexts: object, tokens: list[list[int]]) -> torch.Tensor:
        counts.append(sum(map(len, tokens)))
        return read(contexts, tokens)  # type: ignore[arg-type]

    monkeypatch.setattr(generator.engine, "read", counted)
    generator.conversation = None
    answer = generator.chat(TALK[:1], OPTIONS)
    first, turns = sum(counts), [*TALK[:1], Message("assistant", answer), Message("user", "five")]
    assert generator.conversation is not None
    known, counts[:] = len(generator.conversation.tokens), []
    stream = generator.stream_chat(turns, OPTIONS)
    second = "".join(stream)
    assert first == known
    prompt = stream.continuation.prompt
    written = len(stream.continuation.tokens)
    new = sum(counts) - (written - 1)
    assert new < len(prompt) / 2 + 64  # what stands behind the first answer, or that too where its subwords differ
    generator.conversation = None
    counts[:] = []
    assert generator.chat(turns, OPTIONS) == second  # nothing remembered, and the same answer
    assert sum(counts) - (written - 1) == len(prompt)
    assert new < len(prompt)


def test_messages_can_be_plain(generator: Generator) -> None:
    as_dict = [{"role": each.role, "content": each.content} for each in TALK]
    assert generator.chat(as_dict, OPTIONS) == generator.chat(TALK, OPTIONS)
    assert generator.chat("four", OPTIONS) == generator.chat([Message("user", "four")], OPTIONS)
    for wrong in ([], [{"role": "god", "content": "x"}], [{"content": "x"}], [{"role": "user", "content": 3}]):
        with pytest.raises(ConfigError, match="message"):
            generator.chat(wrong, OPTIONS)  # type: ignore[arg-type]


def test_an_answer_begins_without_the_space_before_every_text(generator: Generator) -> None:
    stream = generator.stream_chat("one", replace(OPTIONS, temperature=0))
    text = "".join(stream)
    assert generator.tokenizer.decode(stream.continuation.tokens) == text


def test_a_model_without_a_template_does_not_chat(chat_model: Path) -> None:
    generator = load(chat_model)
    generator.processor = generator.processor.model_copy(update={"chat": None})
    with pytest.raises(ConfigError, match="not trained on conversations"):
        generator.chat("one")


def test_a_prompt_longer_than_the_context_is_refused_or_slides(generator: Generator) -> None:
    prompt = "one " * 500
    with pytest.raises(RequestError, match="the model's context holds 256"):
        generator.generate(prompt, OPTIONS)
    [[found]] = generator.continuations([prompt], replace(OPTIONS, slide=True))
    assert found.num_forgotten == len(found.prompt) - 128


def test_writing_stops_when_nobody_waits(generator: Generator) -> None:
    answers = iter([False, True])
    with pytest.raises(Stopped):
        generator.continuations(["one"], OPTIONS, should_stop=lambda: next(answers))


def test_int8_writes_too(chat_model: Path) -> None:
    generator = load(chat_model, precision="int8")
    assert len(generator.continuations(["one"], OPTIONS)[0][0].tokens) <= 20
    assert abs(generator.score("one two").log_probability) > 0


def test_the_folder_says_how_to_write_and_options_win(chat_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(chat_model, folder)
    described = json.loads((folder / "sixfold.json").read_text())
    described["decode"] = {"temperature": 0, "max_tokens": 3}
    del described["files"]["sixfold.json"]
    (folder / "sixfold.json").write_text(json.dumps(described))
    generator = load(folder)
    [[found]] = generator.continuations(["one"])
    assert len(found.tokens) == 3
    assert (
        found.tokens == load(chat_model).continuations(["one"], replace(OPTIONS, temperature=0))[0][0].tokens[:3]
    )
    assert len(generator.continuations(["one"], GenerateOptions(max_tokens=2))[0][0].tokens) == 2
    described["decode"] = {"temperature": -1}
    (folder / "sixfold.json").write_text(json.dumps(described))
    with pytest.raises(ModelFolderError, match=r"decode\.temperature"):
        load(folder)


def test_a_folder_of_another_task_is_refused_with_the_command_that_fits(chat_model: Path) -> None:
    from sixfold.decode.translate import load as load_translator

    with pytest.raises(ModelFolderError, match="for the task 'generate', not for 'translate'") as caught:
        load_translator(chat_model)
    assert caught.value.hint == f"sixfold generate {chat_model}"
    compat = Path(__file__).parents[2] / "compat" / "format-2"
    with pytest.raises(ModelFolderError, match="for the task 'translate', not for 'generate'") as caught:
        load(compat)
    assert caught.value.hint == f"sixfold translate {compat}"
