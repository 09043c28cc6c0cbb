"""The paper's blocks and their variants. They only know tensors: no text, files or devices."""

from sixfold.nn.attention import MultiHeadAttention, attention, fast_attention
from sixfold.nn.config import BlockConfig
from sixfold.nn.dropout import Dropout
from sixfold.nn.embedding import Embedding
from sixfold.nn.feed_forward import FeedForward
from sixfold.nn.heads import ClassHead, ProjectionHead, SpanHead, TagHead, TokenHead
from sixfold.nn.layer import Layer, Stack
from sixfold.nn.masks import causal_mask, local_mask, padding_mask
from sixfold.nn.positions import LearnedPositions, RotaryPositions, SinusoidalPositions, make_positions, sinusoids
from sixfold.nn.stems import TokenStem

__all__ = [
    "BlockConfig",
    "ClassHead",
    "Dropout",
    "Embedding",
    "FeedForward",
    "Layer",
    "LearnedPositions",
    "MultiHeadAttention",
    "ProjectionHead",
    "RotaryPositions",
    "SinusoidalPositions",
    "SpanHead",
    "Stack",
    "TagHead",
    "TokenHead",
    "TokenStem",
    "attention",
    "causal_mask",
    "fast_attention",
    "local_mask",
    "make_positions",
    "padding_mask",
    "sinusoids",
]
