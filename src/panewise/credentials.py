"""What of a path or an option is a secret, and how it is shown: `***` stands where it stood.

A URI may carry credentials, before its host (`s3://key:secret@bucket/folder`) or among its parameters (`?token=...`).
The definition, the log and the snapshot keep it as it was written, because it is used; whatever is shown to people or
sent to callers goes through here first: errors, SHOW, `stats()`, the catalog of the server.
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")
MASK = "***"
# Every pattern begins where a run of its characters does, so that a long text costs no more than its length.
_URI = re.compile(r"(?P<scheme>(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]++://)(?P<rest>[^\s'\"]++)")
# Before the host: up to the last @ of the authority; with a colon that begins no port, also past a slash, which keys
# of S3 have and which would have to be written as %2F.
_USER = re.compile(r"(?:[^/?#]*|[^/?#@:]+:(?!\d+(?:/|$))[^?#]*)@")
_PARAMETER = re.compile(r"(?P<name>(?<=[?&;])[^=&;#?]++)=(?P<value>[^&;#]*+)")
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|credential|signature|(?<![a-z])(sig|sas|auth)(?![a-z])|^key$"
    r"|(access|account|api|private|shared)[-_.]?key",
    re.IGNORECASE,
)
_TOLD_ELSEWHERE = ("_env", "_file")  # password_env names a variable, and is no password
_PROPERTY = re.compile(
    r"(?P<name>(?<![\w.-])(?=[\w.-]*?(?:password|passphrase|secret|token|credential))[\w.-]++\s*+=\s*+)"
    r"(?P<value>\"[^\"]*\"|[^;&\s'\"]++)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(?P<said>(?<![\w.-])(?P<name>[\w.-]++)\"?\s*+=\s*+')(?P<value>[^']*+)")


def masked(text: str) -> str:
    """A text without the credentials of the URIs in it.

    >>> masked("no archive in 's3://AKIA:wJalr@bucket/a?region=eu&session_token=x'")
    "no archive in 's3://***@bucket/a?region=eu&session_token=***'"
    >>> masked("postgresql://host:5432/sales@home")
    'postgresql://host:5432/sales@home'
    """
    return _URI.sub(_masked_uri, text) if "://" in text else text


def masked_option(name: str, value: T) -> T | str:
    """An option as it is shown: a password is not, nor the credentials in a URI or among the settings of a client.

    >>> masked_option("password", "hunter2"), masked_option("password_env", "PGPASSWORD"), masked_option("rows", 5)
    ('***', 'PGPASSWORD', 5)
    >>> masked_option("properties", "sasl.username=me; sasl.password=hunter2; acks=all")
    'sasl.username=me; sasl.password=***; acks=all'
    """
    if not isinstance(value, str) or name.lower().endswith(_TOLD_ELSEWHERE):
        return value
    if name.lower() != "key" and _SECRET_NAME.search(name):  # the columns of an archive's key are no secret
        return MASK
    return _PROPERTY.sub(rf"\g<name>{MASK}", masked(value))


def masked_line(line: str) -> str:
    """A line of a statement, as long as it was: options that are or hold a secret are stars.

    >>> masked_line("WITH (path = 's3://me:pw@bucket', password = 'x', rows = 5")
    "WITH (path = '*****************', password = '*', rows = 5"
    """
    return _OPTION.sub(_masked_in_place, line)


def _masked_in_place(found: re.Match[str]) -> str:
    value = found["value"]
    return found[0] if masked_option(found["name"], value) == value else found["said"] + "*" * len(value)


def _masked_uri(found: re.Match[str]) -> str:
    rest = _USER.sub(f"{MASK}@", found["rest"], count=1) if _USER.match(found["rest"]) else found["rest"]
    return found["scheme"] + _PARAMETER.sub(_masked_parameter, rest)


def _masked_parameter(found: re.Match[str]) -> str:
    return f"{found['name']}={MASK}" if _SECRET_NAME.search(found["name"]) else found[0]
