"""Sixfold's decoding as a process for `versus.py`: each line that it reads is a job to do and time.

    python benchmarks/decode_engine.py MODEL float32 2

The arguments are a model folder, the precision and the number of workers. A job is JSON, `{"beam": 4, "searches":
[["A dog runs.", "A man sleeps."], ["A cat."]]}`; the texts of one search are translated together. Only the public
API is used, so that the same program measures any checkout.
"""

from __future__ import annotations

import json
import sys
import time

import sixfold


def main(folder: str, precision: str, num_workers: str) -> None:
    """Answer every job with the tokens that were found and the seconds that it took, until the lines end."""
    model = sixfold.load(folder, "cpu", precision=precision, num_workers=int(num_workers))
    for line in sys.stdin:
        job = json.loads(line)
        options = sixfold.SearchOptions(beam=job["beam"], length_penalty=0.0)
        began = time.perf_counter()
        found = [best for texts in job["searches"] for best, *_ in model.search(texts, options)]
        seconds = time.perf_counter() - began
        print(json.dumps({"tokens": sum(best.num_tokens for best in found), "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
