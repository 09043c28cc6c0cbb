"""Import a Hugging Face folder or a GGUF file as a model folder, after comparing its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from sixfold.callbacks import OnProgress, no_progress
from sixfold.convert import (
    gguf,
    huggingface_decoder_only,
    huggingface_encoder_only,
    huggingface_folder,
    llama_cpp,
)
from sixfold.convert.compare_logits import Comparison, compare_logits, compare_tokens, sample_rows
from sixfold.convert.exported_folder import new_folder
from sixfold.convert.gguf_file import MAGIC
from sixfold.convert.known_models import KNOWN_MODELS, fetched
from sixfold.convert.published import FREE_CHOICES, Published, write
from sixfold.convert.published_encoder import PublishedEncoder
from sixfold.errors import ConfigError, ModelFolderError
from sixfold.models.decoder_only import DecoderOnly
from sixfold.models.folder import CONFIG, Json, ModelInfo, load_any_tokenizer, load_info, load_members
from sixfold.text.published_tokenizer import PublishedTokenizer


@dataclass(frozen=True)
class Imported:
    """A written model folder, and the comparisons with other programs, if any are installed."""

    info: ModelInfo
    comparisons: tuple[Comparison, ...]


def import_model(source: str, out: Path, chat: str = "auto", on_progress: OnProgress = no_progress) -> Imported:
    """Write a published model as a model folder; `source` is a folder, a GGUF file or a known name."""
    known = KNOWN_MODELS.get(source)
    if known is None or Path(source).exists():
        return import_path(Path(source), out, chat, {}, on_progress)
    with fetched(known, on_progress) as path:
        return import_path(path, out, chat, {"licence": known.licence, "origin": known.origin}, on_progress)


def import_path(path: Path, out: Path, chat: str, origin: Mapping[str, Json], on_progress: OnProgress) -> Imported:
    """Write a published model in a folder or a file as a model folder."""
    file = gguf_file_of(path)
    with new_folder(out) as temporary:
        if file is not None:
            return import_gguf(file, temporary, chat, origin, on_progress)
        if huggingface_encoder_only.is_encoder(path):
            return import_encoder(path, temporary, chat, origin, on_progress)
        return import_decoder(path, temporary, chat, origin, on_progress)


def import_gguf(file: Path, out: Path, chat: str, origin: Mapping[str, Json], on_progress: OnProgress) -> Imported:
    """Write the model of a GGUF file."""
    model = with_origin(gguf.read_file(file, chat, on_progress), origin)
    return Imported(write(model, out), compare_file(out, file, model))


def import_decoder(
    path: Path, out: Path, chat: str, origin: Mapping[str, Json], on_progress: OnProgress
) -> Imported:
    """Write the decoder-only model of a Hugging Face folder."""
    model = with_origin(huggingface_decoder_only.read_folder(path, chat, on_progress), origin)
    return Imported(write(model, out), compare_folder(out, path))


def import_encoder(
    path: Path, out: Path, chat: str, origin: Mapping[str, Json], on_progress: OnProgress
) -> Imported:
    """Write the encoder-only model of a Hugging Face folder."""
    if chat not in FREE_CHOICES:
        raise ConfigError(f"{path} has an encoder, which has no chat template.", "Leave out --chat.")
    model = with_origin(huggingface_encoder_only.read_folder(path, on_progress), origin)
    return Imported(model.write(out), huggingface_encoder_only.compare(out, path))


AnyPublished = TypeVar("AnyPublished", Published, PublishedEncoder)


def with_origin(model: AnyPublished, origin: Mapping[str, Json]) -> AnyPublished:
    """Return a model with additions to its origin."""
    return replace(model, origin={**model.origin, **origin})


def gguf_file_of(path: Path) -> Path | None:
    """Return the GGUF file at a path, or None for a Hugging Face folder."""
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                return path
        raise ModelFolderError(f"{path} is not a GGUF file.", "Give a GGUF file or a Hugging Face folder.")
    if not path.is_dir():
        known = f"Known names: {', '.join(KNOWN_MODELS)}."
        raise ModelFolderError(f"{path} is neither a folder, a file nor the name of a known model.", known)
    if (path / huggingface_folder.CONFIG).is_file():
        return None
    if (path / CONFIG).is_file():
        raise ModelFolderError(f"{path} is already a model folder of Sixfold.", "It can be used as it is.")
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    raise ModelFolderError(
        f"{path} has no config.json and {len(files)} GGUF files.", "Name the one file to import."
    )


def compare_folder(folder: Path, source: Path) -> tuple[Comparison, ...]:
    """Compare a written model folder with transformers on the original Hugging Face folder."""
    model, tokenizer, start = opened(folder)
    reference = huggingface_decoder_only.reference(source)
    if reference is None:
        return ()
    tokens = compare_tokens(tokenizer.encode, huggingface_folder.encoder(source), "the package tokenizers")
    rows = sample_rows(tokenizer, start, model.config.max_positions)
    return tokens, compare_logits(model, reference, rows, huggingface_folder.name_of_reference())


def compare_file(folder: Path, source: Path, published: Published) -> tuple[Comparison, ...]:
    """Compare a written model folder with transformers on the same weights, and with llama.cpp on the file."""
    model, tokenizer, start = opened(folder)
    rows = sample_rows(tokenizer, start, model.config.max_positions)
    found = []
    reference = huggingface_decoder_only.reference_of_weights(published.config, published.weights)
    if reference is not None:
        found.append(compare_logits(model, reference, rows, huggingface_folder.name_of_reference()))
    if llama_cpp.is_installed():
        found.append(llama_cpp.compare_tokens_of(source, tokenizer))
        found.append(llama_cpp.compare_logits_of(source, model, rows))
    return tuple(found)


def opened(folder: Path) -> tuple[DecoderOnly, PublishedTokenizer, int | None]:
    """Return the model, the tokenizer and the start token of a model folder, as users get them."""
    info = load_info(folder)
    [model] = load_members(folder, info)
    tokenizer = cast("PublishedTokenizer", load_any_tokenizer(folder, info))
    return cast("DecoderOnly", model), tokenizer, info.processors["text"].decoder_start
