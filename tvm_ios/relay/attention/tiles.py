"""Products of a few rows whose sums stay in registers."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tir

from tvm_ios.kernels.loops import allocated, sequence, vector

__all__ = ["product_tile"]

Element = Callable[[int, tir.PrimExpr], tir.PrimExpr]
Vector = Callable[[tir.PrimExpr, int, tir.PrimExpr], tir.PrimExpr]


def product_tile(
    shape: tuple[int, int, int],
    lanes: int,
    left: Element,
    right: Vector,
    store: Callable[[int, int, tir.Buffer], tir.Stmt],
) -> tir.Stmt:
    """Statement that computes the product of a few rows and a few vectors of columns.

    Parameters
    ----------
    shape
        Numbers of rows, of vectors, and of products in each sum.
    left
        Function from row and place in the sum to an element of the left matrix.
    right
        Function from place in the sum, number of the vector, and lane to an element of the right.
    store
        Function from row, number of the vector and its sums to the statement that uses them.
    """
    rows, vectors, depth = shape
    # One buffer for each: TVM takes those above 1024 bytes from a pool, and LLVM then keeps none
    # of them in registers.
    sums = [
        [tir.decl_buffer((lanes,), "float32", "sum", scope="global") for _ in range(vectors)]
        for _ in range(rows)
    ]
    at = tir.Var("at", "int32")
    zero = tir.const(0.0, "float32")

    def add(row: int, number: int) -> tir.Stmt:
        total = sums[row][number]

        def one(lane: tir.PrimExpr) -> tir.Stmt:
            product = left(row, at) * right(at, number, lane)
            return tir.BufferStore(total, total[lane] + product, [lane])

        return vector(lanes, one)

    def cleared(total: tir.Buffer) -> tir.Stmt:
        return vector(lanes, lambda lane: tir.BufferStore(total, zero, [lane]))

    both = [(row, number) for row in range(rows) for number in range(vectors)]
    adds = sequence([add(*each) for each in both])
    whole = sequence(
        [
            *(cleared(sums[row][number]) for row, number in both),
            tir.For(at, 0, depth, tir.ForKind.SERIAL, adds),
            *(store(row, number, sums[row][number]) for row, number in both),
        ]
    )
    return allocated([total for row in sums for total in row], whole)
