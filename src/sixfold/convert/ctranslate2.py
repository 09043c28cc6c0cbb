"""CTranslate2, the C++ engine: every weight keeps its value, only names and layout change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from sixfold.convert.compare import ExportComparison, Output, compare, sample
from sixfold.convert.exported_folder import new_folder, plain_tokenizer, refuse_unusual, write_readme
from sixfold.convert.position_tables import position_tables
from sixfold.decode.translate import Translator, load
from sixfold.errors import ConfigError, MissingExtraError
from sixfold.machine import num_cores
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.nn import Stack
from sixfold.nn.layout import AttentionWeights, Linear, NormWeights, final_norm_weights, layers_of

if TYPE_CHECKING:
    from ctranslate2.specs.attention_spec import MultiHeadAttentionSpec
    from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import (
        TransformerDecoderSpec,
        TransformerEncoderSpec,
        TransformerSpec,
    )
    from numpy.typing import NDArray

BATCH = 32
TOKENIZER = "tokenizer.model"

README = """\
# {name}, for CTranslate2

Exported by Sixfold from `{name}`. The weights are float32; `compute_type="int8"` makes them smaller and faster.
Greedy translations (`beam_size=1`) equal Sixfold's{alone}; beam search has another length penalty here.

```python
import ctranslate2, sentencepiece
tokenizer = sentencepiece.SentencePieceProcessor(model_file="{out}/tokenizer.model")
translator = ctranslate2.Translator("{out}", compute_type="float32")
results = translator.translate_batch([tokenizer.encode("A dog runs.", out_type=str)], beam_size=4)
print(tokenizer.decode(results[0].hypotheses[0]))
```
"""


def export(folder: Path, out: Path) -> ExportComparison:
    """Write a model folder as a CTranslate2 model, after verifying that both engines agree."""
    require_package()
    translator = load(folder, "cpu").alone()  # CTranslate2 has no ensembles
    refuse_unsupported(translator.model.config)
    with new_folder(out) as temporary:
        write(translator, temporary)
        write_readme(temporary, README, folder, out)
        return compare(translator, CTranslate2Engine(temporary), sample(folder, translator.tokenizer))


def require_package() -> None:
    """Raise if CTranslate2 is not installed."""
    try:
        import ctranslate2  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("ctranslate2", "export", "An export to CTranslate2") from error


def refuse_unsupported(config: EncoderDecoderConfig) -> None:
    """Refuse a model that CTranslate2 does not support."""
    refuse_unusual(config, "CTranslate2")
    if config.attention_width:
        raise ConfigError(
            f"CTranslate2 cannot run this model: its self-attention is restricted (attention_width="
            f"{config.attention_width}), and CTranslate2 has only full attention in encoder-decoders."
        )


def write(translator: Translator, out: Path) -> None:
    """Write model, vocabulary and tokenizer to a folder."""
    spec = make_spec(translator)
    special = translator.tokenizer.special
    pieces = translator.tokenizer.pieces(range(translator.tokenizer.vocabulary))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.unk_token = pieces[special.unk]
    spec.config.bos_token = spec.config.decoder_start_token = pieces[special.bos]
    spec.config.eos_token = pieces[special.eos]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = translator.model.config.norm_epsilon
    spec.validate()
    spec.optimize()  # stores the shared matrix once
    spec.save(str(out))
    (out / TOKENIZER).write_bytes(plain_tokenizer(translator.tokenizer.model))


def make_spec(translator: Translator) -> TransformerSpec:
    """Return CTranslate2's description of a model, weights included."""
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec

    model, config = translator.model, translator.model.config
    width = max(config.head_widths)  # in CTranslate2 queries and values have the same width
    shape = {"num_heads": config.heads, "pre_norm": config.norm == "pre", "head_dim": width}
    encoder = TransformerEncoderSpec(config.encoder_layers, **shape)
    decoder = TransformerDecoderSpec(config.decoder_layers, **shape)
    fill_stack(encoder, model.encoder, width)
    fill_stack(decoder, model.decoder, width)
    embedding = as_array(model.head.weight)
    encoder.embeddings[0].weight = decoder.embeddings.weight = decoder.projection.weight = embedding
    source_positions, target_positions = position_tables(translator)
    encoder.position_encodings.encodings = as_array(source_positions)
    decoder.position_encodings.encodings = as_array(target_positions)
    return TransformerSpec(encoder, decoder)


def fill_stack(spec: TransformerEncoderSpec | TransformerDecoderSpec, stack: Stack, width: int) -> None:
    """Set the weights of the encoder or the decoder."""
    for layer_spec, layer in zip(spec.layer, layers_of(stack), strict=True):
        fill_self_attention(layer_spec.self_attention, layer.self_attention, width)
        fill_norm(layer_spec.self_attention.layer_norm, layer.self_attention_norm)
        if layer.cross_attention is not None and layer.cross_attention_norm is not None:
            fill_cross_attention(layer_spec.attention, layer.cross_attention, width)
            fill_norm(layer_spec.attention.layer_norm, layer.cross_attention_norm)
        fill_linear(layer_spec.ffn.linear_0, layer.feed_forward.inner)
        fill_linear(layer_spec.ffn.linear_1, layer.feed_forward.outer)
        fill_norm(layer_spec.ffn.layer_norm, layer.feed_forward_norm)
    if (norm := final_norm_weights(stack)) is not None:
        fill_norm(spec.layer_norm, norm)


def fill_self_attention(spec: MultiHeadAttentionSpec, weights: AttentionWeights, width: int) -> None:
    """Set the weights of self-attention, with queries, keys and values in one matrix."""
    theirs = weights.divided(math.sqrt(width)).widened(width)
    fill_linear(spec.linear[0], theirs.query, theirs.key, theirs.value)
    fill_linear(spec.linear[1], theirs.output)


def fill_cross_attention(spec: MultiHeadAttentionSpec, weights: AttentionWeights, width: int) -> None:
    """Set the weights of cross-attention, with keys and values in one matrix, and queries in another."""
    theirs = weights.divided(math.sqrt(width)).widened(width)
    fill_linear(spec.linear[0], theirs.query)
    fill_linear(spec.linear[1], theirs.key, theirs.value)
    fill_linear(spec.linear[2], theirs.output)


def fill_linear(spec: LinearSpec, *matrices: Linear) -> None:
    """Stack the rows of linear maps into one."""
    spec.weight = np.concatenate([as_array(matrix.weight) for matrix in matrices])
    biases = [as_array(matrix.bias) for matrix in matrices if matrix.bias is not None]
    if biases:
        spec.bias = np.concatenate(biases)


def fill_norm(spec: LayerNormSpec, norm: NormWeights) -> None:
    """Set the weights of a layer normalisation."""
    assert norm.bias is not None
    spec.gamma, spec.beta = as_array(norm.weight), as_array(norm.bias)


def as_array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a tensor as a contiguous array for CTranslate2."""
    return np.ascontiguousarray(tensor.detach().numpy())


class CTranslate2Engine:
    """An exported model, opened as users will open it."""

    def __init__(self, folder: Path, compute_type: str = "float32") -> None:
        import ctranslate2
        import sentencepiece

        self.tokenizer = sentencepiece.SentencePieceProcessor(model_file=str(folder / TOKENIZER))
        self.translator = ctranslate2.Translator(
            str(folder), compute_type=compute_type, intra_threads=num_cores(), max_queued_batches=-1
        )
        self.not_text = [
            [self.tokenizer.id_to_piece(i)] for i in (self.tokenizer.pad_id(), self.tokenizer.bos_id())
        ]

    def translate(self, texts: Sequence[str], limits: Sequence[int]) -> list[Output]:
        """Return the greedy translation of each text, with at most `limits` tokens before the end token."""
        results = self.translator.translate_batch(
            self.pieces(texts),
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=max(limits),
            disable_unk=True,
            suppress_sequences=self.not_text,
            max_batch_size=BATCH,
        )
        cut = [result.hypotheses[0][:limit] for result, limit in zip(results, limits, strict=True)]
        return [Output(self.tokenizer.piece_to_id(pieces), self.tokenizer.decode(pieces)) for pieces in cut]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return the log-probability of each given translation, end token included."""
        results = self.translator.score_batch(self.pieces(sources), self.pieces(targets), max_batch_size=BATCH)
        return [sum(result.log_probs) for result in results]

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the subwords of each text."""
        return self.tokenizer.encode(list(texts), out_type=str)
