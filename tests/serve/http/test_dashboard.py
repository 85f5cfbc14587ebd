"""The dashboard in a real browser, against the real server with a stream that flows."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from importlib import resources

import pytest

pytest.importorskip("playwright")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from panewise.serve.cli.demo import demo_statements
from panewise.serve.http.service.settings import Token
from tests.dashboard_host import STREAM, DashboardHost, chromium, chromium_path
from tests.free_port import free_port
from tests.waiting import PATIENCE_MS

pytestmark = pytest.mark.skipif(chromium_path() is None, reason="no Chromium: sh tools/ensure_chromium.sh")

SELECT = "SELECT symbol, COUNT(*) AS trades FROM trades [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY symbol"
MANY = 1_000
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def host() -> Iterator[DashboardHost]:
    # Four seconds of the stream's own time in one of ours: a window ends every quarter of a second.
    with DashboardHost(demo_statements(), rows_per_second=20_000, rows_before=500_000) as started:
        yield started


class Watched:
    """A page and everything that it complained about."""

    def __init__(self, browser: Browser, address: str, **options: object) -> None:
        self.page = browser.new_page(viewport={"width": 1440, "height": 900}, **options)  # type: ignore[arg-type]
        self.page.set_default_timeout(PATIENCE_MS)
        self.complaints: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self._note(str(error)))
        self.page.on("requestfailed", lambda request: self._note(f"{request.url}: {request.failure}"))
        self.page.goto(address)
        self.page.wait_for_selector("body[data-ready]")

    def _hear(self, message: ConsoleMessage) -> None:
        # The browser complains of a lookup that came just after somebody else had dropped the query.
        is_gone = "404" in message.text and message.location["url"].endswith("/lookup")
        if message.type in ("error", "warning") and not is_gone:
            self._note(message.text)

    def _note(self, text: str) -> None:
        self.complaints.append(text)

    def close(self) -> None:
        # What leaving cuts off is no failure of the page.
        complaints = list(self.complaints)
        self.page.close()
        assert complaints == []


@pytest.fixture
def watched(browser: Browser, host: DashboardHost) -> Iterator[Watched]:
    found = Watched(browser, host.address)
    yield found
    found.close()


def add(page: Page, name: str, text: str) -> None:
    page.get_by_role("button", name="Add a query").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label(re.compile("^SELECT")).fill(text)
    page.get_by_role("button", name="Run").click()


def title(page: Page) -> str:
    return page.locator("#detail-title").inner_text()


def test_a_query_is_added_moves_and_is_dropped(watched: Watched) -> None:
    page = watched.page
    add(page, "lately", SELECT)
    expect(page.locator("#detail-title")).to_have_text("lately")
    expect(page.locator("#add-message")).to_contain_text("Query lately runs")
    paths = [first := drawn(page)]
    page.wait_for_function("before => document.querySelector('.chart .stroke').getAttribute('d') !== before", arg=first)
    paths.append(drawn(page))
    assert len(set(paths)) == 2
    assert page.locator(".legend li").count() == 8
    assert "12 left out" in page.locator("#detail .chart-head").inner_text()
    # The last answer is that of the engine: twenty symbols, and their counts are those of ten seconds.
    rows = page.locator("#panel-answer tbody tr")
    expect(rows).to_have_count(20)
    assert 30_000 < sum(int(row.locator("td").last.inner_text().replace(",", "")) for row in rows.all()) < 70_000

    page.get_by_role("tab", name="Plan").click()
    expect(page.locator("#panel-plan")).to_contain_text("WINDOW [RANGE 10 SECONDS SLIDE 1 SECOND]")
    page.get_by_role("tab", name="Statement").click()
    expect(page.locator("#panel-statement")).to_contain_text("CREATE QUERY lately")

    page.get_by_role("button", name="Suspend").click()
    expect(page.locator("#detail .message")).to_have_text("lately is suspended.")
    expect(page.locator("tr[data-chosen]")).to_contain_text("suspended")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#detail .message")).to_have_text("lately runs again.")

    page.get_by_role("button", name="Drop").click()
    page.get_by_role("button", name="Keep it").click()
    assert title(page) == "lately"
    page.get_by_role("button", name="Drop").click()
    page.get_by_role("button", name="Drop it").click()
    expect(page.locator("#detail-title")).to_have_text("No query chosen")
    expect(page.get_by_role("button", name="lately", exact=True)).to_have_count(0)


def drawn(page: Page) -> str:
    page.wait_for_selector(".chart .stroke")
    return page.locator(".chart .stroke").first.get_attribute("d") or ""


def test_what_is_wrong_with_a_statement_stands_below_it(watched: Watched, host: DashboardHost) -> None:
    page = watched.page
    add(page, "wrong", SELECT.replace("COUNT(*)", "COUNT(*),\n  SUM(sise)"))
    message = page.locator("#add-message")
    expect(message).to_contain_text("'sise' (line 2, column 7)")
    expect(message).to_contain_text("Hint: did you mean size?")
    assert message.locator("mark").inner_text() == "sise"
    assert message.locator("pre").inner_text().split("\n")[1] == " " * 6 + "^^^^"
    assert page.locator("#add-text").get_attribute("aria-invalid") == "true"
    selected = "document.getElementById('add-text')"
    assert page.evaluate(f"{selected}.value.slice({selected}.selectionStart, {selected}.selectionEnd)") == "sise"
    assert message.get_attribute("aria-live") == "polite"
    # The browser itself tells the console of every answer of 400; that is all it may tell.
    assert all("400 (Bad Request)" in complaint for complaint in watched.complaints) and len(watched.complaints) == 1
    watched.complaints.clear()
    assert "wrong" not in host.backend.stats()["queries"]

    page.get_by_label("Name", exact=True).fill("")
    page.get_by_role("button", name="Run").click()
    expect(message).to_have_text("Give the query a name.")
    assert page.evaluate("document.activeElement.id") == "add-name"


def test_the_keyboard_alone_adds_a_query_and_reads_its_chart(watched: Watched) -> None:
    page = watched.page
    keys = page.keyboard
    tab_until(page, lambda: "Add a query" in focused(page))
    keys.press("Enter")
    assert page.evaluate("document.activeElement.id") == "add-name"
    keys.type("by_keys")
    keys.press("Tab")
    keys.type(SELECT)
    keys.press("Control+Enter")
    expect(page.locator("#detail-title")).to_have_text("by_keys")
    page.wait_for_function("() => document.querySelectorAll('.chart .stroke').length > 2")
    page.wait_for_function("() => document.querySelector('.chart').ariaValueMax > 0")  # an instant to go to
    keys.press("Escape")
    assert "Add a query" in focused(page)

    tab_until(page, lambda: page.evaluate("document.activeElement.getAttribute('role')") == "slider")
    keys.press("Home")
    first = page.locator(".chart").get_attribute("aria-valuetext") or ""
    assert re.fullmatch(r"\d\d:\d\d:\d\d UTC: (ALFA [\d,]+, .*)", first)
    assert page.locator(".tooltip").is_visible()
    keys.press("ArrowRight")
    assert page.locator(".chart").get_attribute("aria-valuetext") != first
    keys.press("Escape")
    assert page.locator(".tooltip").is_hidden()

    tab_until(page, lambda: page.evaluate("document.activeElement.id") == "tab-answer")
    keys.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-plan"
    expect(page.locator("#panel-plan pre")).to_be_visible()
    tab_until(page, lambda: focused(page) == "Drop", "Shift+Tab")
    keys.press("Enter")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.locator("#detail-title")).to_have_text("No query chosen")


def focused(page: Page) -> str:
    text = page.evaluate("document.activeElement === document.body ? '' : document.activeElement.textContent")
    return str(text).strip()


def tab_until(page: Page, reached: Callable[[], bool], key: str = "Tab", most: int = 60) -> None:
    for _ in range(most):
        if reached():
            return
        page.keyboard.press(key)
    raise AssertionError("the keyboard does not get there")


def test_hovering_shows_the_values_of_an_instant(watched: Watched) -> None:
    page = watched.page
    page.get_by_role("button", name="volume_10s", exact=True).click()
    page.wait_for_selector(".chart .stroke")
    page.locator(".chart").hover()
    expect(page.locator(".tooltip-row")).to_have_count(8)
    values = [int(text.replace(",", "")) for text in page.locator(".tooltip-row .number").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    page.get_by_label("Column").select_option("shares")
    expect(page.locator(".legend li").first).to_contain_text(re.compile(r"\d,\d{3},\d{3}"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("chosen", ["", "#volume_1m"])
def test_axe_finds_nothing(browser: Browser, host: DashboardHost, scheme: str, chosen: str) -> None:
    watched = Watched(browser, f"{host.address}/{chosen}", color_scheme=scheme, bypass_csp=True)
    page = watched.page
    if chosen:
        page.wait_for_selector(".chart .stroke")
    else:
        add(page, "wrong", "SELECT nothing FROM trades")
        page.wait_for_selector("#add-message mark")
        watched.complaints.clear()
    page.wait_for_selector("#trees tbody tr")
    result = Axe().run(page, options={"runOnly": RULES})
    assert result.response["violations"] == [], result.generate_report()
    checked = {rule["id"] for rule in result.response["passes"]}
    assert {"color-contrast", "label", "button-name", "landmark-one-main"} <= checked
    watched.close()


def test_the_weave_says_what_is_saved(watched: Watched, host: DashboardHost) -> None:
    page = watched.page
    page.wait_for_selector("#trees tbody tr")
    saving = page.locator("#saving").inner_text()
    weave = host.backend.weave()
    assert f"{weave['queries']} queries run as {weave['trees']} trees" in saving
    assert re.search(r"\d\d % of the work is saved", saving)
    assert page.locator("#trees tbody tr").count() == weave["trees"]
    drawn_trees = page.locator(".tree-box").count()
    assert drawn_trees == weave["trees"]
    page.locator(".query", has_text="momentum").click()
    expect(page.locator("#detail-title")).to_have_text("momentum")


def test_the_theme_is_switched_and_kept(watched: Watched) -> None:
    page = watched.page

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    before = ground()
    button = page.locator("#theme-button")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    dark = ground()
    assert dark != before
    page.reload()
    page.wait_for_selector("body[data-ready]")
    watched.complaints.clear()  # of requests that the reload has cut off
    assert ground() == dark


def test_small_screens_do_not_scroll_sideways(browser: Browser, host: DashboardHost) -> None:
    watched = Watched(browser, f"{host.address}/#volume_1m")
    watched.page.set_viewport_size({"width": 360, "height": 740})
    watched.page.wait_for_selector(".chart .stroke")
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 360
    watched.close()


def test_a_token_is_asked_for_and_the_page_survives_a_restart(browser: Browser) -> None:
    tokens = (Token("write", "swordfish-swordfish", "somebody"),)
    port = free_port()
    with DashboardHost(rows_per_second=20_000, tokens=tokens, port=port) as host:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(host.address)
        expect(page.locator("#token-dialog")).to_be_visible()
        page.locator("#token").fill("swordfish-swordfish")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#connection-text")).to_have_text("live, embedded")
        add(page, "lately", SELECT)
        page.wait_for_selector(".chart .stroke")
        assert page.evaluate("sessionStorage.getItem('panewise.token')") == "swordfish-swordfish"
        assert page.evaluate("localStorage.length") == 0
    expect(page.locator("#banner")).to_contain_text("does not answer")
    with DashboardHost(rows_per_second=20_000, tokens=tokens, port=port):
        expect(page.locator("#banner")).to_contain_text("back")
        expect(page.locator("#detail-title")).to_have_text("No query chosen")
        page.close()


def test_an_empty_server_says_what_to_do_next(browser: Browser) -> None:
    with DashboardHost("") as host:
        watched = Watched(browser, host.address)
        expect(watched.page.locator("#streams-empty")).to_contain_text("CREATE STREAM")
        expect(watched.page.locator("#queries-empty")).to_contain_text("No query yet")
        add(watched.page, "", STREAM.split("WITH (")[0].strip())
        expect(watched.page.locator("#streams tbody th")).to_have_text("trades")
        watched.close()


def test_a_thousand_queries_stay_quick(browser: Browser, soak: bool, figure: Callable[[str, object], None]) -> None:
    queries = "".join(
        f"CREATE QUERY rule_{number:04d} AS SELECT symbol, COUNT(*) AS n, SUM(size) AS shares "
        f"FROM trades [RANGE {10 + number % 50} SECONDS SLIDE {1 + number % 5} SECONDS] GROUP BY symbol;\n"
        for number in range(MANY)
    )
    with DashboardHost(STREAM + queries, rows_per_second=5_000) as host:
        began = time.monotonic()
        watched = Watched(browser, host.address)
        page = watched.page
        expect(page.locator("#queries-note")).to_have_text("1,000 queries")
        interactive = time.monotonic() - began
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        began = time.monotonic()
        page.locator("#filter").fill("rule_0777")
        expect(page.locator("#query-list tbody tr")).to_have_count(1)
        filtered = time.monotonic() - began
        page.get_by_role("button", name="rule_0777").click()
        expect(page.locator("#detail-title")).to_have_text("rule_0777")
        page.locator("#filter").fill("")
        page.get_by_role("button", name="Next").click()
        expect(page.locator("#page-text")).to_have_text("16 to 30 of 1,000")
        # The longest time that the page did not react, over some of its work.
        longest = page.evaluate(
            """(span) => new Promise((resolve) => {
            let last = performance.now(), longest = 0, end = last + span;
            const step = () => { const now = performance.now(); longest = Math.max(longest, now - last); last = now;
                                 now < end ? setTimeout(step, 0) : resolve(longest); };
            step(); })""",
            3_000 if soak else 300,
        )
        expect(page.locator("#saving")).to_contain_text("1,000 queries run as")
        # Six for the clicks, one each second for the figures and one each fifth for the weave, and those in sight.
        asked = sum(url.endswith("/lookup") for url in requests)
        assert len(requests) - asked <= 7 + 1.2 * (time.monotonic() - began + 1), requests
        assert asked <= 16 * (time.monotonic() - began + 2), requests
        assert host.settings.max_subscribers > 100 and page.locator("#query-list tbody tr").count() == 15
        figure("dashboard with 1,000 queries: interactive after", f"{interactive:.2f} s")
        figure("dashboard with 1,000 queries: filtered after", f"{filtered * 1e3:.0f} ms")
        figure("dashboard with 1,000 queries: longest pause", f"{longest:.0f} ms")
        watched.close()


def test_a_query_that_is_made_anew_is_shown_as_it_is_now(watched: Watched, host: DashboardHost) -> None:
    page = watched.page
    host.backend.execute("CREATE QUERY anew AS SELECT COUNT(*) AS n FROM trades [RANGE 2 SECONDS SLIDE 1 SECOND]")
    page.get_by_role("button", name="anew", exact=True).click()
    page.wait_for_selector(".chart .stroke")
    host.backend.execute("DROP QUERY anew")
    host.backend.execute(f"CREATE QUERY anew AS {SELECT}")
    expect(page.locator(".legend li")).to_have_count(8)
    page.get_by_role("tab", name="Statement").click()
    expect(page.locator("#panel-statement")).to_contain_text("GROUP BY symbol")
    host.backend.execute("DROP QUERY anew")
    expect(page.locator("#detail-title")).to_have_text("No query chosen")


def test_a_query_that_is_made_anew_behind_a_lost_connection_is_drawn_alone(watched: Watched) -> None:
    found = watched.page.evaluate("""async () => {
        const { Live } = await import('/dashboard/live.js');
        const live = new Live(() => ({ statement: '', results: 10 }), () => {}, () => {});
        const sent = [];
        live.socket = { readyState: WebSocket.OPEN, send: (text) => sent.push(JSON.parse(text)) };
        live.want(new Map([['q', 5]]));
        const columns = [['window_end', 'TIMESTAMP'], ['n', 'BIGINT']].map(([name, type]) => ({ name, type }));
        const at = (second) => `2026-01-01T00:00:0${second}.000000Z`;
        live.take({ type: 'hello', query: 'q', series: 'one', columns, next: 5 });
        live.take({ type: 'rows', query: 'q', first: 5, next: 7, rows: [[at(1), 1], [at(2), 2]] });
        live.subscribe('q');
        live.take({ type: 'hello', query: 'q', series: 'two', columns, next: 0 });
        live.take({ type: 'gap', query: 'q', from: 7, to: 0, reset: true });
        live.take({ type: 'rows', query: 'q', first: 0, next: 1, rows: [[at(3), 9]] });
        return { sent, instants: live.historyOf('q').instants.length, next: live.historyOf('q').next }; }""")
    subscribe = {"type": "subscribe", "query": "q"}
    assert found == {
        "sent": [{**subscribe, "start": 5}, {**subscribe, "start": 7, "series": "one"}],
        "instants": 1,
        "next": 1,
    }


class Shown:
    """A page with a query chosen: its last answer, and that in the list."""

    def __init__(self, page: Page, name: str) -> None:
        page.get_by_role("button", name=name, exact=True).click()
        self.answer = page.locator("#panel-answer")
        self.rows = page.locator("#panel-answer tbody tr")
        self.listed = page.locator("tr", has=page.get_by_role("button", name=name, exact=True)).locator("td.answer")

    def has_no_rows(self, at: str) -> None:
        expect(self.answer).to_have_text(f"The answer at 2026-01-31 {at} UTC has no rows.")
        expect(self.listed).to_have_text(f"no rows at 2026-01-31 {at}")

    def has(self, *rows: str) -> None:
        expect(self.rows).to_have_text([*rows])
        expect(self.listed).to_contain_text(re.compile("|".join(re.sub("[^a-z]", "", row) for row in rows)))


READINGS = """
CREATE STREAM readings (ts TIMESTAMP, sensor STRING, degrees BIGINT);
CREATE QUERY hot AS SELECT sensor, MAX(degrees) AS most
  FROM readings [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY sensor HAVING MAX(degrees) > 90;
CREATE QUERY never AS SELECT sensor, MAX(degrees) AS most
  FROM readings [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY sensor HAVING MAX(degrees) > 900;
CREATE QUERY each AS SELECT sensor, MAX(degrees) AS most
  FROM readings [PARTITION BY sensor ROWS 1 SLIDE 1] GROUP BY sensor HAVING MAX(degrees) > 90;
CREATE QUERY rows AS SELECT sensor, MAX(degrees) AS most
  FROM readings [ROWS 1 SLIDE 1] GROUP BY sensor HAVING MAX(degrees) > 90;
CREATE QUERY now WITH (mode = 'lookup') AS SELECT sensor, MAX(degrees) AS most
  FROM readings [RANGE 1 MINUTE] GROUP BY sensor;
CREATE QUERY changes AS SELECT sensor, MAX(degrees) AS most
  FROM readings [RANGE 1 MINUTE] GROUP BY sensor HAVING MAX(degrees) > 90;
"""


@pytest.fixture(scope="module")
def readings() -> Iterator[DashboardHost]:
    with DashboardHost("") as host:
        host.backend.execute(READINGS)
        yield host


def read(host: DashboardHost, *readings: tuple[str, str, int]) -> None:
    rows = [{"ts": f"2026-01-31 {clock}", "sensor": sensor, "degrees": degrees} for clock, sensor, degrees in readings]
    host.backend.push("readings", rows, producer=None, sequence=None, timeout=None)


def test_the_last_answer_is_what_a_lookup_says(browser: Browser, readings: DashboardHost) -> None:
    """What HAVING let through two hours ago is not the answer any more; it is again when it comes again."""
    read(readings, ("10:00:10", "boiler", 99), ("10:01:10", "oven", 98), ("10:02:10", "boiler", 20))
    watched = Watched(browser, f"{readings.address}/#hot")
    page = watched.page
    hot = Shown(page, "hot")
    # The answer is one report, and not the last row of each group: the boiler has cooled down.
    hot.has("oven98")
    read(readings, ("12:02:30", "boiler", 20))
    hot.has_no_rows("12:02:30")
    read(readings, ("12:04:30", "oven", 97))
    hot.has_no_rows("12:04:30")
    read(readings, ("12:05:30", "oven", 30))
    hot.has("oven97")
    Shown(page, "never").has_no_rows("12:05:30")
    expect(page.locator("#detail .chart-head")).to_contain_text("No result to draw.")

    # What is due while a query is suspended is in no results, and is its answer all the same.
    readings.backend.execute("SUSPEND QUERY hot")
    read(readings, ("12:06:30", "oven", 20))
    readings.backend.execute("RESUME QUERY hot")
    Shown(page, "hot").has_no_rows("12:06:30")
    read(readings, ("12:07:10", "grill", 95))
    hot.has_no_rows("12:07:10")
    readings.backend.execute("SUSPEND QUERY hot")
    read(readings, ("12:08:30", "oven", 20))
    readings.backend.execute("RESUME QUERY hot")
    hot.has("grill95")
    watched.close()


def test_windows_of_rows_answer_with_their_last_report(browser: Browser, readings: DashboardHost) -> None:
    read(readings, ("13:00:00", "boiler", 99), ("13:00:00", "oven", 98), ("13:00:01", "oven", 1))
    watched = Watched(browser, readings.address)
    rows, each = Shown(watched.page, "rows"), Shown(watched.page, "each")
    each.has("oven98")  # the boiler's report is not the last one
    read(readings, ("13:00:02", "boiler", 1))
    each.has_no_rows("13:00:02")
    rows = Shown(watched.page, "rows")
    rows.has_no_rows("13:00:02")
    # Two reports at one instant, and the last of them is empty.
    read(readings, ("13:00:03", "boiler", 97), ("13:00:03", "boiler", 2), ("13:00:04", "boiler", 97))
    rows.has_no_rows("13:00:04")
    read(readings, ("13:00:05", "boiler", 1))
    rows.has("boiler97")
    watched.close()


def test_what_has_no_reports_does_not_promise_any(browser: Browser, readings: DashboardHost) -> None:
    read(readings, ("14:00:00", "boiler", 99), ("14:00:01", "oven", 98), ("14:00:02", "oven", 1))
    watched = Watched(browser, readings.address)
    page = watched.page
    listed = page.locator("tr", has=page.get_by_role("button", name="now", exact=True)).locator("td.answer")
    expect(listed).to_have_text("answers when asked")
    now = Shown(page, "now")
    now.has("boiler99", "oven98")
    expect(page.get_by_role("tab", selected=True)).to_have_text("Answer now")
    expect(page.locator("#detail .chart-head")).to_contain_text("This query has no results")
    expect(page.locator(".chart")).to_be_hidden()
    changes = Shown(page, "changes")
    expect(page.get_by_role("tab", selected=True)).to_have_text("Last change")
    expect(changes.listed).to_contain_text("last change")
    expect(changes.rows.last).to_contain_text("oven")
    watched.close()


def test_a_lookup_is_due_when_the_last_report_is_another_one(watched: Watched) -> None:
    found = watched.page.evaluate("""async () => {
        const { History } = await import('/dashboard/history.js');
        const history = new History('SELECT k, n FROM s GROUP BY k', 100, 'reports');
        const columns = [['window_end', 'TIMESTAMP'], ['k', 'STRING'], ['n', 'BIGINT']];
        history.greet(columns.map(([name, type]) => ({ name, type })));
        const at = (second) => `2026-01-01T00:00:0${second}.000000Z`;
        const since = (second) => `2026-01-01 00:00:0${second}`;
        const behind = (second, status = 'RUNNING') => history.isBehind(since(second), status);
        const seen = [history.isBehind(null, 'RUNNING'), behind(2)];
        history.append([[at(2), 'a', 1]], 1);
        history.answered({ rows: [[at(2), 'a', 1]], watermark: at(3) }, since(2), 'RUNNING');
        seen.push(behind(2), behind(3), behind('3.000001'), behind(4), behind(2, 'SUSPENDED'));
        history.answered({ rows: [], watermark: at(4) }, since(4), 'RUNNING');
        history.answered({ rows: [], watermark: at(6) }, since(6), 'RUNNING');
        history.append([[at(5), 'a', 2], [at(8), 'a', 3]], 3);
        history.answered({ problem: 'it is not held' }, since(8), 'RUNNING');
        seen.push(behind(8), behind(9));
        return { seen, drawn: history.instants.map((known) => [new Date(known.at).getUTCSeconds(), known.rows.size]) };
    }""")
    assert found == {
        "seen": [False, True, False, False, True, True, True, False, True],
        "drawn": [[2, 1], [5, 1], [6, 0], [8, 1]],
    }


def test_numbers_are_written_for_people(watched: Watched) -> None:
    written = watched.page.evaluate("""async () => {
        const f = await import('/dashboard/format.js');
        return [f.count(950), f.count(1437), f.count(12_900_000), f.count(999_999), f.bytes(18_280_336), f.bytes(12),
                f.seconds(0.0136), f.seconds(2), f.seconds(200), f.seconds(7500), f.seconds(400_000), f.rate(0.1),
                f.rate(5.46), f.exactRate(1),
                f.percent(0.9999), f.percent(0.5), f.plain(83354), f.plain(1.9412345), f.cell(null, 'STRING'),
                f.cell('2026-01-01T10:00:00.000000Z', 'TIMESTAMP'), f.count(undefined), f.count(NaN)]; }""")
    assert written == [
        "950", "1.44 k", "12.9 M", "1 M", "17.4 MiB", "12 B",
        "14 ms", "2.0 s", "3 min 20 s", "2 h 5 min", "4 d 15 h", "6/min", "5.5", "1",
        "99.9 %", "50 %", "83,354", "1.941", "NULL",
        "2026-01-01 10:00:00", "\N{EN DASH}", "\N{EN DASH}",
    ]  # fmt: skip


def test_groups_are_found_in_the_statement(watched: Watched) -> None:
    found = watched.page.evaluate("""async () => {
        const { keyColumns } = await import('/dashboard/history.js');
        const columns = [['window_end', 'TIMESTAMP'], ['who', 'BIGINT'], ['text', 'STRING'], ['n', 'BIGINT']]
            .map(([name, type]) => ({ name, type }));
        return ['SELECT who, n FROM s [ROWS 5] GROUP BY who',
                'SELECT a.user AS who, COUNT(*) AS n FROM s GROUP BY a.user',
                'SELECT COUNT(*) AS n, MAX(t) AS text FROM s',
                'SELECT f(x, y) AS who FROM s GROUP BY f(x, y), text HAVING n > 1',
                'SELECT 1 FROM s GROUP BY other'].map((text) => keyColumns(columns, text)); }""")
    assert found == [[1], [1], [], [1, 2], [2]]


def test_rows_of_one_instant_are_told_apart_by_their_texts(watched: Watched) -> None:
    found = watched.page.evaluate("""async () => {
        const { History } = await import('/dashboard/history.js');
        const history = new History('SELECT ISTREAM who, n FROM s [NOW]', 100, 'changes');
        const columns = [['ts', 'TIMESTAMP'], ['who', 'STRING'], ['n', 'BIGINT']];
        history.greet(columns.map(([name, type]) => ({ name, type })));
        const at = (second) => `2026-01-01T00:00:0${second}.000000Z`;
        history.append([[at(1), 'a', 1], [at(2), 'a', 2]], 2);
        const alone = [...history.latest().keys()];
        history.append([[at(3), 'a', 3], [at(3), 'b', 40], [at(4), 'b', 50], [at(5), 'c', 6], [at(6), 'd', 7]], 7);
        return { alone, groups: history.ranking(2), turns: history.isByTurns(),
                 latest: [...history.latest()].map(([group, row]) => [group, row[2]]), next: history.next }; }""")
    assert found == {
        "alone": [""],
        "groups": ["b", "d", "c", "a"],
        "turns": True,
        "latest": [["a", 3], ["b", 50], ["c", 6], ["d", 7]],
        "next": 7,
    }


def test_files_have_tags_and_a_strict_policy(host: DashboardHost) -> None:
    import httpx

    with httpx.Client(base_url=host.address) as client:
        page = client.get("/")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        again = client.get("/", headers={"If-None-Match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        for name in ("nothing.js", "..%2Fdashboard_routes.py", "%2e%2e/settings.py", "index.html.bak"):
            assert client.get(f"/dashboard/{name}").status_code == 404, name
        files = [entry.name for entry in resources.files("panewise.serve.http").joinpath("dashboard").iterdir()]
        assert len(files) > 10
        for name in files:
            answer = client.get(f"/dashboard/{name}")
            assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
            # Works offline: nothing is fetched from anywhere else.
            addresses = set(re.findall(r"https?://[^\s\"'`)]+", answer.text))
            assert addresses <= {"http://www.w3.org/2000/svg"}, (name, addresses)


def test_late_rows_are_remarked_on_below_the_streams(browser: Browser) -> None:
    with DashboardHost("CREATE STREAM t (ts TIMESTAMP, v BIGINT)") as host:
        host.backend.engine.push("t", [{"ts": 5_000_000, "v": 1}])
        page = Watched(browser, host.address)
        expect(page.page.locator("#streams tbody tr")).to_have_count(1)
        expect(page.page.locator("#streams-remarks")).to_be_hidden()
        host.backend.engine.push("t", [{"ts": 4_000_000, "v": 1}])
        remark = page.page.locator("#streams-remarks li")
        expect(remark).to_contain_text("1 of 2 rows of stream 't' came late and were dropped")
        expect(remark).to_contain_text("WATERMARK FOR ts AS ts - INTERVAL 1 SECOND")
        page.close()


def test_bad_rows_that_are_set_aside_are_remarked_on_too(browser: Browser) -> None:
    with DashboardHost("CREATE STREAM t (ts TIMESTAMP, v BIGINT) WITH (on_bad_row = 'skip')") as host:
        host.backend.engine.push("t", [{"ts": 5_000_000, "v": 1}, {"ts": 5_000_000, "v": "x"}])
        page = Watched(browser, host.address)
        remark = page.page.locator("#streams-remarks li")
        expect(remark).to_contain_text("1 of 2 rows of stream 't' were bad and set aside")
        page.close()
