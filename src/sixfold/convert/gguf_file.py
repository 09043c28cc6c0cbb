"""Read a GGUF file as plain data: its header is checked here before any size in it is used.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The package `gguf` only dequantises checked tensors.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from sixfold.errors import MissingExtraError, ModelFolderError

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType

MAGIC, VERSIONS = b"GGUF", (2, 3)
MOST_HEADER_BYTES = 64 * 2**20  # everything before the tensors; Llama 3's is 8 MB
MOST_FIELDS, MOST_TENSORS, MOST_STRINGS = 10_000, 100_000, 2**21
MOST_DIMENSIONS, LARGEST_ALIGNMENT = 4, 2**16
STRING, ARRAY = 8, 9
NUMBERS: dict[int, str] = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Value = bool | int | float | str | list[str] | Array


@dataclass(frozen=True)
class StoredTensor:
    """The location and the quantisation of a tensor."""

    shape: tuple[int, ...]  # in torch's order: the last dimension is contiguous
    kind: GGMLQuantizationType
    start: int  # byte offset in the file
    num_bytes: int


@dataclass(frozen=True)
class GgufFile:
    """The checked header of a file."""

    path: Path
    fields: Mapping[str, Value]
    tensors: Mapping[str, StoredTensor]

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every tensor."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    def read(self, name: str) -> Tensor:
        """Return a tensor: float16 and bfloat16 unchanged, quantised types in float32."""
        from gguf import GGMLQuantizationType as Kind
        from gguf.quants import dequantize

        stored = self.tensors[name]
        raw = np.fromfile(self.path, np.uint8, stored.num_bytes, offset=stored.start)
        if raw.size != stored.num_bytes:
            raise damaged(self.path, "it was truncated while it was read")
        floats = {Kind.F32: torch.float32, Kind.F16: torch.float16, Kind.BF16: torch.bfloat16}
        if stored.kind in floats:
            return torch.from_numpy(raw).view(floats[stored.kind]).view(stored.shape)
        try:
            with np.errstate(all="ignore"):  # the caller refuses numbers that are not finite
                values = dequantize(raw.reshape(*stored.shape[:-1], -1), stored.kind)
        except NotImplementedError as error:
            raise ModelFolderError(
                f"{self.path}: {name} is stored as {stored.kind.name}, which is not supported."
            ) from error
        return torch.from_numpy(values.reshape(stored.shape))


def damaged(path: Path, reason: str) -> ModelFolderError:
    """Return the error for a damaged file."""
    return ModelFolderError(f"{path} is damaged: {reason}.", "Download the file again.")


def read_gguf(path: Path) -> GgufFile:
    """Read and check the header of a file."""
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("gguf", "published", "Reading a GGUF file") from error
    try:
        with path.open("rb") as file:
            return HeaderReader(path, file).read()
    except OSError as error:
        raise ModelFolderError(f"{path} cannot be read: {error.strerror}.") from error


class HeaderReader:
    """Reads the part before the tensors; every count is checked against the remaining bytes."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.size = path.stat().st_size

    def read(self) -> GgufFile:
        """Return the whole header."""
        if self.take(4) != MAGIC:
            raise ModelFolderError(f"{self.path} is not a GGUF file.")
        version = self.number("<I")
        if version not in VERSIONS:
            raise ModelFolderError(f"{self.path} is GGUF version {version}; versions 2 and 3 are supported.")
        num_tensors = self.count("tensors", MOST_TENSORS)
        fields: dict[str, Value] = {}
        for _ in range(self.count("fields", MOST_FIELDS)):
            name = self.string()
            fields[name] = self.value(self.number("<I"))
        infos = {self.string(): self.tensor_info() for _ in range(num_tensors)}
        if len(infos) != num_tensors:
            raise damaged(self.path, "two tensors have the same name")
        return GgufFile(self.path, fields, self.located(infos, fields))

    def take(self, count: int) -> bytes:
        """Return the next bytes, if the file has them and the header does not become too large."""
        end = self.file.tell() + count
        if end > self.size:
            raise damaged(self.path, "it is truncated")
        if end > MOST_HEADER_BYTES:
            raise damaged(self.path, f"its header has more than {MOST_HEADER_BYTES:,} bytes")
        raw = self.file.read(count)
        if len(raw) != count:
            raise damaged(self.path, "it is truncated")
        return raw

    def number(self, form: str) -> int:
        """Return the next integer."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def count(self, what: str, most: int) -> int:
        """Return how many of something follow."""
        count = self.number("<Q")
        if count > most:
            raise damaged(self.path, f"it claims to have {count:,} {what}; at most {most:,} were expected")
        return count

    def string(self) -> str:
        """Return the next text."""
        return self.take(self.count("bytes of a text", MOST_HEADER_BYTES)).decode(errors="replace")

    def value(self, kind: int) -> Value:
        """Return the next value of a kind."""
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            return self.array()
        value: bool | int | float = self.numbers(kind, 1).item()
        return value

    def numbers(self, kind: int, count: int) -> Array:
        """Return the next numbers of a kind."""
        if kind not in NUMBERS:
            raise damaged(self.path, f"a field has the unknown type {kind}")
        dtype = np.dtype(NUMBERS[kind])
        return np.frombuffer(self.take(count * dtype.itemsize), np.uint8 if kind == 7 else dtype).astype(dtype)

    def array(self) -> Value:
        """Return the next list; refuse lists of lists, which no field has."""
        kind = self.number("<I")
        if kind == ARRAY:
            raise damaged(self.path, "a field is a list of lists")
        count = self.count("texts" if kind == STRING else "numbers", MOST_STRINGS)
        return [self.string() for _ in range(count)] if kind == STRING else self.numbers(kind, count)

    def tensor_info(self) -> tuple[tuple[int, ...], int, int]:
        """Return the next tensor's shape, type and offset."""
        dimensions = self.number("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise damaged(self.path, f"a tensor has {dimensions:,} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dimensions))[::-1]
        return shape, self.number("<I"), self.number("<Q")

    def located(
        self, infos: Mapping[str, tuple[tuple[int, ...], int, int]], fields: Mapping[str, Value]
    ) -> dict[str, StoredTensor]:
        """Return the location of each tensor; refuse incomplete and overlapping ones."""
        alignment = fields.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= LARGEST_ALIGNMENT:
            raise damaged(self.path, "its alignment is invalid")
        begin = -(-self.file.tell() // alignment) * alignment
        tensors = {name: self.stored(name, *info, begin) for name, info in infos.items()}
        end = begin
        for name, tensor in sorted(tensors.items(), key=lambda item: item[1].start):
            if tensor.start < end:
                raise damaged(self.path, f"the tensor {name} overlaps another one")
            end = tensor.start + tensor.num_bytes
        return tensors

    def stored(self, name: str, shape: tuple[int, ...], kind: int, offset: int, begin: int) -> StoredTensor:
        """Return the location of a tensor, if it is complete in the file."""
        from gguf import GGMLQuantizationType
        from gguf.constants import GGML_QUANT_SIZES

        try:
            known = GGMLQuantizationType(kind)
            block, block_bytes = GGML_QUANT_SIZES[known]
        except (ValueError, KeyError):
            raise damaged(self.path, f"the tensor {name} has the unknown type {kind}") from None
        if not all(shape) or shape[-1] % block:
            raise damaged(self.path, f"the tensor {name} cannot have the shape {shape}")
        num_bytes = math.prod(shape) // block * block_bytes
        if begin + offset + num_bytes > self.size:
            raise damaged(self.path, f"the tensor {name} is incomplete")
        return StoredTensor(shape, known, begin + offset, num_bytes)
