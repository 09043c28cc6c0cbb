"""The interface of LibreTranslate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from sixfold.serve.languages import name_of
from sixfold.serve.request_fields import Several, Texts, asked, body_of
from sixfold.serve.service import MOST_ALTERNATIVES, Service, Translated, joined


class TranslateRequest(BaseModel):
    """What to translate."""

    model_config = ConfigDict(extra="forbid")

    q: str | Several = Field(description="A text, or a list of them.")
    source: str = Field(description='The language it is in, or "auto".', max_length=20)
    target: str = Field(description="The language to translate into.", max_length=20)
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES, description="Other translations of each text.")
    secret: str = Field("", description="Not used; LibreTranslate's own page sends it.")


class DetectRequest(BaseModel):
    """What to identify."""

    model_config = ConfigDict(extra="forbid")

    q: Texts = Field(description="A text.", min_length=1, max_length=1)


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", openapi_extra=dict(body_of(TranslateRequest)))
    async def translate(request: Request) -> JSONResponse:
        """Translate a text or a list of texts."""
        wanted = asked(request, TranslateRequest)
        texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
        request.scope["visit"].num_characters = sum(map(len, texts))
        detected = service.detect("\n".join(texts), wanted.target) if wanted.source == "auto" else None
        source = detected.language if detected else wanted.source
        found = await service.translate(texts, source, wanted.target, wanted.format, wanted.alternatives)
        answer: dict[str, object] = {"translatedText": as_asked([joined(parts) for parts in found], wanted.q)}
        if wanted.alternatives:
            choices = range(1, 1 + wanted.alternatives)
            answer["alternatives"] = as_asked([others(parts, choices) for parts in found], wanted.q)
        if detected:
            answer["detectedLanguage"] = as_asked([asdict(detected)] * len(texts), wanted.q)
        return JSONResponse(answer)

    @router.post("/detect", openapi_extra=dict(body_of(DetectRequest)))
    async def detect(request: Request) -> JSONResponse:
        """Tell which of the served languages a text is in, the most probable first."""
        [text] = asked(request, DetectRequest).q
        service.check([text])
        return JSONResponse([asdict(each) for each in service.detector.rank(text)])

    @router.get("/languages")
    async def languages() -> JSONResponse:
        """List the languages that can be translated, each with those it can be translated into."""
        return JSONResponse(served_languages(service))

    @router.get("/frontend/settings")
    async def settings() -> JSONResponse:
        """Say what the page of a client should offer."""
        source, target = next(iter(service.models))
        return JSONResponse(
            {
                "apiKeys": bool(service.settings.keys),
                "charLimit": service.settings.most_characters,
                "frontendTimeout": 500,
                "keyRequired": bool(service.settings.keys),
                "language": {
                    "source": {"code": source, "name": name_of(source)},
                    "target": {"code": target, "name": name_of(target)},
                },
                "suggestions": False,
                "filesTranslation": False,
                "supportedFilesFormat": [],
            }
        )

    return router


def as_asked(found: Sequence[object], asked_for: str | list[str]) -> object:
    """Return one result for one text, and a list for a list."""
    return found[0] if isinstance(asked_for, str) else found


def others(parts: list[Translated], choices: range) -> list[str]:
    """Return the translations after the best, without those that are the same."""
    best = joined(parts)
    return [text for text in dict.fromkeys(joined(parts, choice) for choice in choices) if text != best]


def served_languages(service: Service) -> list[dict[str, object]]:
    """Return the source languages with their targets."""
    sources = dict.fromkeys(source for source, _ in service.models)
    return [
        {"code": source, "name": name_of(source), "targets": [t for s, t in service.models if s == source]}
        for source in sources
    ]
