"""LibreTranslate's API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from sixfold.serve.languages import name_of
from sixfold.serve.request_fields import TextList, TextOrList, body_schema, parse_fields
from sixfold.serve.service import Service
from sixfold.serve.translation import MAX_ALTERNATIVES, TranslatedPart, TranslationModels, join_parts


class LibreTranslateRequest(BaseModel):
    """A translation request."""

    model_config = ConfigDict(extra="forbid")

    q: str | TextList = Field(description="The text to translate, or a list of texts.")
    source: str = Field(description='The source language, or "auto" to detect it.', max_length=20)
    target: str = Field(description="The target language.", max_length=20)
    format: Literal["text", "html"] = Field("text", description="html: translate HTML and keep its tags.")
    alternatives: int = Field(0, ge=0, le=MAX_ALTERNATIVES, description="Alternative translations to return.")
    secret: str = Field("", description="Ignored; LibreTranslate's own web page sends it.")


class DetectRequest(BaseModel):
    """The text whose language to detect."""

    model_config = ConfigDict(extra="forbid")

    q: TextOrList = Field(description="The text.", min_length=1, max_length=1)


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    translation = service.translation
    router = APIRouter(tags=["LibreTranslate"])

    @router.post("/translate", openapi_extra=dict(body_schema(LibreTranslateRequest)))
    async def translate(request: Request) -> JSONResponse:
        """Translate a text or a list of texts."""
        fields = parse_fields(request, LibreTranslateRequest)
        texts = [fields.q] if isinstance(fields.q, str) else fields.q
        request.scope["context"].num_characters = sum(map(len, texts))
        detected = translation.detect("\n".join(texts), fields.target) if fields.source == "auto" else None
        source = detected.language if detected else fields.source
        translated = await translation.translate(texts, source, fields.target, fields.format, fields.alternatives)
        best = [join_parts(parts) for parts in translated]
        answer: dict[str, object] = {"translatedText": like_input(best, fields.q)}
        if fields.alternatives:
            ranks = range(1, 1 + fields.alternatives)
            answer["alternatives"] = like_input([alternatives(parts, ranks) for parts in translated], fields.q)
        if detected:
            answer["detectedLanguage"] = like_input([asdict(detected)] * len(texts), fields.q)
        return JSONResponse(answer)

    @router.post("/detect", openapi_extra=dict(body_schema(DetectRequest)))
    async def detect(request: Request) -> JSONResponse:
        """Rank this server's source languages by the probability that the text is in them."""
        [text] = parse_fields(request, DetectRequest).q
        translation.admission.check_texts([text])
        return JSONResponse([asdict(each) for each in translation.detector.rank(text)])

    @router.get("/languages")
    async def languages() -> JSONResponse:
        """List the source languages, each with its target languages."""
        return JSONResponse(served_languages(translation))

    @router.get("/frontend/settings")
    async def settings() -> JSONResponse:
        """Return the settings of LibreTranslate's web page for this server."""
        source, target = next(iter(translation.models))
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


def like_input(results: Sequence[object], given: str | list[str]) -> object:
    """Return a single result for a single text, and a list for a list."""
    return results[0] if isinstance(given, str) else results


def alternatives(parts: list[TranslatedPart], ranks: range) -> list[str]:
    """Return the translations of these ranks, without duplicates of each other or of the best."""
    best = join_parts(parts)
    return [text for text in dict.fromkeys(join_parts(parts, rank) for rank in ranks) if text != best]


def served_languages(translation: TranslationModels) -> list[dict[str, object]]:
    """Return the source languages, each with its target languages."""
    sources = dict.fromkeys(source for source, _ in translation.models)
    return [
        {"code": source, "name": name_of(source), "targets": [t for s, t in translation.models if s == source]}
        for source in sources
    ]
