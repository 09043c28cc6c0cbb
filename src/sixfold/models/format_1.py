"""Read model folders of format 1, which were for translation only, as folders of format 2."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic import JsonValue

WEIGHTS = "weights.safetensors"  # one file; names begin with models.N. if there are several models
KIND = "transformer"  # the only kind in format 1
RENAMED = (
    (r"^embedding\.", "source.embedding."),
    (r"^(source|target)_positions\.", r"\1.positions."),
    (r"^(encoder\.layers\.\d+)\.attention\.", r"\1.self_attention."),
    (r"^(encoder\.layers\.\d+)\.attention_residual\.norm\.", r"\1.self_attention_norm."),
    (r"_residual\.norm\.", "_norm."),
)


def upgraded(content: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the content of a format 1 sixfold.json with the keys of format 2; its `format` is still 1."""
    rest = dict(content)
    model = rest.get("model")
    members = model.get("members", 1) if isinstance(model, dict) else 1
    if isinstance(model, dict):
        rest["model"] = {key: value for key, value in model.items() if key != "members"}
    rest["languages"] = {side: rest.pop(f"{side}_language", "") for side in ("source", "target")}
    count = members if isinstance(members, int) and 1 <= members <= 16 else 1
    kind = rest.get("kind", KIND)
    return {
        **rest,
        "kind": "encoder_decoder" if kind == KIND else kind,
        "task": "translate",
        "weights": [[WEIGHTS]] * count,
    }


def new_names(names: Iterable[str], member: int, num_members: int) -> dict[str, str]:
    """Return, for each current name, the name under which a member's tensor is stored in the file.

    A name that belongs to no member is kept, so that the caller can refuse it.
    """
    prefixes = [f"models.{number}." for number in range(num_members)] if num_members > 1 else [""]
    own = prefixes[member]
    others = tuple(prefix for prefix in prefixes if prefix != own)
    return {
        renamed(name.removeprefix(own)) if name.startswith(own) else name: name
        for name in names
        if not name.startswith(others)
    }


def renamed(name: str) -> str:
    """Return the current name of a tensor of format 1."""
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return name
