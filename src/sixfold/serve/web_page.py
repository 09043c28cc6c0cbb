"""The API of the translation page."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from sixfold.serve.libretranslate import served_languages
from sixfold.serve.request_fields import body_schema, parse_fields
from sixfold.serve.service import Service
from sixfold.serve.translation import MAX_ALTERNATIVES, TranslatedPart, TranslationModels, join_parts

# The explain page has inline script and style, and runs in a sandbox without an origin: it cannot send requests.
EXPLANATION_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


class PageRequest(BaseModel):
    """A translation request."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="The text to translate.")
    source: str = Field("auto", max_length=20, description='The source language, or "auto" to detect it.')
    target: str = Field(max_length=20, description="The target language.")
    alternatives: int = Field(
        0, ge=0, le=MAX_ALTERNATIVES, description="Alternative translations to return for each sentence."
    )


class ExplainRequest(BaseModel):
    """The sentence to explain."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(description="One sentence, on one line.")
    source: str = Field("auto", max_length=20, description='The source language, or "auto" to detect it.')
    target: str = Field(max_length=20, description="The target language.")


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    translation = service.translation
    router = APIRouter(tags=["Sixfold"])

    @router.post("/api/translate", openapi_extra=dict(body_schema(PageRequest)))
    async def translate(request: Request) -> JSONResponse:
        """Translate a text; each sentence comes with its translations, word alignment and quality warnings."""
        fields = parse_fields(request, PageRequest)
        request.scope["context"].num_characters = len(fields.text)
        source, confidence = source_language(translation, fields.text, fields.source, fields.target)
        [parts] = await translation.translate(
            [fields.text], source, fields.target, alternatives=fields.alternatives, has_details=True
        )
        answer = {"source": source, "confidence": confidence, "text": join_parts(parts)}
        return JSONResponse(answer | {"parts": [as_record(part) for part in parts]})

    @router.post("/explain", openapi_extra=dict(body_schema(ExplainRequest)), response_class=HTMLResponse)
    async def explain(request: Request) -> HTMLResponse:
        """Return an HTML page that shows how the model translated one sentence."""
        fields = parse_fields(request, ExplainRequest)
        request.scope["context"].num_characters = len(fields.text)
        source, _ = source_language(translation, fields.text, fields.source, fields.target)
        page = await translation.explain(fields.text, source, fields.target)
        return HTMLResponse(page, headers={"content-security-policy": EXPLANATION_POLICY})

    @router.get("/api/languages", include_in_schema=False)
    async def languages() -> JSONResponse:
        """List the languages, and the maximum length of a text."""
        most = service.settings.most_characters
        return JSONResponse({"languages": served_languages(translation), "most_characters": most})

    return router


def source_language(
    translation: TranslationModels, text: str, source: str, target: str
) -> tuple[str, float | None]:
    """Return the source language, and the confidence if it was detected."""
    if source != "auto":
        return source, None
    detected = translation.detect(text, target)
    return detected.language, detected.confidence


def as_record(part: TranslatedPart) -> dict[str, object]:
    """Return a part in the format of the web page."""
    return {"source": part.part.text, "translations": [asdict(each) for each in part.translations]}
