"""The costs of window joins in the papers are shown next to ours, and a figure that differs is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from papers.golab2003 import join_cost_tables
from papers.golab2003.join_cost_tables import (
    TABLES_001,
    TABLES_003,
    Stated,
    best_costs,
    cost_tables,
    divided,
    tables_of_2003,
    tables_of_2006,
    unequal_costs,
)


def test_all_figures_agree(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(join_cost_tables, "show_plot", lambda console, name, panels: None)
    assert tables_of_2003(Console(), quick=True) and tables_of_2006(Console())
    shown = capsys.readouterr().out
    for table in (
        "table 5:",
        "table 6:",
        "table 7:",
        "table 5.3",
        "table 5.4",
        "table 5.5",
        "table 5.6",
        "section 6.5",
    ):
        assert table in shown
    for cost in ("16000", "80400", "47977", "63362", "16200", "worst ratio"):
        assert cost in shown


def test_larger_tables_for_the_fast_stream_pay_where_its_rows_are_joined_last() -> None:
    _, equal_first, equal = best_costs(unequal_costs(divided(12)["equal"]))
    _, few_first, few = best_costs(unequal_costs(divided(12)["5 to slow"]))
    assert few_first > equal_first and few < 0.7 * equal


@pytest.mark.parametrize("table", [*TABLES_003, *TABLES_001], ids=lambda table: table.name)
def test_a_cost_that_differs_is_noticed(table: join_cost_tables.CostTable) -> None:
    console = Console(quiet=True)
    first, *rest = table.stated
    assert cost_tables(console, [table])
    assert not cost_tables(console, [replace(table, stated=(replace(first, cost=first.cost + first.unit), *rest))])
    assert not cost_tables(console, [replace(table, best="4321")])


def test_a_rounded_cost_agrees_to_its_last_digit() -> None:
    assert Stated("worst", "nearly 90000", 90000, 10000).agrees(86850)
    assert not Stated("worst", "nearly 90000", 90000, 10000).agrees(84000)
    assert Stated("average", "63362", 63362).agrees(63361.54) and not Stated("average", "63362", 63362).agrees(63361.4)
