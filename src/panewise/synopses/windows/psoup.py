"""PSoup's augmented search tree: a balanced tree over the slices held, with a state at every inner node.

    middle             14                       leaves are slices, in the order of their numbers;
                 13          16                 `middle` of an inner node is the first slice of its right subtree,
               12  13     15     17             its state the combination of its leaves, older ones on the left
                        14  15  16  17

The heights of two siblings differ by at most one (Adelson-Velsky and Landis). Slices enter at the right end and leave
at the left end, so a subtree can only become too high on its right, and left rotations rebalance it. While slices enter
or leave, the states on the two outer paths are stale; they are recomputed from below once for all slices of a call. A
node that a rotation moves off an outer path is recomputed at once. So a slice that enters or leaves alone costs O(log
n) steps and combinations, and several together cost less each. An answer descends to the window's ends and combines
O(log n) nodes from left to right. Slices enter and leave the tree when an answer is asked for.

For any associative state, commutative or not. One tree answers every range and every historical window, by rows or by
time. Space: two states per slice held, and four numbers per inner node.

Source: Arasu and Widom 2004, section 3.1.3 (after Chandrasekaran and Franklin 2002), who compare with red-black trees.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from panewise.aggregates.kernels import combine_run
from panewise.aggregates.matrix import identity
from panewise.aggregates.states import StateKind
from panewise.arrays import Floats, Ints
from panewise.loops import compiled_loop
from panewise.synopses.counting import count_operations, loops_for, new_counter
from panewise.synopses.single_states import slot_loops
from panewise.synopses.slice_ring import SliceRing, copy_states

LEFT, RIGHT, MIDDLE, HEIGHT = 0, 1, 2, 3  # rows of `nodes`; a child below 0 is the leaf of slice -child - 1
ROOT, FREE, COUNT = 0, 1, 2  # elements of `tree`: the root, the number of free nodes, the number of leaves
TALLEST = 128  # above 1.44 log2 of any number of slices


@compiled_loop
def _height(nodes: Ints, child: int) -> int:
    return nodes[HEIGHT, child] if child >= 0 else 0


@compiled_loop
def _measure(nodes: Ints, node: int) -> None:
    nodes[HEIGHT, node] = 1 + max(_height(nodes, nodes[LEFT, node]), _height(nodes, nodes[RIGHT, node]))


@compiled_loop
def _combine_children(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, mask: int,
    width: int, node: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Computes a node's state from the states of its children."""
    left, right, target = nodes[LEFT, node], nodes[RIGHT, node], node * width
    if left >= 0:
        copy_states(node_ints, node_floats, target, node_ints, node_floats, left * width, width)
    else:
        copy_states(node_ints, node_floats, target, ints, floats, ((-left - 1) & mask) * width, width)
    if right >= 0:
        combine_run(operation, node_ints, node_floats, target, node_ints, node_floats, right * width, width, ranks)
    else:
        combine_run(
            operation, node_ints, node_floats, target, ints, floats, ((-right - 1) & mask) * width, width, ranks
        )
    count_operations(counter, width // width)


@compiled_loop
def _balanced(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, mask: int,
    width: int, node: int, ranks: Ints, counter: Ints,
) -> int:  # fmt: skip
    """Updates the height of a subtree and rotates it to the left if its right side is too high. Returns its root.

          node                   right                    node                      inner
         /    \\                 /    \\                  /    \\                  /      \\
        a    right    becomes  node    c      and        a     right   becomes   node     right
            /     \\           /   \\                        /     \\           /   \\   /    \\
           b       c          a     b                   inner      d          a    b  c      d

    A rotation can move a node off its outer path: `node` off the right path, `right` off the left path. The state of
    that node is computed here.
    """
    _measure(nodes, node)
    right: int = nodes[RIGHT, node]
    if right < 0 or _height(nodes, right) <= _height(nodes, nodes[LEFT, node]) + 1:
        return node
    inner = nodes[LEFT, right]
    if inner >= 0 and _height(nodes, inner) > _height(nodes, nodes[RIGHT, right]):
        nodes[LEFT, right] = nodes[RIGHT, inner]
        nodes[RIGHT, inner] = right
        _measure(nodes, right)
        _combine_children(operation, ints, floats, node_ints, node_floats, nodes, mask, width, right, ranks, counter)
        right = inner
    nodes[RIGHT, node] = nodes[LEFT, right]
    nodes[LEFT, right] = node
    _measure(nodes, node)
    _combine_children(operation, ints, floats, node_ints, node_floats, nodes, mask, width, node, ranks, counter)
    _measure(nodes, right)
    return right


@compiled_loop
def _rebalance(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, tree: Ints,
    path: Ints, depth: int, side: int, mask: int, width: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Updates heights and rotates along an outer path, from below, until a height does not change."""
    for k in range(depth - 1, -1, -1):
        node = path[k]
        old = nodes[HEIGHT, node]
        top = _balanced(operation, ints, floats, node_ints, node_floats, nodes, mask, width, node, ranks, counter)
        if top != node:
            if k == 0:
                tree[ROOT] = top
            else:
                nodes[side, path[k - 1]] = top
        if nodes[HEIGHT, top] == old:
            return


@compiled_loop
def _enter(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, tree: Ints,
    free: Ints, path: Ints, number: int, mask: int, width: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Adds a slice as the rightmost leaf."""
    tree[COUNT] += 1
    if tree[COUNT] == 1:
        tree[ROOT] = -number - 1
        return
    depth, child = 0, tree[ROOT]
    while child >= 0:
        path[depth] = child
        depth += 1
        child = nodes[RIGHT, child]
    tree[FREE] -= 1
    node = free[tree[FREE]]
    nodes[LEFT, node], nodes[RIGHT, node], nodes[MIDDLE, node], nodes[HEIGHT, node] = child, -number - 1, number, 1
    if depth == 0:
        tree[ROOT] = node
    else:
        nodes[RIGHT, path[depth - 1]] = node
    side = RIGHT * width // width  # not a literal, because Numba compiles again for each literal argument
    _rebalance(
        operation, ints, floats, node_ints, node_floats, nodes, tree, path, depth, side, mask, width, ranks, counter
    )


@compiled_loop
def _leave(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, tree: Ints,
    free: Ints, path: Ints, mask: int, width: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Removes the leftmost leaf; its sibling takes the place of their parent."""
    tree[COUNT] -= 1
    if tree[COUNT] == 0:
        return
    depth, child = 0, tree[ROOT]
    while child >= 0:
        path[depth] = child
        depth += 1
        child = nodes[LEFT, child]
    depth -= 1
    parent = path[depth]
    free[tree[FREE]] = parent
    tree[FREE] += 1
    if depth == 0:
        tree[ROOT] = nodes[RIGHT, parent]
    else:
        nodes[LEFT, path[depth - 1]] = nodes[RIGHT, parent]
    side = LEFT * width // width
    _rebalance(
        operation, ints, floats, node_ints, node_floats, nodes, tree, path, depth, side, mask, width, ranks, counter
    )


@compiled_loop
def _refresh(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, tree: Ints,
    path: Ints, side: int, mask: int, width: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Recomputes the states on an outer path, from below."""
    depth, child = 0, tree[ROOT]
    while child >= 0:
        path[depth] = child
        depth += 1
        child = nodes[side, child]
    for k in range(depth - 1, -1, -1):
        _combine_children(operation, ints, floats, node_ints, node_floats, nodes, mask, width, path[k], ranks, counter)


@compiled_loop
def _advance(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, tree: Ints,
    free: Ints, path: Ints, leaving: int, begin: int, end: int, mask: int, width: int, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Removes the `leaving` oldest leaves, then adds the slices [begin, end)."""
    left, right = LEFT * width // width, RIGHT * width // width
    for _ in range(leaving):
        _leave(operation, ints, floats, node_ints, node_floats, nodes, tree, free, path, mask, width, ranks, counter)
    if leaving > 0 and tree[COUNT] > 0:
        _refresh(operation, ints, floats, node_ints, node_floats, nodes, tree, path, left, mask, width, ranks, counter)
    for number in range(begin, end):
        _enter(
            operation, ints, floats, node_ints, node_floats, nodes, tree, free, path, number, mask, width, ranks,
            counter,
        )  # fmt: skip
    if begin < end:
        _refresh(operation, ints, floats, node_ints, node_floats, nodes, tree, path, right, mask, width, ranks, counter)


@compiled_loop
def _append(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, mask: int, width: int,
    groups: int, child: int, fresh: bool, result_ints: Ints, result_floats: Floats, target: int, ranks: Ints,
    counter: Ints,
) -> None:  # fmt: skip
    """Appends a subtree's state to the result, which is empty if `fresh`."""
    if not fresh:
        count_operations(counter, width // width)
    slot = child * width if child >= 0 else ((-child - 1) & mask) * width
    if child >= 0 and fresh:
        copy_states(result_ints, result_floats, target, node_ints, node_floats, slot, groups)
    elif child >= 0:
        combine_run(operation, result_ints, result_floats, target, node_ints, node_floats, slot, groups, ranks)
    elif fresh:
        copy_states(result_ints, result_floats, target, ints, floats, slot, groups)
    else:
        combine_run(operation, result_ints, result_floats, target, ints, floats, slot, groups, ranks)


@compiled_loop
def _answer(
    operation: int, ints: Ints, floats: Floats, node_ints: Ints, node_floats: Floats, nodes: Ints, tree: Ints,
    path: Ints, first: int, after: int, mask: int, width: int, groups: int, starts: Ints, ends: Ints, result_ints: Ints,
    result_floats: Floats, ranks: Ints, counter: Ints,
) -> None:  # fmt: skip
    """Answers all windows into results that hold the identity.

    A stack has the pending subtrees with their bounds, the leftmost on top.
    """
    lows, highs = np.empty(TALLEST, np.int64), np.empty(TALLEST, np.int64)
    for q in range(starts.shape[0]):
        start, end, fresh = starts[q], ends[q], width > 0
        depth = 0
        if start < end:
            path[0], lows[0], highs[0] = tree[ROOT], first, after
            depth = 1
        while depth > 0:
            depth -= 1
            child, low, high = path[depth], lows[depth], highs[depth]
            if start <= low and high <= end:
                _append(
                    operation, ints, floats, node_ints, node_floats, mask, width, groups, child, fresh, result_ints,
                    result_floats, q * groups, ranks, counter,
                )  # fmt: skip
                fresh = width < 0
                continue
            middle = nodes[MIDDLE, child]
            if middle < end:
                path[depth], lows[depth], highs[depth] = nodes[RIGHT, child], middle, high
                depth += 1
            if start < middle:
                path[depth], lows[depth], highs[depth] = nodes[LEFT, child], low, middle
                depth += 1


class PSoup(SliceRing):
    """The ring of slices as leaves, and a tree of inner nodes in arrays."""

    def __init__(self, kind: StateKind, width: int) -> None:
        super().__init__(kind, width)
        self.counter = new_counter()
        self.choose_loops(counted=False)
        self._path = np.empty(TALLEST, np.int64)
        self._renew()

    def choose_loops(self, counted: bool) -> None:
        self._many = self._loops(counted, {})
        self._one = self._loops(counted, slot_loops(self.kind))

    def _loops(self, counted: bool, slots: dict[str, Any]) -> tuple[Any, Any]:
        inner = _combine_children, _balanced, _rebalance, _enter, _leave, _refresh, _append
        chosen = loops_for((*inner, _advance, _answer), self.kind, counted, **slots)
        return chosen["_advance"], chosen["_answer"]

    def _renew(self) -> None:
        self._node_ints, self._node_floats = identity(self.kind, self._room * self.width)
        self._nodes = np.zeros((4, self._room), np.int64)
        self._free = np.arange(self._room - 1, -1, -1, dtype=np.int64)
        self._tree = np.array([0, self._room, 0], np.int64)
        self._oldest = self._newest = self.first  # slices [oldest, newest) are in the tree

    @property
    def height(self) -> int:
        """Height of the tree in inner nodes."""
        root = self._tree[ROOT]
        return int(self._nodes[HEIGHT, root]) if self._tree[COUNT] > 1 else 0

    @property
    def bytes_held(self) -> int:
        own = (self._node_ints, self._node_floats, self._nodes, self._free)
        return super().bytes_held + sum(array.nbytes for array in own)

    def int_arrays(self) -> list[Ints]:
        return [self._ints, self._node_ints]

    def answer(
        self, starts: Ints, ends: Ints, ranks: Ints, groups: int | None = None, windows: Ints | None = None
    ) -> tuple[Ints, Floats]:
        count, groups = len(starts), self.width if groups is None else groups
        advance, _ = self._one if self.width == 1 else self._many
        _, answer = self._one if self.width == groups == 1 else self._many
        if self._newest < self.first:
            self._renew()
        tree = (
            int(self.kind.operation), self._ints, self._floats, self._node_ints, self._node_floats, self._nodes,
            self._tree,
        )  # fmt: skip
        mask = self._room - 1
        advance(
            *tree, self._free, self._path, self.first - self._oldest, self._newest, self.after, mask, self.width, ranks,
            self.counter,
        )  # fmt: skip
        self._oldest, self._newest = self.first, self.after
        ints, floats = identity(self.kind, count * groups)
        answer(
            *tree, self._path, self.first, self.after, mask, self.width, groups, starts, ends, ints, floats, ranks,
            self.counter,
        )  # fmt: skip
        shape = count, groups
        return ints.reshape(self.kind.int_fields, *shape), floats.reshape(self.kind.float_fields, *shape)

    def drop_window(self, window: int) -> None:
        """Nothing is kept per sliding window."""
