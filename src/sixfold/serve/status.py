"""How the server is: alive, ready, and in numbers."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from sixfold.serve.http_errors import Refusal
from sixfold.serve.service import Service


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Status"])

    @router.get("/health")
    async def health() -> JSONResponse:
        """Say that the server answers."""
        return JSONResponse({"status": "ok"})

    @router.get("/ready")
    async def ready() -> JSONResponse:
        """Say whether requests should be sent here: every model has a worker that was heard of lately."""
        if service.is_draining:
            raise Refusal(503, "The server is about to end.", retry_after=5)
        silent = [f"{source}-{target}" for (source, target), model in service.models.items() if not model.is_ready]
        if silent:
            raise Refusal(503, f"No worker answers for {', '.join(silent)}.", retry_after=5)
        return JSONResponse({"status": "ready"})

    @router.get("/metrics")
    async def metrics() -> Response:
        """Return numbers for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
