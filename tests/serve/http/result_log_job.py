"""A process that appends to a log of results until it is killed, and says after each append how far it has come."""

from __future__ import annotations

import sys
from pathlib import Path

from panewise.serve.http.results.result_log import ResultLog
from tests.serve.http.results.test_result_log import rows


def main() -> None:
    log = ResultLog(Path(sys.argv[1]), keep_rows=2_000, keep_bytes=1 << 30, segment_bytes=20_000)
    first = log.bounds("q")[1] if log.names() else 0
    while True:
        # The last rows again, as a producer does that does not know whether it was heard.
        again = min(first, 5)
        log.append("q", rows(first - again, again + 7), first - again)
        first += 7
        sys.stdout.write(f"{first}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
