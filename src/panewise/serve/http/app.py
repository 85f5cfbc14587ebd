"""Assembles the application of one backend: routes, error handlers and the guard in front of them."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from panewise.errors import PanewiseError
from panewise.serve.http.gate.access import Access
from panewise.serve.http.gate.guard import Guard
from panewise.serve.http.gate.limits import Limits
from panewise.serve.http.gate.parameters import declared_parameters
from panewise.serve.http.gate.quick_lookups import QuickLookups
from panewise.serve.http.live import live_routes
from panewise.serve.http.routes import (
    dashboard_routes,
    openapi,
    operation_routes,
    query_routes,
    statement_routes,
    stream_routes,
)
from panewise.serve.http.routes.serving import Serving
from panewise.serve.http.service.backend import Backend
from panewise.serve.http.service.error_answers import http_error, invalid_request, panewise_error
from panewise.serve.http.service.metrics import BackendCollector, RequestCounts
from panewise.serve.http.service.responses import LookupBodies
from panewise.serve.http.service.settings import Settings


class App(FastAPI):
    """FastAPI with a completed OpenAPI document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.completed(super().openapi())
        return self.openapi_schema


def make_app(backend: Backend, settings: Settings) -> FastAPI:
    """The application of one server; raises PanewiseError if the settings are invalid."""
    settings.check()
    app = App(
        title=openapi.TITLE,
        description=openapi.DESCRIPTION,
        version=openapi.VERSION,
        openapi_tags=openapi.TAGS,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # If the environment configures OpenTelemetry, FastAPI would export paths and parameters, which include tokens.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    limits, counts = Limits(settings), RequestCounts()
    app.state.serving = Serving(backend, settings, limits)
    app.state.lookup_bodies = bodies = LookupBodies()
    app.state.registry = counts.registry
    counts.registry.register(BackendCollector(backend.stats, lambda: limits.subscribers))
    app.add_exception_handler(PanewiseError, panewise_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, invalid_request)
    declared = [Depends(declared_parameters)]
    for routes in (statement_routes, query_routes, stream_routes, operation_routes, live_routes, dashboard_routes):
        app.include_router(routes.router, dependencies=declared)
    app.add_middleware(QuickLookups, backend=backend, bodies=bodies)
    app.add_middleware(Guard, access=Access(settings.tokens), limits=limits, counts=counts)
    return app
