"""The application: the routes of all APIs behind one middleware."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

import sixfold
from sixfold.serve import deepl, libretranslate, openai_routes, pages, status, web_page
from sixfold.serve.http_errors import HttpError
from sixfold.serve.middleware import Middleware
from sixfold.serve.service import Service

TRANSLATION = (libretranslate, deepl, web_page)
GENERATION = (openai_routes,)
APIS = (*TRANSLATION, *GENERATION, pages, status)


def build(service: Service) -> ASGIApp:
    """Return the application, without FastAPI's own documentation pages, which load scripts from other servers."""
    app = FastAPI(title="Sixfold", version=sixfold.__version__, docs_url=None, redoc_url=None)
    translation = TRANSLATION if service.translation.models else ()
    generation = GENERATION if service.generation.models else ()
    for api in (*translation, *generation, pages, status):
        app.include_router(api.routes(service))
    for kind in (HttpError, HTTPException, Exception):
        app.add_exception_handler(kind, error_response)
    return Middleware(app, service)


async def error_response(request: Request, error: Exception) -> Response:
    """Return the response to any error, in a form that clients of every API understand."""
    if isinstance(error, HTTPException):
        error = HttpError(error.status_code, str(error.detail))
    if not isinstance(error, HttpError):
        request_id = request.scope["context"].request_id
        error = HttpError(500, f"Internal error. The server's log has the details under request {request_id}.")
    body = error.body(request.url.path)
    response = Response(body, error.status)
    response.raw_headers = [*error.headers, (b"content-length", str(len(body)).encode())]
    return response
