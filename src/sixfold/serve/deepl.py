"""The interface of DeepL, version 2."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from sixfold.serve.languages import name_of
from sixfold.serve.request_fields import Texts, asked, body_of
from sixfold.serve.service import Service, joined

NO_LIMIT = 10**12  # characters; its clients want a number


class TranslateRequest(BaseModel):
    """What to translate. Fields that would change the translation in a way that no model here can are refused."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    text: Texts = Field(description="Texts to translate.")
    target_lang: str = Field(description="The language to translate into, such as DE.", max_length=20)
    source_lang: str = Field("", description="The language they are in; identified if left out.", max_length=20)
    tag_handling: Literal["", "html"] = Field("", description="html keeps tags.")
    split_sentences: Literal["1"] = Field("1", description="Always.")
    preserve_formatting: bool = Field(False, description="Always: spacing is kept exactly.")
    formality: Literal["default", "prefer_more", "prefer_less"] = "default"
    show_billed_characters: bool = False


class LanguagesRequest(BaseModel):
    """Which languages to list."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["source", "target"] = "source"


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v2", tags=["DeepL"])

    @router.post("/translate", openapi_extra=dict(body_of(TranslateRequest)))
    async def translate(request: Request) -> JSONResponse:
        """Translate a list of texts, each in its own language."""
        wanted = asked(request, TranslateRequest)
        request.scope["visit"].num_characters = sum(map(len, wanted.text))
        target = served(service, wanted.target_lang, side=1)
        given = served(service, wanted.source_lang, side=0) if wanted.source_lang else ""
        sources = [given or service.detect(text, target).language for text in wanted.text]
        texts = await translate_each(service, wanted, sources, target)
        return JSONResponse(
            {
                "translations": [
                    {"detected_source_language": source.upper(), "text": found, "billed_characters": len(text)}
                    for source, found, text in zip(sources, texts, wanted.text, strict=True)
                ]
            }
        )

    @router.get("/languages")
    async def languages(request: Request) -> JSONResponse:
        """List the source or the target languages."""
        side = ("source", "target").index(asked(request, LanguagesRequest).type)
        codes = dict.fromkeys(pair[side] for pair in service.models)
        return JSONResponse(
            [{"language": code.upper(), "name": name_of(code), "supports_formality": False} for code in codes]
        )

    @router.get("/usage")
    async def usage() -> JSONResponse:
        """Tell how many characters were translated since the server started."""
        return JSONResponse({"character_count": service.num_characters, "character_limit": NO_LIMIT})

    return router


async def translate_each(service: Service, wanted: TranslateRequest, sources: list[str], target: str) -> list[str]:
    """Translate texts of several languages, those of one language together."""
    service.check(wanted.text)
    results = [""] * len(sources)
    for language in dict.fromkeys(sources):
        places = [i for i, source in enumerate(sources) if source == language]
        texts = [wanted.text[i] for i in places]
        found = await service.translate(texts, language, target, "html" if wanted.tag_handling else "text")
        for i, parts in zip(places, found, strict=True):
            results[i] = joined(parts)
    return results


def served(service: Service, code: str, side: int) -> str:
    """Return a language as it is served: EN-US is en, unless it has a model of its own."""
    known = {pair[side] for pair in service.models}
    return code.lower() if code.lower() in known else code.lower().partition("-")[0]
