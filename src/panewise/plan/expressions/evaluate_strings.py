"""Text functions on Arrow arrays. Positions and lengths count characters; patterns and paddings may be columns.

Arrow's kernels take their options as constants. If an option is a column, the kernel runs once for each distinct
combination of options. If texts are not ASCII, Python changes the case of each distinct value, because it knows the
mappings that change a text's length, as Spark does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.language.functions import PADDED_LENGTH_MAX
from panewise.plan.expressions.text_sizes import about_to_make
from panewise.plan.expressions.vectors import Operand, by_distinct_options, by_distinct_value

Kernel = Callable[[list[Operand], pa.DataType], pa.Array]
COUNTED_FROM = 1 << 20  # if texts might grow by more bytes than this, the growth is counted exactly


def _with_options(kernel: Callable[[pa.Array, tuple[Any, ...]], pa.Array]) -> Kernel:
    """A kernel that accepts columns as options and a constant as text, from one for a column and constant options."""
    return lambda operands, result: by_distinct_options(operands[0], operands[1:], kernel, result)


def _change_case(ascii_kernel: Callable[..., pa.Array], change: Callable[[str], str]) -> Kernel:
    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        text = operands[0]
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return ascii_kernel(text)
        return by_distinct_value(text, lambda value: None if value is None else change(value), type)

    return kernel


def _length(operands: list[Operand], type: pa.DataType) -> pa.Array:
    return pc.utf8_length(operands[0]).cast(type)


def _reverse(operands: list[Operand], type: pa.DataType) -> pa.Array:
    return pc.utf8_reverse(operands[0])


def _trim(kernel: Callable[..., pa.Array]) -> Kernel:
    def trimmed(operands: list[Operand], type: pa.DataType) -> pa.Array:
        characters = operands[1].as_py() if len(operands) == 2 else " "
        return kernel(operands[0], characters=characters) if characters else operands[0]

    return trimmed


def _substring(text: pa.Array, options: tuple[Any, ...]) -> pa.Array:
    """SQL's SUBSTRING. Positions count from 1, and 0 means 1; negative positions count from the end."""
    position, length = options if len(options) == 2 else (options[0], 2**31 - 1)
    start = position - 1 if position > 0 else position
    if length <= 0:
        return pc.utf8_slice_codeunits(text, start=0, stop=0)
    stop = start + length
    if start < 0 and stop >= 0:
        return pc.utf8_slice_codeunits(text, start=start)
    return pc.utf8_slice_codeunits(text, start=start, stop=stop)


def _left(text: pa.Array, options: tuple[Any, ...]) -> pa.Array:
    return pc.utf8_slice_codeunits(text, start=0, stop=max(0, options[0]))


def _right(text: pa.Array, options: tuple[Any, ...]) -> pa.Array:
    if options[0] <= 0:
        return pc.utf8_slice_codeunits(text, start=0, stop=0)
    return pc.utf8_slice_codeunits(text, start=-options[0])


def _pad(on_the_left: bool) -> Callable[[pa.Array, tuple[Any, ...]], pa.Array]:
    """Cuts or pads texts to a width, repeating the padding from its beginning. NULL if the width exceeds the limit."""

    def padded(text: pa.Array, options: tuple[Any, ...]) -> pa.Array:
        if options[0] > PADDED_LENGTH_MAX:
            return pa.nulls(len(text), text.type)
        width, padding = max(0, options[0]), options[1]
        cut = pc.utf8_slice_codeunits(text, start=0, stop=width)
        if not padding:
            return cut
        about_to_make(cut.nbytes + len(cut) * width * len(padding.encode()) // len(padding))
        missing = pc.subtract(width, pc.utf8_length(cut))
        needed, places = np.unique(missing.fill_null(0).to_numpy(), return_inverse=True)
        fill = pa.array([(padding * (count // len(padding) + 1))[:count] for count in needed.tolist()], pa.string())
        filling = fill.take(pa.array(places))
        parts = (filling, cut) if on_the_left else (cut, filling)
        return pc.binary_join_element_wise(*parts, "")

    return padded


def _concat(operands: list[Operand], type: pa.DataType) -> pa.Array:
    rows = max((len(operand) for operand in operands if isinstance(operand, pa.Array)), default=1)
    about_to_make(sum(_text_bytes(operand, rows) for operand in operands))
    return pc.binary_join_element_wise(*operands, pa.scalar("", type))


def _text_bytes(operand: Operand, rows: int) -> int:
    """The bytes that an operand adds to the texts of all rows."""
    return int(operand.as_buffer().size * rows if isinstance(operand, pa.Scalar) else operand.nbytes)


def _replace(text: pa.Array, options: tuple[Any, ...]) -> pa.Array:
    # Arrow loops for ever on an empty pattern.
    if not options[0]:
        return text
    longer = len(options[1].encode()) - len(options[0].encode())
    if longer > 0:
        most = text.nbytes // len(options[0].encode()) * longer
        if most > COUNTED_FROM:
            most = (pc.sum(pc.count_substring(text, pattern=options[0])).as_py() or 0) * longer
        about_to_make(text.nbytes + most)
    return pc.replace_substring(text, pattern=options[0], replacement=options[1])


def _instr(text: pa.Array, options: tuple[Any, ...]) -> pa.Array:
    """The position of the first occurrence in characters, from 1; 0 if there is none."""
    bytes_before = pc.find_substring(text, pattern=options[0])
    if pc.all(pc.string_is_ascii(text)).as_py() is not False:
        return pc.add(bytes_before, 1).cast(pa.int32())
    offsets = np.frombuffer(text.buffers()[1], dtype=np.int32)[text.offset : text.offset + len(text)]
    data = np.frombuffer(text.buffers()[2], dtype=np.uint8)
    # A character starts at every byte that is not of the form 10xxxxxx.
    starts = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    found = bytes_before.fill_null(-1).to_numpy()
    characters = starts[offsets + np.maximum(found, 0)] - starts[offsets] + 1
    return pa.array(np.where(found < 0, 0, characters).astype(np.int32), mask=text.is_null().to_numpy(False))


def _like(ignore_case: bool) -> Kernel:
    def kernel(operands: list[Operand], type: pa.DataType) -> pa.Array:
        return pc.match_like(operands[0], pattern=operands[1].as_py(), ignore_case=ignore_case)

    return kernel


STRING_KERNELS: dict[str, Kernel] = {
    "upper": _change_case(pc.utf8_upper, str.upper),
    "lower": _change_case(pc.utf8_lower, str.lower),
    "length": _length,
    "reverse": _reverse,
    "trim": _trim(pc.utf8_trim),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "substring": _with_options(_substring),
    "left": _with_options(_left),
    "right": _with_options(_right),
    "lpad": _with_options(_pad(on_the_left=True)),
    "rpad": _with_options(_pad(on_the_left=False)),
    "concat": _concat,
    "replace": _with_options(_replace),
    "instr": _with_options(_instr),
    "starts_with": _with_options(lambda text, options: pc.starts_with(text, pattern=options[0])),
    "ends_with": _with_options(lambda text, options: pc.ends_with(text, pattern=options[0])),
    "contains": _with_options(lambda text, options: pc.match_substring(text, pattern=options[0])),
    "like": _like(ignore_case=False),
    "ilike": _like(ignore_case=True),
}
