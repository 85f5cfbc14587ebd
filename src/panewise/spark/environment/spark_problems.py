"""What Spark says is wrong, as people want to read it."""

from __future__ import annotations


def reason_of(problem: Exception) -> str:
    """The innermost line of what Spark says, which is ours where a row or a connector was at fault."""
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
