"""The model folder: what was saved is loaded, damage and malice are refused, replacing leaves no gap."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import stat
import struct
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sixfold.decode.config import DecodeConfig, decode_config
from sixfold.decode.translate import load
from sixfold.errors import ModelFolderError, WorkError
from sixfold.files import sha256
from sixfold.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from sixfold.models.folder import (
    FORMAT,
    Languages,
    ModelInfo,
    load_info,
    load_members,
    load_tokenizer,
    save_model,
)
from sixfold.models.weights import weights_of
from sixfold.text import Tokenizer

pytestmark = pytest.mark.usefixtures("seed")

TOKENIZER = Tokenizer.learn(["a small text", "ein kleiner Text"], 300)
OTHER_TOKENIZER = Tokenizer.learn(["another text", "ein anderer Text!"], 300)
FILES = ["sixfold.json", "weights.safetensors", "tokenizer.model"]
Weights = dict[str, Tensor]


def make_model(tokenizer: Tokenizer = TOKENIZER, **choices: object) -> EncoderDecoder:
    """Return a small random model."""
    shape = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 8, "d_ff": 12, "heads": 2, **choices}
    return EncoderDecoder(EncoderDecoderConfig.model_validate({"vocabulary": tokenizer.vocabulary, **shape}))


def save(folder: Path, *models: EncoderDecoder, tokenizer: Tokenizer = TOKENIZER) -> None:
    """Write a model folder."""
    info = ModelInfo(
        sixfold="0.1",
        model=models[0].config,
        languages=Languages(source="en"),
        decode=DecodeConfig(beam=5).model_dump(),
        scores={"BLEU": 12.5},
    )
    save_model(folder, info, [weights_of(model) for model in models], tokenizer, "# A card\n")


def load_all(folder: Path) -> EncoderDecoder:
    """Load everything that translating with one model needs."""
    [model] = load_ensemble(folder)
    return model


def load_ensemble(folder: Path) -> list[EncoderDecoder]:
    """Load everything that translating needs."""
    info = load_info(folder)
    load_tokenizer(folder, info)
    return load_members(folder, info)  # type: ignore[return-value]


def refusal(folder: Path) -> str:
    """Return why a folder is refused, or nothing if it is not."""
    try:
        load_all(folder)
    except ModelFolderError as error:
        return error.message
    return ""


def is_same(one: EncoderDecoder, other: EncoderDecoder) -> bool:
    """Whether two models have the same weights, bit for bit."""
    weights, others = weights_of(one), weights_of(other)
    return weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)


def rewrite_config(folder: Path, change: Callable[[dict], None]) -> None:
    """Change the content of sixfold.json."""
    content = json.loads((folder / "sixfold.json").read_bytes())
    content["files"].pop("sixfold.json", None)  # a hostile author leaves its digest out
    change(content)
    (folder / "sixfold.json").write_text(json.dumps(content))


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and its digest, as a hostile author would."""
    (folder / name).write_bytes(content)
    digest = sha256(folder / name)
    rewrite_config(folder, lambda config: config["files"].update({name: {"sha256": digest}}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path / "model", make_model())
    return tmp_path / "model"


# There and back


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"norm": "pre", "positions": "learned"},
        {"attention_bias": True, "d_k": 3},
        {"norm_kind": "rms", "gated": True, "activation": "silu", "key_value_heads": 1, "score_scale": 0.5},
    ],
)
def test_a_saved_model_is_loaded_bit_for_bit(tmp_path: Path, choices: dict[str, object]) -> None:
    model = make_model(**choices)
    save(tmp_path, model)
    loaded = load_all(tmp_path)
    assert is_same(loaded, model)
    assert loaded.config == model.config
    assert not loaded.training
    info = load_info(tmp_path)
    assert (info.format, info.languages.source, info.scores) == (FORMAT, "en", {"BLEU": 12.5})
    assert decode_config(info).beam == 5
    assert load_tokenizer(tmp_path, info).model == TOKENIZER.model


def test_a_folder_holds_four_plain_files_that_anyone_may_read(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save(tmp_path / "new" / "model", make_model())
    finally:
        os.umask(before)
    files = sorted((tmp_path / "new" / "model").iterdir())
    assert [path.name for path in files] == ["README.md", "sixfold.json", "tokenizer.model", "weights.safetensors"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}
    assert files[0].read_text() == "# A card\n"


def test_tied_tensors_are_stored_once(folder: Path) -> None:
    stored = load_file(folder / "weights.safetensors")
    large = [name for name, tensor in stored.items() if TOKENIZER.vocabulary in tensor.shape]
    assert large == ["source.embedding.weight"]


def test_loading_writes_nothing(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    load_all(folder)
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]} == before


# Damage


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.model"])
def test_a_flipped_byte_is_detected_and_its_file_is_named(folder: Path, name: str, seed: int) -> None:
    content, draw = (folder / name).read_bytes(), random.Random(seed)
    for place in [0, len(content) - 1, *draw.sample(range(len(content)), 10)]:
        flipped = bytearray(content)
        flipped[place] ^= 1 << draw.randrange(8)
        (folder / name).write_bytes(flipped)
        with pytest.raises(ModelFolderError, match=name):
            load_all(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.model"])
def test_a_file_cut_short_is_detected_and_named(folder: Path, name: str, seed: int) -> None:
    content = (folder / name).read_bytes()
    for length in [0, 7, *random.Random(seed).sample(range(len(content)), 5)]:
        (folder / name).write_bytes(content[:length])
        with pytest.raises(ModelFolderError, match=name):
            load_all(folder)


def test_a_flipped_bit_in_the_configuration_is_refused(folder: Path, seed: int) -> None:
    path, draw = folder / "sixfold.json", random.Random(seed)
    content = path.read_bytes()
    for place in draw.sample(range(len(content)), 100):
        flipped = bytearray(content)
        flipped[place] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        assert str(path) in refusal(folder)
    path.write_bytes(content)
    assert not refusal(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ModelFolderError, match=name):
        load_all(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_link_out_of_the_folder_is_not_followed(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).rename(tmp_path / "outside")
    (folder / name).symlink_to(tmp_path / "outside")
    with pytest.raises(ModelFolderError, match=name):
        load_all(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_folder_in_place_of_a_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(ModelFolderError, match=name):
        load_all(folder)


def test_what_is_no_model_folder_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "unfinished" / "training").mkdir(parents=True)
    hints = []
    for name in ("missing", "file", "", "unfinished"):
        with pytest.raises(ModelFolderError) as refused:
            load_info(tmp_path / name)
        hints.append(refused.value.hint)
    assert all("sixfold train" in hint for hint in hints[:3])
    assert "first validation" in hints[3]


# Configurations of another kind


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{}",
        b"1e999",
        b'{"format": "one"}',
        b'{"format": {}}',
        b"[" * 100_000,
        b'{"corpus": ' + b'{"a": ' * 500 + b"1" + b"}" * 501,
        b'{"format": ' + b"1" * 10_000 + b"}",
        b'{"model": {"vocabulary": NaN}}',
        b"\0" * 1000,
    ],
    ids=lambda content: content[:20].decode(errors="replace"),
)
def test_a_configuration_that_is_none_is_refused(folder: Path, content: bytes) -> None:
    (folder / "sixfold.json").write_bytes(content)
    with pytest.raises(ModelFolderError, match=r"sixfold\.json"):
        load_info(folder)


def test_a_configuration_that_would_fill_the_memory_is_not_read(folder: Path) -> None:
    with (folder / "sixfold.json").open("ab") as file:
        file.write(b" " * (5 * 2**20))
    with pytest.raises(ModelFolderError, match=r"sixfold\.json is .* bytes; at most"):
        load_info(folder)


def test_a_configuration_from_the_future_is_refused_with_the_version_to_install(folder: Path) -> None:
    rewrite_config(folder, lambda config: config.update({"format": 999, "sixfold": "7.3", "new_key": 1}))
    with pytest.raises(ModelFolderError, match="format 999") as refused:
        load_info(folder)
    assert "7.3" in refused.value.hint


@pytest.mark.parametrize(
    "change",
    [
        {"d_model": 10**9},
        {"d_model": -8},
        {"d_model": "8; import os"},
        {"d_model": 7},
        {"heads": 3},
        {"heads": 0},
        {"vocabulary": 10**12},
        {"encoder_layers": 10**6},
        {"d_ff": 2**62},
        {"max_positions": 10**9, "positions": "learned"},
        {"dropout": 7},
        {"norm": "other"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_shape_that_cannot_be_is_refused(folder: Path, change: dict[str, object]) -> None:
    rewrite_config(folder, lambda config: config["model"].update(change))
    with pytest.raises(ModelFolderError, match=r"sixfold\.json"):
        load_info(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"d_model": 16384, "d_ff": 65536, "heads": 128, "encoder_layers": 8, "decoder_layers": 8},
        {"vocabulary": 2_000_000},
        {"positions": "learned", "max_positions": 65536},
        {"d_ff": 11},
        {"decoder_layers": 2},
    ],
    ids=str,
)
def test_a_shape_that_the_weights_do_not_have_is_refused_before_memory_is_taken(
    folder: Path, change: dict[str, object]
) -> None:
    rewrite_config(folder, lambda config: config["model"].update(change))
    info, before = load_info(folder), peak_memory()
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors"):
        load_members(folder, info)
    assert peak_memory() - before < 100 * 2**20


def peak_memory() -> int:
    """Return the most memory this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Weights and tokenizers of another kind, with digests that are right


def without_one(weights: Weights) -> Weights:
    return {name: tensor for name, tensor in weights.items() if "inner.bias" not in name}


def renamed(weights: Weights) -> Weights:
    return {name.replace("inner", "__class__"): tensor for name, tensor in weights.items()}


def transposed(weights: Weights) -> Weights:
    return {name: tensor.T.contiguous() if tensor.dim() == 2 else tensor for name, tensor in weights.items()}


def flattened(weights: Weights) -> Weights:
    return {name: tensor.flatten() for name, tensor in weights.items()}


def as_integers(weights: Weights) -> Weights:
    return {name: tensor.view(torch.int32) for name, tensor in weights.items()}


def as_doubles(weights: Weights) -> Weights:
    return {name: tensor.double() for name, tensor in weights.items()}


def with_another(weights: Weights) -> Weights:
    return {**weights, "another": torch.zeros(3)}


def not_finite(weights: Weights) -> Weights:
    weights["source.embedding.weight"][5, 3] = float("nan")
    return weights


@pytest.mark.parametrize(
    "change", [without_one, renamed, transposed, flattened, as_integers, as_doubles, with_another, not_finite]
)
def test_other_tensors_than_the_configuration_describes_are_refused(
    folder: Path, change: Callable[[Weights], Weights]
) -> None:
    save_file(change(load_file(folder / "weights.safetensors")), folder / "forged")
    forge(folder, "weights.safetensors", (folder / "forged").read_bytes())
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors"):
        load_all(folder)


def test_a_changed_header_is_refused_or_gives_a_model_but_never_breaks(folder: Path, seed: int) -> None:
    content, draw = (folder / "weights.safetensors").read_bytes(), random.Random(seed)
    header = 8 + struct.unpack("<Q", content[:8])[0]
    for _ in range(40):
        forged = bytearray(content)
        for _ in range(draw.choice([1, 1, 3])):
            forged[draw.randrange(header)] = draw.randrange(256)
        forge(folder, "weights.safetensors", bytes(forged))
        message = refusal(folder)
        assert not message or "weights.safetensors" in message


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 10**9, 0])
def test_a_header_that_promises_too_much_is_refused(folder: Path, size: int) -> None:
    content = (folder / "weights.safetensors").read_bytes()
    forge(folder, "weights.safetensors", struct.pack("<Q", size) + content[8:])
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors"):
        load_all(folder)


def test_a_header_that_would_fill_the_memory_is_not_read(folder: Path) -> None:
    content = (folder / "weights.safetensors").read_bytes()
    header, spaces = struct.unpack("<Q", content[:8])[0], b" " * (17 * 2**20)
    padded = struct.pack("<Q", header + len(spaces)) + content[8 : 8 + header] + spaces + content[8 + header :]
    forge(folder, "weights.safetensors", padded)
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors is .* bytes"):
        load_all(folder)


def test_a_tokenizer_that_is_none_is_refused(folder: Path) -> None:
    forge(folder, "tokenizer.model", b"no tokenizer")
    with pytest.raises(ModelFolderError, match="not a SentencePiece model"):
        load_all(folder)


def test_a_tokenizer_of_another_size_is_refused(folder: Path) -> None:
    forge(folder, "tokenizer.model", Tokenizer.learn(["something"], 272).model)
    with pytest.raises(ModelFolderError, match="272 tokens"):
        load_all(folder)


def test_a_tokenizer_that_would_fill_the_memory_is_not_read(folder: Path) -> None:
    with (folder / "tokenizer.model").open("wb") as file:
        file.truncate(200 * 2**20)  # sparse: it takes no disk
    forged = sha256(folder / "tokenizer.model")
    rewrite_config(folder, lambda config: config["files"].update({"tokenizer.model": {"sha256": forged}}))
    tracemalloc.start()
    with pytest.raises(ModelFolderError, match=r"tokenizer\.model"):
        load_all(folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "training/log.jsonl"])
def test_a_name_out_of_the_folder_in_the_list_of_files_is_refused(folder: Path, name: str) -> None:
    rewrite_config(folder, lambda config: config["files"].update({name: {"sha256": "0"}}))
    with pytest.raises(ModelFolderError, match=f"lists the file {name}"):
        load_info(folder)


# Members


def test_an_ensemble_of_three_has_three_files_of_weights_each_with_its_digest(tmp_path: Path) -> None:
    models = [make_model() for _ in range(3)]
    save(tmp_path, *models)
    names = ["weights.safetensors", "weights-2.safetensors", "weights-3.safetensors"]
    info = load_info(tmp_path)
    assert info.weights == [[name] for name in names]
    assert info.files.keys() == {"sixfold.json", "tokenizer.model", *names}
    for name, model, loaded in zip(names, models, load_ensemble(tmp_path), strict=True):
        assert is_same(loaded, model)
        stored = load_file(tmp_path / name)
        assert all(torch.equal(stored[key], tensor) for key, tensor in weights_of(model).items())
        assert stored.keys() == weights_of(model).keys()


@pytest.mark.parametrize("name", ["weights.safetensors", "weights-2.safetensors"])
def test_damage_in_any_member_is_detected_and_its_file_is_named(tmp_path: Path, name: str, seed: int) -> None:
    save(tmp_path, make_model(), make_model())
    flipped, draw = bytearray((tmp_path / name).read_bytes()), random.Random(seed)
    flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
    (tmp_path / name).write_bytes(flipped)
    with pytest.raises(ModelFolderError, match=re.escape(str(tmp_path / name))):
        load_ensemble(tmp_path)


def test_a_smaller_ensemble_leaves_no_weights_of_the_larger_one_behind(tmp_path: Path) -> None:
    save(tmp_path, *(make_model() for _ in range(3)))
    (tmp_path / "weights-of-my-own.safetensors").touch()
    model = make_model()
    save(tmp_path, model)
    assert is_same(load_all(tmp_path), model)
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [
        "weights-of-my-own.safetensors",
        "weights.safetensors",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../weights.safetensors",
        "../x",
        "/etc/passwd",
        "/weights.safetensors",
        "weights-1/x",
        "weights-1/weights.safetensors",
        "./weights.safetensors",
        "weights.safetensors\n",
        "weights-٢.safetensors/../../x",
        "training/weights.safetensors",
        "sixfold.json",
        "tokenizer.model",
        "",
    ],
)
def test_weights_that_lead_elsewhere_are_refused(folder: Path, name: str) -> None:
    rewrite_config(folder, lambda config: config.update({"weights": [[name]]}))
    with pytest.raises(ModelFolderError, match=r"sixfold\.json cannot be read: weights.*not a weight file"):
        load_info(folder)


@pytest.mark.parametrize("weights", [[], [[]], [["weights.safetensors"], []], [["weights.safetensors"]] * 17, "x"])
def test_members_that_cannot_be_are_refused(folder: Path, weights: object) -> None:
    rewrite_config(folder, lambda config: config.update({"weights": weights}))
    with pytest.raises(ModelFolderError, match=r"sixfold\.json cannot be read: weights"):
        load_info(folder)


def test_one_file_of_weights_is_not_two_members(folder: Path) -> None:
    rewrite_config(folder, lambda config: config.update({"weights": [["weights.safetensors"]] * 2}))
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors"):
        load_ensemble(folder)


def test_a_member_may_have_its_tensors_in_several_files(folder: Path) -> None:
    model, names = load_all(folder), ["weights.safetensors", "weights-2.safetensors"]
    stored = sorted(load_file(folder / names[0]).items())
    for name, part in zip(names, (stored[:7], stored[7:]), strict=True):
        save_file(dict(part), folder / name)
        forge(folder, name, (folder / name).read_bytes())
    rewrite_config(folder, lambda config: config.update({"weights": [names]}))
    assert is_same(load_all(folder), model)


def test_special_tokens_that_the_tokenizer_does_not_have_are_refused(folder: Path) -> None:
    rewrite_config(folder, lambda config: config["processors"]["source"]["special"].update({"eos": 7}))
    with pytest.raises(ModelFolderError, match="disagree about the special tokens"):
        load_all(folder)


# Format 1, which knew translation only and had all members in one file


def name_in_format_1(name: str) -> str:
    """Return what format 1 called a tensor of today."""
    name = name.replace("source.embedding", "embedding")
    name = re.sub(r"^(source|target)\.positions", r"\1_positions", name)
    if name.startswith("encoder.layers"):
        name = name.replace(".self_attention", ".attention")
    return re.sub(r"_norm\.", "_residual.norm.", name)


def save_format_1(folder: Path, *models: EncoderDecoder, changes: Weights | None = None) -> None:
    """Write a model folder as it was written before format 2."""
    folder.mkdir(exist_ok=True)
    weights = dict(changes or {})
    for number, model in enumerate(models):
        prefix = f"models.{number}." if len(models) > 1 else ""
        weights |= {prefix + name_in_format_1(name): tensor for name, tensor in weights_of(model).items()}
    save_file(weights, folder / "weights.safetensors")
    (folder / "tokenizer.model").write_bytes(TOKENIZER.model)
    old_keys = "encoder_layers decoder_layers d_model d_ff heads d_k d_v dropout norm positions max_positions"
    shape = models[0].config.model_dump(include={*old_keys.split(), "attention_bias", "vocabulary"})
    content = {
        "format": 1,
        "kind": "transformer",
        "sixfold": "0.1.0",
        "model": {**shape, "attention_width": 0, **({"members": len(models)} if len(models) > 1 else {})},
        "source_language": "en",
        "target_language": "de",
        "decode": {"beam": 5},
        "files": {name: {"sha256": sha256(folder / name)} for name in ("weights.safetensors", "tokenizer.model")},
    }
    (folder / "sixfold.json").write_text(json.dumps(content))


@pytest.mark.parametrize("choices", [{}, {"norm": "pre", "positions": "learned", "attention_bias": True}])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_folder_of_format_1_is_loaded_bit_for_bit(
    tmp_path: Path, count: int, choices: dict[str, object]
) -> None:
    models = [make_model(**choices) for _ in range(count)]
    save_format_1(tmp_path, *models)
    info, loaded = load_info(tmp_path), load_ensemble(tmp_path)
    assert (info.format, info.languages.source, info.languages.target) == (1, "en", "de")
    assert (info.kind, info.task, decode_config(info).beam) == ("encoder_decoder", "translate", 5)
    assert len(loaded) == count
    assert all(is_same(found, model) for found, model in zip(loaded, models, strict=True))
    assert {found.config for found in loaded} == {models[0].config}


@pytest.mark.parametrize("members", [1, 2, 4, 0, 17, -1, "two", 10**9])
def test_a_folder_of_format_1_with_another_number_of_models_than_it_says_is_refused(
    tmp_path: Path, members: object
) -> None:
    save_format_1(tmp_path, *(make_model() for _ in range(3)))
    rewrite_config(tmp_path, lambda config: config["model"].update({"members": members}))
    with pytest.raises(ModelFolderError, match=r"weights\.safetensors|sixfold\.json"):
        load_ensemble(tmp_path)


@pytest.mark.parametrize("name", ["another", "embedding.weight", "models.7.embedding.weight"])
def test_a_tensor_of_no_member_is_refused_in_format_1_too(tmp_path: Path, name: str) -> None:
    save_format_1(tmp_path, make_model(), make_model(), changes={name: torch.zeros(3)})
    with pytest.raises(ModelFolderError, match=f"tensor {name}"):
        load_ensemble(tmp_path)


def test_a_kind_of_model_that_format_1_did_not_have_is_refused(tmp_path: Path) -> None:
    save_format_1(tmp_path, make_model())
    rewrite_config(tmp_path, lambda config: config.update({"kind": "recurrent"}))
    with pytest.raises(ModelFolderError, match=r"sixfold\.json cannot be read: kind"):
        load_all(tmp_path)


def test_what_was_loaded_from_format_1_is_saved_as_format_2_with_all_it_said(tmp_path: Path) -> None:
    models = [make_model(), make_model()]
    save_format_1(tmp_path / "old", *models)
    old = load_info(tmp_path / "old")
    save_model(tmp_path / "new", old, [weights_of(model) for model in models], TOKENIZER, "# A card\n")
    new = load_info(tmp_path / "new")
    assert (new.format, new.languages, new.decode, new.model) == (FORMAT, old.languages, old.decode, old.model)
    assert new.weights == [["weights.safetensors"], ["weights-2.safetensors"]]
    assert all(is_same(found, model) for found, model in zip(load_ensemble(tmp_path / "new"), models, strict=True))


# Replacing


class Crash(BaseException):
    """The process ended here."""


def crash_at(call: int) -> Callable[..., Path]:
    """Return a replacement of Path.replace that does not live to see its n-th call."""
    calls, replace = iter(range(call)), Path.replace

    def crash(path: Path, target: Path) -> Path:
        if next(calls, None) is None:
            raise Crash
        return replace(path, target)

    return crash


def replace_and_crash(folder: Path, call: int, *models: EncoderDecoder, tokenizer: Tokenizer = TOKENIZER) -> bool:
    """Save over a folder, ending at the n-th rename; return whether it got to the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", crash_at(call))
        try:
            save(folder, *models, tokenizer=tokenizer)
        except Crash:
            return False
    return True


def test_a_folder_holds_a_whole_model_at_every_moment_it_is_replaced(tmp_path: Path) -> None:
    old, new, newest = make_model(), make_model(), make_model()
    was_new = []
    for call in range(20):
        save(tmp_path, old)
        is_done = replace_and_crash(tmp_path, call, new)
        loaded = load_all(tmp_path)
        assert is_same(loaded, old) or is_same(loaded, new)
        was_new.append(is_same(loaded, new))
        save(tmp_path, newest)  # and what the crash left behind does no harm
        assert is_same(load_all(tmp_path), newest)
        if is_done:
            break
    assert is_done
    assert was_new == sorted(was_new)
    assert {False, True} == set(was_new)


@pytest.mark.parametrize("count", [2, 3])
def test_every_member_of_an_ensemble_is_whole_at_every_moment_it_is_replaced(tmp_path: Path, count: int) -> None:
    old, new = [make_model() for _ in range(count)], [make_model() for _ in range(count)]
    num_new = []
    for call in range(30):
        save(tmp_path, *old)
        is_done = replace_and_crash(tmp_path, call, *new)
        found = [is_same(loaded, model) for loaded, model in zip(load_ensemble(tmp_path), new, strict=True)]
        kept = [is_same(loaded, model) for loaded, model in zip(load_ensemble(tmp_path), old, strict=True)]
        assert [not is_new for is_new in found] == kept
        num_new.append(sum(found))
        if is_done:
            break
    assert is_done
    assert num_new == sorted(num_new)
    assert (num_new[0], num_new[-1]) == (0, count)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 1)])
def test_an_ensemble_of_another_size_is_never_mixed_with_the_old_one(
    tmp_path: Path, before: int, after: int
) -> None:
    old, new = [make_model() for _ in range(before)], [make_model() for _ in range(after)]
    for call in range(30):
        save(tmp_path, *old)
        is_done = replace_and_crash(tmp_path, call, *new)
        try:
            found = load_ensemble(tmp_path)
            assert all(is_same(loaded, model) for loaded, model in zip(found, new, strict=True))
        except ModelFolderError:
            assert not is_done
        if is_done:
            break
    assert is_done


@pytest.mark.parametrize("count", [1, 2])
def test_a_folder_of_format_1_that_is_replaced_holds_format_2_or_no_model_but_never_a_mixture(
    tmp_path: Path, count: int
) -> None:
    old, new = [make_model() for _ in range(count)], [make_model() for _ in range(count)]
    for call in range(30):
        save_format_1(tmp_path, *old)
        is_done = replace_and_crash(tmp_path, call, *new)
        if not is_done and not (tmp_path / "sixfold.json").exists():
            continue
        assert load_info(tmp_path).format == FORMAT
        found = load_ensemble(tmp_path)
        assert all(is_same(loaded, model) for loaded, model in zip(found, new, strict=True))
        if is_done:
            break
    assert is_done


def test_a_crash_while_a_crash_is_being_repaired_leaves_a_whole_model_too(tmp_path: Path) -> None:
    models = [make_model() for _ in range(3)]
    for first in (2, 3, 4):
        for second in (2, 3, 4):
            save(tmp_path, models[0])
            replace_and_crash(tmp_path, first, models[1])
            replace_and_crash(tmp_path, second, models[2])
            assert any(is_same(load_all(tmp_path), model) for model in models)


@pytest.mark.parametrize("kind", ["shape", "tokenizer"])
def test_a_model_of_another_shape_or_tokenizer_is_never_mixed_with_the_old_one(tmp_path: Path, kind: str) -> None:
    tokenizer = OTHER_TOKENIZER if kind == "tokenizer" else TOKENIZER
    old, new = make_model(), make_model(tokenizer, **({"d_ff": 20} if kind == "shape" else {}))
    for call in range(20):
        save(tmp_path, old)
        is_done = replace_and_crash(tmp_path, call, new, tokenizer=tokenizer)
        try:
            loaded = load(tmp_path, "cpu")
            parts = (is_same(loaded.model, new), loaded.tokenizer.model == tokenizer.model)
            assert parts == (True, True)
        except ModelFolderError:
            assert not is_done
        if is_done:
            break
    assert is_done


def test_a_new_folder_holds_no_model_until_all_of_it_is_there(tmp_path: Path) -> None:
    for call in range(20):
        is_done = replace_and_crash(tmp_path / str(call), call, make_model())
        if is_done:
            break
        with pytest.raises(ModelFolderError, match=r"no sixfold\.json"):
            load_all(tmp_path / str(call))
    assert is_done
    load_all(tmp_path / str(call))


def test_damaged_weights_are_not_accepted_while_new_ones_are_announced(folder: Path) -> None:
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-1] ^= 1
    (folder / "weights.safetensors").write_bytes(content)
    for call in range(4):
        replace_and_crash(folder, call, make_model())
        with pytest.raises(ModelFolderError):
            load_all(folder)


def test_a_reader_never_fails_while_a_writer_replaces_the_model(tmp_path: Path) -> None:
    model, is_over = make_model(), threading.Event()

    def write(version: int) -> None:
        with torch.no_grad():
            model.head.weight.fill_(version)
        save(tmp_path, model)

    def write_on() -> None:
        version = 0
        while not is_over.is_set():
            write(version := version + 1)

    write(0)
    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        loaded, seen = list[torch.Tensor](), set[float]()
        while len(loaded) < 30 or len(seen) < 4:  # a busy machine writes less often than it reads
            loaded.append(load(tmp_path, "cpu").model.head.weight.detach())
            seen.add(float(loaded[-1].mean()))
    finally:
        is_over.set()
        writer.join()
    versions = [float(weight.mean()) for weight in loaded]
    assert [float(weight.min()) for weight in loaded] == versions == sorted(versions)


def test_a_place_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorkError, match="Cannot write"):
        save(tmp_path / "file" / "model", make_model())


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import torch
from sixfold.errors import WorkError
from sixfold.models.folder import load_info, load_members, load_tokenizer, save_model
from sixfold.models.weights import weights_of

folder = Path(sys.argv[1])
info = load_info(folder)
tokenizer, [weights] = load_tokenizer(folder, info), map(weights_of, load_members(folder, info))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    save_model(folder, info, [{name: tensor + 1 for name, tensor in weights.items()}], tokenizer, "card")
except WorkError as error:
    print(error.message, error.hint)
"""


def test_a_full_disk_leaves_the_old_model_and_no_leftovers(folder: Path) -> None:
    old, files = load_all(folder), sorted(path.name for path in folder.iterdir())
    assert (folder / "tokenizer.model").stat().st_size < 8192 < (folder / "weights.safetensors").stat().st_size
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, folder], capture_output=True, text=True, env=environment, check=True
    )
    assert "Cannot write" in done.stdout
    assert "disk is full" in done.stdout
    assert is_same(load_all(folder), old)
    assert sorted(path.name for path in folder.iterdir()) == files


def test_an_interrupted_save_cleans_up_behind_itself(folder: Path) -> None:
    files = sorted(path.name for path in folder.iterdir())
    for call in range(5):
        replace_and_crash(folder, call, make_model())
        assert sorted(path.name for path in folder.iterdir()) == files
