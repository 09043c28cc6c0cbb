"""The web pages and the API documentation; every file comes from this package."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from fastapi import APIRouter
from fastapi.responses import Response

from sixfold.serve.service import Service

TRANSLATE_PAGE, WRITE_PAGE = ("index.html", "text/html"), ("write.html", "text/html")
FILES = {
    "/docs": ("docs.html", "text/html"),
    "/page/style.css": ("style.css", "text/css"),
    "/page/docs.js": ("docs.js", "text/javascript"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
}
TRANSLATE_FILES = {
    "/page/translate.js": ("translate.js", "text/javascript"),
    "/page/words.js": ("words.js", "text/javascript"),
}
WRITE_FILES = {
    "/write": WRITE_PAGE,
    "/page/write.css": ("write.css", "text/css"),
    "/page/write.js": ("write.js", "text/javascript"),
    "/page/tokens.js": ("tokens.js", "text/javascript"),
    "/page/completion.js": ("completion.js", "text/javascript"),
}


def routes(service: Service) -> APIRouter:
    """Return the routes: the first page is for translating, or for generating text if no model translates."""
    router = APIRouter()
    files = dict(FILES)
    if service.translation.models or not service.generation.models:
        files |= TRANSLATE_FILES | {"/": TRANSLATE_PAGE}
    if service.generation.models:
        files |= WRITE_FILES
        files.setdefault("/", WRITE_PAGE)
    for path, (name, media_type) in files.items():
        router.add_api_route(path, file_route(name, media_type), include_in_schema=False)
    return router


def file_route(name: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    """Return a route that serves a file."""
    content = resources.files("sixfold.serve").joinpath("web", name).read_bytes()

    async def serve_file() -> Response:
        return Response(content, media_type=media_type)

    return serve_file
