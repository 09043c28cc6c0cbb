"""Liveness, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from sixfold.serve.http_errors import HttpError
from sixfold.serve.service import Service


def routes(service: Service) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Status"])

    @router.get("/health")
    async def health() -> JSONResponse:
        """Liveness probe: 200 as long as the server responds."""
        return JSONResponse({"status": "ok"})

    @router.get("/ready")
    async def ready() -> JSONResponse:
        """Readiness probe: 200 if every model has a responsive worker, else 503."""
        if service.is_draining:
            raise HttpError(503, "The server is shutting down.", retry_after=5)
        silent = [model.name for model in service.models if not model.is_ready]
        if silent:
            raise HttpError(503, f"No worker responds for {', '.join(silent)}.", retry_after=5)
        return JSONResponse({"status": "ready"})

    @router.get("/metrics")
    async def metrics() -> Response:
        """Metrics in Prometheus's text format."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
