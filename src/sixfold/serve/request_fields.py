"""The fields of a request, validated against a pydantic model before any work starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from sixfold.serve.http_errors import HttpError

Fields = TypeVar("Fields", bound=BaseModel)


def as_list(value: object) -> object:
    """Return a single text as a list of one, because a form cannot tell the two apart."""
    return [value] if isinstance(value, str) else value


CONTENT_TYPES = ("application/json", "application/x-www-form-urlencoded")
UNKNOWN = ("extra_forbidden", "missing")  # errors for which the message lists all fields
MAX_TEXTS = 128  # in one request
TextList = Annotated[list[str], Field(max_length=MAX_TEXTS)]
TextOrList = Annotated[TextList, BeforeValidator(as_list)]


def parse_fields(request: Request, definition: type[Fields]) -> Fields:
    """Return the validated fields of a request; a 400 error names the first invalid field."""
    try:
        return definition.model_validate(request.scope["context"].fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(str(place) for place in first["loc"])[:60]
        known = f" Known fields: {', '.join(definition.model_fields)}." if first["type"] in UNKNOWN else ""
        raise HttpError(400, f"{name or 'request'}: {first['msg']}.{known}", parameter=name or None) from None


def body_schema(definition: type[BaseModel], content_types: Sequence[str] = CONTENT_TYPES) -> Mapping[str, object]:
    """Return the OpenAPI description of a request body."""
    schema = {"schema": definition.model_json_schema()}
    return {"requestBody": {"required": True, "content": dict.fromkeys(content_types, schema)}}
