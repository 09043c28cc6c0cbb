"""Sixfold's EncoderDecoder equals Hugging Face's Marian with ReLU, which is the paper's architecture.

Marian puts the sines into the first half of d_model and the cosines into the second; the paper interleaves
them. The residual stream has no order of its own, so permuting d_model wherever a weight touches it turns
one model into the other.
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import Tensor

from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.weights import weights_of

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.usefixtures("seed")

VOCABULARY, D_MODEL, D_FF, HEADS = 50, 32, 64, 4
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 2], [20, 30, 2, 0, 0, 0, 0, 0], [7, 7, 44, 13, 2, 0, 0, 0]])
TARGET = torch.tensor([[1, 8, 9, 10, 21, 22], [1, 5, 0, 0, 0, 0], [1, 13, 14, 15, 16, 0]])
HALVES = torch.cat([torch.arange(0, D_MODEL, 2), torch.arange(1, D_MODEL, 2)])  # sines, then cosines


def make_ours(num_encoder_layers: int, num_decoder_layers: int) -> EncoderDecoder:
    """Return our model with random weights everywhere, the norms and biases too."""
    layers = {"encoder_layers": num_encoder_layers, "decoder_layers": num_decoder_layers}
    shape = {"d_model": D_MODEL, "d_ff": D_FF, "heads": HEADS, "dropout": 0.0, "attention_bias": True}
    model = EncoderDecoder(EncoderDecoderConfig.model_validate({"vocabulary": VOCABULARY, **layers, **shape}))
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return model.eval()


def make_marian(num_encoder_layers: int, num_decoder_layers: int) -> torch.nn.Module:
    """Return a Marian of the same shape, with weights of its own."""
    sides = {}
    for side, num_layers in (("encoder", num_encoder_layers), ("decoder", num_decoder_layers)):
        sides |= {f"{side}_layers": num_layers, f"{side}_ffn_dim": D_FF, f"{side}_attention_heads": HEADS}
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY,
        decoder_vocab_size=VOCABULARY,
        d_model=D_MODEL,
        **sides,
        activation_function="relu",
        scale_embedding=True,
        dropout=0.0,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    return transformers.MarianMTModel(config).eval()


def marian_attention(name: str, weights: dict[str, Tensor], ours: str) -> dict[str, Tensor]:
    """Return one attention's weights as Marian names and orders them; they read and write the stream."""
    query, key, value = weights[f"{ours}.project.weight"][:, HALVES].chunk(3)
    query_bias, key_bias, value_bias = weights[f"{ours}.project.bias"].chunk(3)
    return {
        f"{name}.q_proj.weight": query,
        f"{name}.k_proj.weight": key,
        f"{name}.v_proj.weight": value,
        f"{name}.q_proj.bias": query_bias,
        f"{name}.k_proj.bias": key_bias,
        f"{name}.v_proj.bias": value_bias,
        f"{name}.out_proj.weight": weights[f"{ours}.output.weight"][HALVES],
        f"{name}.out_proj.bias": weights[f"{ours}.output.bias"][HALVES],
    }


def marian_norm(name: str, weights: dict[str, Tensor], ours: str) -> dict[str, Tensor]:
    """Return one layer normalisation's weights: they lie along the stream."""
    return {f"{name}.{kind}": weights[f"{ours}_norm.{kind}"][HALVES] for kind in ("weight", "bias")}


def marian_layer(name: str, weights: dict[str, Tensor], ours: str) -> dict[str, Tensor]:
    """Return one layer's weights as Marian names and orders them."""
    layer = {
        f"{name}.fc1.weight": weights[f"{ours}.feed_forward.inner.weight"][:, HALVES],
        f"{name}.fc1.bias": weights[f"{ours}.feed_forward.inner.bias"],
        f"{name}.fc2.weight": weights[f"{ours}.feed_forward.outer.weight"][HALVES],
        f"{name}.fc2.bias": weights[f"{ours}.feed_forward.outer.bias"][HALVES],
        **marian_norm(f"{name}.final_layer_norm", weights, f"{ours}.feed_forward"),
        **marian_attention(f"{name}.self_attn", weights, f"{ours}.self_attention"),
        **marian_norm(f"{name}.self_attn_layer_norm", weights, f"{ours}.self_attention"),
    }
    if ours.startswith("decoder"):
        layer |= marian_attention(f"{name}.encoder_attn", weights, f"{ours}.cross_attention")
        layer |= marian_norm(f"{name}.encoder_attn_layer_norm", weights, f"{ours}.cross_attention")
    return layer


def copy_to_marian(ours: EncoderDecoder, marian: torch.nn.Module) -> None:
    """Give Marian our weights, and prove that none of its own is left but the sinusoids."""
    weights = weights_of(ours)
    copied = {"model.shared.weight": weights["source.embedding.weight"][:, HALVES]}
    for side, stack in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        for i in range(len(stack.layers)):
            copied |= marian_layer(f"model.{side}.layers.{i}", weights, f"{side}.layers.{i}")
    missing, unexpected = marian.load_state_dict(copied, strict=False)
    own = ("embed_positions.weight", "embed_tokens.weight", "lm_head.weight", "final_logits_bias")
    assert unexpected == []
    assert [name for name in missing if not name.endswith(own)] == []
    assert not marian.final_logits_bias.any()


def logits_of_both(num_layers: tuple[int, int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return our logits and Marian's of the same weights at the real target positions."""
    ours, marian = make_ours(*num_layers), make_marian(*num_layers)
    copy_to_marian(ours, marian)
    is_source, is_target = SOURCE != 0, TARGET != 0
    theirs = marian.to(dtype)(input_ids=SOURCE, attention_mask=is_source.long(), decoder_input_ids=TARGET)
    return ours.to(dtype)(SOURCE, TARGET)[is_target], theirs.logits[is_target]


@pytest.mark.parametrize("num_layers", [(1, 1), (2, 2), (3, 1)])
@torch.no_grad()
def test_the_logits_equal_those_of_marian(num_layers: tuple[int, int]) -> None:
    for _ in range(3):
        ours, theirs = logits_of_both(num_layers, torch.float32)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@torch.no_grad()
def test_in_float64_nothing_but_rounding_is_left() -> None:
    ours, theirs = logits_of_both((2, 2), torch.float64)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
