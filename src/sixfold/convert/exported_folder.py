"""An exported folder: written whole or not at all, with a tokenizer and a few words on its use."""

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

# Messages that come twice in a protocol buffer are merged: normalizer_spec (3) {add_dummy_prefix (3): true}.
WITH_SPACE_BEFORE = bytes([3 << 3 | 2, 2, 3 << 3, 1])


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `out` when the block ends well, and else leaves no trace."""
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
        shutil.rmtree(temporary, ignore_errors=True)  # it is gone after a success


def refuse_existing(out: Path) -> None:
    """Refuse to write where something is already, unless it is an empty folder."""
    is_empty_folder = out.is_dir() and not out.is_symlink() and not any(out.iterdir())
    if os.path.lexists(out) and not is_empty_folder:
        raise ConfigError(f"{out} is already there.", "Give a new folder with -o, or remove the old one first.")


def plain_tokenizer(model: bytes) -> bytes:
    """Return a SentencePiece model that puts a space before each text by itself, as `Tokenizer` does for it."""
    return model + WITH_SPACE_BEFORE


def refuse_unusual(config: EncoderDecoderConfig, engine: str) -> None:
    """Refuse layers with parts that the paper's do not have: no export describes these yet."""
    unusual = {
        "norm_kind": config.norm_kind != "layer",
        "activation": config.activation != "relu",
        "gated": config.gated,
    }
    if names := [name for name, is_unusual in unusual.items() if is_unusual]:
        raise ConfigError(f"This model cannot be exported to {engine}: model.{names[0]} is not the paper's.")


def write_readme(temporary: Path, text: str, model: Path, out: Path, **names: str) -> None:
    """Write the few words on the use of a folder into which a model is exported."""
    members = len(load_info(model).weights)
    alone = f" with the first of its {members} models, which alone is here" if members > 1 else ""
    names |= {"name": model.resolve().name, "out": out.resolve().name, "alone": alone}
    (temporary / "README.md").write_text(text.format(**names), encoding="utf-8")
