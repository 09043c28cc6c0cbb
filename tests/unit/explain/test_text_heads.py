"""Head roles of models that continue text, on constructed attention with a known answer and on real models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from sixfold.data.packing import Packer
from sixfold.data.shards import ShardWriter
from sixfold.decode.generate import Generator, load
from sixfold.errors import ConfigError
from sixfold.explain import measure_text_heads, sample_texts, text_heads
from sixfold.explain.head_roles import HeadRole
from sixfold.explain.text_heads import after_earlier_occurrence, induction_weights, measure_causal_attention
from sixfold.tasks.generate.processor import TextProcessor

LENGTH = 8
NO_DELIMITERS = torch.zeros(LENGTH, dtype=torch.bool)
Attention = Callable[[Sequence[int]], Tensor]


@pytest.fixture(scope="module")
def generator(chat_model: Path) -> Generator:
    return load(chat_model)


def role_of_head(weights: Tensor, is_delimiter: Tensor = NO_DELIMITERS) -> HeadRole:
    """Return the role of one head from its scores (T, T): the weights see nothing after the token."""
    weights = weights.tril()
    return measure_causal_attention(weights[None] / weights.sum(dim=-1, keepdim=True), is_delimiter).roles()[0]


@pytest.mark.parametrize(("by", "role"), [(0, "self"), (-1, "previous"), (-3, "mixed")])
def test_a_head_at_a_fixed_distance_has_the_role_of_that_distance(by: int, role: str) -> None:
    assert role_of_head(torch.ones(LENGTH, LENGTH).tril(by).triu(by) * 20 + 1).role == role


def test_a_head_that_rests_on_the_first_token_has_that_role_even_if_it_is_a_delimiter() -> None:
    weights = torch.ones(LENGTH, LENGTH)
    weights[:, 0] = 20.0
    found = role_of_head(weights, torch.arange(LENGTH) == 0)
    assert found.role == "first"
    assert found.weights["delimiter"] == 0


def test_a_head_that_attends_to_a_full_stop_is_a_delimiter_head() -> None:
    weights = torch.ones(LENGTH, LENGTH)
    weights[:, 3] = 50.0
    assert role_of_head(weights, torch.arange(LENGTH) == 3).role == "delimiter"


def test_a_head_without_a_preference_is_broad() -> None:
    found = role_of_head(torch.ones(LENGTH, LENGTH))
    assert found.role == "broad"
    assert set(found.weights) == {"self", "previous", "first", "delimiter"}  # nothing stands behind


def test_the_place_after_an_earlier_occurrence_is_found() -> None:
    found = after_earlier_occurrence([7, 5, 6, 5, 6, 6])
    places = [(query, key) for query, key in found.nonzero().tolist()]
    assert places == [(3, 2), (4, 3), (5, 3), (5, 5)]


def induction(ids: Sequence[int]) -> Tensor:
    """Attend to the token after the earlier occurrence of the current one, or to the first token."""
    weights = after_earlier_occurrence(ids).float()
    weights[:, 0] += ~weights.any(dim=-1)
    return weights


def even(ids: Sequence[int]) -> Tensor:
    """Attend to all tokens so far."""
    weights = torch.ones(len(ids), len(ids)).tril()
    return weights / weights.sum(dim=-1, keepdim=True)


def at_distance(ids: Sequence[int], distance: int = 33) -> Tensor:
    """Attend at the distance at which the tokens of one series are repeated."""
    weights = torch.zeros(len(ids), len(ids))
    weights[torch.arange(len(ids)), (torch.arange(len(ids)) - distance).clamp(min=0)] = 1.0
    return weights


@pytest.mark.parametrize(
    ("attention", "least", "most"), [(induction, 1, 1), (even, 0, 0.1), (at_distance, 0, 0.26)]
)
def test_only_a_head_that_copies_is_an_induction_head(
    generator: Generator, monkeypatch: pytest.MonkeyPatch, attention: Attention, least: float, most: float
) -> None:
    monkeypatch.setattr(text_heads, "watch_attention", lambda _, ids, watch: watch(attention(ids)[None, None]))
    found = induction_weights(generator)
    assert found is not None
    assert found.shape == (1, 1)
    assert least <= float(found) <= most
    [[head]] = measure_text_heads(generator, ["one two three, four."]).stacks["self"]
    assert (head.role == "induction") == (least == 1)
    assert head.weights["induction"] == pytest.approx(float(found), abs=1e-4)


def test_a_context_without_room_for_repetition_has_no_induction(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator.engine, "max_positions", 20)
    assert induction_weights(generator) is None
    roles = measure_text_heads(generator, ["one two " * 40]).stacks["self"]
    assert all("induction" not in head.weights for layer in roles for head in layer)


def test_every_head_of_a_real_model_is_measured(generator: Generator) -> None:
    found, config = measure_text_heads(generator, ["one two three", "", "vier fünf"]), generator.model.config
    assert found.num_texts == 2
    [layers] = found.stacks.values()
    assert [len(layer) for layer in layers] == [config.heads] * config.layers
    assert all(0 <= weight <= 1 for layer in layers for head in layer for weight in head.weights.values())


def test_without_a_text_there_is_nothing_to_measure(generator: Generator) -> None:
    with pytest.raises(ConfigError, match="no text"):
        measure_text_heads(generator, ["", " "])


def test_the_sample_is_what_the_model_was_validated_on(generator: Generator, tmp_path: Path) -> None:
    assert sample_texts(tmp_path, generator) == []
    processor = TextProcessor(generator.tokenizer, generator.start_token)  # type: ignore[arg-type]
    training = tmp_path / "training"
    training.mkdir()
    processor.save(training)
    assert sample_texts(tmp_path, generator) == []
    texts = ["one two three four", "eins zwei drei vier fünf", "six"]
    write_rows(training / "data" / "valid", processor, texts)
    [found] = sample_texts(tmp_path, generator)
    assert found == texts[1]  # the longest of the row
    (training / "tokenizer.model").write_bytes(b"another")
    assert sample_texts(tmp_path, generator) == []


def write_rows(folder: Path, processor: TextProcessor, texts: Sequence[str]) -> None:
    """Write texts, each a document, as held-out rows."""
    from sixfold.data.texts import Piece

    packer = Packer(100)
    writer = ShardWriter(folder, processor.columns(has_answers=False, has_sizes=True))
    pieces = [(Piece(text, 1, True, True), False) for text in texts]
    writer.write(packer.add(processor.encode(pieces)))
    writer.write(packer.rest())
    writer.close()
