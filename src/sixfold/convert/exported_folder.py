"""An exported folder: written completely or not at all, with a tokenizer and a README.md on its use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sixfold.errors import ConfigError
from sixfold.files import make_durable, make_folder, sync, temporary_beside, writing
from sixfold.models.encoder_decoder import EncoderDecoderConfig
from sixfold.models.folder import load_info

# Messages that occur twice in a protocol buffer are merged: normalizer_spec (3) {add_dummy_prefix (3): true}.
WITH_SPACE_BEFORE = bytes([3 << 3 | 2, 2, 3 << 3, 1])


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `out` if the block succeeds, and is deleted otherwise."""
    out = out.absolute()
    refuse_existing(out)
    home = next(parent for parent in out.parents if parent.is_dir())
    temporary = temporary_beside(home / out.name)
    try:
        with writing(out):
            temporary.mkdir()
            yield temporary
            for path in temporary.iterdir():
                make_durable(path)
            sync(temporary)
            make_folder(out.parent)
            temporary.replace(out)
            sync(out.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # after a success it no longer exists


def refuse_existing(out: Path) -> None:
    """Refuse a path that exists, unless it is an empty folder."""
    is_empty_folder = out.is_dir() and not out.is_symlink() and not any(out.iterdir())
    if os.path.lexists(out) and not is_empty_folder:
        raise ConfigError(f"{out} already exists.", "Give a new folder with -o, or remove the old one first.")


def plain_tokenizer(model: bytes) -> bytes:
    """Return a SentencePiece model that prepends a space to each text itself, which `Tokenizer` does for it."""
    return model + WITH_SPACE_BEFORE


def refuse_unusual(config: EncoderDecoderConfig, engine: str) -> None:
    """Refuse layers with parts that the paper's layers do not have, which this export does not support."""
    unusual = {
        "norm_kind": config.norm_kind != "layer",
        "activation": config.activation != "relu",
        "gated": config.gated,
    }
    if names := [name for name, is_unusual in unusual.items() if is_unusual]:
        raise ConfigError(f"This model cannot be exported to {engine}, because of model.{names[0]}.")


def write_readme(temporary: Path, text: str, model: Path, out: Path, **names: str) -> None:
    """Write a README.md on the use of an exported folder."""
    members = len(load_info(model).weights)
    alone = f" with the first of its {members} models, the only one exported" if members > 1 else ""
    names |= {"name": model.resolve().name, "out": out.resolve().name, "alone": alone}
    (temporary / "README.md").write_text(text.format(**names), encoding="utf-8")
