"""What `serve_load.py --api openai` measures: how fast texts are written for many clients at once.

Every client asks for a streamed completion, and again as soon as it has it. Two ways to serve the same model take
turns: `sixfold` as it comes, where a request joins the running batch, and `one-at-a-time`, where it waits until
the text before it is whole. Besides tokens a second and the time to the first token it is counted how many tokens
any other text got between the sending of a request and its first token: the steps that it waited for.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from report import Record, record, take_turns
from servers import server

ENGINES = {"sixfold": [], "one-at-a-time": ["--set", "serve.most_texts=1"]}
TOKENS = 64  # of each text
SENTENCES = 3  # of a prompt, which has about as many tokens as the text
UNITS = {"tokens_per_second": "1/s", "steps_to_first_token": "", "most_steps_to_first_token": ""}


@dataclass
class Tally:
    """What clients saw in one measurement."""

    written: dict[int, int] = field(default_factory=dict)  # request -> its tokens so far, while it is written
    num_tokens: int = 0
    seconds: list[float] = field(default_factory=list)  # from each request to its first token
    steps: list[int] = field(default_factory=list)  # the same, in tokens of the text that got the most meanwhile

    def metrics(self, duration: float) -> dict[str, float]:
        """Return the numbers of one measurement, times in milliseconds."""
        return {
            "tokens_per_second": self.num_tokens / duration,
            "first_token_p50": 1000 * statistics.median(self.seconds),
            "first_token_longest": 1000 * max(self.seconds),
            "steps_to_first_token": statistics.median(self.steps),
            "most_steps_to_first_token": max(self.steps),
        }

    async def follow(self, request: int, pieces: AsyncIterator[int]) -> None:
        """Count the tokens of a text while it is written."""
        began, before = time.perf_counter(), dict(self.written)
        self.written[request] = 0
        async for tokens in pieces:
            if not self.written[request]:
                self.seconds.append(time.perf_counter() - began)
                running = before.keys() & self.written.keys()
                self.steps.append(max((self.written[each] - before[each] for each in running), default=0))
            self.written[request] += tokens
            self.num_tokens += tokens
        del self.written[request]


async def pieces(port: int, model: str, prompt: str, seed: int) -> AsyncIterator[int]:
    """Ask for a text; yield how many tokens come, as they come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = {"model": model, "prompt": prompt, "max_tokens": TOKENS, "seed": seed, "stream": True}
    body = json.dumps({**asked, "return_token_ids": True}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    try:
        answer = await reader.readuntil(b"\r\n\r\n")
        if answer.split(b" ", 2)[1] != b"200":
            raise SystemExit(f"The server answered {answer.decode()}")
        while (line := await reader.readline()) != b"data: [DONE]\n":
            if line.startswith(b"data: "):
                [choice] = json.loads(line.removeprefix(b"data: "))["choices"]
                if found := choice.get("token_ids"):  # the first event has the prompt's alone
                    yield len(found)
    finally:
        writer.close()


async def load(port: int, model: str, prompts: Sequence[str], clients: int, seconds: float) -> dict[str, float]:
    """Let so many clients ask for so long; what they are writing then is not counted."""
    tally, requests = Tally(), itertools.count()

    async def be_a_client() -> None:
        for request in requests:
            prompt = prompts[request % len(prompts)]
            await tally.follow(request, pieces(port, model, prompt, request))

    asking = [asyncio.create_task(be_a_client()) for _ in range(clients)]
    done, _ = await asyncio.wait(asking, timeout=seconds)
    measured = tally.metrics(seconds)
    for client in asking:
        client.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    for client in done:
        client.result()  # why it gave up
    return measured


def throughput(model: Path, texts: Sequence[str], options: argparse.Namespace) -> Iterator[Record]:
    """Yield tokens a second and the wait for the first token, of all engines by turns."""
    prompts = [" ".join(texts[first : first + SENTENCES]) for first in range(0, len(texts), SENTENCES)]
    with ExitStack() as stack:
        ports = {name: stack.enter_context(server(model, *arguments)).port for name, arguments in ENGINES.items()}
        for clients in options.clients:
            measures = {
                name: lambda port=port, clients=clients: asyncio.run(  # type: ignore[misc]
                    load(port, model.name, prompts, clients, options.seconds)
                )
                for name, port in ports.items()
            }
            for name, metrics in take_turns(measures, options.rounds).items():
                for metric, values in metrics.items():
                    case = f"{clients} client{'s' if clients > 1 else ''}"
                    yield record("serve_load", case, name, metric, values, UNITS.get(metric, "ms"))
