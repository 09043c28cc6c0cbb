"""Hugging Face folders of encoder-only models: BERT, RoBERTa, DistilBERT and MiniLM, read and written.

A folder of sentence-transformers also describes how a text becomes one vector. Nothing in a folder is executed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sixfold.callbacks import OnProgress, no_progress
from sixfold.convert.compare_logits import (
    TOLERANCE,
    Comparison,
    Logits,
    compare_logits,
    compare_tokens,
    sample_rows,
)
from sixfold.convert.encoder_formats import EncoderFormat, label_names
from sixfold.convert.foreign_config import values_of
from sixfold.convert.huggingface_bert import BERT_FAMILY, ROBERTA_FAMILY
from sixfold.convert.huggingface_distilbert import DISTILBERT_FAMILY
from sixfold.convert.huggingface_folder import (
    CONFIG,
    TOKENIZER,
    Prefixed,
    automatic_encoder,
    class_of,
    is_installed,
    name_of_reference,
    read_optional,
    read_tokenizer,
)
from sixfold.convert.name_table import to_ours
from sixfold.convert.published import filled_up
from sixfold.convert.published_encoder import PublishedEncoder, what_is_read
from sixfold.convert.quiet import be_quiet
from sixfold.convert.safetensors_folder import SafetensorsFolder, read_any_json, read_json
from sixfold.errors import ModelFolderError
from sixfold.models.encoder_only import EncoderOnlyConfig, HeadName
from sixfold.models.folder import Json, Labels, Processor, load_any_tokenizer, load_info, load_members
from sixfold.nn.heads import Pooling
from sixfold.text import AnyTokenizer
from sixfold.text.encoder_row import RowFormat
from sixfold.text.published_tokenizer import PublishedTokenizer
from sixfold.text.special import SpecialIds
from sixfold.text.tokenizer_json import FILE_NAME, LARGEST_FILE, read_description

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAMILIES = (BERT_FAMILY, ROBERTA_FAMILY, DISTILBERT_FAMILY)
FORMATS: dict[str, EncoderFormat] = {each.architecture: each for family in FAMILIES for each in family.formats()}
PLAIN = {family.model_type: f"{family.name}Model" for family in FAMILIES}
FORMATS["BertForPreTraining"] = FORMATS["BertForMaskedLM"]  # which also has a layer for pairs of sentences
VECTOR_TOLERANCE = 1e-5  # of an element of a unit vector
LONGEST_TEXT = 1_000_000  # tokens: when tokens are compared, nothing is truncated
MODULES, SENTENCES, POOLING = "modules.json", "sentence_bert_config.json", "config.json"
VOCABULARY, SPECIAL = "vocab.txt", "special_tokens_map.json"
SPECIAL_NAMES = {  # ours, theirs, and the defaults of BERT and RoBERTa
    "pad": ("pad_token", "[PAD]", "<pad>"),
    "bos": ("cls_token", "[CLS]", "<s>"),
    "eos": ("sep_token", "[SEP]", "</s>"),
    "unk": ("unk_token", "[UNK]", "<unk>"),
    "mask": ("mask_token", "[MASK]", "<mask>"),
}


def is_encoder(folder: Path) -> bool:
    """Return whether the class of a folder's model is one of these."""
    content = read_json(folder / CONFIG)
    names = content.get("architectures")
    return names[0] in FORMATS if isinstance(names, list) and names else content.get("model_type") in PLAIN


def read_folder(folder: Path, on_progress: OnProgress = no_progress) -> PublishedEncoder:
    """Read a folder."""
    content = read_json(folder / CONFIG)
    with values_of(f"The configuration of {folder}"):
        format_ = class_of(content, FORMATS, PLAIN)
        config = format_.read_config(content)
        tokenizer = open_tokenizer(folder, config.vocabulary)
        config, notes = with_sentence_vectors(config, folder)
        config = config.model_copy(update={"pad_id": tokenizer.special.pad})
        labels, side = labels_of(config, content), processor_of(config, tokenizer, folder, format_)
    with SafetensorsFolder(folder) as files:
        tensors = Prefixed(files, format_.prefix)
        config = with_pooler_found(config, format_, tensors)
        weights = to_ours(tensors, config, format_.table, str(folder), format_.ignored, on_progress)
    origin: dict[str, Json] = {"name": folder.resolve().name, "format": f"Hugging Face, {format_.architecture}"}
    notes["text"] = what_is_read(tokenizer)
    return PublishedEncoder(config, weights, tokenizer, side, labels, {**origin, **notes})


def with_pooler_found(config: EncoderOnlyConfig, format_: EncoderFormat, tensors: Prefixed) -> EncoderOnlyConfig:
    """Return a configuration without a pooler if the files have none; a classifier needs one."""
    has_pooler = f"{format_.table.get('pooler.dense')}.weight" in tensors.shapes()
    return config if has_pooler or config.head == "class" else config.model_copy(update={"pooler": "none"})


# Sentence embeddings


def with_sentence_vectors(config: EncoderOnlyConfig, folder: Path) -> tuple[EncoderOnlyConfig, dict[str, Json]]:
    """Return the configuration with a projection head if the class has no head, and a note on it."""
    if config.head != "vectors":
        return config, {}
    if not (folder / MODULES).is_file():
        note = "mean of the tokens' vectors; the folder does not define sentence vectors"
        return as_projection(config, "mean"), {"vectors": note}
    pooling, is_unit = read_modules(folder)
    said = {"mean": "mean of the tokens' vectors", "first": "vector of the first token"}[pooling]
    note = said if is_unit else f"{said}, normalised to length one, which the folder does not state"
    return as_projection(config, pooling), {"vectors": note}


def as_projection(config: EncoderOnlyConfig, pooling: Pooling) -> EncoderOnlyConfig:
    """Return the configuration of the same encoder with a projection head."""
    return config.model_copy(update={"head": "projection", "pooling": pooling})


def read_modules(folder: Path) -> tuple[Pooling, bool]:
    """Return how sentence-transformers pools a text to one vector, and whether it is normalised."""
    modules = read_any_json(folder / MODULES)
    kinds = [str(module["type"]).rpartition(".")[2] for module in modules]
    if odd := [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]:
        raise ModelFolderError(f"{MODULES} has {odd[0][:40]!r}, which Sixfold does not support.")
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise ModelFolderError(f"{MODULES} should begin with Transformer and Pooling, but has {kinds}.")
    path = str(modules[1].get("path", ""))
    if not path or Path(path).name != path:
        raise ModelFolderError(f"{MODULES} refers to {path[:40]!r}, which is not a subfolder.")
    content = read_json(folder / path / POOLING)
    modes = [name for name, value in content.items() if name.startswith("pooling_mode_") and value is True]
    known: dict[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}
    if len(modes) != 1 or modes[0] not in known:
        raise ModelFolderError(f"The folder pools vectors by {modes}; known: {', '.join(known)}.")
    return known[modes[0]], "Normalize" in kinds


# Text and labels


def open_tokenizer(folder: Path, vocabulary: int) -> PublishedTokenizer:
    """Return the tokenizer of a folder, padded to the model's vocabulary, with its special tokens."""
    has_own = (folder / FILE_NAME).is_file()
    content = filled_up(read_tokenizer(folder) if has_own else tokenizer_of_vocabulary(folder), vocabulary)
    return PublishedTokenizer(content, special_ids(folder, read_description(content).special))


def special_ids(folder: Path, known: Mapping[str, int]) -> SpecialIds:
    """Return the ids of the special tokens that a folder names, or of BERT's or RoBERTa's."""
    said = {**read_optional(folder / TOKENIZER), **read_optional(folder / SPECIAL)}
    ids: dict[str, int] = {}
    for ours, (theirs, *usual) in SPECIAL_NAMES.items():
        written = said.get(theirs)
        name = written.get("content") if isinstance(written, dict) else written
        found = [known[each] for each in ([name] if name else usual) if each in known]
        if found:
            ids[ours] = found[0]
        elif ours != "mask":
            raise ModelFolderError(f"The tokenizer of {folder} has no {theirs}.")
    return SpecialIds(**ids)


def tokenizer_of_vocabulary(folder: Path) -> bytes:
    """Return a WordPiece tokenizer.json for a vocabulary file with one word per line."""
    path = folder / VOCABULARY
    if not path.is_file():
        raise ModelFolderError(
            f"{folder} has neither {FILE_NAME} nor {VOCABULARY}.", "Other tokenizer files are not supported."
        )
    if path.stat().st_size > LARGEST_FILE:
        raise ModelFolderError(f"{path} has more than {LARGEST_FILE:,} bytes.")
    pieces = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    ids = {piece.rstrip("\r"): number for number, piece in enumerate(pieces)}
    said = read_optional(folder / TOKENIZER)
    special = [names[0] for _, *names in SPECIAL_NAMES.values() if names[0] in ids]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    content = {
        "added_tokens": [{"id": ids[name], "content": name, **flags, "special": True} for name in special],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": said.get("tokenize_chinese_chars", True) is not False,
            "strip_accents": said.get("strip_accents"),
            "lowercase": said.get("do_lower_case", True) is not False,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": ids},
    }  # fmt: skip
    return json.dumps(content, ensure_ascii=False).encode()


def processor_of(
    config: EncoderOnlyConfig, tokenizer: PublishedTokenizer, folder: Path, format_: EncoderFormat
) -> Processor:
    """Return the processor of text."""
    limits = [
        config.longest,
        read_optional(folder / TOKENIZER).get("model_max_length"),
        read_optional(folder / SENTENCES).get("max_seq_length"),
    ]
    longest = min(limit for limit in limits if isinstance(limit, int))
    separators = 2 if format_.model_type == "roberta" else 1
    return Processor(
        tokenizer=tokenizer.file_name, special=tokenizer.special, max_tokens=longest, separators=separators
    )


def labels_of(config: EncoderOnlyConfig, content: Mapping[str, Any]) -> Labels | None:
    """Return the names of the labels and how many are chosen."""
    if not config.labels:
        return None
    names, kind = label_names(content), content.get("problem_type")
    if kind == "multi_label_classification":
        return Labels(names=names, choice="several", thresholds=(0.5,) * len(names))
    is_number = config.head == "class" and (kind == "regression" or len(names) == 1)
    return Labels(names=names, choice="number" if is_number else "one")


# The same model in transformers


def compare(folder: Path, theirs: Path) -> tuple[Comparison, ...]:
    """Compare the outputs and the tokens of a model folder with those of transformers for the original folder."""
    if not is_installed():
        return ()
    be_quiet()
    info = load_info(folder)
    [model] = load_members(folder, info)
    config, tokenizer = cast("EncoderOnlyConfig", info.model), load_any_tokenizer(folder, info)
    row = RowFormat(tokenizer.special, LONGEST_TEXT, info.processors["text"].separators)
    name, answers = name_of_reference(), reference(theirs, config)
    tokens = compare_tokens(lambda text: row.one(tokenizer.encode(text)).tokens, automatic_encoder(theirs), name)
    is_vector = config.head == "projection"
    tolerance, what = (VECTOR_TOLERANCE, "vectors") if is_vector else (TOLERANCE, "answers")
    return tokens, compare_logits(model, answers, rows_to_compare(tokenizer, config), name, tolerance, what)


def rows_to_compare(tokenizer: AnyTokenizer, config: EncoderOnlyConfig) -> list[list[int]]:
    """Return rows of texts, and of random tokens from the whole vocabulary without padding."""
    rows = sample_rows(tokenizer, tokenizer.special.bos, config.longest)
    return [[tokenizer.special.eos if token == config.pad_id else token for token in row] for row in rows]


def reference(folder: Path, config: EncoderOnlyConfig) -> Logits:
    """Return the function of transformers from tokens (1, T) to the output of the head of a folder's model."""
    import transformers

    architecture = class_of(read_json(folder / CONFIG), FORMATS, PLAIN).architecture
    # A class of the package itself, never code from the folder; safetensors, never pickles.
    model = getattr(transformers, architecture).from_pretrained(
        folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False, local_files_only=True
    )
    return answers_of(model, config)


def answers_of(model: PreTrainedModel, config: EncoderOnlyConfig) -> Logits:
    """Return the function from tokens (1, T) to the output of a model of transformers."""
    model.eval()
    answer = THEIR_ANSWERS.get(config.head, their_logits)
    return lambda tokens: answer(model(tokens, attention_mask=(tokens != config.pad_id).long()), config)[0]


def their_logits(output: Any, config: EncoderOnlyConfig) -> Tensor:  # noqa: ARG001
    """Return the logits of an output."""
    logits: Tensor = output.logits
    return logits


def their_sentence_vectors(output: Any, config: EncoderOnlyConfig) -> Tensor:
    """Return the sentence vectors of an output, as sentence-transformers computes them, without padding."""
    hidden: Tensor = output.last_hidden_state
    return F.normalize(hidden[:, 0] if config.pooling == "first" else hidden.mean(dim=1), dim=-1)


THEIR_ANSWERS: dict[HeadName, Callable[[Any, EncoderOnlyConfig], Tensor]] = {
    "projection": their_sentence_vectors,
    "vectors": lambda output, _: output.last_hidden_state,
    "span": lambda output, _: torch.stack([output.start_logits, output.end_logits], dim=-1),
}
