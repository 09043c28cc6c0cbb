"""Hugging Face transformers: a post-norm model becomes a Marian, a pre-norm model a Pegasus, both with ReLU.

Marian has the sines in the first half of d_model and the cosines in the second; the paper interleaves them. So
d_model is permuted in every weight that reads or writes the residual stream, which changes nothing else.
"""

from __future__ import annotations

import errno
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor

from sixfold.convert.compare import ExportComparison, Output, compare, sample
from sixfold.convert.exported_folder import new_folder, plain_tokenizer, refuse_unusual, write_readme
from sixfold.convert.position_tables import position_tables
from sixfold.decode.config import DecodeConfig
from sixfold.decode.scoring import target_log_probabilities
from sixfold.decode.translate import Translator, load
from sixfold.errors import ConfigError, MissingExtraError
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.nn import Stack
from sixfold.nn.layout import AttentionWeights, Linear, NormWeights, final_norm_weights, layers_of
from sixfold.text import SpecialIds, Tokenizer

if TYPE_CHECKING:
    from transformers import MarianTokenizer, PretrainedConfig, PreTrainedModel

BATCH = 16
EPSILON = 1e-5  # of the norms of both classes, fixed there
CLASSES = {"post": "MarianMTModel", "pre": "PegasusForConditionalGeneration"}
# Tensors of their models that are not ours: sinusoids, views of the shared matrix, and a bias of zeros.
DERIVED = ("embed_positions.weight", "embed_tokens.weight", "lm_head.weight", "final_logits_bias")

Pair = TypeVar("Pair")

README = """\
# {name}, for Hugging Face transformers

Exported by Sixfold from `{name}`. The architecture is that of `{model_class}`, the tokenizer is
Marian's. Greedy translations (`num_beams=1`) equal Sixfold's{alone}; beam search has another length penalty here.

```python
from transformers import MarianTokenizer, {model_class}
tokenizer = MarianTokenizer.from_pretrained("{out}")
model = {model_class}.from_pretrained("{out}")
tokens = tokenizer(["A dog runs."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**tokens), skip_special_tokens=True))
```
"""


def export(folder: Path, out: Path) -> ExportComparison:
    """Write a model folder for Hugging Face transformers, after verifying that both engines agree."""
    require_package()
    translator = load(folder, "cpu").alone()  # transformers has no ensembles
    config = translator.model.config
    refuse_unsupported(config)
    with new_folder(out) as temporary:
        write(translator, temporary)
        write_readme(temporary, README, folder, out, model_class=CLASSES[config.norm])
        return compare(translator, HuggingFaceEngine(temporary), sample(folder, translator.tokenizer))


def require_package() -> None:
    """Raise if transformers is not installed."""
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("transformers", "export", "An export to Hugging Face") from error


def refuse_unsupported(config: EncoderDecoderConfig) -> None:
    """Refuse a model that no class of transformers can express exactly."""
    refuse_unusual(config, "Hugging Face transformers")
    width = config.d_model // config.heads
    if config.positions == "learned" and config.norm == "post":
        reason = "its positions are learned, and Marian, the class for post-norm models, computes them"
    elif config.norm_epsilon != EPSILON:
        reason = f"its norms have ε={config.norm_epsilon:g}, but transformers has {EPSILON:g}"
    elif config.attention_width:
        reason = (
            f"its self-attention is restricted (attention_width={config.attention_width}), which is not supported"
        )
    elif config.d_model % config.heads:
        reason = f"d_model={config.d_model} does not divide evenly among {config.heads} heads"
    elif max(config.d_k, config.d_v) > width:
        reason = f"its heads are wider (d_k={config.d_k}, d_v={config.d_v}) than d_model / heads, which is {width}"
    else:
        return
    hint = "" if config.attention_width else "CTranslate2 supports it: --to ctranslate2"
    raise ConfigError(f"Hugging Face transformers cannot run this model: {reason}.", hint)


def write(translator: Translator, out: Path) -> None:
    """Write model and tokenizer to a folder."""
    import transformers

    model, positions = translator.model, position_tables(translator)
    special = translator.tokenizer.special
    num_positions = len(positions[0])
    theirs = getattr(transformers, CLASSES[model.config.norm])(make_config(model.config, special, num_positions))
    missing, unexpected = theirs.load_state_dict(state(model, positions), strict=False)
    assert not unexpected, unexpected
    assert all(name.endswith(DERIVED) for name in missing), missing
    theirs.generation_config = transformers.GenerationConfig(
        **generation(translator.decode, special, num_positions)
    )
    try:
        theirs.save_pretrained(out)
    except SafetensorError as error:  # only its text tells which disk error occurred
        raise OSError(errno.ENOSPC, str(error)) from error
    write_tokenizer(translator.tokenizer, out, num_positions)


def make_config(config: EncoderDecoderConfig, special: SpecialIds, num_positions: int) -> PretrainedConfig:
    """Return the configuration of the same architecture."""
    import transformers

    make = transformers.MarianConfig if config.norm == "post" else transformers.PegasusConfig
    return make(
        vocab_size=config.vocabulary,
        d_model=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        encoder_attention_heads=config.heads,
        decoder_attention_heads=config.heads,
        activation_function="relu",
        scale_embedding=True,
        dropout=config.dropout,
        max_position_embeddings=num_positions,
        pad_token_id=special.pad,
        bos_token_id=special.bos,
        eos_token_id=special.eos,
        decoder_start_token_id=special.bos,
        forced_eos_token_id=None,
    )


def generation(
    decode: DecodeConfig, special: SpecialIds, num_positions: int
) -> dict[str, int | float | list[int]]:
    """Return the defaults of `generate`; its length penalty is length^α, not that of our search."""
    return {
        "num_beams": decode.beam,
        "length_penalty": decode.length_penalty,
        "max_length": num_positions // 2,
        "suppress_tokens": [*special.never_chosen],
        "pad_token_id": special.pad,
        "bos_token_id": special.bos,
        "eos_token_id": special.eos,
        "decoder_start_token_id": special.bos,
    }


def state(model: EncoderDecoder, positions: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Return all weights with the names that Marian and Pegasus share, and d_model in their order."""
    d_model = model.config.d_model
    stream = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])  # sines, then cosines
    tensors = {"model.shared.weight": model.head.weight.detach()[:, stream]}
    for name, stack, table in zip(("encoder", "decoder"), (model.encoder, model.decoder), positions, strict=True):
        tensors |= stack_state(f"model.{name}", stack, stream, d_model // model.config.heads)
        if (last := final_norm_weights(stack)) is not None:  # a Pegasus, which stores its positions
            tensors |= norm(f"model.{name}.layer_norm", last, stream)
            tensors[f"model.{name}.embed_positions.weight"] = table[:, stream]
    return tensors


def stack_state(name: str, stack: Stack, stream: Tensor, width: int) -> dict[str, Tensor]:
    """Return the layers of the encoder or the decoder."""
    tensors: dict[str, Tensor] = {}
    for i, layer in enumerate(layers_of(stack)):
        at = f"{name}.layers.{i}"
        tensors |= attention(f"{at}.self_attn", layer.self_attention, stream, width)
        tensors |= norm(f"{at}.self_attn_layer_norm", layer.self_attention_norm, stream)
        if layer.cross_attention is not None and layer.cross_attention_norm is not None:
            tensors |= attention(f"{at}.encoder_attn", layer.cross_attention, stream, width)
            tensors |= norm(f"{at}.encoder_attn_layer_norm", layer.cross_attention_norm, stream)
        tensors |= reading(f"{at}.fc1", layer.feed_forward.inner, stream)
        tensors |= writing_to(f"{at}.fc2", layer.feed_forward.outer, stream)
        tensors |= norm(f"{at}.final_layer_norm", layer.feed_forward_norm, stream)
    return tensors


def attention(name: str, weights: AttentionWeights, stream: Tensor, width: int) -> dict[str, Tensor]:
    """Return one attention: queries, keys and values read the residual stream, the output writes it."""
    theirs = weights.divided(math.sqrt(width)).widened(width)
    return (
        reading(f"{name}.q_proj", theirs.query, stream)
        | reading(f"{name}.k_proj", theirs.key, stream)
        | reading(f"{name}.v_proj", theirs.value, stream)
        | writing_to(f"{name}.out_proj", theirs.output, stream)
    )


def reading(name: str, linear: Linear, stream: Tensor) -> dict[str, Tensor]:
    """Return a linear map from the stream; a missing bias is zero."""
    bias = torch.zeros(linear.weight.size(0)) if linear.bias is None else linear.bias
    return {f"{name}.weight": linear.weight[:, stream], f"{name}.bias": bias}


def writing_to(name: str, linear: Linear, stream: Tensor) -> dict[str, Tensor]:
    """Return a linear map to the stream; a missing bias is zero."""
    bias = torch.zeros(linear.weight.size(0)) if linear.bias is None else linear.bias
    return {f"{name}.weight": linear.weight[stream], f"{name}.bias": bias[stream]}


def norm(name: str, weights: NormWeights, stream: Tensor) -> dict[str, Tensor]:
    """Return one layer normalisation."""
    assert weights.bias is not None
    return {f"{name}.weight": weights.weight[stream], f"{name}.bias": weights.bias[stream]}


def write_tokenizer(tokenizer: Tokenizer, out: Path, num_positions: int) -> None:
    """Write the tokenizer as Marian's: it adds the end token and, like ours, reads `</s>` in a text as text."""
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    (out / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    for name in ("source.spm", "target.spm"):
        (out / name).write_bytes(plain_tokenizer(tokenizer.model))
    content = {
        "tokenizer_class": "MarianTokenizer",
        "pad_token": pieces[tokenizer.special.pad],
        "eos_token": pieces[tokenizer.special.eos],
        "unk_token": pieces[tokenizer.special.unk],
        "model_max_length": num_positions,
        "split_special_tokens": True,
        "clean_up_tokenization_spaces": False,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_tokenizer(folder: Path) -> MarianTokenizer:
    """Open the exported tokenizer."""
    import transformers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends a package that it does not use
        return transformers.MarianTokenizer.from_pretrained(folder)


class HuggingFaceEngine:
    """An exported model, opened as users will open it."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.tokenizer = load_tokenizer(folder)
        self.model: PreTrainedModel = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()

    def translate(self, texts: Sequence[str], limits: Sequence[int]) -> list[Output]:
        """Return the greedy translation of each text, with at most `limits` tokens before the end token."""
        outputs = []
        for batch in batched(zip(texts, limits, strict=True), BATCH):
            tokens = self.tokenizer([text for text, _ in batch], return_tensors="pt", padding=True)
            longest = max(limit for _, limit in batch)
            rows = self.model.generate(**tokens, num_beams=1, max_length=longest + 1)[:, 1:].tolist()
            outputs += [self.output(row[:limit]) for row, (_, limit) in zip(rows, batch, strict=True)]
        return outputs

    def output(self, row: list[int]) -> Output:
        """Return the output before the end token."""
        end = self.model.config.eos_token_id
        ids = row[: row.index(end)] if end in row else row
        return Output(ids, self.tokenizer.decode(ids))

    @torch.inference_mode()
    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Return the log-probability of each given translation, end token included."""
        scores: list[float] = []
        for batch in batched(zip(sources, targets, strict=True), BATCH):
            tokens = self.tokenizer([source for source, _ in batch], return_tensors="pt", padding=True)
            target_out = self.tokenizer(
                text_target=[target for _, target in batch], return_tensors="pt", padding=True
            ).input_ids
            target_in = torch.cat(
                [torch.full((len(batch), 1), self.model.config.decoder_start_token_id), target_out[:, :-1]], dim=1
            )
            logits = self.model(**tokens, decoder_input_ids=target_in).logits
            scores += target_log_probabilities(logits, target_out, self.tokenizer.pad_token_id).sum(dim=1).tolist()
        return scores


def batched(pairs: Iterable[Pair], size: int) -> Iterator[list[Pair]]:
    """Yield the pairs in groups of at most this size."""
    rest = iter(pairs)
    while batch := list(islice(rest, size)):
        yield batch
