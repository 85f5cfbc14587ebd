"""Compiled loops: what several processes that start together compile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LOOPS = """
from panewise.loops import compiled_loop

@compiled_loop
def inner(n):
    total = 0
    for i in range(n):
        total += i * i % 7
    return total

@compiled_loop
def outer(n):
    return inner(n) + inner(n // 2)
"""
PROCESS = """
import sys
from loops_of_test import inner, outer
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
assert outer(1000) == 3000, outer(1000)
print(*(sum(loop.stats.cache_misses.values()) for loop in (inner, outer)))
"""


def test_processes_that_start_together_compile_a_loop_once(tmp_path: Path) -> None:
    (tmp_path / "loops_of_test.py").write_text(LOOPS, encoding="utf-8")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    told = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        told.append([int(number) for number in process.communicate()[0].split()])
        assert process.returncode == 0
    assert [sum(of_loop) for of_loop in zip(*told, strict=True)] == [1, 1]
