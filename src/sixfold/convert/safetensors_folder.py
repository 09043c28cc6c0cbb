"""The weights of a published model as safetensors: in one file, or in shards with an index."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sixfold.errors import ModelFolderError

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = re.compile(r"[A-Za-z0-9][\w.-]{0,200}\.safetensors")
MOST_SHARDS = 1000
LARGEST_JSON = 16 * 2**20  # bytes
DTYPES = ("F32", "F16", "BF16")


class SafetensorsFolder:
    """Tensors by name, from all files of a folder; open it with `with`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = ExitStack()
        self.found: dict[str, tuple[Path, Any]] = {}  # the file of each tensor

    def __enter__(self) -> SafetensorsFolder:
        with ExitStack() as files:
            for path in weight_files(self.folder):
                try:
                    file = files.enter_context(safe_open(path, framework="pt"))
                except (SafetensorError, OSError) as error:
                    raise ModelFolderError(f"{path} is damaged: {error}") from error
                self.found |= dict.fromkeys(file.keys(), (path, file))
            self.files = files.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.files.close()

    @cached_property
    def layout(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The type and the shape of each tensor."""
        slices = {name: file.get_slice(name) for name, (_, file) in self.found.items()}
        return {name: (str(part.get_dtype()), tuple(part.get_shape())) for name, part in slices.items()}

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every tensor."""
        return {name: shape for name, (_, shape) in self.layout.items()}

    def read(self, name: str) -> Tensor:
        """Return a tensor in the precision it is stored in."""
        path, file = self.found[name]
        dtype = self.layout[name][0]
        if dtype not in DTYPES:
            raise ModelFolderError(f"{path}: {name} is stored as {dtype}; expected {' or '.join(DTYPES)}.")
        try:
            tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelFolderError(f"{path} is damaged: {error}") from error
        return tensor


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files of a folder."""
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not (folder / INDEX).is_file():
        others = "".join(
            f"; {path.name} is not opened, because it could execute code" for path in folder.glob("*.bin")
        )
        raise ModelFolderError(
            f"{folder} has no {SINGLE}{others}.", "Get the version of the model that has safetensors files."
        )
    names = set(map(str, read_json(folder / INDEX).get("weight_map", {}).values()))
    if not 0 < len(names) <= MOST_SHARDS:
        raise ModelFolderError(f"{folder / INDEX} names {len(names):,} files; 1 to {MOST_SHARDS:,} were expected.")
    for name in sorted(names):
        if not SHARD.fullmatch(name) or not (folder / name).is_file():
            raise ModelFolderError(
                f"{folder / INDEX} names {name[:80]!r}, which is not a safetensors file in this folder."
            )
    return [folder / name for name in sorted(names)]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of bounded size."""
    content = read_any_json(path)
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path} should contain a JSON object, but contains {type(content).__name__}.")
    return content


def read_any_json(path: Path) -> Any:
    """Read JSON from a file of bounded size."""
    try:
        if not path.is_file():
            raise ModelFolderError(f"There is no file {path}.")
        if path.stat().st_size > LARGEST_JSON:
            raise ModelFolderError(f"{path} has more than {LARGEST_JSON:,} bytes.")
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        raise ModelFolderError(f"{path} cannot be read: {error}") from error


def narrowest(weights: Mapping[str, Tensor]) -> tuple[str, torch.dtype]:
    """Return the smallest type of weights that represents all of these exactly."""
    stored = {tensor.dtype for tensor in weights.values()}
    halves = [("float16", torch.float16), ("bfloat16", torch.bfloat16)]
    for name, dtype in sorted(halves, key=lambda half: half[1] not in stored):  # the publisher's own first
        if all(is_kept(tensor, dtype) for tensor in weights.values()):
            return name, dtype
    return "float32", torch.float32


def is_kept(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Return whether a tensor has the same values in another type."""
    return tensor.dtype == dtype or torch.equal(tensor.to(dtype).to(tensor.dtype), tensor)
