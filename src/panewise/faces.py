"""Faces of packages: public names that load the module behind them when they are first used (PEP 562).

A package that is imported must not import its parts: `import panewise` stays far below a second, and Spark loads
single modules in processes that need no more.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def face(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package. `homes`: the module of each public name, below the package.

    >>> get, names = face("panewise", {"Schema": "schema"})
    >>> names(), get("Schema").__name__
    (['Schema'], 'Schema')
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(homes)

    return get, names
