"""The application: all routes behind one gate."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

import sixfold
from sixfold.serve import deepl, libretranslate, status, web_page
from sixfold.serve.http_errors import Refusal
from sixfold.serve.middleware import Gate
from sixfold.serve.service import Service

INTERFACES = (libretranslate, deepl, web_page, status)


def build(service: Service) -> ASGIApp:
    """Return the application. FastAPI's own documentation pages load scripts from elsewhere; ours do not."""
    app = FastAPI(title="Sixfold", version=sixfold.__version__, docs_url=None, redoc_url=None)
    for interface in INTERFACES:
        app.include_router(interface.routes(service))
    for kind in (Refusal, HTTPException, Exception):
        app.add_exception_handler(kind, refuse)
    return Gate(app, service)


async def refuse(request: Request, error: Exception) -> Response:
    """Answer whatever went wrong in one form."""
    if isinstance(error, HTTPException):
        error = Refusal(error.status_code, str(error.detail))
    if not isinstance(error, Refusal):
        error = Refusal(500, f"Something went wrong here; the log has it as {request.scope['visit'].number}.")
    response = Response(error.body, error.status)
    response.raw_headers = error.headers
    return response
