"""States of a single group as values in registers, read, joined and written without a call per state.

`combine_run` combines the states of many groups in place. For one group the call costs more than the combination, so
techniques have a second variant of their loops for width 1, in one of two forms:

- a separate loop, written with `read_state`, `join_states` (the older state on the left) and `write_state`.
  `single_loops` has these three functions for a kind of state, small enough for the compiler to inline;
- the same loop, compiled with a `combine_run` and a `copy_states` for this operation and width 1: `slot_loops`.

Kinds that choose a string or a row, and users' aggregates, have neither form. They use the loop for many groups.
"""

from __future__ import annotations

from typing import Any

from panewise.aggregates.states import Operation, StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop, specialised


@compiled_loop
def _read_int(ints: Ints, floats: Floats, slot: Any) -> Any:
    return ints[0, slot]


@compiled_loop
def _write_int(ints: Ints, floats: Floats, slot: Any, state: Any) -> None:
    ints[0, slot] = state


@compiled_loop
def _read_two_ints(ints: Ints, floats: Floats, slot: Any) -> Any:
    return ints[0, slot], ints[1, slot]


@compiled_loop
def _write_two_ints(ints: Ints, floats: Floats, slot: Any, state: Any) -> None:
    ints[0, slot] = state[0]
    ints[1, slot] = state[1]


@compiled_loop
def _read_float(ints: Ints, floats: Floats, slot: Any) -> Any:
    return floats[0, slot]


@compiled_loop
def _write_float(ints: Ints, floats: Floats, slot: Any, state: Any) -> None:
    floats[0, slot] = state


@compiled_loop
def _read_two_floats(ints: Ints, floats: Floats, slot: Any) -> Any:
    return floats[0, slot], floats[1, slot]


@compiled_loop
def _write_two_floats(ints: Ints, floats: Floats, slot: Any, state: Any) -> None:
    floats[0, slot] = state[0]
    floats[1, slot] = state[1]


@compiled_loop
def _add(older: Any, newer: Any) -> Any:
    return older + newer


@compiled_loop
def _add_two(older: Any, newer: Any) -> Any:
    return older[0] + newer[0], older[1] + newer[1]


@compiled_loop
def _sum_floats(older: Any, newer: Any) -> Any:
    """Knuth's two-sum: the residue holds what rounding dropped."""
    new = older[0] + newer[0]
    part = new - older[0]
    return new, older[1] + (newer[1] + ((older[0] - (new - part)) + (newer[0] - part)))


@compiled_loop
def _max_float(older: Any, newer: Any) -> Any:
    return newer if newer > older or newer != newer else older


@compiled_loop
def _min_float(older: Any, newer: Any) -> Any:
    return newer if newer < older or older != older else older


@compiled_loop
def _max_int(older: Any, newer: Any) -> Any:
    return max(older, newer)


@compiled_loop
def _min_int(older: Any, newer: Any) -> Any:
    return min(older, newer)


_SINGLE: dict[tuple[Operation, int, int], tuple[str, Any, Any, Any]] = {
    (Operation.ADD, 1, 0): ("count", _read_int, _write_int, _add),
    (Operation.ADD, 2, 0): ("add", _read_two_ints, _write_two_ints, _add_two),
    (Operation.SUM_FLOAT, 0, 2): ("sum", _read_two_floats, _write_two_floats, _sum_floats),
    (Operation.MAX_FLOAT, 0, 1): ("max_float", _read_float, _write_float, _max_float),
    (Operation.MIN_FLOAT, 0, 1): ("min_float", _read_float, _write_float, _min_float),
    (Operation.MAX_INT, 1, 0): ("max_int", _read_int, _write_int, _max_int),
    (Operation.MIN_INT, 1, 0): ("min_int", _read_int, _write_int, _min_int),
}

# Loops are written with these names, which `loop_for` replaces by the functions of `single_loops`.
read_state, write_state, join_states = _read_int, _write_int, _add


def single_loops(kind: StateKind) -> dict[str, Any] | None:
    """The arguments for `loop_for` that specialise a loop for states of this kind, or None if there are none."""
    found = _SINGLE.get((kind.operation, kind.int_fields, kind.float_fields))
    if found is None:
        return None
    name, read, write, join = found
    return {"variant": name, "read_state": read, "write_state": write, "join_states": join}


@compiled_loop
def _combine_slot(
    operation: int, ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int, ranks: Ints
) -> None:
    write_state(ints, floats, d, join_states(read_state(ints, floats, d), read_state(ints2, floats2, s)))


@compiled_loop
def _copy_slot(ints: Ints, floats: Floats, d: int, ints2: Ints, floats2: Floats, s: int, count: int) -> None:
    write_state(ints, floats, d, read_state(ints2, floats2, s))


def slot_loops(kind: StateKind) -> dict[str, Any]:
    """The arguments for `loop_for` that specialise a loop over many groups for one group; empty if there are none.

    The specialised functions combine or copy one slot and ignore `count`.
    """
    parts = single_loops(kind)
    if parts is None:
        return {}
    name = parts.pop("variant")
    combine, copy = specialised(_combine_slot, name, **parts), specialised(_copy_slot, name, **parts)
    return {"variant": f"slot_{name}", "combine_run": combine, "copy_states": copy}
