"""The dashboard's page and its files: `/` and `/dashboard/*`, open to everybody because they hold no data.

All files of the package's folder are read once, and only they are served, so a path of a request never reaches the file
system. Answers have an entity tag, the digest of the file, and `no-cache`: a browser asks each time and mostly gets an
empty 304, so a page never mixes files of two versions. The content security policy allows scripts, styles and
connections of this server only, nothing inline, and no markup made from strings.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fastapi import APIRouter, Request, Response

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the dashboard with its media type and entity tag."""

    body: bytes
    media_type: str
    tag: str


@cache
def page_files() -> dict[str, PageFile]:
    """All files of the dashboard by name, read once.

    >>> page_files()["index.html"].media_type
    'text/html; charset=utf-8'
    """
    found = {}
    for entry in resources.files("panewise.serve.http").joinpath("dashboard").iterdir():
        ending = "." + entry.name.rpartition(".")[2]
        if entry.is_file() and ending in MEDIA_TYPES:
            body = entry.read_bytes()
            found[entry.name] = PageFile(body, MEDIA_TYPES[ending], f'"{hashlib.sha256(body).hexdigest()[:32]}"')
    assert "index.html" in found, "the package was built without its dashboard"
    return found


router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    return answer(request, "index.html")


@router.api_route("/dashboard/{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    return answer(request, name)


def answer(request: Request, name: str) -> Response:
    """The file of this name, or 304 if the browser already has it."""
    found = page_files().get(name)
    if found is None:
        return Response("there is no such file\n", status_code=404, media_type="text/plain; charset=utf-8")
    headers = HEADERS | {"ETag": found.tag}
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if found.tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(found.body, media_type=found.media_type, headers=headers)
