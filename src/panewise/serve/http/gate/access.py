"""Access control: tokens with the scopes read and write, compared in constant time.

A token is sent as `Authorization: Bearer TOKEN`, or as `?token=` for a WebSocket or an EventSource, where a browser
cannot send the header. Without tokens the server listens on loopback only, and every program of this machine may do
everything. Web pages in its browser may not: requests from pages of another origin and requests under a foreign host
name (DNS rebinding) are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from panewise.errors import PanewiseError
from panewise.serve.http.service.error_answers import Problem
from panewise.serve.http.service.settings import Token

SCOPES = ("read", "write")
TOKENS_VARIABLE = "PANEWISE_TOKENS"
_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_TOKEN_LEAST = 8


@dataclass(frozen=True)
class Caller:
    """Who sends a request. `name` is the token's name, or the address if the server has no tokens."""

    name: str
    may_write: bool


NOBODY = Caller("-", False)  # a caller without a token


def tokens_from(file: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[Token, ...]:
    """The tokens of the file and of the environment."""
    found: tuple[Token, ...] = ()
    if file is not None:
        try:
            found += parse_tokens(file.read_text(encoding="utf-8"), f"'{file}'")
        except (OSError, UnicodeDecodeError) as error:
            raise PanewiseError(f"the tokens in '{file}' cannot be read: {error}") from None
    if environment.get(TOKENS_VARIABLE):
        found += parse_tokens(environment[TOKENS_VARIABLE], TOKENS_VARIABLE)
    return found


def parse_tokens(text: str, source: str) -> tuple[Token, ...]:
    """Lines of `read|write TOKEN [name]`; empty ones and those that begin with # are skipped.

    >>> parse_tokens("# ours\\nwrite 0123456789abcdef press", "the file")
    (Token(scope='write', secret='0123456789abcdef', name='press'),)
    """
    tokens: list[Token] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        # Messages never repeat the line: it may hold a token.
        if len(words) not in (2, 3) or words[0] not in SCOPES:
            raise PanewiseError(f"line {number} of {source} is not a token", hint="write: read|write TOKEN [name]")
        if len(words[1]) < _TOKEN_LEAST or not words[1].isascii() or not words[1].isprintable():
            raise PanewiseError(
                f"the token in line {number} of {source} must have {_TOKEN_LEAST} or more printable ASCII characters"
            )
        if any(hmac.compare_digest(words[1], known.secret) for known in tokens):
            raise PanewiseError(f"the token in line {number} of {source} is a duplicate")
        tokens.append(Token(words[0], words[1], words[2] if len(words) == 3 else f"{words[0]} token {len(tokens) + 1}"))
    if not tokens:
        raise PanewiseError(f"{source} has no tokens", hint="write: read|write TOKEN [name]")
    return tuple(tokens)


class Access:
    """The tokens of one server."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        # Compare digests: they have equal lengths, so the time does not depend on a token's length either.
        self._known = [(_digest(t.secret.encode()), Caller(t.name, t.scope == "write")) for t in tokens]

    @property
    def open(self) -> bool:
        """Whether there are no tokens."""
        return not self._known

    def caller(self, authorization: bytes | None, in_address: str | None, address: str) -> Caller:
        """The caller of a request; Problem 401 if the token is missing or wrong."""
        if self.open:
            return Caller(address, True)
        if authorization is not None:
            word, _, shown = authorization.partition(b" ")
            secret = shown.strip() if word.lower() == b"bearer" else b""
        else:
            secret = (in_address or "").encode("utf-8", "surrogatepass")
        if not secret:
            raise _unauthorized("a token is needed", "send the header 'Authorization: Bearer TOKEN'")
        digest, found = _digest(secret), None
        for known, caller in self._known:  # no early exit, so that the time tells nothing about the tokens
            if hmac.compare_digest(known, digest):
                found = caller
        if found is None:
            raise _unauthorized("the token is not known", None)
        return found


def check_scope(caller: Caller, write: bool) -> None:
    """Problem 403 if a caller that may only read wants to write."""
    if write and not caller.may_write:
        raise Problem(403, "this token may only read", hint="a token with the scope write is needed for this")


def check_origin(host: bytes | None, origin: bytes | None) -> None:
    """Problem 403 for requests of foreign web pages; for servers without tokens."""
    name = _host_name(host)
    if name not in _LOCAL_NAMES:
        raise Problem(
            403, "without tokens the server answers to localhost and 127.0.0.1 only", hint="start it with tokens"
        )
    if origin is not None and _origin_host(origin) != (host or b"").decode("latin-1").lower():
        raise Problem(403, "web pages of another origin may not use a server without tokens")


def _host_name(host: bytes | None) -> str | None:
    try:
        return urlsplit("//" + (host or b"").decode("latin-1")).hostname
    except ValueError:
        return None


def _origin_host(origin: bytes) -> str | None:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower()
    except ValueError:
        return None


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


def _unauthorized(message: str, hint: str | None) -> Problem:
    return Problem(401, message, hint=hint, headers={"WWW-Authenticate": "Bearer"})
