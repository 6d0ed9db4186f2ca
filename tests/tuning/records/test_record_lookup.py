"""Which kernels have a record in force, asked of TVM's own lowering on a real network."""

from __future__ import annotations

import json

import pytest
import tvm
from tvm import auto_scheduler, autotvm
from tvm.ir.transform import PassContext

import tvm_ios
from tvm_ios.compile.built_model import build_model
from tvm_ios.core.conversion import Conversion
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.relay.context import ANSOR_SWITCH
from tvm_ios.relay.prepare import converted_model
from tvm_ios.report.records_in_force import MissingReason, RecordFormat
from tvm_ios.search.baselines import make_schedule
from tvm_ios.tuning.ansor.backend import AnsorBackend
from tvm_ios.tuning.ansor.tasks import extract_tasks as extract_ansor_tasks
from tvm_ios.tuning.autotvm.backend import AutoTvmBackend
from tvm_ios.tuning.autotvm.tasks import extract_tasks
from tvm_ios.tuning.records.record_lookup import contexts_around, records_around, records_in_force

TARGET = tvm.target.Target("llvm -mcpu=core-avx2 -opt-level=0")
AUTOTVM, ANSOR = RecordFormat.AUTOTVM, RecordFormat.AUTO_SCHEDULER
ANSOR_ON = PassContext(
    opt_level=3, config={ANSOR_SWITCH: True}, disabled_pass=["AutoSchedulerLayoutRewrite"]
)


@pytest.fixture(scope="module")
def lines(fork):
    """A line of AutoTVM's log for each convolution: of three by three, and of one by one."""
    found = autotvm_log(fork)
    assert len(found) == 2
    return found


def autotvm_log(network):
    """A line for each task, the most work first: its first candidate."""
    return [
        autotvm.record.encode(
            autotvm.MeasureInput(TARGET, one.task, one.task.config_space.get(0)),
            autotvm.MeasureResult((1e-6,), 0, 0.1, 0.1),
        )
        for one in extract_tasks([network[0]], TARGET)
    ]


@pytest.fixture(scope="module")
def ansor_lines(fork, tmp_path_factory):
    return ansor_log(fork, tmp_path_factory.mktemp("lookup") / "ansor.json")


@pytest.fixture(scope="module")
def in_nhwc(fork):
    return converted_model(*fork, TARGET, Conversion(desired_layout="NHWC"))


def ansor_log(network, log):
    """A line for each kernel with a reduction: schedules that do nothing."""
    tasks = [one.task for one in extract_ansor_tasks(*network, TARGET, cores=1)]
    auto_scheduler.save_records(
        str(log),
        [auto_scheduler.MeasureInput(task, task.compute_dag.get_init_state()) for task in tasks],
        [auto_scheduler.MeasureResult([1e-3], 0, "", 0.1, 1.0) for _ in tasks],
    )
    return log.read_text().splitlines()


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def changed(line, change):
    """A line with other fields."""
    data = json.loads(line)
    change(data)
    return json.dumps(data)


def on_cuda(data):
    data["input"][0], data["input"][1] = "cuda -arch=sm_80", "conv2d_nchw.cuda"
    data["config"]["entity"] = []


def channels_last(data):
    data["input"][1] = "conv2d_nhwc.x86"
    image, weight, *rest = data["input"][2]
    image[1], weight[1] = [image[1][n] for n in (0, 2, 3, 1)], [weight[1][n] for n in (2, 3, 1, 0)]
    data["input"][2] = [image, weight, *rest[:3], "float32"]
    data["config"]["entity"] = []


def failed(data):
    data["result"][0], data["result"][1] = [1e9], 4


def wider(data):
    data["input"][2][0][1][2:] = [16, 16]


def open_extents(data):
    data["input"][2][0][1][2:] = ["n", "n"]


def of_convolutions(found):
    """What was found for the convolutions, by the size of their windows."""
    return {
        kernel.shapes.rpartition(" ")[2].split("x")[2]: kernel.found
        for kernel in found.kernels
        if kernel.operators[0].startswith("conv2d")
    }


def found_in_context(network, log):
    with autotvm.apply_history_best(str(log)):
        return records_around(build_model(*network, TARGET).kernels.staged)


@pytest.mark.slow
def test_without_a_context_there_is_nothing_to_say(fork):
    model = tvm_ios.compile_schedule(*fork, TARGET)
    assert contexts_around() == ()
    assert model.records is None


@pytest.mark.slow(1)
def test_what_a_fallback_context_hides_is_not_in_force(fork, lines, tmp_path):
    log = write(tmp_path / "both.log", lines)
    with autotvm.apply_history_best(str(log)), autotvm.FallbackContext():
        assert tvm_ios.compile_schedule(*fork, TARGET).records is None


@pytest.mark.slow
def test_a_context_of_autotvm_is_in_force_where_it_has_the_workload(fork, lines, tmp_path):
    log = write(tmp_path / "one.log", lines[:1])
    with autotvm.apply_history_best(str(log)):
        records = tvm_ios.compile_schedule(*fork, TARGET).records
    assert records.contexts == (AUTOTVM,)
    assert of_convolutions(records) == {"3": AUTOTVM, "1": MissingReason.NO_RECORD}
    (missing,) = records.missing
    assert records.as_text() == (
        "records in force: 1 of 2 kernels (context AutoTVM); 1 without: "
        f"{missing.operators[0]} {missing.shapes}: no record"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (on_cuda, MissingReason.OTHER_TARGET),
        (channels_last, MissingReason.OTHER_LAYOUT),
        (wider, MissingReason.NO_RECORD),
    ],
    ids=["target", "layout", "workload"],
)
@pytest.mark.slow
def test_a_record_in_a_context_that_does_not_fit_says_why(fork, lines, tmp_path, change, reason):
    log = write(tmp_path / "other.log", [lines[0], changed(lines[1], change)])
    assert of_convolutions(found_in_context(fork, log)) == {"3": AUTOTVM, "1": reason}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (on_cuda, MissingReason.OTHER_TARGET),
        (channels_last, MissingReason.OTHER_LAYOUT),
        (failed, MissingReason.FAILED),
        (wider, MissingReason.NO_RECORD),
        (open_extents, MissingReason.NO_RECORD),
    ],
    ids=["target", "layout", "failed", "workload", "open"],
)
@pytest.mark.slow
def test_a_record_in_a_log_that_does_not_fit_says_why(fork, lines, tmp_path, change, reason):
    log = write(tmp_path / "other.log", [lines[0], changed(lines[1], change)])
    with AutoTvmBackend().applied([log]):
        staged = build_model(*fork, TARGET).kernels.staged
        records = records_in_force(staged, contexts=(), logs=[log])
    assert of_convolutions(records) == {"3": AUTOTVM, "1": reason}
    assert "1 of 2 kernels (log other.log)" in records.as_text()


@pytest.mark.slow
def test_a_network_whose_layout_has_no_templates_says_so(in_nhwc, lines, tmp_path):
    log = write(tmp_path / "nchw.log", lines)
    records = found_in_context(in_nhwc, log)
    assert records.kernels == ()
    assert records.as_text() == "records in force: none, no kernel is tunable (context AutoTVM)"


def test_an_empty_log_has_a_record_of_nothing(fork, tmp_path):
    log = write(tmp_path / "empty.log", [])
    staged = build_model(*fork, TARGET).kernels.staged
    records = records_in_force(staged, contexts=(), logs=[log])
    assert of_convolutions(records) == dict.fromkeys("31", MissingReason.NO_RECORD)


@pytest.mark.slow(1)
def test_a_context_of_auto_scheduler_is_in_force_while_it_is_on(fork, ansor_lines, tmp_path):
    log = write(tmp_path / "ansor.json", ansor_lines)
    with auto_scheduler.ApplyHistoryBest(str(log)), ANSOR_ON:
        records = tvm_ios.compile_schedule(*fork, TARGET).records
    assert records.contexts == (ANSOR,)
    assert {kernel.found for kernel in records.kernels} == {ANSOR}
    assert len(records.kernels) == len(ansor_lines)


@pytest.mark.slow(1)
def test_a_context_of_auto_scheduler_without_its_switch_is_told_of(fork, ansor_lines, tmp_path):
    log = write(tmp_path / "ansor.json", ansor_lines)
    with auto_scheduler.ApplyHistoryBest(str(log)):
        records = tvm_ios.compile_schedule(*fork, TARGET).records
    assert of_convolutions(records) == dict.fromkeys("31", MissingReason.SWITCHED_OFF)
    assert ANSOR_SWITCH in records.as_text()


@pytest.mark.slow(1)
def test_records_of_auto_scheduler_that_do_not_fit_say_why(fork, ansor_lines, tmp_path):
    def in_another_layout(data):
        _, *shapes = json.loads(data["i"][0][0])
        data["i"][0][0] = json.dumps(["0" * 32, *[[*shape[1:], shape[0]] for shape in shapes]])

    def on_another_target(data):
        data["i"][0][1] = "cuda -keys=cuda,gpu -arch=sm_80"

    def has_window(line):
        return json.loads(json.loads(line)["i"][0][0])[2][2:4] == [3, 3]

    (three,) = filter(has_window, ansor_lines)
    others = [line for line in ansor_lines if line != three]
    log = write(
        tmp_path / "ansor.json",
        [changed(three, in_another_layout), *[changed(line, on_another_target) for line in others]],
    )
    with AnsorBackend().applied([]):
        staged = build_model(*fork, TARGET).kernels.staged
        records = records_in_force(staged, contexts=(), logs=[log])
        slower = json.loads(three)["i"][0][0]
        left_out = records_in_force(staged, contexts=(), logs=[log], slower=[slower])
    assert of_convolutions(records) == {
        "3": MissingReason.OTHER_LAYOUT,
        "1": MissingReason.OTHER_TARGET,
    }
    assert of_convolutions(left_out)["3"] is MissingReason.SLOWER


@pytest.mark.slow(1)
def test_a_log_of_the_network_in_another_layout_is_told_of(fork, in_nhwc, tmp_path):
    log = write(tmp_path / "nhwc.json", ansor_log(in_nhwc, tmp_path / "tasks.json"))
    with auto_scheduler.ApplyHistoryBest(str(log)), ANSOR_ON:
        in_its_layout = tvm_ios.compile_schedule(*in_nhwc, TARGET).records
        in_another = tvm_ios.compile_schedule(*fork, TARGET).records
    assert in_its_layout.missing == ()
    assert of_convolutions(in_another) == dict.fromkeys("31", MissingReason.OTHER_LAYOUT)


@pytest.mark.slow
def test_a_merged_convolution_is_a_kernel_of_its_own(fork, lines, tmp_path):
    log = write(tmp_path / "both.log", lines)
    with autotvm.apply_history_best(str(log)):
        graph = build_model(*fork, TARGET).graph
        places = range(len(graph.operators))
        pair = [place for place in places if graph.operators[place].convolution]
        single = {place: Stage(((place,),)) for place in places if place not in pair}
        merged = Stage(tuple((place,) for place in pair), Strategy.MERGE)
        stages = [each for _, each in sorted([*single.items(), (min(pair), merged)])]
        schedule = make_schedule(graph, tuple(stages), "test")
        model = tvm_ios.compile_schedule(*fork, TARGET, schedule=schedule, lanes=1)
        again = tvm_ios.compile_schedule(model.module, target=TARGET, lanes=1)
    (kernel,) = model.records.kernels
    assert kernel.operators == ("+".join(graph.operators[place].name for place in pair),)
    assert kernel.found is MissingReason.NO_RECORD
    assert again.records == model.records


@pytest.mark.slow(1)
def test_asking_leaves_no_trace(fork, lines, tmp_path):
    log = write(tmp_path / "one.log", lines[:1])
    before = autotvm.task.DispatchContext.current, auto_scheduler.dispatcher.DispatchContext.current
    silent = autotvm.GLOBAL_SCOPE.silent
    found = found_in_context(fork, log)
    assert found == found_in_context(fork, log)
    after = autotvm.task.DispatchContext.current, auto_scheduler.dispatcher.DispatchContext.current
    assert before == after
    assert autotvm.GLOBAL_SCOPE.silent == silent
