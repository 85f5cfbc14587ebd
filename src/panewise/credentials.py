"""Masks secrets in paths and options: `***` is shown in place of a secret.

A URI may carry credentials, before its host (`s3://key:secret@bucket/folder`) or among its parameters (`?token=...`).
Definitions, the log and snapshots keep the URI unmasked, because it is used again. Whatever is shown to people or sent
to callers is masked here first: errors, SHOW, `stats()`, the catalog of the server.
"""

from __future__ import annotations

import re
from typing import TypeVar

T = TypeVar("T")
MASK = "***"
# Every pattern can match only at the start of a run of its characters, so the time is linear in the text's length.
_URI = re.compile(r"(?P<scheme>(?<![A-Za-z0-9+.-])[A-Za-z0-9+.-]++://)(?P<rest>[^\s'\"]++)")
# The credentials before the host: everything up to the last @ of the authority. If they contain a colon that does not
# begin a port, they may also contain slashes, as S3 keys do (strictly, a slash would have to be written as %2F).
_USER = re.compile(r"(?:[^/?#]*|[^/?#@:]+:(?!\d+(?:/|$))[^?#]*)@")
_PARAMETER = re.compile(r"(?P<name>(?<=[?&;])[^=&;#?]++)=(?P<value>[^&;#]*+)")
_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|pwd|secret|token|credential|signature|(?<![a-z])(sig|sas|auth)(?![a-z])|^key$"
    r"|(access|account|api|private|shared)[-_.]?key",
    re.IGNORECASE,
)
_TOLD_ELSEWHERE = ("_env", "_file")  # password_env, for example, is the name of a variable, not a password
_PROPERTY = re.compile(
    r"(?P<name>(?<![\w.-])(?=[\w.-]*?(?:password|passphrase|secret|token|credential))[\w.-]++\s*+=\s*+)"
    r"(?P<value>\"[^\"]*\"|[^;&\s'\"]++)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(?P<said>(?<![\w.-])(?P<name>[\w.-]++)\"?\s*+=\s*+')(?P<value>[^']*+)")


def masked(text: str) -> str:
    """The text with the credentials in its URIs masked.

    >>> masked("no archive in 's3://AKIA:wJalr@bucket/a?region=eu&session_token=x'")
    "no archive in 's3://***@bucket/a?region=eu&session_token=***'"
    >>> masked("postgresql://host:5432/sales@home")
    'postgresql://host:5432/sales@home'
    """
    return _URI.sub(_masked_uri, text) if "://" in text else text


def masked_option(name: str, value: T) -> T | str:
    """An option as it is shown: passwords and credentials in URIs or in client settings are masked.

    >>> masked_option("password", "hunter2"), masked_option("password_env", "PGPASSWORD"), masked_option("rows", 5)
    ('***', 'PGPASSWORD', 5)
    >>> masked_option("properties", "sasl.username=me; sasl.password=hunter2; acks=all")
    'sasl.username=me; sasl.password=***; acks=all'
    """
    if not isinstance(value, str) or name.lower().endswith(_TOLD_ELSEWHERE):
        return value
    if name.lower() != "key" and _SECRET_NAME.search(name):  # the option `key` of an archive names columns
        return MASK
    return _PROPERTY.sub(rf"\g<name>{MASK}", masked(value))


def masked_line(line: str) -> str:
    """A line of a statement of unchanged length, with the values of secret options replaced by stars.

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
