"""Pictures of the dashboard for the documentation: docs/dashboard-light.png and docs/dashboard-dark.png.

The demonstration's queries run over its generated trade stream: forty minutes of it as fast as they are taken, then ten
seconds of it in each of ours. Usage: python tools/screenshots.py [FOLDER]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from panewise.serve.cli.demo import demo_statements  # noqa: E402
from tests.dashboard_host import DashboardHost, chromium  # noqa: E402

RATE = 5_000  # rows in a second of event time, as demo.cql says
QUERY = "volatility"
SIZE = {"width": 1440, "height": 900}
SETTLING_SECONDS = 20  # until the average rate has forgotten the haste of the beginning
FLOWING_SECONDS = 65
BYTES_MAX = 400_000


def main(folder: Path) -> None:
    with DashboardHost(demo_statements(), rows_per_second=10 * RATE, rows_before=2_400 * RATE) as host:
        while host.backend.stats()["streams"]["trades"]["rows"] < 2_400 * RATE:
            time.sleep(0.2)
        time.sleep(SETTLING_SECONDS)
        with chromium() as browser:
            pages = {}
            for scheme in ("light", "dark"):
                pages[scheme] = browser.new_page(viewport=SIZE, color_scheme=scheme)
                pages[scheme].goto(f"{host.address}/#{QUERY}")
                pages[scheme].wait_for_selector(".chart .stroke")
            # So that the sparklines of rates have something to show.
            time.sleep(FLOWING_SECONDS)
            for scheme, page in pages.items():
                path = folder / f"dashboard-{scheme}.png"
                page.screenshot(path=path, full_page=True)
                size = path.stat().st_size
                assert size < BYTES_MAX, f"{path} has {size:,} bytes"
                print(f"{path}: {size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
