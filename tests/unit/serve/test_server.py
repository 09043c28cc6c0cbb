"""The whole server: its own API, several models, documentation, metrics and the log."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import sixfold

if TYPE_CHECKING:
    from tests.conftest import Served

COMPAT = Path(__file__).parents[2] / "compat"
MODEL = COMPAT / "format-1-phrases"
SECRET = "Zanzibar giraffe"


def test_every_sentence_has_its_alignment_and_alternatives(client: httpx.Client) -> None:
    text = "The old man sees a dog.  The dog sleeps."
    answer = client.post("/api/translate", json={"text": text, "target": "de", "alternatives": 2}).json()
    assert "".join(part["source"] for part in answer["parts"]) == text
    sentences = [part for part in answer["parts"] if part["translations"]]
    assert len(sentences) == 2
    for part in sentences:
        assert len(part["translations"]) == 3
        best = part["translations"][0]
        links = sixfold.load(MODEL, "cpu").align([part["source"]], [best["text"]])[0]
        assert [(each[0], each[2]) for each in best["links"]] == [
            (each.source_start, each.target_start) for each in links
        ]
        assert 0 < best["probability"] <= 1


def test_quality_warnings_are_returned_as_sentences(client: httpx.Client) -> None:
    answer = client.post("/api/translate", json={"text": "The dog has 4711 houses.", "target": "de"}).json()
    assert any("4711" in flag["message"] for flag in answer["parts"][0]["translations"][0]["flags"])


def test_the_web_pages_load_nothing_from_other_servers(client: httpx.Client) -> None:
    for path in ("/", "/docs", "/page/style.css", "/page/translate.js", "/page/words.js", "/page/docs.js"):
        response = client.get(path)
        assert response.status_code == 200
        assert not re.search(r"(?:src|href|from|url)\W{1,3}(?:https?:)?//", response.text)
    described = client.get("/openapi.json").json()["paths"]
    assert {"/translate", "/languages", "/detect", "/v2/translate", "/v2/usage", "/metrics"} <= set(described)
    fields = described["/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert fields["alternatives"]["maximum"] == 8


def test_the_metrics_are_in_prometheus_format(client: httpx.Client) -> None:
    client.post("/translate", data={"q": "A dog.", "source": "en", "target": "de"})
    found = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    assert found["sixfold_ready"].samples[0].value == 1
    assert any(sample.labels.get("route") == "/translate" for sample in found["sixfold_requests"].samples)
    assert found["sixfold_batch_sentences"].type == "histogram"


def test_the_log_is_json_without_any_text_of_users(client: httpx.Client, server: Served) -> None:
    fields = {"q": SECRET, "source": "en", "target": "de"}
    client.post("/translate", data=fields)
    client.post(f"/translate?x={SECRET}", json=fields | {"beam": SECRET})
    client.get(f"/{SECRET}", headers={"x-secret": SECRET, "user-agent": SECRET})
    client.post("/translate", content=SECRET)
    text = server.log.read_text()
    assert "Zanzibar" not in text
    records = [json.loads(line) for line in text.splitlines()]
    assert {"serving", "request"} <= {record["event"] for record in records}
    assert {"request", "method", "route", "status", "seconds", "characters"} <= set(records[-1])


def test_several_models_are_served_and_source_languages_detected(
    start_server: Callable[..., Served], tmp_path: Path
) -> None:
    shutil.copytree(MODEL, tmp_path / "other")
    served = start_server(MODEL, f"{tmp_path / 'other'}=de-en")
    with httpx.Client(base_url=served.address, timeout=30) as client:
        codes = [(each["code"], each["targets"]) for each in client.get("/languages").json()]
        assert codes == [("en", ["de"]), ("de", ["en"])]
        for text, language, target in (
            ("Das ist ein sehr schöner Tag und ich freue mich darüber.", "de", "en"),
            ("This is a very beautiful day and I am happy about it.", "en", "de"),
        ):
            assert client.post("/detect", data={"q": text}).json()[0]["language"] == language
            found = client.post("/translate", data={"q": text, "source": "auto", "target": target}).json()
            assert found["detectedLanguage"]["language"] == language
        found = client.post("/v2/translate", json={"text": ["This is a day."], "target_lang": "EN-GB"})
        assert (
            found.json()["translations"][0]["detected_source_language"] == "DE"
        )  # the only source language with a model into English


def test_small_responses_are_not_delayed(server: Served) -> None:
    with httpx.Client(base_url=server.address) as client:
        times = []
        for _ in range(20):
            began = time.perf_counter()
            client.get("/health")
            times.append(time.perf_counter() - began)
    assert min(times[1:]) < 0.03  # with Nagle's algorithm each takes 40 ms or more


def test_cors_and_rate_limits_are_enforced(start_server: Callable[..., Served]) -> None:
    served = start_server(origins=["https://good.example"], rate_limit=10)
    with httpx.Client(base_url=served.address, headers={"origin": "https://good.example"}) as client:
        assert client.get("/languages").headers["access-control-allow-origin"] == "https://good.example"
        assert client.options("/translate").status_code == 204
        assert client.get("/languages", headers={"origin": "https://bad.example"}).status_code == 403
        statuses = [client.get("/languages") for _ in range(12)]
        assert statuses[-1].status_code == 429
        assert int(statuses[-1].headers["retry-after"]) >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "absent"),
        ([MODEL, MODEL], "translate en to de"),
        ([MODEL, "--host", "0.0.0.0"], "--keys FILE"),
        ([MODEL, "--keys", "absent"], "absent"),
        ([f"{MODEL}=english"], "en-de"),
    ],
)
def test_invalid_arguments_are_reported_without_a_traceback(arguments: list[object], message: str) -> None:
    command = [sys.executable, "-m", "sixfold", "serve", *map(str, arguments), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert message in done.stderr


def test_the_command_serves_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "sixfold", "serve", str(MODEL), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        found = re.search(r"en → de at (http://127.0.0.1:\d+) ", process.stdout.readline())
        assert found
        response = httpx.post(f"{found[1]}/translate", data={"q": "A dog.", "source": "auto", "target": "de"})
        assert response.json()["translatedText"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


SLOW = """
import asyncio, sys
import uvicorn
from pathlib import Path
startup = uvicorn.Server.startup
async def slowly(self, sockets=None):
    await asyncio.sleep(1)
    await startup(self, sockets)
uvicorn.Server.startup = slowly
from sixfold.serve.server import run
from sixfold.serve.server_settings import ModelSpec, ServerSettings
run(ServerSettings((ModelSpec(Path(sys.argv[1])),), port=0))
"""


def test_the_address_is_printed_only_once_the_server_listens() -> None:
    command = [sys.executable, "-c", SLOW, str(MODEL)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        found = re.search(r"http://127.0.0.1:\d+", process.stdout.readline())
        assert found
        try:
            assert httpx.get(f"{found[0]}/health").status_code == 200
        finally:
            process.kill()


def test_a_port_in_use_is_reported(server: Served) -> None:
    command = [sys.executable, "-m", "sixfold", "serve", str(MODEL), "--port", str(server.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "--port" in done.stderr
