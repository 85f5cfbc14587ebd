"""Routes for operators of the server: liveness, readiness, metrics, statistics, and what queries share."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from panewise.serve.http.gate.access import NOBODY
from panewise.serve.http.gate.guard import caller_of
from panewise.serve.http.routes.openapi import answer, refusals
from panewise.serve.http.routes.serving import serving_of
from panewise.serve.http.service.metrics import exposition
from panewise.serve.http.service.responses import json_response

router = APIRouter(tags=["operations"])


@router.get(
    "/healthz",
    summary="Whether the process is alive",
    responses={200: answer("Status", "It is alive.", {"status": "ok"}), **refusals()},
    response_class=Response,
)
async def healthz() -> Response:
    return json_response({"status": "ok"})


@router.get(
    "/readyz",
    summary="Whether the server can answer",
    description="503 while it starts or ends, and if it can no longer write to its disk.",
    responses={200: answer("Status", "It can answer.", {"status": "ready"}), **refusals()},
    response_class=Response,
)
async def readyz(request: Request) -> Response:
    unready = serving_of(request).backend.ready()
    if unready is None:
        return json_response({"status": "ready"})
    told = unready.summary if caller_of(request.scope) is NOBODY else unready.detail
    return json_response({"status": told}, 503, {"Retry-After": "1"})


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    responses={
        200: {"description": "In Prometheus' text format.", "content": {"text/plain": {"schema": {"type": "string"}}}},
        **refusals(),
    },
    response_class=Response,
)
async def metrics(request: Request) -> Response:
    figures = await serving_of(request).work(exposition, request.app.state.registry)
    return Response(figures, media_type=CONTENT_TYPE_LATEST)


@router.get(
    "/v1/stats",
    summary="Figures of streams, tables, queries and trees",
    responses={200: answer("Object", "The result of `Engine.stats()`."), **refusals()},
    response_class=Response,
)
async def stats(request: Request) -> Response:
    serving = serving_of(request)
    return json_response({"kind": serving.backend.kind, **await serving.work(serving.backend.stats)})


@router.get(
    "/v1/weave",
    summary="What queries share",
    responses={200: answer("Object", "Families, trees and their estimated costs."), **refusals()},
    response_class=Response,
)
async def weave(request: Request) -> Response:
    serving = serving_of(request)
    return json_response(await serving.work(serving.backend.weave))


@router.get(
    "/v1/weave.svg",
    summary="A drawing of what queries share",
    responses={
        200: {"description": "A drawing.", "content": {"image/svg+xml": {"schema": {"type": "string"}}}},
        **refusals(),
    },
    response_class=Response,
)
async def weave_svg(request: Request) -> Response:
    serving = serving_of(request)
    return Response(await serving.work(serving.backend.weave_svg), media_type="image/svg+xml")
