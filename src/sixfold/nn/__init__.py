"""The paper's blocks. They know tensors: no text, no files, no devices."""

from sixfold.nn.attention import MultiHeadAttention, attention, fast_attention
from sixfold.nn.decoder import Decoder, DecoderLayer
from sixfold.nn.dropout import Dropout
from sixfold.nn.embedding import TiedEmbedding
from sixfold.nn.encoder import Encoder, EncoderLayer
from sixfold.nn.feed_forward import FeedForward
from sixfold.nn.masks import causal_mask, local_mask, padding_mask
from sixfold.nn.norm import Norm, PostNorm, PreNorm
from sixfold.nn.positions import LearnedPositions, SinusoidalPositions, sinusoids

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositions",
    "MultiHeadAttention",
    "Norm",
    "PostNorm",
    "PreNorm",
    "SinusoidalPositions",
    "TiedEmbedding",
    "attention",
    "causal_mask",
    "fast_attention",
    "local_mask",
    "padding_mask",
    "sinusoids",
]
