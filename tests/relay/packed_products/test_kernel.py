"""Products of a few rows by weights of bytes, by loops of our own, beside NumPy in double."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.schedules.kernel import TARGET, run
from tests.relay_modules import typed
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.kernels.packed_products import Packing, tile_for
from tvm_ios.relay import own_kernels
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.functions.packed_product import PACKED_DENSE, packed_dense
from tvm_ios.relay.functions.stored_types import with_stored_types
from tvm_ios.relay.kernels import lower_kernels
from tvm_ios.relay.packed_products.kernel import packed_product

AVX2 = tvm.target.Target("llvm -mcpu=core-avx2")
CASES = [
    # rows, inputs, outputs, block
    ((1,), 70, 130, 70),
    ((1,), 64, 256, 32),
    ((3,), 45, 77, 16),
    ((16,), 33, 200, 33),
    ((16,), 96, 48, 40),
    ((2, 3), 20, 17, 32),
    ((23,), 16, 5, 16),
]


class Case:
    """Product, bias and a sigmoid, on weights with scales for blocks."""

    def __init__(
        self,
        rows: tuple[int, ...],
        inputs: int,
        outputs: int,
        block: int,
        *,
        zeros: bool = False,
        target: tvm.target.Target = TARGET,
    ) -> None:
        random = np.random.default_rng(inputs)
        tile = tile_for(int(np.prod(rows)), outputs, target)
        panels, blocks = -(-outputs // tile.panel), -(-inputs // block)
        width = panels * tile.panel
        self.target = target
        self.packing = Packing(outputs=outputs, panel=tile.panel, block=block)
        self.data = random.standard_normal((*rows, inputs), "float32")
        self.steps = random.integers(-128, 128, (panels, inputs, tile.panel)).astype("int8")
        self.scales = random.uniform(5e-4, 2e-3, (blocks, width)).astype("float32")
        self.zeros = random.integers(-99, 99, (blocks, width)).astype("float32") if zeros else None
        self.bias = random.standard_normal(outputs, "float32")

    @property
    def arrays(self) -> list[np.ndarray]:
        """Arguments of the kernel."""
        zeros = [] if self.zeros is None else [self.zeros]
        return [self.data, self.steps, self.scales, *zeros, self.bias]

    @property
    def function(self) -> relay.Function:
        """Fused function of the product and what follows."""
        given = [relay.var(f"a{n}", shape=each.shape) for n, each in enumerate(self.arrays)]
        product = packed_dense(*given[:-1], packing=self.packing)
        body = relay.sigmoid(relay.add(product, given[-1]))
        function = relay.Function(given, body).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
        return typed(function)["main"]

    @property
    def wanted(self) -> np.ndarray:
        """Result in double precision."""
        block, outputs, inputs = self.packing.block, self.packing.outputs, self.data.shape[-1]

        def spread(of_blocks: np.ndarray) -> np.ndarray:
            return np.repeat(of_blocks.astype("float64"), block, axis=0)[:inputs]

        weight = self.steps.transpose(1, 0, 2).reshape(inputs, -1).astype("float64")
        if self.zeros is not None:
            weight = weight - spread(self.zeros)
        made = self.data @ (weight * spread(self.scales))[:, :outputs] + self.bias
        return 1 / (1 + np.exp(-made))

    def kernel(self) -> LoweredKernel:
        """Lowered kernel that reads bytes."""
        stored = with_stored_types(self.function, {1: StoredType(dtype="int8")})
        call = relay.Call(stored, [relay.Var("x", each.checked_type) for each in stored.params])
        with tvm_pipeline():
            ((_, kernel),) = lower_kernels([typed(call)["main"].body], self.target)
        return kernel


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zeros", [False, True], ids=["", "zero points"])
@pytest.mark.parametrize("shape", CASES, ids=str)
def test_weights_become_numbers_in_registers(shape: Sequence, zeros: bool):
    case = Case(*shape, zeros=zeros)
    assert packed_product(case.function, TARGET) is not None
    assert_close(run(case.kernel(), case.arrays), case.wanted)


@pytest.mark.parametrize("shape", CASES[1:5], ids=str)
def test_vectors_are_those_of_the_target(shape: Sequence):
    case = Case(*shape, zeros=True, target=AVX2)
    assert case.packing.panel % 8 == 0
    assert_close(run(case.kernel(), case.arrays), case.wanted)


def test_rows_that_are_computed_twice_have_the_same_bits():
    case = Case((9,), 40, 64, 40)
    whole = run(case.kernel(), case.arrays)
    alone = Case((9,), 40, 64, 40)
    alone.data[:] = case.data[-1]
    np.testing.assert_array_equal(run(alone.kernel(), alone.arrays)[0], whole[-1])


def test_tvm_computes_the_product_where_no_loops_of_ours_do(monkeypatch):
    monkeypatch.setattr(own_kernels, "packed_kernel", lambda *_: None)
    case = Case((3,), 45, 77, 16, zeros=True)
    assert_close(run(case.kernel(), case.arrays), case.wanted)


def test_what_reads_other_elements_is_no_step():
    case = Case((4,), 32, 32, 32)
    function = case.function
    softmax = relay.Function(function.params, relay.nn.softmax(function.body))
    assert packed_product(typed(softmax)["main"], TARGET) is None
    assert packed_product(typed(relay.tanh(relay.var("x", shape=(4,))))["main"], TARGET) is None


def test_the_operator_tells_its_type():
    case = Case((2, 3), 20, 17, 32)
    call = case.function.body.args[0].args[0]
    assert call.op.name == PACKED_DENSE
    assert [int(extent) for extent in call.checked_type.shape] == [2, 3, 17]
