r"""One text file as lines: plain, gzip, xz or zstd, or standard input.

Only b"\n" ends a line, so that the number of lines is that of `wc -l`: U+2028, vertical tabs and form feeds stay
inside their line. One "\r" before "\n" (CRLF) and a UTF-8 byte order mark at the start are dropped. Compression is
detected from the first bytes, not the name. Memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import re
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, cast

from sixfold.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT = Path("-")
BLOCK_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 26  # a longer "line" is not text, and would need unbounded memory
ZSTD_PIECE_BYTES = 1 << 10  # grows at most 32,768-fold, so that a hostile file cannot fill the memory

GZIP, XZ, ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
UNFINISHED = re.compile(rb"([\xc0-\xff][\x80-\xbf]{0,2}|\r)?\Z")
WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)  # the first also begins UTF-32 LE


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read; the content of a pipe is kept in an anonymous temporary file, to be read again."""

    path: Path
    spool: IO[bytes] | None = None

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The name of this input in messages."""
        return "standard input" if self.path == STANDARD_INPUT else str(self.path)

    @contextmanager
    def open_raw(self) -> Iterator[io.BufferedReader]:
        """Open the bytes as they are stored."""
        if self.spool is not None:
            yield buffered(SpoolReader(self.spool))
        elif self.path == STANDARD_INPUT:
            yield buffered(sys.stdin.buffer)  # not ours to close
        else:
            with self.path.open("rb") as file:
                yield file

    @contextmanager
    def open(self) -> Iterator[io.BufferedIOBase]:
        """Open the bytes, decompressed."""
        with self.open_raw() as raw:
            yield decompressed(raw)


FileOrInput = str | Path | Input


class SpoolReader(io.RawIOBase):
    """A reader of a shared temporary file with a position of its own."""

    def __init__(self, spool: IO[bytes]) -> None:
        self.spool = spool
        self.position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Say that it can be positioned, which Parquet needs."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move this reader and no other."""
        start = self.position if whence == os.SEEK_CUR else 0
        self.position = self.spool.seek(start + offset, os.SEEK_END if whence == os.SEEK_END else os.SEEK_SET)
        return self.position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read from this reader's own position."""
        self.spool.seek(self.position)
        data = self.spool.read(len(view := memoryview(buffer)))
        view[: len(data)] = data
        self.position += len(data)
        return len(data)


class ZstdReader(io.RawIOBase):
    """Decompressed zstd, frame after frame; a frame that ends early is an error, not an end."""

    def __init__(self, raw: io.BufferedReader) -> None:
        self.zstandard = need("zstandard", "Reading a zstd-compressed file")
        self.raw = raw
        self.frame = self.zstandard.ZstdDecompressor().decompressobj()
        self.begun = False
        self.left = memoryview(b"")  # decompressed but not yet returned

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Return decompressed bytes, after decompressing more if there are none."""
        while not self.left and self.decompress_more():
            pass
        data = self.left[: len(view := memoryview(buffer))]
        view[: len(data)] = data
        self.left = self.left[len(data) :]
        return len(data)

    def decompress_more(self) -> bool:
        """Decompress the next piece, and return whether there was one."""
        piece = (self.frame.unused_data if self.frame.eof else b"") or self.raw.read(ZSTD_PIECE_BYTES)
        if not piece:
            if self.begun and not self.frame.eof:
                raise EOFError
            return False
        if self.frame.eof:
            self.frame = self.zstandard.ZstdDecompressor().decompressobj()
        self.begun = True
        try:
            self.left = memoryview(self.frame.decompress(piece))
        except self.zstandard.ZstdError as error:
            raise OSError(f"its zstd data is damaged ({error})") from error
        return True


def need(package: str, purpose: str) -> ModuleType:
    """Import a package of the extra `formats`; if it is missing, raise with how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(package, "formats", purpose) from error


def buffered(file: IO[bytes] | io.RawIOBase) -> io.BufferedReader:
    """Return the file with a buffer, so that it can be peeked into."""
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))


def decompressed(raw: io.BufferedReader) -> io.BufferedIOBase:
    """Return the decompressed bytes of a file, whose first bytes tell the compression."""
    magic = raw.peek(len(XZ))
    if magic.startswith(GZIP):
        return gzip.GzipFile(fileobj=raw)
    if magic.startswith(XZ):
        return lzma.LZMAFile(raw)
    if magic.startswith(ZSTD):
        return io.BufferedReader(ZstdReader(raw))
    return raw


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn errors of the system and of decompressors into one that names the file and what to do."""
    try:
        yield
    except EOFError as error:
        raise DataError(
            f"{name} is cut off: its compressed data ends early.", "Copy or download it again."
        ) from error
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{name} is damaged: {error}.", "Copy or download it again.") from error
    except FileNotFoundError as error:
        raise DataError(f"There is no file {name}.", f"The current folder is {Path.cwd()}.") from error
    except IsADirectoryError as error:
        raise DataError(f"{name} is a folder, and a file was expected.", "Name one file in it.") from error
    except PermissionError as error:
        raise DataError(
            f"You have no permission to read {name}.", "Change its permissions, or copy it to a folder of yours."
        ) from error
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}.") from error


def find_input(path: FileOrInput) -> Input:
    """Return an input that can be read repeatedly: the content of a pipe is kept."""
    if isinstance(path, Input):
        return path
    source = Input(Path(path))
    with naming(source.name):
        if source.path != STANDARD_INPUT:
            source.path.stat()
    return Input(source.path, spooled(source)) if is_pipe(source.path) else source


def keep_pipes(paths: Iterable[FileOrInput]) -> list[FileOrInput]:
    """Replace the pipes among paths by inputs that can be read repeatedly."""
    return [find_input(path) if isinstance(path, Input) or is_pipe(Path(path)) else path for path in paths]


def is_pipe(path: Path) -> bool:
    """Return whether a path can be read only once."""
    return path == STANDARD_INPUT or path.is_fifo()


def spooled(pipe: Input) -> IO[bytes]:
    """Copy a pipe to an anonymous temporary file, so that nothing is left behind however the process ends."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115 (it closes with its last reader)
    with naming(pipe.name), pipe.open_raw() as raw:
        shutil.copyfileobj(raw, spool)
    return spool


def first_bytes(source: Input) -> bytes:
    """Return the beginning of an input, decompressed; an empty input is refused."""
    with naming(source.name), source.open() as file:
        head = file.read(BLOCK_BYTES)
    if not head:
        raise DataError(f"{source.name} is empty.", "It must have at least one line.")
    return head


def read_lines(path: str | Path) -> Iterator[str]:
    r"""Yield the lines of one text file, or of standard input ("-") as they come, without their "\n"."""
    source = Input(Path(path))
    if source.path != STANDARD_INPUT:
        with naming(source.name):
            source.path.stat()
            if source.path.is_dir():
                raise IsADirectoryError
    return lines_of(source)


def lines_of(source: Input) -> Iterator[str]:
    """Yield the lines of an input."""
    return chain.from_iterable(blocks_of_lines(source))


def blocks_of_lines(source: Input) -> Iterator[list[str]]:
    """Yield the lines of an input in lists: decoding many at once makes reading fast."""
    num_lines = num_bytes = 0
    for block in blocks_of_whole_lines(source):
        text = decode(block, source.name, num_lines, num_bytes)
        lines = text.replace("\r\n", "\n").split("\n")
        if not lines[-1]:
            lines.pop()  # the empty rest after the last newline, or after a lone byte order mark, is not a line
        yield lines
        num_lines += len(lines)
        num_bytes += len(block)


def decode(block: bytes, name: str, num_lines: int, num_bytes: int) -> str:
    """Decode whole lines; `num_lines` and `num_bytes` of the file come before them."""
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        if num_bytes == 0:
            refuse_wide_characters(block, name)
        line = num_lines + block.count(b"\n", 0, error.start) + 1
        place = f"byte 0x{block[error.start]:02x} at offset {num_bytes + error.start:,}"
        raise DataError(
            f"{name}, line {line:,}: not UTF-8 ({place}).",
            "If the file has another encoding, convert it: iconv -f LATIN1 -t UTF-8 FILE > NEW",
        ) from error
    return text.removeprefix("\ufeff") if num_bytes == 0 else text


def refuse_wide_characters(head: bytes, name: str) -> None:
    """Raise if a file starts with a byte order mark of UTF-16 or UTF-32."""
    if head.startswith(WIDE_MARKS):
        raise DataError(
            f"{name} is UTF-16 or UTF-32, but must be UTF-8.",
            "Convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW",
        )


def blocks_of_whole_lines(source: Input) -> Iterator[bytes]:
    """Yield blocks of bytes that end at the end of a line; the last ends at the end of the file."""
    unfinished: list[bytes] = []  # pieces of a line longer than a block, joined once
    length = 0
    for block in blocks_of(source):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join([*unfinished, block[:cut]])
            unfinished, length = [], 0
        unfinished.append(block[cut:])
        length += len(block) - cut
        if length > MAX_LINE_BYTES:
            raise DataError(
                f"{source.name} has a line longer than {MAX_LINE_BYTES >> 20} MiB.",
                "Is it a text file with one sentence a line?",
            )
    if length:
        yield b"".join(unfinished)


def text_of(source: Input) -> Iterator[str]:
    """Yield the text of an input in blocks that end at the end of a line; a long line comes in parts."""
    rest, num_lines, num_bytes = b"", 0, 0
    for more in blocks_of(source):
        block = rest + more
        cut = block.rfind(b"\n") + 1 or len(block) - len(unfinished_character(block))
        yield decode(block[:cut], source.name, num_lines, num_bytes).replace("\r\n", "\n")
        num_lines += block.count(b"\n", 0, cut)
        num_bytes += cut
        rest = block[cut:]
    if rest:
        yield decode(rest, source.name, num_lines, num_bytes)


def unfinished_character(block: bytes) -> bytes:
    r"""Return the bytes at the end that may be incomplete: the first of a character, or the "\r" of a line end."""
    return UNFINISHED.search(block[-3:])[0]  # type: ignore[index]  # it matches nothing too


def blocks_of(source: Input) -> Iterator[bytes]:
    """Yield the decompressed bytes of an input as they come."""
    with naming(source.name), source.open() as file:
        while block := file.read1(BLOCK_BYTES):
            yield block
