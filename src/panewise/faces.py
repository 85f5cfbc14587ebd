"""Faces of packages: their public names, whose modules are loaded on first use (PEP 562).

Importing a package must not import its parts: `import panewise` has to stay far below a second, and Spark workers load
only the modules that they need.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def face(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package. `homes`: the module of each public name, relative to the package.

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
