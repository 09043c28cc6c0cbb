"""What a request asks for: its fields, checked against a definition before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from sixfold.serve.http_errors import Refusal

Asked = TypeVar("Asked", bound=BaseModel)


def as_list(value: object) -> object:
    """Return a text alone as a list of one: a form cannot tell the two apart."""
    return [value] if isinstance(value, str) else value


MOST_TEXTS = 128  # of one request
Several = Annotated[list[str], Field(max_length=MOST_TEXTS)]
Texts = Annotated[Several, BeforeValidator(as_list)]


def asked(request: Request, definition: type[Asked]) -> Asked:
    """Return what a request asks for, or refuse it in words."""
    try:
        return definition.model_validate(request.scope["visit"].fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(str(place) for place in first["loc"])[:60]
        known = ", ".join(definition.model_fields)
        raise Refusal(400, f"{name or 'request'}: {first['msg']}. Fields: {known}.") from None


def body_of(definition: type[BaseModel]) -> Mapping[str, object]:
    """Return what the documentation says of a body."""
    schema = {"schema": definition.model_json_schema()}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, schema)}}
