"""Encoder-only models answer as Hugging Face's BERT, DistilBERT and RoBERTa with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers")

from sixfold.convert.encoder_formats import EncoderFormat  # noqa: E402
from sixfold.convert.huggingface_bert import BERT_FAMILY, ROBERTA_FAMILY  # noqa: E402
from sixfold.convert.huggingface_distilbert import DISTILBERT_FAMILY  # noqa: E402
from sixfold.convert.name_table import to_ours, to_theirs  # noqa: E402
from sixfold.models.encoder_only import EncoderOnly  # noqa: E402
from sixfold.models.weights import set_weights, weights_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("seed")

FAMILIES = {each.model_type: each for each in (BERT_FAMILY, ROBERTA_FAMILY, DISTILBERT_FAMILY)}
FORMATS = {each.architecture: each for family in FAMILIES.values() for each in family.formats()}
SMALL: dict[str, dict[str, Any]] = {
    "bert": {"hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3},
    "distilbert": {"dim": 48, "hidden_dim": 80, "n_layers": 3, "n_heads": 3},
}
VOCABULARY, LABELS = 99, 5
ANSWERS: dict[str, Callable[[Any], Tensor]] = {
    "vectors": lambda output: output.last_hidden_state,
    "span": lambda output: torch.stack([output.start_logits, output.end_logits], dim=-1),
}


class StateDict:
    """The tensors of a model of theirs."""

    def __init__(self, model: Any) -> None:
        self.tensors = {name: tensor.detach() for name, tensor in model.state_dict().items()}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    def read(self, name: str) -> Tensor:
        return self.tensors[name]


def their_model(format_: EncoderFormat, **choices: Any) -> Any:
    """Return a small model of theirs, every weight random, so that no zero or one hides a mistake."""
    shape = {**SMALL.get(format_.model_type, SMALL["bert"]), "vocab_size": VOCABULARY}
    shape["num_labels"] = 2 if "Question" in format_.architecture else LABELS
    config = transformers.CONFIG_MAPPING[format_.model_type](**shape, max_position_embeddings=40, **choices)
    model = getattr(transformers, format_.architecture)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model


def our_model(format_: EncoderFormat, theirs: Any) -> EncoderOnly:
    config = format_.read_config(theirs.config.to_dict())
    if not any("pooler" in name for name in theirs.state_dict()) and config.head != "class":
        config = config.model_copy(update={"pooler": "none"})
    tensors = StateDict(theirs)
    if not format_.architecture.endswith("Model"):
        assert any(name.startswith(format_.prefix) for name in tensors.tensors)
    else:
        tensors.tensors = {format_.prefix + name: tensor for name, tensor in tensors.tensors.items()}
    ours = EncoderOnly(config).eval()
    set_weights(ours, to_ours(tensors, config, format_.table, "theirs", format_.ignored))
    return ours


def some_texts(pad_id: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens of three lengths, their segments, and where a token is."""
    tokens, types = torch.randint(5, VOCABULARY, (3, 12)), torch.zeros(3, 12, dtype=torch.long)
    types[:, 6:] = 1
    present = torch.arange(12) < torch.tensor([[12], [9], [4]])
    return tokens.masked_fill(~present, pad_id), types, present


def seen(answer: Tensor, present: Tensor) -> Tensor:
    """Return what stands at tokens; at padding the programs may differ."""
    return answer[present] if answer.dim() == 3 and answer.shape[:2] == present.shape else answer


@pytest.mark.parametrize("name", FORMATS)
@torch.inference_mode()
def test_every_class_gives_the_same_answers(name: str) -> None:
    format_ = FORMATS[name]
    theirs = their_model(format_)
    ours = our_model(format_, theirs)
    tokens, types, present = some_texts(ours.config.pad_id)
    types = types % max(1, ours.config.token_types)
    segments = {"token_type_ids": types} if ours.config.token_types else {}
    expected = theirs(input_ids=tokens, attention_mask=present.long(), **segments)
    answer = ANSWERS.get(ours.config.head, lambda output: output.logits)(expected)
    found = ours(tokens, types if segments else None)
    scale = max(1.0, float(answer.abs().max()))
    torch.testing.assert_close(seen(found, present) / scale, seen(answer, present) / scale, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel"])
@torch.inference_mode()
def test_the_pooler_gives_the_same_vector(name: str) -> None:
    theirs = their_model(FORMATS[name])
    ours = our_model(FORMATS[name], theirs)
    tokens, _, present = some_texts(ours.config.pad_id)
    expected = theirs(input_ids=tokens, attention_mask=present.long()).pooler_output
    torch.testing.assert_close(ours.pooler(ours.hidden(tokens), present), expected, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_roberta_counts_positions_from_2() -> None:
    theirs = their_model(FORMATS["RobertaModel"])
    ours = our_model(FORMATS["RobertaModel"], theirs)
    tokens = torch.randint(5, VOCABULARY, (2, 38))  # as many as 40 positions have room for
    found, expected = ours(tokens), theirs(input_ids=tokens).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    ours.config = ours.config.model_copy(update={"first_position": 0})
    assert (ours(tokens) - expected).abs().max() > 1e-2


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_leads_back_to_the_same_tensors_and_configuration(name: str) -> None:
    format_ = FORMATS[name]
    theirs = their_model(format_)
    ours = our_model(format_, theirs)
    state = to_theirs(weights_of(ours), ours.config, format_.table)
    own = {
        f"{format_.prefix}{key}" if name.endswith("Model") else key: value
        for key, value in theirs.state_dict().items()
    }
    assert all(torch.equal(state[key], own[key]) for key in state)
    assert all(any(p.fullmatch(key) for p in format_.ignored) for key in own.keys() - state.keys())
    written, known = format_.write_config(ours.config), theirs.config.to_dict()
    assert written.items() <= known.items()


def published() -> Iterator[tuple[str, dict[str, Any], int]]:
    yield "minilm-l6", {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}, 22_713_216
    yield "bert-base", {}, 109_482_240
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    yield "bert-large", large, 335_141_888
    yield "distilbert", {}, 66_362_880


@pytest.mark.parametrize(("name", "fields", "count"), [*published()])
def test_presets_are_the_published_models(name: str, fields: dict[str, Any], count: int) -> None:
    from sixfold.models.encoder_decoder import count_parameters
    from sixfold.models.encoder_only import PRESETS, EncoderOnlyConfig

    family = DISTILBERT_FAMILY if name == "distilbert" else BERT_FAMILY
    config = transformers.CONFIG_MAPPING[family.model_type](**fields)
    with torch.device("meta"):
        ours = EncoderOnly(EncoderOnlyConfig(**PRESETS[name].model_dump(), vocabulary=30522))
        theirs = getattr(transformers, family.name + "Model")(config)
    assert count_parameters(ours) == count_parameters(theirs) == count
    assert family.read_config("vectors", config.to_dict()) == ours.config
