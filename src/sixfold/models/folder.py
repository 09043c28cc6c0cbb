"""The model folder, format 2: weights, tokenizer, configuration and model card; nothing in it is ever executed.

sixfold.json          the model's description, the SHA-256 of the other files and of itself
weights.safetensors   the tensors, tied ones once; further members of an ensemble are weights-2.safetensors, …
tokenizer.model       SentencePiece; tokenizer.json if a published model has its own tokenizer
README.md             the model card
training/             only to continue training; deletable
"""

from __future__ import annotations

import errno
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sixfold.errors import ConfigError, ModelFolderError
from sixfold.files import BLANK, is_sealed, replacing, seal, sha256, write_atomically, writing
from sixfold.models import format_1
from sixfold.models.kinds import KINDS, KindName
from sixfold.models.weights import set_weights, weights_of
from sixfold.nn import BlockConfig
from sixfold.text import AnyTokenizer, SpecialIds, Tokenizer
from sixfold.text.any_tokenizer import TokenizerFile
from sixfold.text.chat import ChatTemplate
from sixfold.text.published_tokenizer import PublishedTokenizer

FORMAT = 2
CONFIG, WEIGHTS, CARD = "sixfold.json", "weights.safetensors", "README.md"
TOKENIZERS: tuple[TokenizerFile, ...] = ("tokenizer.model", "tokenizer.json")
DTYPES = {  # of the weights in their files; in memory they are float32
    "float32": (torch.float32, "F32"),
    "float16": (torch.float16, "F16"),
    "bfloat16": (torch.bfloat16, "BF16"),
}
WEIGHTS_NAME = re.compile(r"weights(-\d{1,5})?\.safetensors")
LARGEST_CONFIG, LARGEST_TOKENIZER = 4 * 2**20, 128 * 2**20  # bytes; no file of ours is larger
LARGEST_HEADER = 16 * 2**20  # bytes of a weight file that are not weights

Json = JsonValue


class FileDigest(BaseModel):
    """The SHA-256 of a file, and while it is being replaced also that of the previous one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    previous: str = ""


class Processor(BaseModel):
    """How the raw input of one side becomes numbers: text, with a tokenizer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["text"] = "text"
    tokenizer: TokenizerFile = "tokenizer.model"
    special: SpecialIds = SpecialIds()
    decoder_start: int | None = None  # the decoder's first input, if this is the decoder's side and it has one
    chat: ChatTemplate | None = None  # of models trained on conversations
    max_tokens: int | None = Field(None, ge=3)  # of what an encoder reads, special tokens included
    separators: int = Field(1, ge=1, le=2)  # tokens between two texts that an encoder reads together


Side = Literal["source", "target", "text"]  # "text": the only side of models that continue text
TEXT_TO_TEXT: dict[Side, Processor] = {
    "source": Processor(),
    "target": Processor(decoder_start=SpecialIds().bos),
}


class Languages(BaseModel):
    """The languages of source and target, empty if unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = ""
    target: str = ""


class Labels(BaseModel):
    """What the logits of a classifier or a tagger stand for, and how they become an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...] = Field(min_length=1)  # of the logits, first to last
    choice: Literal["one", "several", "number"] = "one"  # of the labels for a text; a number has one logit
    thresholds: tuple[float, ...] = ()  # of each probability, where several labels may be chosen
    temperature: float = Field(1.0, gt=0, allow_inf_nan=False)  # that logits are divided by
    mean: float = Field(0.0, allow_inf_nan=False)  # of numbers that were learned: what a logit of 0 stands for
    deviation: float = Field(1.0, gt=0, allow_inf_nan=False)  # what a logit of 1 is above that


class ModelInfo(BaseModel):
    """The content of sixfold.json; fields that are not needed to use the model are optional."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(FORMAT, ge=1)
    kind: KindName = "encoder_decoder"
    task: str = Field("translate", pattern=r"^[a-z_]{1,40}$")
    sixfold: str = ""  # the version that wrote it
    model: SerializeAsAny[BlockConfig]
    processors: dict[Side, Processor] = TEXT_TO_TEXT
    labels: Labels | None = Field(None, validate_default=True)
    languages: Languages = Languages()
    decode: dict[str, Json] = {}  # decoding defaults
    corpus: dict[str, Json] = {}  # names, sizes and digests of the training text
    scores: dict[str, Json] = {}
    training: dict[str, Json] = {}  # the resolved recipe, steps, time
    weights: list[list[str]] = Field([[WEIGHTS]], min_length=1, max_length=16)  # the files of each member
    dtype: Literal["float32", "float16", "bfloat16"] = "float32"  # of the weights in these files
    files: dict[str, FileDigest] = {}

    @field_validator("model", mode="before")
    @classmethod
    def read_model(cls, value: object, info: ValidationInfo) -> object:
        """Check the configuration by the kind of the model."""
        kind = info.data.get("kind")
        return KINDS[kind].config.model_validate(value) if kind in KINDS else value

    @field_validator("labels")
    @classmethod
    def check_labels(cls, value: Labels | None, info: ValidationInfo) -> Labels | None:
        """Refuse another number of labels than the model has."""
        expected = getattr(info.data.get("model"), "labels", 0)
        found = len(value.names) if value else 0
        if found != expected:
            raise ValueError(f"{found:,} labels are named; the model has {expected:,}")
        return value

    @field_validator("weights")
    @classmethod
    def check_weights(cls, value: list[list[str]]) -> list[list[str]]:
        """Refuse names that could point outside the folder, and members without a file."""
        for name in (name for member in value for name in member):
            if not WEIGHTS_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a weight file")
        if not all(value):
            raise ValueError("a member has no weight file")
        return value


def weight_files(count: int) -> list[list[str]]:
    """Return the names of the weight files of `count` members, one each."""
    return [[WEIGHTS], *([f"weights-{number}.safetensors"] for number in range(2, count + 1))]


def save_model(
    folder: Path, info: ModelInfo, members: Sequence[dict[str, Tensor]], tokenizer: AnyTokenizer, card: str
) -> None:
    """Write or replace a model; at every moment each of its weight files is whole, old or new.

    The new digests are written next to the old ones before the weights are replaced. A model of another shape,
    tokenizer or format cannot be replaced in that way: the old one is deleted first.
    """
    info = info.model_copy(update={"format": FORMAT, "weights": weight_files(len(members))})
    names = [name for [name] in info.weights]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        before = replaceable_weights(folder, info, tokenizer)
        if not before:
            (folder / CONFIG).unlink(missing_ok=True)
    write_atomically(folder / tokenizer.file_name, tokenizer.model)
    write_atomically(folder / CARD, card.encode())
    with ExitStack() as replaced:
        digests = {}
        for name, weights in zip(names, members, strict=True):
            temporary = replaced.enter_context(replacing(folder / name))
            write_tensors(temporary, weights, DTYPES[info.dtype][0])
            digests[name] = FileDigest(sha256=sha256(temporary), previous=before.get(name, ""))
        if before:
            write_info(folder, info, digests, tokenizer)
    digests = {name: FileDigest(sha256=each.sha256) for name, each in digests.items()}
    write_info(folder, info, digests, tokenizer)
    remove_others(folder, (*names, tokenizer.file_name))


def remove_others(folder: Path, names: Sequence[str]) -> None:
    """Remove files that a larger ensemble or another tokenizer left behind."""
    for path in (*folder.glob("weights-*.safetensors"), *(folder / name for name in TOKENIZERS)):
        is_ours = path.name in TOKENIZERS or WEIGHTS_NAME.fullmatch(path.name)
        if is_ours and path.name not in names and path.is_file():
            with writing(path):
                path.unlink()


def replaceable_weights(folder: Path, info: ModelInfo, tokenizer: AnyTokenizer) -> dict[str, str]:
    """Return the digests of a folder's weights if new ones can replace them one by one, or an empty dictionary."""
    try:
        old = load_info(folder)
        kept = ("format", "model", "weights", "dtype")
        is_same = all(getattr(old, name) == getattr(info, name) for name in kept)
        if not is_same or load_any_tokenizer(folder, old).model != tokenizer.model:
            return {}
        return {name: sha256(checked(folder, name, old)) for member in old.weights for name in member}
    except ModelFolderError:
        return {}


def write_tensors(path: Path, weights: dict[str, Tensor], dtype: torch.dtype) -> None:
    """Write a safetensors file."""
    try:
        save_file({name: tensor.to(dtype).contiguous() for name, tensor in weights.items()}, path)
    except SafetensorError as error:  # only its text tells which disk error occurred
        raise OSError(errno.ENOSPC, str(error)) from error


def write_info(folder: Path, info: ModelInfo, weights: dict[str, FileDigest], tokenizer: AnyTokenizer) -> None:
    """Write sixfold.json."""
    own, name = FileDigest(sha256=BLANK), tokenizer.file_name
    files = {CONFIG: own, **weights, name: FileDigest(sha256=sha256(folder / name))}
    # The digests come before any text of others, so that none of it is mistaken for the blank.
    content = {"files": {}, **info.model_copy(update={"files": files}).model_dump(mode="json")}
    write_atomically(folder / CONFIG, seal(json.dumps(content, indent=2, ensure_ascii=False) + "\n"))


def load_info(folder: Path) -> ModelInfo:
    """Read and check sixfold.json."""
    path = folder / CONFIG
    if not folder.is_dir():
        raise ModelFolderError(
            f"There is no model folder {folder}.", "Give a folder that `sixfold train -o` wrote."
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
        is_first_format = isinstance(content, dict) and content.get("format", 1) == 1
        info = ModelInfo.model_validate(format_1.upgraded(content) if is_first_format else content)
    except (ValueError, RecursionError, ConfigError, OSError) as error:
        raise ModelFolderError(f"{path} cannot be read: {first_problem(error)}") from error
    refuse_changed(path, raw, info)
    return info


def refuse_changed(path: Path, raw: bytes, info: ModelInfo) -> None:
    """Refuse a changed configuration; the oldest ones have no digest of themselves."""
    known = {CONFIG, tokenizer_name(info), *(name for each in info.weights for name in each)}
    if odd := sorted(info.files.keys() - known):
        raise ModelFolderError(f"{path} lists the file {odd[0]}, which does not belong into a model folder.")
    own = info.files.get(CONFIG)
    if own is not None and not is_sealed(raw, own.sha256):
        raise ModelFolderError(
            f"{path} was changed or damaged: its SHA-256 differs.",
            f'Copy the model folder again. If you changed it on purpose, delete "{CONFIG}" from its "files".',
        )


def folder_hint(folder: Path) -> str:
    """Return why a folder may not have a model yet."""
    if (folder / "training").is_dir():
        return "Training has not reached its first validation yet; the model is written there."
    return "Give a folder that `sixfold train -o` wrote."


def refuse_larger(path: Path, limit: int) -> None:
    """Refuse a file that is too large for the memory."""
    if path.stat().st_size > limit:
        raise ModelFolderError(f"{path} is {path.stat().st_size:,} bytes; at most {limit:,} were expected.")


def first_problem(error: Exception) -> str:
    """Return the first problem of a validation error in one line."""
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    return str(error)


def tokenizer_name(info: ModelInfo) -> TokenizerFile:
    """Return the name of the tokenizer's file, which all sides share."""
    return next(iter(info.processors.values())).tokenizer


def load_tokenizer(folder: Path, info: ModelInfo) -> Tokenizer:
    """Read the tokenizer of a model trained by Sixfold."""
    tokenizer = load_any_tokenizer(folder, info)
    if not isinstance(tokenizer, Tokenizer):
        raise ModelFolderError(f"{folder} has a published tokenizer, but a SentencePiece model was expected.")
    return tokenizer


def load_any_tokenizer(folder: Path, info: ModelInfo) -> AnyTokenizer:
    """Read the tokenizer of a model folder."""
    path = checked(folder, tokenizer_name(info), info)
    refuse_larger(path, LARGEST_TOKENIZER)
    tokenizer = open_tokenizer(path, next(iter(info.processors.values())).special)
    known = getattr(info.model, "vocabulary", tokenizer.vocabulary)
    if tokenizer.vocabulary != known:
        raise ModelFolderError(f"{path} has {tokenizer.vocabulary:,} tokens, but the model has {known:,}.")
    if any(side.special != tokenizer.special for side in info.processors.values()):
        raise ModelFolderError(f"{path} and {CONFIG} disagree about the special tokens.")
    return tokenizer


def open_tokenizer(path: Path, special: SpecialIds) -> AnyTokenizer:
    """Read a tokenizer; the configuration tells which tokens of a published one are special."""
    return Tokenizer.load(path) if path.name == Tokenizer.file_name else PublishedTokenizer.load(path, special)


def load_members(folder: Path, info: ModelInfo) -> list[nn.Module]:
    """Load the models of a folder, after checking the digests, names, shapes and types of their weights."""
    with torch.device("meta"):
        expected = weights_of(KINDS[info.kind].model(info.model))
    refuse_wrong_sizes(folder, info, expected)
    return [build_model(info, read_member(folder, info, number, expected)) for number in range(len(info.weights))]


def build_model(info: ModelInfo, weights: dict[str, Tensor]) -> nn.Module:
    """Return a model with these weights, in evaluation mode."""
    model = KINDS[info.kind].model(info.model)
    set_weights(model, weights)
    return model.eval()


def refuse_wrong_sizes(folder: Path, info: ModelInfo, expected: dict[str, Tensor]) -> None:
    """Refuse, before memory is allocated, files of another size than the configuration implies."""
    size = sum(DTYPES[info.dtype][0].itemsize * math.prod(tensor.shape) for tensor in expected.values())
    for names, count in Counter(map(tuple, info.weights)).items():  # format 1 has all members in one file
        paths = [checked(folder, name, info) for name in names]
        needed, found = count * size, sum(path.stat().st_size for path in paths)
        if not needed <= found <= needed + len(paths) * LARGEST_HEADER:
            raise ModelFolderError(
                f"{' and '.join(map(str, paths))} is {found:,} bytes; "
                f"the configuration describes {needed:,} bytes of weights."
            )


def read_member(folder: Path, info: ModelInfo, number: int, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read the tensors of one member, after checking that the headers of its files list exactly these."""
    with ExitStack() as files:
        found: dict[str, tuple[Any, str]] = {}  # by current name: the file and the name in it
        for path in (folder / name for name in info.weights[number]):
            try:
                file = files.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelFolderError(f"{path} is damaged: {error}") from error
            names = stored_names(info, file.keys(), number)
            found |= {name: (file, stored) for name, stored in names.items()}
        if odd := sorted(found.keys() ^ expected.keys()):
            raise ModelFolderError(f"{path} and its configuration disagree about the tensor {odd[0]}.")
        dtype = DTYPES[info.dtype][1]
        return {name: read_tensor(path, *found[name], tensor, dtype) for name, tensor in expected.items()}


def stored_names(info: ModelInfo, names: Sequence[str], number: int) -> dict[str, str]:
    """Return the name in the file of each of a member's tensors."""
    if info.format == 1:
        return format_1.new_names(names, number, len(info.weights))
    return {name: name for name in names}


def read_tensor(path: Path, file: Any, name: str, expected: Tensor, dtype: str) -> Tensor:
    """Read one tensor; refuse another shape or type, and numbers that are not finite."""
    try:
        found = file.get_slice(name)
        described, has = (dtype, list(expected.shape)), (found.get_dtype(), found.get_shape())
        if described != has:
            raise ModelFolderError(f"{path}: {name} should be {described}, but is {has}.")
        tensor: Tensor = file.get_tensor(name).float()
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}") from error
    if not tensor.isfinite().all():
        raise ModelFolderError(f"{path}: {name} contains numbers that are not finite.")
    return tensor


def checked(folder: Path, name: str, info: ModelInfo) -> Path:
    """Return the path of a file of the folder, after verifying its digest."""
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise ModelFolderError(
            f"{folder} has no regular file {name}.", "The model folder is incomplete: copy it again."
        )
    digest = info.files.get(name)
    if digest is None or sha256(path) not in (digest.sha256, digest.previous):
        raise ModelFolderError(
            f"{path} is not the file that {CONFIG} describes: its SHA-256 differs.",
            "The file was damaged or changed: copy the model folder again.",
        )
    return path
