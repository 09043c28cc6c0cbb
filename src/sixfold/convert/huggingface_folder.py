"""Shared by all Hugging Face folders: their files, and the package transformers for comparisons."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from sixfold.convert.compare_logits import Encode
from sixfold.convert.foreign_config import Config, HuggingFaceFormat
from sixfold.convert.safetensors_folder import SafetensorsFolder, read_json
from sixfold.errors import ModelFolderError
from sixfold.text.tokenizer_json import FILE_NAME, LARGEST_FILE

CONFIG, GENERATION, TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"


def class_of(
    content: Mapping[str, Any], formats: Mapping[str, HuggingFaceFormat[Config]], plain: Mapping[str, str]
) -> HuggingFaceFormat[Config]:
    """Return the format of the class named in config.json, or of the plain class for its model type."""
    kind = str(content.get("model_type"))
    names = content.get("architectures") or ([plain[kind]] if kind in plain else [])
    if not isinstance(names, list) or len(names) != 1 or names[0] not in formats:
        raise ModelFolderError(
            f"config.json describes {str(names)[:80]}, which Sixfold does not import.",
            f"Known: {', '.join(formats)}.",
        )
    if content.get("quantization_config"):
        raise ModelFolderError("config.json has a quantization_config; only float weights are supported.")
    return formats[names[0]]


class Prefixed:
    """The tensors of files whose names may lack the common prefix."""

    def __init__(self, files: SafetensorsFolder, prefix: str) -> None:
        self.files = files
        has_prefix = not prefix or any(name.startswith(prefix) for name in files.shapes())
        self.stored = {
            today(name if has_prefix or name.startswith("lm_head.") else prefix + name): name
            for name in files.shapes()
        }

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shape of every tensor."""
        shapes = self.files.shapes()
        return {name: shapes[stored] for name, stored in self.stored.items()}

    def read(self, name: str) -> Tensor:
        """Return a tensor in the precision it is stored in."""
        return self.files.read(self.stored[name])


def today(name: str) -> str:
    """Return the current name of a tensor; older files have other names for norms."""
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


def read_tokenizer(folder: Path) -> bytes:
    """Return tokenizer.json."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise ModelFolderError(f"{folder} has no {FILE_NAME}.", "Other tokenizer files are not supported.")
    if path.stat().st_size > LARGEST_FILE:
        raise ModelFolderError(f"{path} has more than {LARGEST_FILE:,} bytes.")
    return path.read_bytes()


def read_optional(path: Path) -> dict[str, Any]:
    """Read a JSON object, or nothing if there is no such file."""
    return read_json(path) if path.is_file() else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


# The package


def name_of_reference() -> str:
    """Return the name and version of the package."""
    import transformers

    return f"transformers {transformers.__version__}"


def is_installed() -> bool:
    """Return whether the package is installed."""
    return importlib.util.find_spec("transformers") is not None


def encoder(folder: Path) -> Encode:
    """Return the tokenizer of a folder in the package `tokenizers`."""
    from tokenizers import Tokenizer

    engine = Tokenizer.from_file(str(folder / FILE_NAME))
    return lambda text: list(engine.encode(text, add_special_tokens=False).ids)


def automatic_encoder(folder: Path) -> Encode:
    """Return the tokenizer of a folder as transformers opens it."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return lambda text: list(tokenizer(text).input_ids)
