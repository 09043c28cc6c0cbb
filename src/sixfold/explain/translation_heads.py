"""Head roles of translation models, measured on sentences and their translations.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from sixfold.data.corpora.phrasebook import sentences
from sixfold.decode.alignment import pairs, source_attention, word_weights, words_of
from sixfold.decode.scoring import forced_batch
from sixfold.decode.translate import Translator
from sixfold.errors import ConfigError
from sixfold.explain.head_roles import (
    MAX_TEXTS,
    HeadRoles,
    Measures,
    Role,
    delimiters,
    mean_roles,
    measure,
    measure_self_attention,
)
from sixfold.models.encoder_decoder import Kind
from sixfold.tasks.translate.held_out import held_out


def sample_sentences(folder: Path, translator: Translator) -> list[str]:
    """Return sentences to measure on: validation sentences of the model, or English ones from the phrasebook."""
    own = held_out(folder / "training", translator.tokenizer)
    if own:
        return own[:MAX_TEXTS]
    is_english = translator.info is not None and translator.info.languages.source == "en"
    return [english for english, _ in islice(sentences(), MAX_TEXTS)] if is_english else []


def measure_head_roles(translator: Translator, texts: Sequence[str]) -> HeadRoles:
    """Measure the heads of the first model on up to MAX_TEXTS texts and their greedy translations."""
    texts = [text for text in texts if text.strip()][:MAX_TEXTS]
    found = [best for best, *_ in translator.search(texts, beam=1)]
    source_ids, _ = translator.encode(texts)
    rows = [(ids, list(each.tokens[:-1])) for ids, each in zip(source_ids, found, strict=True) if each.tokens]
    if not rows:
        raise ConfigError(
            "There is no sentence to measure the heads on.", "Give a file with at least one: --sample FILE"
        )
    return head_roles_of(translator, rows)


def head_roles_of(translator: Translator, rows: Sequence[tuple[list[int], list[int]]]) -> HeadRoles:
    """Measure the heads on pairs of token ids (without BOS and EOS)."""
    return mean_roles([measured(translator, source, target) for source, target in rows])


@torch.inference_mode()
def measured(translator: Translator, source: list[int], target: list[int]) -> dict[str, list[Measures]]:
    """Return the measures of each layer on a pair."""
    model, tokenizer = translator.model, translator.tokenizer
    source_in, target_in, _ = forced_batch(model, tokenizer.special, [source], [target])
    source_delimiters = delimiters(tokenizer, source_in[0].tolist())
    target_delimiters = delimiters(tokenizer, target_in[0].tolist())
    aligned = aligned_tokens(translator, source, target)
    found: dict[str, list[Measures]] = {"encoder": [], "decoder": [], "cross": []}

    def collect(kind: Kind, weights: Tensor) -> None:
        weights = weights[0].float().cpu()
        if kind == "cross":
            found[kind].append(measure_cross_attention(weights, source_delimiters, aligned))
        else:
            is_delimiter = source_delimiters if kind == "encoder" else target_delimiters
            found[kind].append(measure_self_attention(weights, is_delimiter))

    model.hidden(source_in, target_in, collect)
    return found


def measure_cross_attention(weights: Tensor, is_delimiter: Tensor, aligned: Tensor) -> Measures:
    """Measure attention (H, Q, K) to another text, whose positions have no distance to those of this one."""
    targets: dict[Role, Tensor] = {"delimiter": is_delimiter.expand_as(aligned), "aligned": aligned}
    return measure(weights, targets, torch.zeros_like(is_delimiter))


def aligned_tokens(translator: Translator, source: list[int], target: list[int]) -> Tensor:
    """Return which source tokens (K) the word of each target token (Q) is aligned to; EOS is aligned to none."""
    special = translator.tokenizer.special
    weights = source_attention(translator.model, special, [source], [target])
    attention = weights[0, : len(target), : len(source)].cpu()
    _, source_shares = words_of(translator.tokenizer, source)
    _, target_shares = words_of(translator.tokenizer, target)
    weights = word_weights(attention, source_shares, target_shares)
    linked = torch.zeros_like(weights)
    for target_word, source_word in pairs(weights):
        linked[target_word, source_word] = 1.0
    tokens = (target_shares > 0).float() @ linked @ (source_shares > 0).float().T > 0  # (target, source) tokens
    found = torch.zeros(len(target) + 1, len(source) + 1, dtype=torch.bool)
    found[: len(target), : len(source)] = tokens
    return found
