"""A GGUF file as plain data: its header is read and checked here before any size in it is believed.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The package `gguf` only dequantises what was checked.
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
MOST_HEADER_BYTES = 64 * 2**20  # all that stands before the tensors; Llama 3's is 8 MB
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
    """Where a tensor is, and how it is quantised."""

    shape: tuple[int, ...]  # in torch's order: the numbers of the last dimension are neighbours
    kind: GGMLQuantizationType
    start: int  # byte of the file
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
        """Return a tensor: float16 and bfloat16 as they are, what is quantised in float32."""
        from gguf import GGMLQuantizationType as Kind
        from gguf.quants import dequantize

        stored = self.tensors[name]
        raw = np.fromfile(self.path, np.uint8, stored.num_bytes, offset=stored.start)
        if raw.size != stored.num_bytes:
            raise damaged(self.path, "it was cut short while it was read")
        floats = {Kind.F32: torch.float32, Kind.F16: torch.float16, Kind.BF16: torch.bfloat16}
        if stored.kind in floats:
            return torch.from_numpy(raw).view(floats[stored.kind]).view(stored.shape)
        try:
            with np.errstate(all="ignore"):  # numbers that are not finite are refused by who reads them
                values = dequantize(raw.reshape(*stored.shape[:-1], -1), stored.kind)
        except NotImplementedError as error:
            raise ModelFolderError(
                f"{self.path}: {name} is stored as {stored.kind.name}, which is not read."
            ) from error
        return torch.from_numpy(values.reshape(stored.shape))


def damaged(path: Path, reason: str) -> ModelFolderError:
    """Return the error about a file that is not what it says."""
    return ModelFolderError(f"{path} is damaged: {reason}.", "Get the file again.")


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
    """Reads what stands before the tensors; every count is held against the bytes that are left."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path, self.file = path, file
        self.size = path.stat().st_size

    def read(self) -> GgufFile:
        """Return the whole header."""
        if self.take(4) != MAGIC:
            raise ModelFolderError(f"{self.path} is no GGUF file.")
        version = self.number("<I")
        if version not in VERSIONS:
            raise ModelFolderError(f"{self.path} is GGUF version {version}; versions 2 and 3 are read.")
        num_tensors = self.count("tensors", MOST_TENSORS)
        fields: dict[str, Value] = {}
        for _ in range(self.count("fields", MOST_FIELDS)):
            name = self.string()
            fields[name] = self.value(self.number("<I"))
        infos = {self.string(): self.tensor_info() for _ in range(num_tensors)}
        if len(infos) != num_tensors:
            raise damaged(self.path, "two tensors have one name")
        return GgufFile(self.path, fields, self.located(infos, fields))

    def take(self, count: int) -> bytes:
        """Return the next bytes, if the file has them and they are not too many for a header."""
        end = self.file.tell() + count
        if end > self.size:
            raise damaged(self.path, "it is cut short")
        if end > MOST_HEADER_BYTES:
            raise damaged(self.path, f"its header has more than {MOST_HEADER_BYTES:,} bytes")
        raw = self.file.read(count)
        if len(raw) != count:
            raise damaged(self.path, "it is cut short")
        return raw

    def number(self, form: str) -> int:
        """Return the next whole number."""
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def count(self, what: str, most: int) -> int:
        """Return how many of something follow."""
        count = self.number("<Q")
        if count > most:
            raise damaged(self.path, f"it says that it has {count:,} {what}; at most {most:,} were expected")
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
        """Return the next list; lists of lists, which no field has, are refused."""
        kind = self.number("<I")
        if kind == ARRAY:
            raise damaged(self.path, "a field is a list of lists")
        count = self.count("texts" if kind == STRING else "numbers", MOST_STRINGS)
        return [self.string() for _ in range(count)] if kind == STRING else self.numbers(kind, count)

    def tensor_info(self) -> tuple[tuple[int, ...], int, int]:
        """Return the next tensor's shape, its type and where it begins among the tensors."""
        dimensions = self.number("<I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise damaged(self.path, f"a tensor has {dimensions:,} dimensions")
        shape = tuple(self.number("<Q") for _ in range(dimensions))[::-1]
        return shape, self.number("<I"), self.number("<Q")

    def located(
        self, infos: Mapping[str, tuple[tuple[int, ...], int, int]], fields: Mapping[str, Value]
    ) -> dict[str, StoredTensor]:
        """Return where each tensor is, if all are whole in the file and none lies in another."""
        alignment = fields.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= LARGEST_ALIGNMENT:
            raise damaged(self.path, "its alignment is not possible")
        begin = -(-self.file.tell() // alignment) * alignment
        tensors = {name: self.stored(name, *info, begin) for name, info in infos.items()}
        end = begin
        for name, tensor in sorted(tensors.items(), key=lambda item: item[1].start):
            if tensor.start < end:
                raise damaged(self.path, f"the tensor {name} lies in another one")
            end = tensor.start + tensor.num_bytes
        return tensors

    def stored(self, name: str, shape: tuple[int, ...], kind: int, offset: int, begin: int) -> StoredTensor:
        """Return where a tensor is, if its numbers are in the file."""
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
            raise damaged(self.path, f"the tensor {name} is not whole in it")
        return StoredTensor(shape, known, begin + offset, num_bytes)
