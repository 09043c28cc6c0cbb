"""The model folder: weights, tokenizer, configuration and model card, and nothing that could be executed.

sixfold.json          what the model is, the SHA-256 of the files beside it and of itself
weights.safetensors   the tensors, tied ones once
tokenizer.model       SentencePiece
README.md             the model card
training/             only to continue training; deletable
"""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.files import BLANK, is_sealed, replacing, seal, sha256, write_atomically, writing
from sixfold.models.ensemble import Model, make_model
from sixfold.models.transformer import TransformerConfig
from sixfold.text import Tokenizer

FORMAT = 1
CONFIG, WEIGHTS, TOKENIZER, CARD = "sixfold.json", "weights.safetensors", "tokenizer.model", "README.md"
LARGEST_CONFIG, LARGEST_TOKENIZER = 4 * 2**20, 128 * 2**20  # bytes; what is larger is not one of ours

Json = JsonValue


class DecodeConfig(BaseModel):
    """How to search; the defaults are the paper's (section 6.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=128)
    length_penalty: float = Field(0.6, ge=0, le=10, description="α of the GNMT penalty ((5+length)/6)^α")
    extra_tokens: int = Field(50, ge=1, le=10_000, description="an output may be this much longer than its input")
    read_back: float = Field(0.0, ge=0, le=10, description="what the source's score after the output counts")


class FileDigest(BaseModel):
    """The SHA-256 of a file, and while it is being replaced also that of the one before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    previous: str = ""


class ModelInfo(BaseModel):
    """The content of sixfold.json. What is not needed to translate is optional."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(FORMAT, ge=1)
    kind: Literal["transformer"] = "transformer"
    sixfold: str = ""  # the version that wrote it
    model: TransformerConfig
    source_language: str = ""
    target_language: str = ""
    decode: DecodeConfig = DecodeConfig()
    corpus: dict[str, Json] = {}  # names, sizes and digests of the training text
    scores: dict[str, Json] = {}
    training: dict[str, Json] = {}  # the resolved recipe, steps, time
    files: dict[str, FileDigest] = {}


def save_model(folder: Path, info: ModelInfo, weights: dict[str, Tensor], tokenizer: Tokenizer, card: str) -> None:
    """Write or replace a model; at every moment in between the folder holds a whole model, old or new.

    The new digest is announced beside the old one before the weights change place. A model of another shape
    or tokenizer cannot be exchanged like that: the old one is given up first.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        before = replaceable_weights(folder, info, tokenizer)
        if not before:
            (folder / CONFIG).unlink(missing_ok=True)
    write_atomically(folder / TOKENIZER, tokenizer.model)
    write_atomically(folder / CARD, card.encode())
    with replacing(folder / WEIGHTS) as temporary:
        write_tensors(temporary, weights)
        digest = sha256(temporary)
        if before:
            write_info(folder, info, FileDigest(sha256=digest, previous=before))
    write_info(folder, info, FileDigest(sha256=digest))


def replaceable_weights(folder: Path, info: ModelInfo, tokenizer: Tokenizer) -> str:
    """Return the digest of the weights in a folder if others may take their place one for one, or else nothing."""
    try:
        old = load_info(folder)
        is_same = old.model == info.model and load_tokenizer(folder, old).model == tokenizer.model
        return sha256(checked(folder, WEIGHTS, old)) if is_same else ""
    except ModelFolderError:
        return ""


def write_tensors(path: Path, weights: dict[str, Tensor]) -> None:
    """Write a safetensors file."""
    try:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, path)
    except SafetensorError as error:  # it says only in words which error of the disk it met
        raise OSError(errno.ENOSPC, str(error)) from error


def write_info(folder: Path, info: ModelInfo, weights: FileDigest) -> None:
    """Write sixfold.json."""
    own = FileDigest(sha256=BLANK)
    files = {CONFIG: own, WEIGHTS: weights, TOKENIZER: FileDigest(sha256=sha256(folder / TOKENIZER))}
    # The digests stand before all that others wrote, so that no text of theirs is taken for the blank.
    content = {"files": {}, **info.model_copy(update={"files": files}).model_dump(mode="json")}
    write_atomically(folder / CONFIG, seal(json.dumps(content, indent=2, ensure_ascii=False) + "\n"))


def load_info(folder: Path) -> ModelInfo:
    """Read and check sixfold.json."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise ModelFolderError(
            f"There is no model folder {folder}.", "Give the folder that `sixfold train -o` wrote."
        )
    if not path.is_file() or path.is_symlink():
        raise ModelFolderError(f"{folder} is not a model folder: it has no {CONFIG}.", folder_hint(folder))
    refuse_larger(path, LARGEST_CONFIG)
    try:
        raw = path.read_bytes()
        content = json.loads(raw)
        if isinstance(content, dict) and isinstance(content.get("format"), int) and content["format"] > FORMAT:
            raise ModelFolderError(
                f"{path} has format {content['format']}; this version reads formats up to {FORMAT}.",
                f"Install sixfold {content.get('sixfold', 'of a later version')} or newer.",
            )
        info = ModelInfo.model_validate(content)
    except (ValueError, RecursionError, ConfigError, OSError) as error:
        raise ModelFolderError(f"{path} cannot be read: {first_problem(error)}") from error
    refuse_changed(path, raw, info)
    return info


def refuse_changed(path: Path, raw: bytes, info: ModelInfo) -> None:
    """Refuse a configuration that is not as it was written; the first ones ever hold no digest of themselves."""
    if odd := sorted(info.files.keys() - {CONFIG, WEIGHTS, TOKENIZER}):
        raise ModelFolderError(f"{path} lists the file {odd[0]}, which no model folder has.")
    own = info.files.get(CONFIG)
    if own is not None and not is_sealed(raw, own.sha256):
        raise ModelFolderError(
            f"{path} is not as it was written: its SHA-256 differs.",
            f'Copy the model folder again. Who changes it on purpose deletes "{CONFIG}" from its files.',
        )


def folder_hint(folder: Path) -> str:
    """Say why a folder may have no model in it yet."""
    if (folder / "training").is_dir():
        return "Training has not reached its first validation yet; the model is written there."
    return "Give the folder that `sixfold train -o` wrote."


def refuse_larger(path: Path, limit: int) -> None:
    """Refuse a file that would fill the memory."""
    if path.stat().st_size > limit:
        raise ModelFolderError(f"{path} is {path.stat().st_size:,} bytes; at most {limit:,} were expected.")


def first_problem(error: Exception) -> str:
    """Return the first complaint of a validation in one line."""
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    return str(error)


def load_tokenizer(folder: Path, info: ModelInfo) -> Tokenizer:
    """Read the tokenizer of a model folder."""
    path = checked(folder, TOKENIZER, info)
    refuse_larger(path, LARGEST_TOKENIZER)
    tokenizer = Tokenizer.load(path)
    if tokenizer.vocabulary != info.model.vocabulary:
        raise ModelFolderError(
            f"{path} has {tokenizer.vocabulary:,} tokens; the model knows {info.model.vocabulary:,}."
        )
    return tokenizer


def load_weights(folder: Path, info: ModelInfo) -> Model:
    """Read the weights of a model folder into a model, after their digest, names, shapes and types are checked."""
    path = checked(folder, WEIGHTS, info)
    with torch.device("meta"):
        expected = make_model(info.model).state_dict()
    check_size(path, expected)
    return build_model(info.model, read_tensors(path, expected))


def build_model(config: TransformerConfig, weights: dict[str, Tensor]) -> Model:
    """Return a model, in evaluation mode, that holds these weights."""
    model = make_model(config)
    model.load_state_dict(weights)
    return model.eval()


def check_size(path: Path, expected: dict[str, Tensor]) -> None:
    """Refuse, before any memory is taken, a file that cannot hold the tensors its configuration describes."""
    needed = sum(4 * math.prod(tensor.shape) for tensor in expected.values())
    if not needed <= path.stat().st_size <= needed + 16 * 2**20:
        raise ModelFolderError(
            f"{path} is {path.stat().st_size:,} bytes; the configuration describes {needed:,} bytes of weights."
        )


def read_tensors(path: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read exactly the expected tensors from a safetensors file, once its header promises these."""
    try:
        with safe_open(path, framework="pt") as file:
            if odd := sorted(set(file.keys()) ^ set(expected)):
                raise ModelFolderError(f"{path} and its configuration disagree about the tensor {odd[0]}.")
            for name, tensor in expected.items():
                found = file.get_slice(name)
                wanted, has = ("F32", list(tensor.shape)), (found.get_dtype(), found.get_shape())
                if wanted != has:
                    raise ModelFolderError(f"{path}: {name} should be {wanted}, but is {has}.")
            tensors = {name: file.get_tensor(name) for name in expected}
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}") from error
    if broken := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        raise ModelFolderError(f"{path}: {broken[0]} holds numbers that are not finite.")
    return tensors


def checked(folder: Path, name: str, info: ModelInfo) -> Path:
    """Return the path of a file of the folder, after its digest is verified."""
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise ModelFolderError(
            f"{folder} has no plain file {name}.", "The model folder is incomplete: copy it again."
        )
    digest = info.files.get(name)
    if digest is None or sha256(path) not in (digest.sha256, digest.previous):
        raise ModelFolderError(
            f"{path} is not the file that {CONFIG} describes: its SHA-256 differs.",
            "The file was damaged or changed: copy the model folder again.",
        )
    return path
