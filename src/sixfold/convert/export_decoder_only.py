"""Export decoder-only models as a Hugging Face folder or a GGUF file, after a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from sixfold.convert import gguf, huggingface_decoder_only, huggingface_folder, llama_cpp
from sixfold.convert.compare_logits import (
    TOLERANCE,
    Comparison,
    compare_logits,
    compare_tokens,
    sample_rows,
)
from sixfold.convert.exported_folder import new_folder, refuse_existing, write_readme
from sixfold.convert.gguf import Precision
from sixfold.errors import ConfigError
from sixfold.files import make_folder, replacing
from sixfold.models.decoder_only import DecoderOnly
from sixfold.models.folder import DTYPES, ModelInfo, Processor, load_any_tokenizer, load_info, load_members
from sixfold.models.weights import set_weights, weights_of
from sixfold.text import AnyTokenizer

# Of a logit, relative to the largest: the effect of rounding the weights.
TOLERANCES: dict[Precision, float] = {"float32": TOLERANCE, "float16": 2e-2, "q8_0": 2e-1}

HUGGING_FACE_README = """\
# {name}, for Hugging Face transformers

Exported by Sixfold from `{name}`: the class is `{model_class}`. Logits and tokens equal Sixfold's{alone}.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("{out}")
model = AutoModelForCausalLM.from_pretrained("{out}")
tokens = tokenizer("Once upon a time", return_tensors="pt")
print(tokenizer.decode(model.generate(**tokens, max_new_tokens=50)[0]))
```
"""


@dataclass(frozen=True)
class OpenModel:
    """A model folder, opened for an export."""

    folder: Path
    info: ModelInfo
    model: DecoderOnly  # the first of an ensemble, because no other format has ensembles
    tokenizer: AnyTokenizer

    @property
    def side(self) -> Processor:
        """The processor of its text."""
        return self.info.processors["text"]

    def rows(self) -> list[list[int]]:
        """Return rows of tokens for comparing logits."""
        return sample_rows(self.tokenizer, self.side.decoder_start, self.model.config.max_positions)


def open_model(folder: Path) -> OpenModel:
    """Open a folder; refuse another kind of model."""
    info = load_info(folder)
    if info.kind != "decoder_only":
        raise ConfigError(f"{folder} has an {info.kind} model, which GGUF does not support.", "--to ctranslate2")
    alone = info.model_copy(update={"weights": info.weights[:1]})
    [model] = load_members(folder, alone)
    return OpenModel(folder, info, cast("DecoderOnly", model), load_any_tokenizer(folder, info))


def known_precision(name: str) -> Precision:
    """Return a precision by its name."""
    for known in TOLERANCES:
        if name == known:
            return known
    raise ConfigError(f"GGUF has no precision {name!r} here.", f"Use {', '.join(TOLERANCES)}.")


# Hugging Face


def to_huggingface(folder: Path, out: Path) -> tuple[Comparison, ...]:
    """Write a model as a folder for transformers, after verifying that logits and tokens are the same there."""
    opened = open_model(folder)
    refuse_existing(out)
    theirs = huggingface_decoder_only.their_model(opened.model.config, weights_of(opened.model))
    with new_folder(out) as temporary:
        theirs.to(DTYPES[opened.info.dtype][0]).save_pretrained(temporary)
        huggingface_decoder_only.write_tokenizer(opened.tokenizer, opened.side, temporary, opened.model.config)
        write_readme(temporary, HUGGING_FACE_README, folder, out, model_class=type(theirs).__name__)
        return compare_huggingface(opened, temporary)


def compare_huggingface(opened: OpenModel, folder: Path) -> tuple[Comparison, ...]:
    """Compare a written folder, opened as users will open it, with our model."""
    start = opened.side.decoder_start
    begin = [] if start is None else [start]
    encode = huggingface_folder.automatic_encoder(folder)
    reference = huggingface_folder.name_of_reference()
    tokens = compare_tokens(lambda text: [*begin, *opened.tokenizer.encode(text)], encode, reference)
    logits = huggingface_decoder_only.reference(folder)
    assert logits is not None
    return tokens, compare_logits(opened.model, logits, opened.rows(), reference)


# GGUF


def to_gguf(folder: Path, out: Path, precision: Precision = "float32") -> tuple[Comparison, ...]:
    """Write a model as a GGUF file, after reading it back and comparing it."""
    opened = open_model(folder)
    if opened.side.decoder_start not in (None, opened.side.special.bos):
        raise ConfigError("This model has another token than BOS before every text, which GGUF cannot express.")
    refuse_existing(out)
    make_folder(out.absolute().parent)
    with replacing(out) as temporary:
        gguf.write_file(
            temporary,
            opened.model.config,
            weights_of(opened.model),
            opened.tokenizer,
            opened.side,
            folder.resolve().name,
            precision,
        )
        return compare_gguf(opened, temporary, precision)


def compare_gguf(opened: OpenModel, path: Path, precision: Precision) -> tuple[Comparison, ...]:
    """Compare a written file with our model: as it is read here, and by llama.cpp if that is installed."""
    again = gguf.read_file(path, "none")
    model = DecoderOnly(again.config).eval()
    set_weights(model, again.weights)
    assert (again.tokenizer.special, again.decoder_start) == (opened.side.special, opened.side.decoder_start)
    found = [
        compare_tokens(opened.tokenizer.encode, again.tokenizer.encode, "the file, read again"),
        compare_logits(
            opened.model,
            lambda tokens: model(tokens)[0],
            opened.rows(),
            "the file, read again",
            TOLERANCES[precision],
        ),
    ]
    if llama_cpp.is_installed():
        prompts = [row[:8] for row in opened.rows()]
        found.append(llama_cpp.compare_tokens_of(path, opened.tokenizer))
        found.append(llama_cpp.compare_greedy(path, model, prompts, precision))
    return tuple(found)
