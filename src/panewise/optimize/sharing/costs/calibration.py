"""The cost of operations on this machine, in nanoseconds: measured once and kept in the user's cache folder.

    calibrated()    the kept figures if they are of this machine and these versions; otherwise measures them, in a
                    few seconds, and keeps them
    load()          the kept figures, or None. It never measures, so that a first query does not wait
    shipped()       figures that were measured for this release, on one core of a shared server with an Intel Xeon
                    of 2.3 GHz. They rank techniques sensibly on any machine, and predict times on that one

The file is `calibration-<digest of the machine>.json` in `$XDG_CACHE_HOME/panewise` or `~/.cache/panewise`, on macOS in
`~/Library/Caches/panewise`, on Windows in `%LOCALAPPDATA%\\panewise`. Machines that share a home folder have a file
each. It names the machine and the versions of panewise, Numba and NumPy, and is stale if one of them has changed. A
damaged file is replaced after a new measurement. If the folder cannot be written, the process keeps the figures. Only
measuring imports Numba.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import sys
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panewise.optimize.sharing.costs.shipped import SHIPPED
from panewise.optimize.sharing.costs.weave_costs import WORK, CalibratedModel, Curve, Figures

if TYPE_CHECKING:
    from panewise.optimize.sharing.costs.measuring import Scale

FORMAT = 1
# Figures for which no file could be written, by the path of that file.
_KEPT: dict[Path, CalibratedModel] = {}


def calibrated(refresh: bool = False, scale: Scale | None = None) -> CalibratedModel:
    """The model of this machine. `refresh`: measure in any case. `scale`: how much to measure."""
    found = None if refresh else load()
    if found is not None:
        return found
    from panewise.optimize.sharing.costs.measuring import measure  # imports Numba

    figures = measure(scale)
    model = CalibratedModel(figures)
    path = calibration_path()
    if _written(path, json.dumps({**_identity(), "figures": figures_to_json(figures)}, indent=1)):
        _KEPT.pop(path, None)
    else:
        _KEPT[path] = model
    return model


def load() -> CalibratedModel | None:
    """The model of this machine if it has been measured with these versions; otherwise None."""
    path = calibration_path()
    if path in _KEPT:
        return _KEPT[path]
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if {name: kept.get(name) for name in _identity()} != _identity():
            return None
        return CalibratedModel(figures_from_json(kept["figures"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@cache
def shipped() -> CalibratedModel:
    """The model for machines that have not been calibrated."""
    return CalibratedModel(figures_from_json(SHIPPED))


# -- where, and of what ------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """The user's cache folder of panewise. It may not exist yet."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "panewise"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "panewise"
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (folder if folder.is_absolute() else Path.home() / ".cache") / "panewise"


def calibration_path() -> Path:
    digest = hashlib.sha256(json.dumps(_machine(), sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"calibration-{digest[:12]}.json"


@cache
def _machine() -> dict[str, Any]:
    processor = platform.processor()
    with contextlib.suppress(OSError):  # on Linux only this file has the name of the processor
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = names[0] if names else processor
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor,
        "cores": os.cpu_count(),
    }


def _own_version() -> str:
    """The installed version of panewise; `source` if it runs from a source tree that is not installed."""
    try:
        return version("panewise")
    except PackageNotFoundError:
        return "source"


def _identity() -> dict[str, Any]:
    """The values that must be unchanged for kept figures to be valid."""
    return {
        "format": FORMAT,
        "panewise": _own_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "machine": _machine(),
    }


def _written(path: Path, text: str) -> bool:
    """Whether the file was written. It is replaced atomically, because other processes may read or write it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise
    except OSError:
        return False
    return True


# -- figures as plain values -------------------------------------------------------------------------------------------


def figures_to_json(figures: Figures) -> dict[str, Any]:
    """The figures with their names, rounded to a thousandth of a nanosecond."""
    return {
        "curves": {
            state: {technique: _curve_to_json(curve) for technique, curve in curves.items()}
            for state, curves in figures.curves.items()
        },
        "fold_ns": {state: round(ns, 3) for state, ns in figures.fold_ns.items()},
        "intake_ns": {state: round(ns, 3) for state, ns in figures.intake_ns.items()},
        **{name: round(getattr(figures, name), 3) for name in ("slot_ns", "report_ns", "result_ns")},
    }


def _curve_to_json(curve: Curve) -> dict[str, Any]:
    weights = {
        name: {part: round(ns, 3) for part, ns in zip(WORK, getattr(curve, name), strict=True) if ns}
        for name in ("single", "several", "each")
    }
    return {**weights, "call_ns": round(curve.call_ns, 1)}


def figures_from_json(kept: dict[str, Any]) -> Figures:
    """Reads figures. Raises ValueError, KeyError, TypeError or AttributeError if they are not valid."""
    figures = Figures(
        {
            state: {technique: _curve_from_json(curve) for technique, curve in curves.items()}
            for state, curves in kept["curves"].items()
        },
        _nanoseconds(kept["slot_ns"]),
        {state: _nanoseconds(ns) for state, ns in kept["fold_ns"].items()},
        {state: _nanoseconds(ns) for state, ns in kept["intake_ns"].items()},
        _nanoseconds(kept["report_ns"]),
        _nanoseconds(kept["result_ns"]),
    )
    if not {"count", "sum", "max"} <= figures.curves.keys() & figures.fold_ns.keys() & figures.intake_ns.keys():
        raise ValueError("figures of a state are missing")
    if "r_int" not in figures.curves["count"]:
        raise ValueError("figures of the count of rows are missing")
    return figures


def _curve_from_json(kept: dict[str, Any]) -> Curve:
    single, several, each = (_weights_from_json(kept[name]) for name in ("single", "several", "each"))
    return Curve(single, several, each, _nanoseconds(kept["call_ns"]))


def _weights_from_json(kept: dict[str, Any]) -> tuple[float, ...]:
    unknown = sorted(kept.keys() - set(WORK))
    if unknown:
        raise ValueError(f"unknown parts of work: {unknown}")
    return tuple(_nanoseconds(kept.get(part, 0.0)) for part in WORK)


def _nanoseconds(value: Any) -> float:
    number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{value} is not a valid duration")
    return number
