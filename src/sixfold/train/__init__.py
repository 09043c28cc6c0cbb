"""Training. The package can be called: `sixfold.train(...)` is `sixfold.train.run.train(...)`.

DESIGN gives the public function and the room the same name, and Python binds a package's name to the package as
soon as anything in it is imported; a callable package is the way for both to be true.
"""

from __future__ import annotations

import sys
import types


class CallablePackage(types.ModuleType):
    """A package that runs its main function when it is called."""

    def __call__(self, *args: object, **options: object) -> object:
        """Run `sixfold.train.run.train`, which states the arguments."""
        from sixfold.train.run import train

        return train(*args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = CallablePackage
