"""Sixfold's EncoderDecoder equals torch.nn's, with the same weights: outputs and gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.weights import weights_of
from sixfold.nn import BlockConfig, MultiHeadAttention, causal_mask, sinusoids

pytestmark = pytest.mark.usefixtures("seed")

both_norms = pytest.mark.parametrize("norm", ["post", "pre"])
two_shapes = pytest.mark.parametrize("num_layers", [(1, 1), (3, 2)])

VOCABULARY, D_MODEL, D_FF, HEADS = 40, 24, 48, 4
WEIGHT_NAMES = [  # ours, torch's
    ("self_attention.project.weight", "self_attn.in_proj_weight"),
    ("self_attention.project.bias", "self_attn.in_proj_bias"),
    ("self_attention.output", "self_attn.out_proj"),
    ("cross_attention.project.weight", "multihead_attn.in_proj_weight"),
    ("cross_attention.project.bias", "multihead_attn.in_proj_bias"),
    ("cross_attention.output", "multihead_attn.out_proj"),
    ("self_attention_norm", "norm1"),
    ("cross_attention_norm", "norm2"),
    ("feed_forward.inner", "linear1"),
    ("feed_forward.outer", "linear2"),
]


class TorchTransformer(nn.Module):
    """torch.nn's stacks between the embeddings of the paper, written here without our blocks.

    torch.nn.Transformer has a norm after each stack; the paper's post-norm model has none, so the
    stacks are built one by one.
    """

    def __init__(self, embedding: Tensor, num_layers: tuple[int, int], norm_first: bool) -> None:
        super().__init__()
        self.embedding = nn.Parameter(embedding.detach().clone())

        def final_norm() -> nn.LayerNorm | None:
            return nn.LayerNorm(D_MODEL) if norm_first else None

        shape = {"d_model": D_MODEL, "nhead": HEADS, "dim_feedforward": D_FF, "dropout": 0.0}
        order = {"batch_first": True, "norm_first": norm_first}
        encoder_layer = nn.TransformerEncoderLayer(**shape, **order)
        decoder_layer = nn.TransformerDecoderLayer(**shape, **order)
        self.encoder = nn.TransformerEncoder(
            encoder_layer, num_layers[0], norm=final_norm(), enable_nested_tensor=False
        )
        self.decoder = nn.TransformerDecoder(decoder_layer, num_layers[1], norm=final_norm())

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        padding = source == 0  # in torch.nn True hides
        memory = self.encoder(self.embed(source), src_key_padding_mask=padding)
        hidden = self.decoder(
            self.embed(target),
            memory,
            tgt_mask=~causal_mask(target.size(1)),
            memory_key_padding_mask=padding,
        )
        return hidden @ self.embedding.T

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding[tokens] * D_MODEL**0.5 + sinusoids(tokens.size(1), D_MODEL)


def torch_name(name: str) -> str:
    """Return what torch.nn calls one of our parameters."""
    last = "norm2" if name.startswith("encoder") else "norm3"  # its layers have no attention to a memory
    name = name.replace("feed_forward_norm", last).replace("source.embedding.weight", "embedding")
    for ours, theirs in WEIGHT_NAMES:
        name = name.replace(ours, theirs)
    return name


def pair_of_models(norm: str, num_layers: tuple[int, int]) -> tuple[EncoderDecoder, nn.Module]:
    """Return our model and torch's with the same random weights, all of them away from zero and one."""
    layers = {"encoder_layers": num_layers[0], "decoder_layers": num_layers[1]}
    shape = {"d_model": D_MODEL, "d_ff": D_FF, "heads": HEADS, "dropout": 0.0, "attention_bias": True}
    config = EncoderDecoderConfig.model_validate({"vocabulary": VOCABULARY, "norm": norm, **layers, **shape})
    ours = EncoderDecoder(config)
    with torch.no_grad():
        for weight in ours.parameters():
            weight += 0.1 * torch.randn_like(weight)
    theirs = TorchTransformer(ours.head.weight, num_layers, norm == "pre")
    weights = {torch_name(name): weight for name, weight in weights_of(ours).items()}
    theirs.load_state_dict(weights, strict=True)
    return ours, theirs


def padded_tokens(lengths: list[int], begin: list[int], end: list[int]) -> Tensor:
    """Return random sentences of these lengths, padded behind."""
    rows = [torch.tensor([*begin, *torch.randint(4, VOCABULARY, (n,)).tolist(), *end]) for n in lengths]
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)


def random_batch() -> tuple[Tensor, Tensor]:
    """Return source and target tokens of five sentences, the longest much longer than the shortest."""
    return padded_tokens([1, 9, 4, 17, 6], [], [2]), padded_tokens([3, 2, 8, 11, 1], [1], [])


@both_norms
@two_shapes
def test_the_logits_equal_those_of_torch(norm: str, num_layers: tuple[int, int]) -> None:
    for _ in range(3):
        (ours, theirs), batch = pair_of_models(norm, num_layers), random_batch()
        torch.testing.assert_close(ours(*batch), theirs(*batch), rtol=0, atol=1e-5)


@both_norms
@two_shapes
def test_the_gradients_equal_those_of_torch(norm: str, num_layers: tuple[int, int]) -> None:
    (ours, theirs), batch = pair_of_models(norm, num_layers), random_batch()
    wanted = padded_tokens([3, 2, 8, 11, 1], [], [2])
    for model in (ours, theirs):
        nn.functional.cross_entropy(model(*batch).flatten(0, 1), wanted.flatten(), ignore_index=0).backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, weight in ours.named_parameters():
        torch.testing.assert_close(weight.grad, gradients[torch_name(name)], rtol=0, atol=1e-5)


@both_norms
@torch.no_grad()
def test_in_float64_nothing_but_rounding_is_left(norm: str) -> None:
    (ours, theirs), batch = pair_of_models(norm, (2, 2)), random_batch()
    torch.testing.assert_close(ours.double()(*batch), theirs.double()(*batch), rtol=0, atol=1e-12)


def test_multi_head_attention_equals_torch_with_padding() -> None:
    ours = MultiHeadAttention(BlockConfig(d_model=D_MODEL, heads=HEADS, attention_bias=True))
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    ours.project.load_state_dict({"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias})
    ours.output.load_state_dict(theirs.out_proj.state_dict())
    source, _ = random_batch()
    query, memory = torch.randn(5, 7, D_MODEL), torch.randn(*source.shape, D_MODEL)
    expected, _ = theirs(query, memory, memory, key_padding_mask=source == 0)
    result = ours(query, memory, (source != 0)[:, None, None])
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)
