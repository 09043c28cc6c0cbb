"""The web page, what it asks for, and the documentation of all interfaces; all of it from this package alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from importlib import resources

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from sixfold.serve.libretranslate import served_languages
from sixfold.serve.request_fields import asked, body_of
from sixfold.serve.service import MOST_ALTERNATIVES, Service, Translated, joined

FILES = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/page/style.css": ("style.css", "text/css"),
    "/page/translate.js": ("translate.js", "text/javascript"),
    "/page/words.js": ("words.js", "text/javascript"),
    "/page/docs.js": ("docs.js", "text/javascript"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
}
# The explanation is one file with its own script and style. It has no origin: whatever runs in it can ask nothing.
EXPLANATION_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)


class DetailsRequest(BaseModel):
    """What to translate, sentence by sentence."""

    model_config = ConfigDict(extra="forbid")

    text: str
    source: str = Field("auto", max_length=20)
    target: str = Field(max_length=20)
    alternatives: int = Field(0, ge=0, le=MOST_ALTERNATIVES)


class ExplainRequest(BaseModel):
    """Which sentence to explain."""

    model_config = ConfigDict(extra="forbid")

    text: str
    source: str = Field("auto", max_length=20)
    target: str = Field(max_length=20)


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Sixfold"])

    @router.post("/api/translate", openapi_extra=dict(body_of(DetailsRequest)))
    async def details(request: Request) -> JSONResponse:
        """Translate a text, and tell of every sentence its translations, alignment and reasons to look twice."""
        wanted = asked(request, DetailsRequest)
        request.scope["visit"].num_characters = len(wanted.text)
        source, confidence = source_of(service, wanted.text, wanted.source, wanted.target)
        [parts] = await service.translate(
            [wanted.text], source, wanted.target, alternatives=wanted.alternatives, has_evidence=True
        )
        answer = {"source": source, "confidence": confidence, "text": joined(parts)}
        return JSONResponse(answer | {"parts": [as_record(part) for part in parts]})

    @router.post("/explain", openapi_extra=dict(body_of(ExplainRequest)), response_class=HTMLResponse)
    async def explain(request: Request) -> HTMLResponse:
        """Return a page that shows what the model did with one sentence."""
        wanted = asked(request, ExplainRequest)
        request.scope["visit"].num_characters = len(wanted.text)
        source, _ = source_of(service, wanted.text, wanted.source, wanted.target)
        page = await service.explain(wanted.text, source, wanted.target)
        return HTMLResponse(page, headers={"content-security-policy": EXPLANATION_POLICY})

    @router.get("/api/languages", include_in_schema=False)
    async def languages() -> JSONResponse:
        """List the languages, and how much a text may have."""
        most = service.settings.most_characters
        return JSONResponse({"languages": served_languages(service), "most_characters": most})

    for path, (name, kind) in FILES.items():
        router.add_api_route(path, file_route(name, kind), include_in_schema=False)
    return router


def file_route(name: str, kind: str) -> Callable[[], Awaitable[Response]]:
    """Return a route that serves a file of the page."""
    content = resources.files("sixfold.serve").joinpath("web", name).read_bytes()

    async def serve_file() -> Response:
        return Response(content, media_type=kind)

    return serve_file


def source_of(service: Service, text: str, source: str, target: str) -> tuple[str, float | None]:
    """Return the language of a text, and how sure that is if it was identified."""
    if source != "auto":
        return source, None
    found = service.detect(text, target)
    return found.language, found.confidence


def as_record(translated: Translated) -> dict[str, object]:
    """Return what the page is told of a part."""
    return {"source": translated.part.text, "translations": [asdict(each) for each in translated.found]}
