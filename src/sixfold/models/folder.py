"""The model folder, format 2: weights, tokenizer, configuration and model card; nothing in it is ever executed.

sixfold.json          what the model is, the SHA-256 of the files beside it and of itself
weights.safetensors   the tensors, tied ones once; further members of an ensemble are weights-2.safetensors, …
tokenizer.model       SentencePiece; tokenizer.json where a published model brings its own
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
LARGEST_CONFIG, LARGEST_TOKENIZER = 4 * 2**20, 128 * 2**20  # bytes; what is larger is not one of ours
LARGEST_HEADER = 16 * 2**20  # bytes of a file of weights that are no weights

Json = JsonValue


class FileDigest(BaseModel):
    """The SHA-256 of a file, and while it is being replaced also that of the one before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str
    previous: str = ""


class Processor(BaseModel):
    """How the raw input of one side becomes numbers: text, with a tokenizer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["text"] = "text"
    tokenizer: TokenizerFile = "tokenizer.model"
    special: SpecialIds = SpecialIds()
    decoder_start: int | None = None  # the decoder's first input, if this side is its and has one
    chat: ChatTemplate | None = None  # of models that were trained on conversations
    max_tokens: int | None = Field(None, ge=3)  # of what an encoder reads, special tokens included
    separators: int = Field(1, ge=1, le=2)  # tokens between two texts that an encoder reads together


Side = Literal["source", "target", "text"]  # "text" is the only side of models that go on with what they read
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
    """The content of sixfold.json. What is not needed to use the model is optional."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = Field(FORMAT, ge=1)
    kind: KindName = "encoder_decoder"
    task: str = Field("translate", pattern=r"^[a-z_]{1,40}$")
    sixfold: str = ""  # the version that wrote it
    model: SerializeAsAny[BlockConfig]
    processors: dict[Side, Processor] = TEXT_TO_TEXT
    labels: Labels | None = Field(None, validate_default=True)
    languages: Languages = Languages()
    decode: dict[str, Json] = {}  # defaults of the search
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
        """Refuse names that could lead out of the folder, and members without a file."""
        for name in (name for member in value for name in member):
            if not WEIGHTS_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no file of weights")
        if not all(value):
            raise ValueError("a member has no file of weights")
        return value


def weight_files(count: int) -> list[list[str]]:
    """Return the names of the files of so many members, one file each."""
    return [[WEIGHTS], *([f"weights-{number}.safetensors"] for number in range(2, count + 1))]


def save_model(
    folder: Path, info: ModelInfo, members: Sequence[dict[str, Tensor]], tokenizer: AnyTokenizer, card: str
) -> None:
    """Write or replace a model; at every moment in between each of its weight files is whole, old or new.

    The new digests are announced beside the old ones before the weights change place. A model of another shape,
    tokenizer or format cannot be exchanged like that: the old one is given up first.
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
    """Remove what a larger ensemble or another tokenizer left behind."""
    for path in (*folder.glob("weights-*.safetensors"), *(folder / name for name in TOKENIZERS)):
        is_ours = path.name in TOKENIZERS or WEIGHTS_NAME.fullmatch(path.name)
        if is_ours and path.name not in names and path.is_file():
            with writing(path):
                path.unlink()


def replaceable_weights(folder: Path, info: ModelInfo, tokenizer: AnyTokenizer) -> dict[str, str]:
    """Return the digests of the weights in a folder if others may take their place one for one, or nothing."""
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
    except SafetensorError as error:  # it says only in words which error of the disk it met
        raise OSError(errno.ENOSPC, str(error)) from error


def write_info(folder: Path, info: ModelInfo, weights: dict[str, FileDigest], tokenizer: AnyTokenizer) -> None:
    """Write sixfold.json."""
    own, name = FileDigest(sha256=BLANK), tokenizer.file_name
    files = {CONFIG: own, **weights, name: FileDigest(sha256=sha256(folder / name))}
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
        is_first_format = isinstance(content, dict) and content.get("format", 1) == 1
        info = ModelInfo.model_validate(format_1.upgraded(content) if is_first_format else content)
    except (ValueError, RecursionError, ConfigError, OSError) as error:
        raise ModelFolderError(f"{path} cannot be read: {first_problem(error)}") from error
    refuse_changed(path, raw, info)
    return info


def refuse_changed(path: Path, raw: bytes, info: ModelInfo) -> None:
    """Refuse a configuration that is not as it was written; the first ones ever hold no digest of themselves."""
    known = {CONFIG, tokenizer_name(info), *(name for each in info.weights for name in each)}
    if odd := sorted(info.files.keys() - known):
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


def tokenizer_name(info: ModelInfo) -> TokenizerFile:
    """Return the file of the tokenizer, which all sides share."""
    return next(iter(info.processors.values())).tokenizer


def load_tokenizer(folder: Path, info: ModelInfo) -> Tokenizer:
    """Read the tokenizer of a model that we trained."""
    tokenizer = load_any_tokenizer(folder, info)
    if not isinstance(tokenizer, Tokenizer):
        raise ModelFolderError(f"{folder} has a published tokenizer, where one of ours was expected.")
    return tokenizer


def load_any_tokenizer(folder: Path, info: ModelInfo) -> AnyTokenizer:
    """Read the tokenizer of a model folder."""
    path = checked(folder, tokenizer_name(info), info)
    refuse_larger(path, LARGEST_TOKENIZER)
    tokenizer = open_tokenizer(path, next(iter(info.processors.values())).special)
    known = getattr(info.model, "vocabulary", tokenizer.vocabulary)
    if tokenizer.vocabulary != known:
        raise ModelFolderError(f"{path} has {tokenizer.vocabulary:,} tokens; the model knows {known:,}.")
    if any(side.special != tokenizer.special for side in info.processors.values()):
        raise ModelFolderError(f"{path} has other special tokens than {CONFIG} says.")
    return tokenizer


def open_tokenizer(path: Path, special: SpecialIds) -> AnyTokenizer:
    """Read a tokenizer; of a published one the configuration tells which tokens are special."""
    return Tokenizer.load(path) if path.name == Tokenizer.file_name else PublishedTokenizer.load(path, special)


def load_members(folder: Path, info: ModelInfo) -> list[nn.Module]:
    """Read the models of a folder, after digests, names, shapes and types of their weights are checked."""
    with torch.device("meta"):
        expected = weights_of(KINDS[info.kind].model(info.model))
    refuse_wrong_sizes(folder, info, expected)
    return [build_model(info, read_member(folder, info, number, expected)) for number in range(len(info.weights))]


def build_model(info: ModelInfo, weights: dict[str, Tensor]) -> nn.Module:
    """Return a model, in evaluation mode, that holds these weights."""
    model = KINDS[info.kind].model(info.model)
    set_weights(model, weights)
    return model.eval()


def refuse_wrong_sizes(folder: Path, info: ModelInfo, expected: dict[str, Tensor]) -> None:
    """Refuse, before any memory is taken, files that cannot hold the tensors the configuration describes."""
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
    """Read exactly the expected tensors of one member, once the headers of its files promise these."""
    with ExitStack() as files:
        found: dict[str, tuple[Any, str]] = {}  # by today's name: the file and the name in it
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
    """Return, for each of a member's tensors, the name in the file."""
    if info.format == 1:
        return format_1.new_names(names, number, len(info.weights))
    return {name: name for name in names}


def read_tensor(path: Path, file: Any, name: str, expected: Tensor, dtype: str) -> Tensor:
    """Read one tensor of the expected shape and type, with finite numbers only."""
    try:
        found = file.get_slice(name)
        described, has = (dtype, list(expected.shape)), (found.get_dtype(), found.get_shape())
        if described != has:
            raise ModelFolderError(f"{path}: {name} should be {described}, but is {has}.")
        tensor: Tensor = file.get_tensor(name).float()
    except (SafetensorError, OSError) as error:
        raise ModelFolderError(f"{path} is damaged: {error}") from error
    if not tensor.isfinite().all():
        raise ModelFolderError(f"{path}: {name} holds numbers that are not finite.")
    return tensor


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
