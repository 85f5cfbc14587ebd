"""Spark's errors, shortened for people."""

from __future__ import annotations


def reason_of(problem: Exception) -> str:
    """The first line of an error of Spark; if it contains an error of panewise, the message and hint of that one."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("panewise.errors.")]
    if own:
        first = lines.index(own[-1])
        return "\n".join([own[-1].partition(": ")[2], *_until_trace(lines[first + 1 :])])
    return lines[0] if lines else type(problem).__name__


def _until_trace(lines: list[str]) -> list[str]:
    kept = []
    for line in lines:
        if not line.startswith(("the row:", "hint:")):
            break
        kept.append(line)
    return kept
