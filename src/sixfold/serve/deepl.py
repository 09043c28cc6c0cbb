"""DeepL's API, version 2."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from sixfold.serve.languages import name_of
from sixfold.serve.request_fields import TextOrList, body_schema, parse_fields
from sixfold.serve.service import Service
from sixfold.serve.translation import Format, TranslationModels, join_parts

NO_LIMIT = 10**12  # characters; DeepL's clients expect a number


class DeepLRequest(BaseModel):
    """A translation request; options that would need another kind of model are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    text: TextOrList = Field(description="The texts to translate.")
    target_lang: str = Field(description="The target language, for example DE.", max_length=20)
    source_lang: str = Field("", description="The source language; detected if omitted.", max_length=20)
    tag_handling: Literal["", "html"] = Field("", description="html: translate HTML and keep its tags.")
    split_sentences: Literal["1"] = Field("1", description="Text is always split into sentences.")
    preserve_formatting: bool = Field(False, description="No effect: spacing is always preserved.")
    formality: Literal["default", "prefer_more", "prefer_less"] = Field(
        "default", description="No effect: the model has one style."
    )
    show_billed_characters: bool = Field(False, description="No effect: they are always returned.")


class LanguagesRequest(BaseModel):
    """Which languages to list."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["source", "target"] = Field("source", description="Which side to list.")


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    translation = service.translation
    router = APIRouter(prefix="/v2", tags=["DeepL"])

    @router.post("/translate", openapi_extra=dict(body_schema(DeepLRequest)))
    async def translate(request: Request) -> JSONResponse:
        """Translate one or several texts, each from its own language."""
        fields = parse_fields(request, DeepLRequest)
        request.scope["context"].num_characters = sum(map(len, fields.text))
        target = served_code(translation, fields.target_lang, side=1)
        given = served_code(translation, fields.source_lang, side=0) if fields.source_lang else ""
        sources = [given or translation.detect(text, target).language for text in fields.text]
        translations = await translate_each(translation, fields, sources, target)
        return JSONResponse(
            {
                "translations": [
                    translation_record(source, text, translation)
                    for source, text, translation in zip(sources, fields.text, translations, strict=True)
                ]
            }
        )

    @router.get("/languages")
    async def languages(request: Request) -> JSONResponse:
        """List the source or the target languages."""
        side = ("source", "target").index(parse_fields(request, LanguagesRequest).type)
        codes = dict.fromkeys(pair[side] for pair in translation.models)
        return JSONResponse(
            [{"language": code.upper(), "name": name_of(code), "supports_formality": False} for code in codes]
        )

    @router.get("/usage")
    async def usage() -> JSONResponse:
        """Return the number of characters translated since the server started."""
        return JSONResponse({"character_count": translation.num_characters, "character_limit": NO_LIMIT})

    return router


def translation_record(source: str, text: str, translation: str) -> dict[str, object]:
    """Return one translation in DeepL's format."""
    return {"detected_source_language": source.upper(), "text": translation, "billed_characters": len(text)}


async def translate_each(
    translation: TranslationModels, fields: DeepLRequest, sources: list[str], target: str
) -> list[str]:
    """Translate texts that may be in several languages; those of one language are batched."""
    translation.admission.check_texts(fields.text)
    results = [""] * len(sources)
    for language in dict.fromkeys(sources):
        places = [i for i, source in enumerate(sources) if source == language]
        texts = [fields.text[i] for i in places]
        format: Format = "html" if fields.tag_handling else "text"
        translated = await translation.translate(texts, language, target, format)
        for i, parts in zip(places, translated, strict=True):
            results[i] = join_parts(parts)
    return results


def served_code(translation: TranslationModels, code: str, side: int) -> str:
    """Return the models' code for a language: EN-US is en, unless a model is for en-us."""
    codes = {pair[side] for pair in translation.models}
    return code.lower() if code.lower() in codes else code.lower().partition("-")[0]
