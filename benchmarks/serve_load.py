"""What a server carries: requests a second, latency, memory, and what is lost when it is told to end.

    python benchmarks/serve_load.py --model MODEL --text TEST.en TEST.de

Real requests over loopback, one sentence each, from so many clients at once, each of which asks again as soon as
it is answered. Three ways to serve the same model take turns: `sixfold` as it comes, with one worker;
`sixfold-all-cores`, with a worker for each core; and `one-at-a-time`, with one worker that translates every
request by itself.

Then, of `sixfold` alone: which answers an overload gives, how much memory all its processes use before and after
many requests, and how many requests are lost when it is told to end under load.

Without a model, one is trained first and kept in the cache folder, as decode_speed.py does: the small one, with
--quick the tiny one.

With `--api openai` a model that generates is served instead, SmolLM2 unless --model names another, and
generation_load.py takes the place of the first part.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import generation_load
from report import Record, publish, record, take_turns
from servers import Running, server
from trained import kept, made_once, test_text, trained

ENGINES = {
    "sixfold": ["--workers", "1"],
    "sixfold-all-cores": ["--workers", "0"],
    "one-at-a-time": ["--workers", "1", "--set", "serve.batch_tokens=1"],
}


@dataclass(frozen=True)
class Api:
    """How a client asks: where, with which fields beside the text, and what every answer has."""

    path: str
    text: str
    fields: Mapping[str, object]
    answer: str

    def request(self, text: str) -> bytes:
        """Return the request for a text."""
        body = json.dumps({self.text: text, **self.fields}).encode()
        head = f"POST {self.path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body


TRANSLATE = Api("/translate", "q", {"source": "en", "target": "de"}, "translatedText")


def write(model: Path) -> Api:
    """Return how a short text of a model is asked for."""
    return Api("/v1/completions", "prompt", {"model": model.name, "max_tokens": 16}, "choices")


@dataclass
class Tally:
    """What clients saw."""

    seconds: list[float] = field(default_factory=list)  # of requests that were answered with 200
    statuses: Counter[str] = field(default_factory=Counter)
    duration: float = 0.0

    def metrics(self) -> dict[str, float]:
        """Return the numbers of one run, times in milliseconds."""
        cuts = statistics.quantiles(self.seconds, n=100, method="inclusive")
        found = {f"latency_p{cut}": 1000 * cuts[cut - 1] for cut in (50, 95, 99)}
        return {"requests_per_second": len(self.seconds) / self.duration, **found}


async def ask(port: int, requests: Iterator[bytes], api: Api, tally: Tally, until: float, left: list[int]) -> None:
    """Be a client: ask again and again until the time or the number of requests is over, or the server ends."""
    reader = writer = None
    while time.perf_counter() < until and left[0] > 0:
        left[0] -= 1
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            tally.statuses["refused"] += 1  # nobody listens any more: nothing was promised
            return
        began = time.perf_counter()
        try:
            status, keeps_open = await exchange(reader, writer, next(requests), api.answer)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            tally.statuses["lost"] += 1
            return
        tally.statuses[status] += 1
        if status == "200":
            tally.seconds.append(time.perf_counter() - began)
        else:
            await asyncio.sleep(0.05)  # a client that is told to wait does
        if not keeps_open:
            writer.close()
            writer = None
    if writer is not None:
        writer.close()


async def exchange(
    reader: asyncio.StreamReader | None, writer: asyncio.StreamWriter | None, request: bytes, expected: str
) -> tuple[str, bool]:
    """Send a request and read the answer; return its status and whether the connection stays open."""
    assert reader
    assert writer
    writer.write(request)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", answer)
    content = await reader.readexactly(int(length[1]) if length else 0)
    status = answer.split(" ", 2)[1]
    if status == "200" and expected not in json.loads(content):
        raise ValueError("not an answer")
    return status, "connection: close" not in answer


async def load(
    port: int,
    texts: Sequence[str],
    clients: int,
    seconds: float,
    most: int = sys.maxsize,
    api: Api = TRANSLATE,
) -> Tally:
    """Let so many clients ask for so long, or so often."""
    tally, left, endless = Tally(), [most], itertools.cycle(map(api.request, texts))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(ask(port, endless, api, tally, began + seconds, left))
    tally.duration = time.perf_counter() - began
    return tally


async def load_and_end(running: Running, texts: Sequence[str], clients: int, api: Api) -> Tally:
    """Tell a server to end while clients ask."""

    async def end() -> None:
        await asyncio.sleep(1.5)
        os.kill(running.process.pid, signal.SIGTERM)

    ending = asyncio.create_task(end())
    tally = await load(running.port, texts, clients, seconds=20, api=api)
    await ending
    return tally


UNITS = {"requests_per_second": "1/s"}


def throughput(model: Path, texts: Sequence[str], options: argparse.Namespace) -> Iterator[Record]:
    """Yield speed and latency of all engines."""
    with all_engines(model) as servers:
        for running in servers.values():
            asyncio.run(load(running.port, texts, 32, options.seconds))  # what is made once
        for clients in options.clients:
            measures = {
                name: lambda port=running.port, clients=clients: asyncio.run(  # type: ignore[misc]
                    load(port, texts, clients, options.seconds)
                ).metrics()
                for name, running in servers.items()
            }
            for name, metrics in take_turns(measures, options.rounds).items():
                for metric, values in metrics.items():
                    case = f"{clients} client{'s' if clients > 1 else ''}"
                    yield record("serve_load", case, name, metric, values, UNITS.get(metric, "ms"))


@contextmanager
def all_engines(model: Path) -> Iterator[dict[str, Running]]:
    """Start a server for each engine; an idle one costs nothing."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(server(model, "--set", "serve.most_waiting=1000", *options))
            for name, options in ENGINES.items()
        }


def endurance(model: Path, texts: Sequence[str], options: argparse.Namespace, api: Api) -> Iterator[Record]:
    """Yield what an overload, many requests and an end do."""
    with server(model, "--set", "serve.most_waiting=32") as running:
        tally = asyncio.run(load(running.port, texts, 128, options.overload, api=api))
        for status, count in sorted(tally.statuses.items()):
            yield record(
                "serve_load", f"overload, 128 clients, {options.overload:g} s", "sixfold", status, [count], ""
            )
    short = [text for text in texts if len(text) < 60] or texts
    with server(model) as running:
        asyncio.run(load(running.port, short, 32, 600, options.requests // 10, api))
        before = running.memory()
        tally = asyncio.run(load(running.port, short, 32, 600, options.requests, api))
        case = f"{sum(tally.statuses.values()):,} requests"
        yield record("serve_load", case, "sixfold", "memory_before", [before], "MiB")
        yield record("serve_load", case, "sixfold", "memory_after", [running.memory()], "MiB")
        tally = asyncio.run(load_and_end(running, short, 20, api))
        exit_code = running.process.wait(30)
        for status in ("200", "lost"):
            yield record("serve_load", "SIGTERM, 20 clients", "sixfold", status, [tally.statuses[status]], "")
        yield record("serve_load", "SIGTERM, 20 clients", "sixfold", "exit_code", [exit_code], "")


def translating(model: Path, texts: Sequence[str], options: argparse.Namespace) -> Iterator[Record]:
    """Yield what a server that translates carries."""
    yield from throughput(model, texts, options)
    yield from endurance(model, texts, options, TRANSLATE)


def writing(model: Path, texts: Sequence[str], options: argparse.Namespace) -> Iterator[Record]:
    """Yield what a server that generates carries."""
    yield from generation_load.throughput(model, texts, options)
    yield from endurance(model, texts, options, write(model))


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--api", choices=("translate", "openai"), default="translate")
    parser.add_argument("--model", type=Path, help="a model folder; otherwise one is trained, or imported")
    parser.add_argument("--text", nargs=2, metavar="FILE", help="source and reference")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--overload", type=float, default=20.0, help="seconds")
    parser.add_argument("--requests", type=int, default=10_000, help="between the two looks at the memory")
    parser.add_argument("--quick", action="store_true", help="the tiny model, short rounds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.quick:
        options.clients, options.seconds, options.rounds = [1, 32], 1.0, 1
        options.overload, options.requests = 2.0, 500
    texts, _ = test_text(options.text, options.sentences)
    if options.api == "openai":
        model, measure = options.model or made_once(kept("smollm2"), ["import", "smollm2"]), writing
    else:
        model, measure = options.model or trained("tiny" if options.quick else "small"), translating
    publish([*measure(model, texts, options)], f"serving {model.name}", options.json)


if __name__ == "__main__":
    main()
