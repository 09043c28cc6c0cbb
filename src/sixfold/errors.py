"""Everything Sixfold raises on purpose.

SixfoldError                 has a message, and a hint on what to do next
├── RequestError             the request or its input was wrong (exit code 2)
│   ├── ConfigError          a recipe, a --set or an option cannot be honoured
│   ├── DataError            a text file is missing, damaged or not what it should be
│   ├── ModelFolderError     a model folder is missing, damaged, hostile or from the future
│   └── MissingExtraError    an optional dependency is not installed
└── WorkError                the request was right and the work failed (exit code 1)
    ├── TrainingError        training cannot go on: a non-finite loss, a lost rank
    └── DownloadError        a corpus could not be fetched or was not the one expected
"""

from __future__ import annotations


class SixfoldError(Exception):
    """The root of the tree; `hint` is a sentence that says what to do next, or empty."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RequestError(SixfoldError):
    """The request or its input was wrong: nothing was done, and trying again will not help."""

    exit_code = 2


class ConfigError(RequestError):
    """A recipe, a --set or an option cannot be honoured."""


class DataError(RequestError):
    """A text file is missing, damaged or not what it should be."""


class ModelFolderError(RequestError):
    """A model folder is missing, damaged, hostile or from the future."""


class MissingExtraError(RequestError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}, which is not installed.",
            f"pip install 'sixfold[{extra}]'",
        )


class WorkError(SixfoldError):
    """The request was right and the work failed."""


class TrainingError(WorkError):
    """Training cannot continue."""


class DownloadError(WorkError):
    """A corpus could not be fetched, or the file fetched was not the expected one."""
