"""OpenAI's API: models, completions and chat completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from sixfold.serve.event_stream import EventStream
from sixfold.serve.generation import GenerationModel
from sixfold.serve.generation_slot import Event
from sixfold.serve.http_errors import HttpError
from sixfold.serve.job_messages import Accepted, Written
from sixfold.serve.openai_answers import Answer, ChatCompletion, Completion, Record
from sixfold.serve.openai_fields import ChatFields, CompletionFields
from sixfold.serve.request_fields import body_schema, parse_fields
from sixfold.serve.service import Service

JSON = ("application/json",)


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    generation, started_at = service.generation, int(time.time())

    @router.post("/completions", openapi_extra=dict(body_schema(CompletionFields, JSON)))
    async def completions(request: Request) -> Response:
        """Continue one or several texts."""
        fields = parse_fields(request, CompletionFields)
        return await answer(request, generation.model(fields.model), fields)

    @router.post("/chat/completions", openapi_extra=dict(body_schema(ChatFields, JSON)))
    async def chat_completions(request: Request) -> Response:
        """Write the next message of a conversation."""
        fields = parse_fields(request, ChatFields)
        model = generation.model(fields.model)
        if not model.description.has_chat:
            message = f"{model.name} has no chat template: use /v1/completions."
            raise HttpError(400, message, parameter="messages", code="no_chat_template")
        return await answer(request, model, fields)

    @router.get("/models")
    async def models() -> JSONResponse:
        """List the models."""
        return JSONResponse({"object": "list", "data": [described(each) for each in generation.models.values()]})

    @router.get("/models/{name}")
    async def model(name: str) -> JSONResponse:
        """Describe a model."""
        return JSONResponse(described(generation.model(name)))

    def described(model: GenerationModel) -> Record:
        known = {"max_model_len": model.description.max_positions, "has_chat": model.description.has_chat}
        return {"id": model.name, "object": "model", "created": started_at, "owned_by": "sixfold", **known}

    return router


async def answer(request: Request, model: GenerationModel, fields: CompletionFields | ChatFields) -> Response:
    """Respond as a stream or as a whole; a refused request gets an error response in both cases."""
    model.admission.check_texts(texts := fields.texts())
    request.scope["context"].num_characters = model.admission.count_characters(texts)
    asked = fields.request()
    events = model.write(asked)
    accepted = cast("Accepted", await anext(events))
    num_texts = max(1, len(asked.prompts)) * fields.n
    kind = Completion if isinstance(fields, CompletionFields) else ChatCompletion
    told: Answer = kind(fields, accepted, num_texts)  # type: ignore[arg-type]
    if fields.stream:
        return EventStream(parts(told, events))
    async with aclosing(events):
        async for event in events:
            told.add(cast("Written", event))
    return JSONResponse(told.whole())


async def parts(told: Answer, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Record, None]:
    """Yield an answer in parts while it is generated."""
    async with aclosing(events):
        for opening in told.openings():
            yield opening
        async for event in events:
            yield told.add(cast("Written", event))
        if told.has_usage:
            yield told.last_part()
