"""Negation of all kinds against its definition, at every instant, for inputs of every pattern and every storage."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.language.expressions import ColumnRef, Expression
from panewise.operators.deltas import negation_storage
from panewise.operators.deltas.negation import Negation
from panewise.operators.deltas.negation_storage import BY_EXPIRATION, BY_KEY, MeasuredStorage
from panewise.operators.relation_delta import FOREVER, Delta
from panewise.schema import BIGINT, DOUBLE
from panewise.state.fifo_queue import FifoQueue
from panewise.state.snapshot_format import dumped, loaded
from papers.golab2006.list_store import ListStore
from tests.now_or_soak import examples
from tests.operators.delta_histories import (
    HORIZON,
    RUNS,
    SCHEMA,
    Row,
    Told,
    batch_of,
    histories,
    relation,
    told_by,
)

K, X = ColumnRef(BIGINT, "k"), ColumnRef(DOUBLE, "x")
KEYS: dict[tuple[Expression, ...], list[int]] = {(K,): [0], (X,): [1], (K, X): [0, 1], (): []}
PATTERNS = ["MONOTONIC", "WEAKEST", "WEAK", "STRICT"]
KINDS = ["NOT EXISTS", "EXISTS", "EXCEPT", "EXCEPT ALL"]
Values = tuple[Any, ...]


def expected(kind: str, places: list[int], left: Counter[Values], right: Counter[Values]) -> Counter[Values]:
    """The definition, over the relations of one instant."""
    if kind == "EXCEPT":
        return Counter(dict.fromkeys(left.keys() - right.keys(), 1))
    if kind == "EXCEPT ALL":
        return left - right
    keys = [tuple(values[i] for i in places) for values in right]
    partners = {key for key in keys if None not in key}
    result: Counter[Values] = Counter()
    for values, copies in left.items():
        key = tuple(values[i] for i in places)
        if (None not in key and key in partners) == (kind == "EXISTS"):
            result[values] = copies
    return result


@pytest.mark.parametrize(
    ("kind", "storage"),
    [(kind, storage) for kind in KINDS for storage in ((None,) if kind == "EXCEPT" else (BY_EXPIRATION, BY_KEY, None))],
)
@examples(35, soak=250)
@given(data=st.data(), patterns=st.tuples(st.sampled_from(PATTERNS), st.sampled_from(PATTERNS)))
def test_every_instant_is_as_defined(
    kind: str, storage: str | None, data: st.DataObject, patterns: tuple[str, str]
) -> None:
    left, right = (data.draw(histories(pattern)) for pattern in patterns)
    keys = data.draw(st.sampled_from(list(KEYS)))
    queue = data.draw(st.sampled_from([FifoQueue, ListStore])) if patterns[0] == "WEAKEST" else ListStore

    def make() -> Negation:
        return Negation(kind, SCHEMA, keys, keys, storage, left_queue=queue)

    with patch.object(negation_storage, "SAMPLE", 1):  # a measured storage changes as often as it can
        told, operator = told_by(make, [left, right], **data.draw(RUNS))
    for instant in range(HORIZON):
        wanted = expected(kind, KEYS[keys], relation(left, instant), relation(right, instant))
        assert told.at(instant) == wanted, instant
    assert isinstance(operator, Negation)
    if not right and patterns[0] != "STRICT":
        assert operator.premature_share == 0
        assert storage == BY_KEY or kind == "EXCEPT" or not told.ended


def history(*rows: tuple[int, int, int]) -> list[Row]:
    return [((key, 0.0), birth, death, None) for key, birth, death in rows]


def test_results_by_expiration_end_only_prematurely_and_results_by_key_always_end() -> None:
    left, right = history((1, 0, 10), (2, 1, 11), (1, 2, 12)), history((2, 4, 8))
    by_expiration, operator = told_by(lambda: Negation("NOT EXISTS", SCHEMA, (K,), (K,)), [left, right], [3, 5, 9])
    assert by_expiration.said == [10, 11, 12, 11] and by_expiration.ended == {1}
    assert isinstance(operator, Negation) and operator.premature_share == 1 / 4
    by_key, operator = told_by(lambda: Negation("NOT EXISTS", SCHEMA, (K,), (K,), BY_KEY), [left, right], [3, 5, 9])
    assert by_key.said == [FOREVER] * 4 and by_key.ended == {0, 1, 2, 3}
    assert isinstance(operator, Negation) and operator.premature_share == 1 / 4


def test_a_storage_changes_above_one_share_and_back_below_another() -> None:
    storage = MeasuredStorage()
    seen, premature, natural = [], 0, 0
    for share in (0.0, 0.6, 0.6, 0.6, 0.9, 0.9, 0.6, 0.6, 0.6, 0.3, 0.3, 0.3, 0.6):
        premature, natural = premature + round(2000 * share), natural + round(2000 * (1 - share))
        storage.measure(premature, natural)
        seen.append((round(storage.share, 2), storage.in_use == BY_KEY))
    shares, by_key = zip(*seen, strict=True)
    expected_shares = [0.0, 0.3, 0.45, 0.53, 0.71, 0.81, 0.7, 0.65, 0.63, 0.46, 0.38, 0.34, 0.47]
    assert shares == pytest.approx(expected_shares, abs=0.011)
    assert by_key == (*[False] * 4, *[True] * 5, *[False] * 4)
    storage.measure(premature + 1000, natural)
    assert storage.share == pytest.approx(0.47, abs=0.01), "too few have left"


def _phases(steps: int) -> list[list[Delta]]:
    """100 rows a step, each for 250 instants; partners come in the middle of it for all of the first third, none of the
    second, and nine of ten in the last."""
    found = []
    times = np.arange(100 * steps)
    partners = times[(times < 100 * steps // 3) | ((times > 200 * steps // 3) & (times % 10 > 0))]
    for since in range(0, 100 * steps, 100):
        left, right = times[since : since + 100], partners[(partners >= since - 120) & (partners < since - 20)]
        inputs = []
        for keys, births in ((left, left), (right, right + 120)):
            batch = batch_of([(int(key), 0.0) for key in keys])
            inputs.append(Delta(batch, keys, births, births + 250))
        found.append(inputs)
    return found


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("kind", ["NOT EXISTS", "EXCEPT ALL"])
def test_storage_follows_the_share_and_results_stay_the_same(kind: str, restarts: bool) -> None:
    steps = _phases(180)
    told = {}
    seen = []
    for storage in (None, BY_EXPIRATION, BY_KEY):
        operator, told[storage] = Negation(kind, SCHEMA, (K,), (K,), storage), Told()
        for number, inputs in enumerate(steps):
            if restarts and number % 10 == 7:
                snapshot = loaded(dumped(operator.snapshot()))
                operator = Negation(kind, SCHEMA, (K,), (K,), storage)
                operator.restore(snapshot)
            since, until = 100 * number, 100 * (number + 1)
            told[storage].take(operator.process(inputs, since, until), since, until)
            if storage is None and (not seen or seen[-1] != operator.storage):
                seen.append(operator.storage)
        assert storage is None or operator.storage == storage
    assert seen == [BY_EXPIRATION, BY_KEY, BY_EXPIRATION, BY_KEY]
    lives = {
        storage: Counter((values, birth, min(death, 18_000)) for values, birth, death in result.rows.values())
        for storage, result in told.items()
    }
    assert lives[None] == lives[BY_EXPIRATION] == lives[BY_KEY]
    assert len(told[BY_EXPIRATION].ended) < len(told[None].ended) < len(told[BY_KEY].ended)


def test_what_explain_says() -> None:
    operator = Negation("NOT EXISTS", SCHEMA, (K,), (K,))
    assert operator.said["negation results"] == "by expiration, 0% of the results end prematurely"
    for number, inputs in enumerate(_phases(90)[:30]):
        operator.process(inputs, 100 * number, 100 * (number + 1))
    assert operator.said["negation results"] == "by key, 100% of the results end prematurely"
    assert Negation("EXCEPT", SCHEMA).storage == BY_KEY


def test_a_partner_that_is_replaced_at_one_instant_changes_nothing() -> None:
    left, right = history((1, 0, 20)), history((1, 0, 7), (1, 7, 9))
    told, _ = told_by(lambda: Negation("EXISTS", SCHEMA, (K,), (K,)), [left, right], [3])
    assert [row[1:] for row in told.rows.values()] == [[0, 9]]


def test_except_all_hides_the_copies_that_die_last() -> None:
    left, right = history((1, 0, 10), (1, 1, 11), (1, 2, 12)), history((1, 3, 30))
    told, _ = told_by(lambda: Negation("EXCEPT ALL", SCHEMA), [left, right], [3, 5, 10])
    assert [row[1:] for row in told.rows.values()] == [[0, 10], [1, 11], [2, 3]]


@pytest.mark.parametrize("kind", KINDS)
def test_state_levels_off_while_keys_come_and_go(kind: str) -> None:
    operator, sizes = Negation(kind, SCHEMA, (K,), (K,)), []
    for step in range(90):
        births = np.sort(np.arange(1000) % 100 + 100 * step)
        numbers = np.arange(1000 * step, 1000 * (step + 1))
        values = [np.arange(first, first + 1000) for first in (500 * step + 500, 500 * step)]
        values[1][1::2] += 10**6  # every other row has a partner, which comes later
        batches = [pa.RecordBatch.from_arrays([pa.array(v), pa.array(v / 2)], schema=SCHEMA.to_arrow()) for v in values]
        inputs = [Delta(batch, numbers, births, births + 250) for batch in batches]
        operator.process(inputs, 100 * step, 100 * (step + 1))
        sizes.append(operator.bytes_held)
    # What is dead is forgotten in heaps, not at the same steps each time.
    assert max(sizes[60:]) < 1.1 * max(sizes[30:60])
    assert (0 < operator.premature_share < 1) == (kind != "EXISTS")  # all right rows outlive their left ones
