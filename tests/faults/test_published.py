"""Published models from strangers: headers that lie, files cut short, and templates with code in them."""

from __future__ import annotations

import json
import random
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sixfold.convert import chat_templates, gguf, huggingface_decoder_only
from sixfold.convert.gguf_file import read_gguf
from sixfold.errors import ModelFolderError, SixfoldError
from sixfold.models.decoder_only import LLAMA, DecoderOnly, DecoderOnlyConfig
from sixfold.models.folder import Processor
from sixfold.models.weights import weights_of
from sixfold.text import Tokenizer

pytest.importorskip("gguf")
pytestmark = pytest.mark.timeout(300)

NUM_MUTATIONS = 500  # of each kind of folder
NUM_FILE_MUTATIONS = 1000  # of a GGUF file
MOST_MEMORY = 300 * 1024  # KiB
HUGE = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1)


@pytest.fixture(scope="module")
def model() -> DecoderOnly:
    shape = {"layers": 1, "d_model": 8, "d_ff": 12, "heads": 2, "key_value_heads": 1, "max_positions": 16}
    return DecoderOnly(DecoderOnlyConfig(**LLAMA, **shape, vocabulary=tokenizer_of().vocabulary))


def tokenizer_of() -> Tokenizer:
    return Tokenizer.learn(["a"], 300, "bytes")


@pytest.fixture
def gguf_file(model: DecoderOnly, tmp_path: Path) -> Path:
    """Return a small GGUF file."""
    path, tokenizer = tmp_path / "small.gguf", tokenizer_of()
    side = Processor(special=tokenizer.special, decoder_start=tokenizer.special.bos)
    gguf.write_file(path, model.config, weights_of(model), tokenizer, side, "small")
    return path


@pytest.fixture
def published(model: DecoderOnly, tmp_path: Path) -> Path:
    """Return a small Hugging Face folder."""
    pytest.importorskip("transformers")
    folder, tokenizer = tmp_path / "published", tokenizer_of()
    huggingface_decoder_only.their_model(model.config, weights_of(model)).save_pretrained(folder)
    side = Processor(special=tokenizer.special, decoder_start=tokenizer.special.bos)
    huggingface_decoder_only.write_tokenizer(tokenizer, side, folder, model.config)
    return folder


# Damage and lies


def mutated(raw: bytes, draw: random.Random, header: int) -> bytes:
    """Return bytes that were cut, changed, exchanged or given another size, in the header most of the time."""
    content = bytearray(raw)
    for _ in range(draw.choice((1, 1, 2, 5))):
        end = min(header, len(content)) if draw.random() < 0.8 else len(content)
        place = draw.randrange(max(1, end))
        kind = draw.choice(("cut", "bit", "byte", "size", "size", "copy", "insert"))
        if kind == "cut":
            del content[place:]
        elif kind == "bit" and content:
            content[place % len(content)] ^= 1 << draw.randrange(8)
        elif kind == "byte" and content:
            content[place % len(content)] = draw.randrange(256)
        elif kind == "size":
            size = struct.pack(draw.choice(("<I", "<Q")), draw.choice(HUGE) & 0xFFFFFFFF)
            content[place : place + len(size)] = size
        elif kind == "copy":
            content[place : place + 20] = content[:20]
        else:
            content[place:place] = draw.randbytes(draw.randrange(9))
    return bytes(content)


def changed_json(raw: bytes, draw: random.Random) -> bytes:
    """Return JSON in which a value somewhere is another one."""
    content = json.loads(raw)
    node, key = content, draw.choice(list(content) if isinstance(content, dict) else range(len(content)))
    while isinstance(node[key], (dict, list)) and node[key] and draw.random() < 0.8:
        node = node[key]
        key = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
    node[key] = draw.choice((None, True, -1, 0, 10**9, 10**30, 1e308, "", "x" * 1000, [], [[]], {}, {"a": 1}))
    return json.dumps(content).encode()


def changes_of(folder: Path, draw: random.Random) -> Callable[[], Callable[[], None]]:
    """Return what changes one of the files in a folder, and returns what takes that back."""
    originals = {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def change() -> Callable[[], None]:
        path = draw.choice(list(originals))
        is_json = path.suffix == ".json" and draw.random() < 0.7
        path.write_bytes(
            changed_json(originals[path], draw) if is_json else mutated(originals[path], draw, header=2000)
        )

        def undo() -> None:
            path.write_bytes(originals[path])

        return undo

    return change


def refusals(
    read: Callable[[], object], change: Callable[[], Callable[[], None]], count: int = NUM_MUTATIONS
) -> int:
    """Return how many of many changes are refused with an error of ours; any other error is a fault of ours."""
    refused = 0
    for _ in range(count):
        undo = change()
        try:
            read()
        except SixfoldError:
            refused += 1
        undo()
    return refused


def memory() -> int:
    """Return the most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_mutated_gguf_files_are_refused_or_read_and_take_no_memory(gguf_file: Path, seed: int) -> None:
    draw, raw = random.Random(seed), gguf_file.read_bytes()
    header = min(tensor.start for tensor in read_gguf(gguf_file).tensors.values())
    gguf.read_file(gguf_file, "auto")
    before = memory()

    def change() -> Callable[[], None]:
        gguf_file.write_bytes(mutated(raw, draw, header))
        return lambda: None

    refused = refusals(lambda: gguf.read_file(gguf_file, "auto"), change, NUM_FILE_MUTATIONS)
    assert refused > NUM_FILE_MUTATIONS // 4
    assert memory() - before < MOST_MEMORY


def test_mutated_folders_of_hugging_face_are_refused_or_read_and_take_no_memory(
    published: Path, seed: int
) -> None:
    draw = random.Random(seed)
    huggingface_decoder_only.read_folder(published, "auto")
    before = memory()
    change = changes_of(published, draw)
    assert refusals(lambda: huggingface_decoder_only.read_folder(published, "auto"), change) > NUM_MUTATIONS // 4
    assert memory() - before < MOST_MEMORY


def test_mutated_folders_of_encoders_are_refused_or_read_and_take_no_memory(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("transformers")
    from tests.unit.convert.published_encoders import MEAN, as_sentences, encoder, save

    from sixfold.convert.huggingface_encoder_only import read_folder

    draw = random.Random(seed)
    folder = as_sentences(save(encoder("BertModel"), tmp_path / "hf"), MEAN, "Transformer", "Pooling", "Normalize")
    read_folder(folder)
    before = memory()
    assert refusals(lambda: read_folder(folder), changes_of(folder, draw)) > NUM_MUTATIONS // 4
    assert memory() - before < MOST_MEMORY


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_gguf_file_that_is_cut_short_says_so(gguf_file: Path, share: float) -> None:
    raw = gguf_file.read_bytes()
    gguf_file.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(ModelFolderError, match=r"truncated|incomplete"):
        read_gguf(gguf_file)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (lambda raw: raw[8:16], struct.pack("<Q", 2**40), "1,099,511,627,776 tensors"),
        (lambda raw: raw[16:24], struct.pack("<Q", 2**63), "fields"),
        (lambda raw: raw[24:32], struct.pack("<Q", 2**62), "bytes of a text"),
        (lambda raw: raw[4:8], struct.pack("<I", 9), "version 9"),
    ],
)
def test_a_count_that_lies_is_refused_before_memory_is_taken(
    gguf_file: Path, old: Callable[[bytes], bytes], new: bytes, reason: str
) -> None:
    raw = gguf_file.read_bytes()
    place = raw.index(old(raw))
    gguf_file.write_bytes(raw[:place] + new + raw[place + len(new) :])
    before = memory()
    with pytest.raises(ModelFolderError, match=reason):
        read_gguf(gguf_file)
    assert memory() - before < 50 * 1024


# Templates

MARK = "{mark}"
PAYLOADS = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch {mark}') }}",
    "{{ self.__init__.__globals__.__builtins__.open('{mark}', 'w').write('x') }}",
    "{{ lipsum.__globals__['os'].popen('touch {mark}').read() }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{% if 'warning' in x.__name__ %}"
    "{{ x()._module.__builtins__['__import__']('os').system('touch {mark}') }}{% endif %}{% endfor %}",
    "{{ config.items() }}",
    "{{ request.application.__globals__.__builtins__.__import__('os').system('touch {mark}') }}",
    "{% set x = namespace.__init__.__globals__ %}{{ x.os.system('touch {mark}') }}",
    "{% for message in messages %}{{ message['content'].__class__ }}{% endfor %}",
    "{% for message in messages %}{{ raise_exception('x') }}{% endfor %}",
    "{% for message in messages %}{{ message['role'] | attr('__class__') }}{% endfor %}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}{{ os.system('touch {mark}') }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% for i in range(999999999) %}{{ i }}{% endfor %}",
    "{{ 'x' * 999999999 }}",
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + eval('1') + '\n' }}{% endfor %}",
    "${7*7}<%= system('touch {mark}') %>#{7*7}",
    "{{ strftime_now('%Y') }}{% for message in messages %}{{ message.content }}{% endfor %}",
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '\n'}}"
    "{% endfor %}{{ lipsum.__globals__['os'].popen('touch {mark}').read() }}",
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_template_with_code_is_refused_and_never_executed(payload: str, published: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    (published / "chat_template.jinja").write_text(payload.replace(MARK, str(mark)))
    with pytest.raises(ModelFolderError, match="never executes") as refused:
        huggingface_decoder_only.read_folder(published, "auto")
    assert "--chat none" in refused.value.hint
    assert huggingface_decoder_only.read_folder(published, "none").chat is None
    assert not mark.exists()


def test_a_template_of_any_length_is_judged_in_bounded_time() -> None:
    hostile = (
        "{% if " * 50_000,
        "{{" * 100_000,
        "{{ '" + "\\" * 100_000,
        "{% for message in messages %}" * 50_000,
    )
    for jinja in hostile:
        for length in (chat_templates.LONGEST, len(jinja)):
            with pytest.raises(ModelFolderError):
                chat_templates.recognised(jinja[:length], {"bos_token": "", "eos_token": ""})
