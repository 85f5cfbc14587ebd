"""Runs the components of this folder for so many minutes, with an equal share of time each.

    python -m tests.soak --minutes 30                          all components, fresh seeds
    python -m tests.soak statements --seed 17 --plays 1        one play again

Plays run in child processes, as many at a time as there are cores: a play that ends its process, or takes all memory,
is a failure with a seed and not the end of the run. The exit code is 1 where a play failed.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import tests.soak
from panewise.errors import BadRowsWarning, LateRowsWarning

TURN_SECONDS = 45  # how long a child plays one component; a fresh child has a fresh heap
FAILURES_SHOWN = 5  # of one component
PROGRESS_SECONDS = 30


@dataclass
class Count:
    """What has been played of a component."""

    plays: int = 0
    tried: int = 0
    seconds: float = 0.0
    running: int = 0  # children at work on it
    failed: list[int] = field(default_factory=list)  # seeds


def components() -> list[str]:
    """The modules of this folder that can be played; tests borrow the `play` of others."""
    names = [module.name for module in pkgutil.iter_modules(tests.soak.__path__)]
    return sorted(name for name in names if not name.startswith(("_", "test_")) and hasattr(_module(name), "play"))


def _module(name: str) -> object:
    return importlib.import_module(f"tests.soak.{name}")


def play_here(component: str, first_seed: int, plays: int | None, seconds: float) -> None:
    """The child's part: a line of JSON before and after each play."""
    play: Callable[[int], int] = getattr(_module(component), "play")  # noqa: B009
    gc.freeze()  # modules and machine code stay: looking through them again and again takes time
    for expected in (LateRowsWarning, BadRowsWarning):
        warnings.simplefilter("ignore", expected)  # scripts push late and bad rows on purpose
    ends = time.monotonic() + seconds
    seed = first_seed
    while (plays is None and time.monotonic() < ends) or (plays is not None and seed < first_seed + plays):
        print(json.dumps({"begins": seed}), flush=True)
        begun = time.monotonic()
        try:
            tried, problem = play(seed), None
        except Exception:  # noqa: BLE001  every mistake is told with its seed
            tried, problem = 0, traceback.format_exc()
        took = time.monotonic() - begun
        print(json.dumps({"seed": seed, "tried": tried, "seconds": took, "problem": problem}), flush=True)
        seed += 1


class Soak:
    """Lanes of children, and what they have found."""

    def __init__(self, names: list[str], seed: int, minutes: float, plays: int | None) -> None:
        self.counts = {name: Count() for name in names}
        self._next_seed = dict.fromkeys(names, seed)
        self._ends = time.monotonic() + 60 * minutes
        self._plays = plays
        self._lock = threading.Lock()

    def run(self, lanes: int) -> None:
        threads = [threading.Thread(target=self._lane) for _ in range(lanes)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(PROGRESS_SECONDS) if threads[0].is_alive() else threads[-1].join(PROGRESS_SECONDS)
            print(self.line(), flush=True)

    def line(self) -> str:
        with self._lock:
            parts = [f"{name} {count.tried:,} in {count.plays:,} plays" for name, count in self.counts.items()]
            failures = sum(len(count.failed) for count in self.counts.values())
        return "; ".join(parts) + f"; {failures} failures"

    def _lane(self) -> None:
        while True:
            with self._lock:
                left = self._ends - time.monotonic()
                open_ones = [name for name in self.counts if self._plays is None or not self._begun(name)]
                if left <= 0 or not open_ones:
                    return
                name = min(open_ones, key=lambda n: (self.counts[n].running, self.counts[n].seconds))
                count = self.counts[name]
                count.running += 1
                first = self._next_seed[name]
                self._next_seed[name] += 1_000_000 if self._plays is None else self._plays
            begun = time.monotonic()
            self._child(name, first, min(left, TURN_SECONDS))
            with self._lock:
                count.running -= 1
                count.seconds += time.monotonic() - begun

    def _begun(self, name: str) -> bool:
        return bool(self.counts[name].plays or self.counts[name].running)

    def _child(self, name: str, first: int, seconds: float) -> None:
        command = [sys.executable, "-m", "tests.soak", name, "--here", "--seed", str(first), "--seconds", str(seconds)]
        if self._plays is not None:
            command += ["--plays", str(self._plays)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        playing: int | None = None
        assert child.stdout is not None
        for text in child.stdout:
            if not text.startswith("{"):
                continue
            line = json.loads(text)
            playing = line.get("begins")
            if "seed" in line:
                self._note(name, line["seed"], line["tried"], line["problem"])
        code = child.wait()
        if playing is not None:
            self._note(name, playing, 0, f"the process ended with {code}")
        elif code:
            self._note(name, first, 0, f"the process ended with {code} before or between its plays")

    def _note(self, name: str, seed: int, tried: int, problem: str | None) -> None:
        with self._lock:
            count = self.counts[name]
            count.plays += 1
            count.tried += tried
            if problem is not None:
                count.failed.append(seed)
                if len(count.failed) <= FAILURES_SHOWN:
                    print(f"--- {name}, seed {seed}\n{problem}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("components", nargs="*", help="those to play; all by default")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the first play; a fresh one by default")
    parser.add_argument("--plays", type=int, default=None, help="play so many of each instead of so many minutes")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="plays at a time")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        play_here(asked.components[0], asked.seed, asked.plays, asked.seconds)
        return 0
    names = components()
    unknown = [name for name in asked.components if name not in names]
    if unknown:
        parser.error(f"there is no component {', '.join(unknown)}; there are {', '.join(names)}")
    seed = asked.seed if asked.seed is not None else time.time_ns() // 1_000 % 1_000_000_000_000
    chosen = asked.components or names
    minutes = asked.minutes if asked.plays is None else float("inf")
    print(f"seed {seed}; {', '.join(chosen)}", flush=True)
    soak = Soak(chosen, seed, minutes, asked.plays)
    soak.run(asked.lanes)
    for name, count in soak.counts.items():
        failed = f"failed: seeds {count.failed}" if count.failed else "none failed"
        print(f"{name:<20} {count.tried:>10,} tried in {count.plays:>8,} plays, {count.seconds:,.0f} s; {failed}")
    return 1 if any(count.failed for count in soak.counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
