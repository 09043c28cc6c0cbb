"""Faults 7, 8 and 32 to 39: hostile clients, overload, failing workers and signals."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import resource
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.conftest import Served

Start = Callable[..., "Served"]
DOG = {"q": "The old man sees a dog.", "source": "en", "target": "de"}
SENTENCE = "The old man sees a dog and the small house of the woman. "
LONG = {**DOG, "q": SENTENCE * 800}
ENDLESS = {**DOG, "q": SENTENCE * 5000}  # seconds of work for any machine
ROOM = len(ENDLESS["q"])
KEY = "a key that nobody guesses"
PROMPT = {"model": "parrot", "prompt": "one two three", "seed": 5, "stream": True}


@dataclass(frozen=True)
class Work:
    """What a server is asked for."""

    path: str
    short: dict[str, Any]
    longer: dict[str, Any]
    long: dict[str, Any]  # a second or more
    words: re.Pattern[str]  # what an answer says, in its JSON

    def said(self, answer: httpx.Response) -> list[str]:
        """Return what an answer says, without ids and times."""
        assert answer.status_code == 200
        return self.words.findall(answer.text)


TRANSLATE = Work("/translate", DOG, {**DOG, "q": DOG["q"] * 20}, LONG, re.compile(r'"translatedText":.*'))
GENERATE = Work(
    "/v1/completions",
    {**PROMPT, "max_tokens": 12},
    {**PROMPT, "max_tokens": 100, "n": 4},
    {**PROMPT, "max_tokens": 200, "n": 16},
    re.compile(r'"index":.*?,"finish_reason":[^}]*'),
)


@pytest.fixture(params=[TRANSLATE, GENERATE], ids=["translating", "generating"])
def work(request: pytest.FixtureRequest) -> Work:
    found: Work = request.param
    return found


@pytest.fixture
def any_server(work: Work, server: Served, writing_server: Served) -> Served:
    """A server that does such work, for all tests that leave it as it is."""
    return server if work is TRANSLATE else writing_server


@pytest.fixture
def start_any(work: Work, start_server: Start, chat_model: Path) -> Start:
    """Return a function that starts a server for such work with some settings."""
    return start_server if work is TRANSLATE else lambda **settings: start_server(chat_model, **settings)


@pytest.fixture(scope="module", autouse=True)
def same_order_of_sums() -> None:
    """Use all cores, unlike the other fault tests: all results compared here come from one server."""


def memory(pid: int) -> float:
    """Return the memory that is a process's own, in MiB."""
    found = re.search(r"^Private_Dirty:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def seconds_of_cpu(pid: int) -> float:
    """Return how long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_idle(pid: int) -> bool:
    """Whether a process computes next to nothing for a third of a second."""
    before = seconds_of_cpu(pid)
    time.sleep(0.3)
    return seconds_of_cpu(pid) - before < 0.1


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether something becomes true within a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


def seconds_until_idle(pid: int) -> float:
    """Return how long a process goes on computing."""
    began = time.monotonic()
    assert eventually(lambda: is_idle(pid), 30)
    return time.monotonic() - began


def status_of(content: bytes) -> int:
    """Return the status of an answer."""
    return int(content.split(b" ", 2)[1])


def connect(served: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.port), timeout=10)


# 7: huge bodies


def declared(connection: socket.socket) -> None:
    connection.sendall(b"content-length: 1000000000\r\n\r\n")


def chunked(connection: socket.socket) -> None:
    connection.sendall(b"transfer-encoding: chunked\r\n\r\n")
    chunk = b"100000\r\n" + b"a" * 0x100000 + b"\r\n"
    with suppress(OSError):  # the server closes before a gigabyte is there
        for _ in range(1000):
            connection.sendall(chunk)


def compressed(connection: socket.socket) -> None:
    body = gzip.compress(b"a" * 100_000_000)
    connection.sendall(f"content-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


@pytest.mark.parametrize("send", [declared, chunked, compressed])
def test_a_huge_body_is_refused_before_it_is_in_memory(
    work: Work, any_server: Served, send: Callable[[socket.socket], None]
) -> None:
    before = memory(any_server.process.pid)
    with connect(any_server) as connection:
        connection.sendall(f"POST {work.path} HTTP/1.1\r\nhost: localhost\r\n".encode())
        send(connection)
        with suppress(ConnectionResetError):  # the response may arrive while it is still sending
            assert status_of(connection.recv(1000)) == 413
    assert memory(any_server.process.pid) - before < 20
    assert httpx.post(f"{any_server.address}{work.path}", json=work.short).status_code == 200


def test_too_many_characters_are_refused_not_cut_off(server: Served) -> None:
    response = httpx.post(f"{server.address}/translate", json={**DOG, "q": "a" * 60_000})
    assert response.status_code == 413
    assert "50,000" in response.json()["error"]


# 8: parameters as amplifiers


@pytest.mark.parametrize(
    "parameters",
    [
        {"alternatives": 10**9},
        {"alternatives": -1},
        {"alternatives": 1e308},
        {"q": ["a"] * 10_000},
        {"beam": 10**9},
        {"source": "x" * 100_000},
        {"format": "html" * 1000},
    ],
)
def test_an_excessive_parameter_is_refused_at_once(server: Served, parameters: dict[str, object]) -> None:
    with httpx.Client(base_url=server.address) as client:
        content, times = json.dumps(DOG | parameters), []
        client.get("/health")
        while not times or (times[-1] >= 0.05 and len(times) < 20):  # a busy machine is not a fault of the server
            began = time.perf_counter()
            response = client.post("/translate", content=content)
            times.append(time.perf_counter() - began)
            assert response.status_code == 400
    assert min(times) < 0.05


# 32: overload


@pytest.fixture(scope="module")
def strict(start_server: Start) -> Served:
    """A server with short time limits."""
    return start_server(
        most_waiting=5, deadline_seconds=1.0, header_seconds=1.5, body_seconds=1.5, most_characters=ROOM
    )


def test_every_client_of_a_crowd_gets_an_answer_or_a_retry_after(work: Work, start_any: Start) -> None:
    served = start_any(most_waiting=5, cache_mebibytes=1)

    async def ask(client: httpx.AsyncClient, seen: Counter[int], end: float) -> None:
        while time.monotonic() < end:
            response = await client.post(work.path, json=work.longer)
            seen[response.status_code] += 1
            if response.status_code != 200:
                assert int(response.headers["retry-after"]) >= 1
                assert response.json()["error"]
                await asyncio.sleep(0.05)  # or the crowd leaves no time to compute

    async def crowd() -> Counter[int]:
        seen: Counter[int] = Counter()
        limits = httpx.Limits(max_connections=50)
        async with httpx.AsyncClient(base_url=served.address, limits=limits, timeout=30) as client:
            end = time.monotonic() + 1
            await asyncio.gather(*(ask(client, seen, end) for _ in range(50)))
        return seen

    assert set(asyncio.run(crowd())) == {200, 503}
    assert any(growth(crowd, [served.process.pid]) < 5 for _ in range(4))  # a leak would grow every time


def growth(work: Callable[[], Coroutine[None, None, object]], processes: list[int]) -> float:
    """Return how many MiB of memory some work does not free."""
    before = sum(map(memory, processes))
    asyncio.run(work())
    return sum(map(memory, processes)) - before


# 33: deadlines and clients that leave


def tokens_translated(served: Served) -> float:
    """Return how many source tokens were translated so far."""
    found = re.search(
        r"^sixfold_source_tokens_total (\S+)", httpx.get(f"{served.address}/metrics").text, re.MULTILINE
    )
    assert found
    return float(found[1])


def test_decoding_stops_when_the_client_disconnects(start_server: Start) -> None:
    server = start_server(most_characters=ROOM)
    assert httpx.post(f"{server.address}/translate", json={**DOG, "q": SENTENCE}).status_code == 200
    [worker] = server.workers
    tokens = tokens_translated(server)

    def ask_and_leave() -> float:
        before, cpu = tokens_translated(server), seconds_of_cpu(worker)
        with connect(server) as connection:
            body = json.dumps(ENDLESS).encode()
            connection.sendall(b"POST /translate HTTP/1.1\r\nhost: localhost\r\n")
            connection.sendall(b"content-type: application/json\r\n")
            connection.sendall(f"content-length: {len(body)}\r\n\r\n".encode() + body)
            assert eventually(lambda: seconds_of_cpu(worker) - cpu > 0.2, 30)
        seconds = seconds_until_idle(worker)
        assert tokens_translated(server) - before < 0.7 * 5000 * tokens  # of all that was sent
        return seconds

    assert any(ask_and_leave() <= 1 for _ in range(3))  # a busy machine is not a fault of the server
    assert httpx.post(f"{server.address}/translate", data=DOG).status_code == 200


def test_texts_leave_the_batch_when_the_client_of_a_stream_disconnects(
    start_server: Start, chat_model: Path
) -> None:
    served = start_server(chat_model)
    [worker] = served.workers
    endless = {**PROMPT, "prompt": ["one"] * 64, "n": 16, "max_tokens": 250}

    def read_and_leave() -> float:
        with httpx.stream("POST", f"{served.address}/v1/completions", json=endless, timeout=30) as response:
            assert next(response.iter_lines()).startswith("data: ")
        return seconds_until_idle(worker)

    assert any(read_and_leave() <= 1 for _ in range(3))  # a busy machine is not a fault of the server
    assert "sixfold_running_texts 0.0" in metrics(served)
    assert httpx.post(f"{served.address}/v1/completions", json=GENERATE.short).status_code == 200


def test_decoding_stops_at_the_deadline_and_the_client_gets_503(strict: Served) -> None:
    def gets_503_in_time() -> bool:
        began = time.perf_counter()
        response = httpx.post(f"{strict.address}/translate", json=ENDLESS, timeout=30)
        seconds = time.perf_counter() - began
        assert response.status_code == 503
        assert "No answer within" in response.json()["error"]
        assert "retry-after" in response.headers
        return seconds_until_idle(strict.workers[0]) <= 1 and seconds < 3

    assert any(gets_503_in_time() for _ in range(3))  # a busy machine is not a fault of the server


# 34: shutdown


def test_no_request_is_lost_when_the_server_shuts_down(work: Work, start_any: Start) -> None:
    served = start_any(drain_seconds=4.0)

    async def run() -> tuple[list[httpx.Response], httpx.Response]:
        async with httpx.AsyncClient(base_url=served.address, timeout=30) as client:
            asking = [asyncio.create_task(client.post(work.path, json=work.longer)) for _ in range(20)]
            await asyncio.sleep(0.3)
            served.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            ready = await client.get("/ready")  # still answered
            return await asyncio.gather(*asking), ready

    answers, ready = asyncio.run(run())
    assert ready.status_code == 503
    assert ready.headers["connection"] == "close"
    first, *others = map(work.said, answers)
    assert first
    assert all(other == first for other in others)
    assert served.process.wait(10) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{served.address}/health")


def test_the_workers_end_with_the_server_however_it_ends(start_server: Start) -> None:
    served = start_server()
    [worker] = served.workers
    served.process.kill()
    served.process.wait()
    assert eventually(lambda: has_ended(worker), 30)


def has_ended(pid: int) -> bool:
    """Whether a process has ended, even if it is still a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second while it goes
        return True


# 35: slow clients


def test_two_hundred_slow_clients_are_disconnected_and_delay_nobody(strict: Served) -> None:
    with ExitStack() as stack:
        client, slow = stack.enter_context(httpx.Client(base_url=strict.address)), []
        assert client.get("/health").status_code == 200
        for i in range(200):
            connection = stack.enter_context(connect(strict))
            start = b"POST /translate HTTP/1.1\r\nhost: localhost\r\n"
            connection.sendall(start if i % 2 else start + b"content-length: 100\r\n\r\nq=")
            slow.append(connection)
        began = time.perf_counter()
        assert client.post("/translate", data=DOG).status_code == 200
        assert time.perf_counter() - began < 1
        answers = [received(connection) for connection in slow]
    assert set(answers[1::2]) == {b""}  # no request began: just closed
    assert {status_of(answer) for answer in answers[::2]} == {408}


def test_a_client_that_does_not_read_its_stream_is_disconnected(start_server: Start, chat_model: Path) -> None:
    served = start_server(chat_model, stall_seconds=0.5)
    endless = {**PROMPT, "prompt": ["one"] * 64, "n": 16, "max_tokens": 250, "logprobs": 20}
    body = json.dumps(endless).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.port))
        head = f"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert eventually(lambda: "sixfold_clients_left_total 1.0" in metrics(served), 60)
    assert "sixfold_open_requests 0.0" in metrics(served)
    assert eventually(lambda: "sixfold_running_texts 0.0" in metrics(served), 30)


def metrics(served: Served) -> str:
    """Return what a server says of itself."""
    return httpx.get(f"{served.address}/metrics").text


def received(connection: socket.socket) -> bytes:
    """Return what came before the other side closed."""
    connection.settimeout(3)
    return b"".join(iter(lambda: connection.recv(1000), b""))


# 36: false health


def test_readiness_follows_the_worker(start_server: Start) -> None:
    served = start_server()
    [worker] = served.workers
    with httpx.Client(base_url=served.address) as client:

        def ready() -> int:
            return client.get("/ready").status_code

        assert ready() == 200
        os.kill(worker, signal.SIGSTOP)
        try:
            assert eventually(lambda: ready() == 503, 5)
            assert client.post("/translate", data=DOG).status_code == 503
            assert client.get("/health").status_code == 200  # the server itself responds
        finally:
            os.kill(worker, signal.SIGCONT)
        assert eventually(lambda: ready() == 200, 20)


def test_a_worker_that_dies_or_hangs_is_replaced_and_its_work_done_again(work: Work, start_any: Start) -> None:
    served = start_any(silence_seconds=2.0, hang_seconds=3.0)
    with httpx.Client(base_url=served.address, timeout=30) as client:
        expected = sorted(work.said(client.post(work.path, json=work.long)))
        assert expected
        for signal_sent in (signal.SIGKILL, signal.SIGSTOP):
            [worker] = served.workers

            async def ask(worker: int = worker, signal_sent: int = signal_sent) -> httpx.Response:
                async with httpx.AsyncClient(base_url=served.address, timeout=30) as other:
                    cpu, asking = (
                        seconds_of_cpu(worker),
                        asyncio.create_task(other.post(work.path, json=work.long)),
                    )
                    while seconds_of_cpu(worker) - cpu < 0.1:  # it works now, and will for some time
                        await asyncio.sleep(0.01)
                    os.kill(worker, signal_sent)
                    return await asking

            assert sorted(work.said(asyncio.run(ask()))) == expected
            assert eventually(lambda worker=worker: worker not in served.workers, 30)


# 37: keys


@pytest.fixture(scope="module")
def locked(start_server: Start) -> Served:
    return start_server(keys=[KEY, "another key of ours"])


def all_routes() -> Iterator[tuple[str, str]]:
    """Yield every method and path that the application knows, from the application itself."""
    from sixfold.serve.app import APIS
    from sixfold.serve.server_settings import ModelSpec, ServerSettings
    from sixfold.serve.service import Service

    service = Service(ServerSettings((ModelSpec(Path("model")),)))
    for api in APIS:
        for route in api.routes(service).routes:
            yield from ((method, route.path) for method in route.methods)  # type: ignore[attr-defined]
    yield "GET", "/openapi.json"


def test_every_path_needs_a_key(locked: Served) -> None:
    routes = [*all_routes(), ("GET", "/nowhere"), ("POST", "/"), ("OPTIONS", "/translate"), ("HEAD", "/health")]
    assert len(routes) > 20
    with httpx.Client(base_url=locked.address) as client:
        for method, path in routes:
            for headers in (
                {},
                {"authorization": "Bearer wrong"},
                {"authorization": f"DeepL-Auth-Key {KEY[:-1]}"},
            ):
                assert client.request(method, path, headers=headers).status_code == 401, (method, path)


def test_a_key_is_accepted_in_every_form_that_clients_use(locked: Served) -> None:
    import deepl
    from libretranslatepy import LibreTranslateAPI

    assert LibreTranslateAPI(locked.address, api_key=KEY).translate(DOG["q"], "en", "de")
    assert LibreTranslateAPI(locked.address, api_key=KEY).languages()
    assert deepl.DeepLClient(KEY, server_url=locked.address).translate_text(DOG["q"], target_lang="DE")
    with httpx.Client(base_url=locked.address) as client:
        assert client.post("/translate", json=DOG | {"api_key": KEY}).status_code == 200
        assert client.get("/ready", params={"api_key": KEY}).status_code == 200
        assert client.get("/", auth=("anyone", KEY)).status_code == 200
        assert client.get("/metrics", headers={"authorization": f"Bearer {KEY}"}).status_code == 200


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from sixfold.serve import access

    compared: list[int] = []
    compare = access.hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append(len(one))
        return compare(one, other)

    monkeypatch.setattr(access.hmac, "compare_digest", counted)
    keys = access.ApiKeys([KEY, "another key of ours"])
    for guess in (KEY, "another key of ours", KEY[:-1], "", "x" * 10_000):
        keys.accept(guess)
    assert compared == [32] * 10  # every key, whatever matched, and digests of one length


# 38: other sites, other host names, forged log lines


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example", "[::1"])
def test_an_unknown_host_name_is_refused(server: Served, host: str) -> None:
    assert httpx.get(f"{server.address}/languages", headers={"host": host}).status_code in (400, 421)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_pages_of_other_sites_can_neither_send_requests_nor_read_responses(server: Served, origin: str) -> None:
    for method, path in (("POST", "/translate"), ("GET", "/languages"), ("OPTIONS", "/translate")):
        response = httpx.request(method, f"{server.address}{path}", headers={"origin": origin})
        assert response.status_code == 403
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_every_answer_carries_the_policy_of_the_page(server: Served) -> None:
    for path in ("/", "/docs", "/languages", "/nowhere", "/page/translate.js"):
        headers = httpx.get(f"{server.address}{path}").headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_requests_cannot_forge_log_lines(server: Served) -> None:
    hostile = '/x%0a{"event":"forged"}%1b[2J\u2028'
    httpx.get(f"{server.address}{hostile}", headers={"x-a": '"forged"', "user-agent": "\x1b[2J"})
    with connect(server) as connection:
        connection.sendall(b"FORGED\x0bMETHOD / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        connection.recv(1000)
    with connect(server) as connection:
        connection.sendall(b'{"event": "forged"}\n\r\n\r\n')
        connection.recv(1000)
    text = server.log.read_bytes()
    assert b"forged" not in text
    assert b"\x1b" not in text
    assert all(json.loads(line) for line in text.splitlines())


# 11: a full disk


def test_a_full_disk_loses_lines_of_the_log_and_no_request(start_server: Start) -> None:
    served = start_server()
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    begun = served.log.read_bytes()
    resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (len(begun) + 10, resource.RLIM_INFINITY))
    for _ in range(3):
        assert httpx.post(f"{served.address}/translate", data=DOG).status_code == 200
    assert len(served.log.read_bytes()) <= len(begun) + 10
    resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, unlimited)
    assert httpx.get(f"{served.address}/ready").status_code == 200
    assert b'"route": "/ready"' in served.log.read_bytes()


# 39: caches


def test_many_different_prompts_leave_no_more_in_memory_than_they_may(
    start_server: Start, chat_model: Path
) -> None:
    served = start_server(chat_model, cache_mebibytes=1)
    processes = [served.process.pid, *served.workers]

    async def ask(first: int, count: int) -> None:
        async with httpx.AsyncClient(base_url=served.address, timeout=60) as client:
            for begin in range(first, first + count, 20):
                prompts = [{**GENERATE.short, "prompt": f"{i} one two three"} for i in range(begin, begin + 20)]
                asking = (client.post("/v1/completions", json=each) for each in prompts)
                assert {response.status_code for response in await asyncio.gather(*asking)} == {200}

    asyncio.run(ask(0, 200))
    assert any(growth(lambda first=first: ask(first, 200), processes) < 10 for first in (1000, 2000, 3000))


def test_many_different_requests_leave_nothing_in_memory(server: Served) -> None:
    processes = [server.process.pid, *server.workers]

    async def ask(first: int, count: int) -> None:
        async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:
            for begin in range(first, first + count, 20):
                asking = (
                    client.post(f"/translate?{i}", json={**DOG, "q": f"The man has {i} dogs."})
                    for i in range(begin, begin + 20)
                )
                assert {response.status_code for response in await asyncio.gather(*asking)} == {400}
                asking = (
                    client.post("/translate", json={**DOG, "q": f"The man has {i} dogs."})
                    for i in range(begin, begin + 20)
                )
                assert {response.status_code for response in await asyncio.gather(*asking)} == {200}

    asyncio.run(ask(0, 100))
    assert any(growth(lambda first=first: ask(first, 200), processes) < 10 for first in (1000, 2000, 3000))
