"""CPU instructions that numba does not generate by itself: prefetching, and vectors of eight numbers."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.cgutils import alloca_once_value, for_range, get_item_pointer, get_or_insert_function
from numba.extending import intrinsic

_INT = ir.IntType(32)
_EIGHT = ir.VectorType(ir.IntType(64), 8)


def _prefetch(_typing_context, values, entry):
    """Start loading `values[entry]`, an element of a one-dimensional array, into the cache.

    The tables are far larger than any cache, so memory latency dominates the time of a move. Prefetching all
    entries before the first sum lets these latencies overlap.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        element = get_item_pointer(context, builder, signature.args[0], array, [arguments[1]])
        function = get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [ir.PointerType(), _INT, _INT, _INT]),
            "llvm.prefetch.p0",
        )
        for_writing, keep, data = (ir.Constant(_INT, number) for number in (1, 3, 1))
        builder.call(function, [builder.bitcast(element, ir.PointerType()), for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(values, entry), generate


def _gather_bits(_typing_context, result, place, start, boards, shifts, masks, row):
    """Write `start` plus the sum of `board >> shift & mask` for each of eight boards to `result`.

    The sum is over the pairs in row `row` of the two-dimensional arrays `shifts` and `masks`. The results go
    to `result[place : place + 8]`. One vector operation works on all eight boards. The same loop, compiled by
    numba, takes three times as long.
    """

    def generate(context, builder, signature, arguments):
        def element(number, at):
            array = context.make_array(signature.args[number])(context, builder, arguments[number])
            return get_item_pointer(context, builder, signature.args[number], array, at)

        def eight(number):
            one = builder.insert_element(ir.Constant(_EIGHT, None), number, ir.Constant(_INT, 0))
            everywhere = ir.Constant(ir.VectorType(_INT, 8), [0] * 8)
            return builder.shuffle_vector(one, ir.Constant(_EIGHT, None), everywhere)

        views = ir.Constant(_EIGHT, None)
        for view in range(8):
            board = builder.extract_value(arguments[3], view)
            views = builder.insert_element(views, board, ir.Constant(_INT, view))
        total = alloca_once_value(builder, eight(arguments[2]))
        runs = builder.extract_value(
            context.make_array(signature.args[4])(context, builder, arguments[4]).shape, 1
        )
        with for_range(builder, runs) as loop:
            shift, mask = (builder.load(element(number, [arguments[6], loop.index])) for number in (4, 5))
            bits = builder.and_(builder.lshr(views, eight(shift)), eight(mask))
            builder.store(builder.add(builder.load(total), bits), total)
        target = builder.bitcast(element(0, [arguments[1]]), _EIGHT.as_pointer())
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    return types.void(result, place, start, boards, shifts, masks, row), generate


prefetch: Any = intrinsic(_prefetch)
gather_bits: Any = intrinsic(_gather_bits)
