"""Named tuples of arrays whose references nobody counts.

That is right for the time of a call; counting them in inner functions takes several times as long as copying what they
hold.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic


def _uncounted(context: Any, builder: Any, array_type: Any, value: Any) -> Any:
    """Return the array's structure without its owner."""
    array = context.make_array(array_type)(context, builder, value)
    array.meminfo = ir.Constant(array.meminfo.type, None)
    array.parent = ir.Constant(array.parent.type, None)
    return array._getvalue()


def _borrower(_typing_context: Any, table: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        arrays = cgutils.unpack_tuple(builder, arguments[0], len(table))
        values = [_uncounted(context, builder, kind, value) for kind, value in zip(table, arrays, strict=True)]
        return context.make_tuple(builder, table, values)

    return table(table), codegen


if numba.config.DISABLE_JIT:

    def borrow(table: Any) -> Any:
        """Return the table itself."""
        return table
else:
    borrow = intrinsic(_borrower)
