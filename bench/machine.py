"""What the figures were measured on, and which figures of peers are known already.

A peer's figure is found by a hash of the script that measures it, of the parameters and of the machine with the peer's
version: change one of them and it is measured again. Figures of panewise itself are never kept.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

CACHE = Path(__file__).parent / "cache"


def machine() -> dict[str, Any]:
    """Processor, memory, system and versions."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    } | {name: version(name) for name in ("numpy", "numba", "pyarrow")}


def version(package: str) -> str | None:
    """The installed version, None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def peer_figure(
    peer: str, scripts: list[Path], parameters: dict[str, Any], measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """A peer's figure from the cache, then with `cached` set, or measured and kept."""
    digest = hashlib.sha256()
    for script in scripts:
        digest.update(script.read_bytes())
    described = {"peer": peer, "version": version(peer), "parameters": parameters, "machine": machine()}
    digest.update(json.dumps(described, sort_keys=True).encode())
    path = CACHE / f"{peer}-{digest.hexdigest()[:24]}.json"
    if path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text())["figure"]
        return kept | {"cached": True}
    figure = measure()
    CACHE.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"figure": figure} | described, indent=2) + "\n")
    return figure | {"cached": False}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
