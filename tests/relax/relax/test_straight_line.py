from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.relax.networks import TARGET, answers
from tests.relax.relax.modules import Branches
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.relax.extract import extract
from tvm_ios.relax.ir import main_of
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.relax.straight_line import Made, read_main
from tvm_ios.search.baselines import greedy_schedule


@I.ir_module
class Pairs:
    """A kernel with two results, handed on in tuples."""

    @T.prim_func(private=True, s_tir=True)
    def both(
        a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32"), c: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.spatial(4, i)
                b[vi] = a[vi] + T.float32(1)
        for i in range(4):
            with T.sblock("c"):
                vi = T.axis.spatial(4, i)
                c[vi] = a[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Pairs
        with R.dataflow():
            pair = R.call_tir(
                cls.both, (x,), out_ty=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")]
            )
            first = pair[0]
            nested = (pair, first)
            inner = nested[0]
            again = R.call_tir(
                cls.both,
                (inner[1],),
                out_ty=[R.Tensor((4,), "float32"), R.Tensor((4,), "float32")],
            )
            gv = (again[0], x, first)
            R.output(gv)
        return gv


@I.ir_module
class Printing:
    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        _ = R.print(x, format="{}")
        return x


@I.ir_module
class Cast:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.match_cast(x, R.Tensor((4,), "float32"))
            gv = R.add(y, y)
            R.output(gv)
        return gv


@I.ir_module
class Bundle:
    @R.function
    def main(
        x: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
    ) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            gv = R.add(x[0], x[1])
            R.output(gv)
        return gv


def test_tuples_are_looked_through():
    line = read_main(Pairs, main_of(Pairs))
    assert line.result == (Made(1, 0), Made(-1, 0), Made(0, 0))
    (second,) = line.calls[1].reads.values()
    assert second in {(Made(0, 0), Made(0, 1)), Made(0, 1)}
    assert extract(Pairs).graph.operators[1].predecessors == (0,)


def test_stages_are_read_as_if_they_stood_in_main():
    flat = read_main(Branches, main_of(Branches))
    staged = rewrite(Branches, greedy_schedule(extract(Branches).graph))
    line = read_main(staged, main_of(staged))
    assert line.result == flat.result
    assert line.parameters == flat.parameters
    reads = [[*call.reads.values()] for call in line.calls]
    assert reads == [[*call.reads.values()] for call in flat.calls]
    assert [call.stage for call in line.calls] == [*["tvm_ios_stage_0"] * 2, "tvm_ios_stage_1"]


def test_results_of_a_tuple_leave_their_stage_one_by_one():
    schedule = greedy_schedule(extract(Pairs).graph)
    staged = rewrite(Pairs, schedule)
    tvm.relax.analysis.check_well_formed(staged)
    assert read_main(staged, main_of(staged)).result == (Made(1, 0), Made(-1, 0), Made(0, 0))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Printing, "a call with side effects"),
        (Cast, "a match_cast"),
        (Bundle, "parameter 'x' has the type"),
    ],
)
def test_other_code_has_an_obstacle(module, reason):
    line = read_main(module, main_of(module))
    assert any(reason in obstacle.reason for obstacle in line.obstacles)


def test_kernels_with_two_results_run_on_lanes():
    x = np.arange(4, dtype="float32")
    schedule = greedy_schedule(extract(Pairs).graph)
    model = lower_schedule(build_model(Pairs, None, TARGET), schedule, lanes=2)
    with model.executor() as executor:
        executor.run(x=x)
        found = [executor.get_output(number).numpy() for number in range(3)]
    for got, wanted in zip(found, answers(Pairs, x), strict=True):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(found, [2 * x + 1, x, x + 1])
