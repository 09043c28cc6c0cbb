"""Word alignment between a translation and its source, from the model's cross-attention.

The rule: cross-attention weights are averaged over all layers and heads and over the tokens of a target word,
summed over the tokens of a source word, and balanced: the weights of a source word are divided by their sum over
all target words. A target word is aligned with the source word of the largest weight. A source word that is
aligned with none is given to the target word that attended to it most. `benchmarks/alignment.py` compares this
rule with others.

Shapes: B pairs, M source positions, T target positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sixfold.decode.scoring import forced_batch
from sixfold.models.encoder_decoder import EncoderDecoder, Kind
from sixfold.text import SpecialIds, Tokenizer
from sixfold.text.words import Link, Span, token_spans, words

TINY = 1e-9


def align_ids(
    models: Sequence[EncoderDecoder],
    tokenizer: Tokenizer,
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
) -> list[list[Link]]:
    """Return the links between the texts of a batch of token ids (without special tokens); models are averaged."""
    each = torch.stack([source_attention(model, tokenizer.special, sources, targets) for model in models])
    attention = each.mean(dim=0).cpu()
    return [
        word_links(tokenizer, source, target, attention[i, : len(target), : len(source)])
        for i, (source, target) in enumerate(zip(sources, targets, strict=True))
    ]


@torch.inference_mode()
def source_attention(
    model: EncoderDecoder, special: SpecialIds, sources: Sequence[list[int]], targets: Sequence[list[int]]
) -> Tensor:
    """Return the attention of each target token to each source token (B, T, M), over all layers and heads."""
    source, target_in, _ = forced_batch(model, special, sources, targets)
    attention = torch.zeros(*target_in.shape, source.size(1), device=source.device)

    def watch(kind: Kind, weights: Tensor) -> None:
        if kind == "cross":
            attention.add_(weights.mean(dim=1) / model.config.decoder_layers)

    model.hidden(source, target_in, watch)
    return attention


def word_links(tokenizer: Tokenizer, source: list[int], target: list[int], attention: Tensor) -> list[Link]:
    """Return the links between two texts, given the attention (target tokens, source tokens)."""
    source_words, source_shares = words_of(tokenizer, source)
    target_words, target_shares = words_of(tokenizer, target)
    weights = word_weights(attention, source_shares, target_shares)
    return [
        Link(*source_words[i], *target_words[j], weight=round(float(weights[j, i]), 4)) for j, i in pairs(weights)
    ]


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[list[Span], Tensor]:
    """Return the words of a text given as tokens, and the fraction of each token in each word (tokens, words)."""
    found, spelling = words(tokenizer.decode(ids)), tokenizer.spelled
    spans = token_spans([spelling[token] for token in ids], tokenizer.space_before)
    return found, membership(spans, found)


def membership(tokens: Sequence[Span], words: Sequence[Span]) -> Tensor:
    """Return the fraction of each token (tokens, words) in each word."""
    shares = torch.zeros(len(tokens), len(words))
    first = 0
    for row, (start, end) in enumerate(tokens):
        while first < len(words) and words[first][1] <= start:
            first += 1
        column = first
        while column < len(words) and words[column][0] < end:
            overlap = min(end, words[column][1]) - max(start, words[column][0])
            shares[row, column] = overlap / max(1, end - start)
            column += 1
    return shares


def word_weights(attention: Tensor, source_shares: Tensor, target_shares: Tensor) -> Tensor:
    """Return the balanced attention of words to words (target words, source words); rows sum to 1."""
    return shares_of(balanced(to_words(attention, source_shares, target_shares)))


def to_words(attention: Tensor, source_shares: Tensor, target_shares: Tensor) -> Tensor:
    """Return the attention (…, target words, source words) of words to words, from that of their tokens."""
    each_word = target_shares / target_shares.sum(dim=0).clamp(min=TINY)
    return each_word.T @ attention @ source_shares


def balanced(weights: Tensor) -> Tensor:
    """Divide the weights of each source word by their sum over the target.

    Many heads attend to uninformative tokens, such as the full stop, from everywhere, which says nothing about
    alignment.
    """
    return weights / weights.sum(dim=-2, keepdim=True).clamp(min=TINY)


def shares_of(weights: Tensor) -> Tensor:
    """Normalise each target word's weights to sum to 1."""
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=TINY)


def pairs(weights: Tensor) -> list[tuple[int, int]]:
    """Return the aligned (target word, source word) pairs, in the order of the target."""
    if not weights.numel():
        return []
    chosen = weights.argmax(dim=1).tolist()
    found = {(j, i) for j, i in enumerate(chosen) if weights[j, i] > 0}
    left_over = set(range(weights.size(1))) - set(chosen)
    best = weights.argmax(dim=0).tolist()
    found |= {(best[i], i) for i in left_over if weights[best[i], i] > 0}
    return sorted(found)
