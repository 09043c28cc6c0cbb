"""`python -m sixfold` is `sixfold`."""

from sixfold.cli import main

main()
