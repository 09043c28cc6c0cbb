"""What we export for Hugging Face computes the same logits there, in float64 up to rounding alone."""

from __future__ import annotations

import os

import pytest
import torch

from sixfold.convert.huggingface import CLASSES, make_config, state
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.text import SpecialIds

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

VOCABULARY, POSITIONS = 50, 40
SHAPE = {"encoder_layers": 2, "decoder_layers": 3, "d_model": 32, "d_ff": 48, "heads": 4, "dropout": 0.0}
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 2], [20, 30, 2, 0, 0, 0, 0, 0], [7, 7, 44, 13, 2, 0, 0, 0]])
TARGET = torch.tensor([[1, 8, 9, 10, 21, 22], [1, 5, 0, 0, 0, 0], [1, 13, 14, 15, 16, 0]])
CHOICES = {
    "the paper's": {"norm": "post"},
    "pre-norm": {"norm": "pre"},
    "with biases": {"norm": "post", "attention_bias": True},
    "narrow keys and values": {"norm": "pre", "d_k": 3, "d_v": 5},
    "learned positions": {"norm": "pre", "positions": "learned", "max_positions": POSITIONS},
}


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
@torch.no_grad()
def test_an_exported_model_computes_the_same_logits(choices: dict[str, object]) -> None:
    ours = EncoderDecoder(
        EncoderDecoderConfig.model_validate({"vocabulary": VOCABULARY, **SHAPE, **choices})
    ).eval()
    for weight in ours.parameters():
        weight += 0.2 * torch.randn_like(weight)
    positions = ours.source.positions(0, POSITIONS), ours.target.positions(0, POSITIONS)
    theirs = getattr(transformers, CLASSES[ours.config.norm])(make_config(ours.config, SpecialIds(), POSITIONS)).eval()
    theirs.load_state_dict(state(ours, positions), strict=False)
    theirs.double()
    logits = theirs(input_ids=SOURCE, attention_mask=(SOURCE != 0).long(), decoder_input_ids=TARGET).logits
    is_target = TARGET != 0
    torch.testing.assert_close(ours.double()(SOURCE, TARGET)[is_target], logits[is_target], rtol=0, atol=1e-6)
