"""The processor's prefetch instruction, for code that numba compiles."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import get_item_pointer, get_or_insert_function
from numba.extending import intrinsic


def _prefetch(_typing_context, values, entry):
    """Start loading `values[entry]`, an element of a one-dimensional array, into the cache.

    The tables are far larger than any cache, so memory latency dominates the time of a move. Prefetching all
    entries before the first sum lets these latencies overlap.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        element = get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])
        integer = ir.IntType(32)
        function = get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [ir.PointerType(), integer, integer, integer]),
            "llvm.prefetch.p0",
        )
        for_writing, keep, data = (ir.Constant(integer, number) for number in (1, 3, 1))
        builder.call(function, [builder.bitcast(element, ir.PointerType()), for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(values, entry), generate


prefetch: Any = intrinsic(_prefetch)
