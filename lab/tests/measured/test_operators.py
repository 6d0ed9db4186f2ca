"""Single operators of Ansor's artifact: what they compute, how fast, and as which program."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import auto_scheduler

from tvm_ios.errors import RecordError
from tvm_ios_lab.cells.ansor_operators import NhwcConvolution, OperatorCell, SquareProduct
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.kernel_source import KernelSource
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured import operators
from tvm_ios_lab.measured.operators import measured, operator_task
from tvm_ios_lab.papers.ansor_operators import OPERATORS

SMALL = SquareProduct(size=16)
WINDOWED = NhwcConvolution(size=9, channels_in=3, channels_out=4, kernel=3, stride=2, padding=1)


def cell(trials):
    return OperatorCell(
        operator="small",
        run=CpuRun(lanes=1, rounds=6, small=True),
        source=KernelSource(trials=trials),
    )


@pytest.mark.parametrize("operator", [*OPERATORS.values(), SMALL], ids=[*OPERATORS, "small"])
def test_operations_are_those_that_tvm_counts(operator):
    assert operator_task("x", operator, 1).flop == operator.flops


def test_the_artifacts_own_numbers_fit():
    # 744.05 GFLOPS in 0.361 ms, as its README prints both.
    assert OPERATORS["matmul-512"].flops / 0.361e-3 / 1e9 == pytest.approx(744.05, rel=2e-3)


def run(operator, *arrays):
    task = operator_task("x", operator, 1).task
    schedule, tensors = task.compute_dag.apply_steps_from_state(task.compute_dag.init_state)
    made = tvm.nd.empty([int(extent) for extent in tensors[-1].shape])
    tvm.build(schedule, tensors, "llvm")(*map(tvm.nd.array, arrays), made)
    return made.numpy()


def drawn(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def test_a_product_is_numpys():
    left, right = drawn(16, 16), drawn(16, 16).T.copy()
    np.testing.assert_allclose(run(SMALL, left, right), left @ right, rtol=1e-4, atol=1e-5)


def test_a_convolution_is_that_of_its_definition():
    image, weight, bias = drawn(1, 9, 9, 3), drawn(3, 3, 3, 4), drawn(4)
    padded = np.pad(image[0], ((1, 1), (1, 1), (0, 0)))
    expected = [
        [
            np.tensordot(padded[2 * y : 2 * y + 3, 2 * x : 2 * x + 3], weight, axes=3) + bias
            for x in range(5)
        ]
        for y in range(5)
    ]
    np.testing.assert_allclose(
        run(WINDOWED, image, weight, bias)[0], expected, rtol=1e-4, atol=1e-5
    )


def test_an_operator_without_a_record_is_told_how_to_search_it(tmp_path):
    with pytest.raises(RecordError, match=r"no record of small on .*--tune"):
        measured(cell(trials=0), SMALL, Bench(folder=tmp_path))


def test_a_program_that_does_not_run_here_is_an_error_of_ours(tmp_path, monkeypatch):
    def refuse(*_):
        raise tvm.TVMError("a stack\nTVMError: no such instruction")

    log, task = tmp_path / "x.log", operator_task("small", SMALL, 1).task
    plain = auto_scheduler.MeasureInput(task, task.compute_dag.init_state)
    once = auto_scheduler.MeasureResult([1e-3], 0, "", 1.0, 1.0)
    auto_scheduler.save_records(str(log), [plain], [once])
    monkeypatch.setattr(operators, "COMMITTED_LOG", str(log))
    monkeypatch.setattr(tvm, "build", refuse)
    with pytest.raises(RecordError, match=r"small in .*x\.log does not run .*: no such instr"):
        measured(cell(trials=0), SMALL, Bench(folder=tmp_path))


@pytest.mark.slow
def test_the_best_program_is_searched_timed_and_printed(tmp_path):
    found = measured(cell(trials=4), SMALL, Bench(folder=tmp_path))
    assert found.candidates >= 1
    assert len(found.samples_ms) == 6
    assert found.gflops * found.ms * 1e6 == pytest.approx(2 * 16**3)
    assert found.lowered == (tmp_path / "small.txt").read_text().rstrip("\n")
    log = tmp_path / "logs" / found.log
    (first, _), *_ = sorted(
        auto_scheduler.load_records(str(log)),
        key=lambda pair: (pair[1].error_no != 0, sum(c.value for c in pair[1].costs)),
    )
    task = operator_task("small", SMALL, 1).task
    schedule, tensors = task.compute_dag.apply_steps_from_state(first.state)
    assert found.lowered == tvm.lower(schedule, tensors, simple_mode=True).script()
    # What was searched is not searched again.
    assert measured(cell(trials=4), SMALL, Bench(folder=tmp_path)).candidates == found.candidates
