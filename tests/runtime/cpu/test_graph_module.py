"""``MultiStreamGraphModule`` answers like TVM's ``GraphModule`` loaded from the same file."""

from __future__ import annotations

import gc
import subprocess
import sys

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor

from tvm_ios.errors import ExecutionError, OptionError
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placement import Placement
from tvm_ios.relay.graph_json import read_graph_json
from tvm_ios.runtime.artifact.artifact import export_artifact, load


@pytest.fixture
def pair(exported):
    """Our module and the stock one."""
    _, path = exported
    stock = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    with load(path) as ours:
        yield ours, stock


@pytest.fixture
def built(exported):
    return exported[0]


def test_counts_names_and_types_agree(pair):
    ours, stock = pair
    assert ours.get_num_inputs() == stock.get_num_inputs()
    assert ours.get_num_outputs() == stock.get_num_outputs()
    shapes, dtypes = stock.get_input_info()
    assert ours.get_input_info() == (
        {str(name): tuple(map(int, shape)) for name, shape in shapes.items()},
        {str(name): str(dtype) for name, dtype in dtypes.items()},
    )
    for name in (*shapes, "no such input"):
        assert ours.get_input_index(name) == stock.get_input_index(name)


def test_inputs_and_outputs_agree(pair, built):
    ours, stock = pair
    for module in pair:
        module.set_input("data", built.input)
        module.run()
    for index in range(stock.get_num_inputs()):
        np.testing.assert_array_equal(ours.get_input(index).numpy(), stock.get_input(index).numpy())
    for index in range(stock.get_num_outputs()):
        mine, theirs = ours.get_output(index), stock.get_output(index)
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


@pytest.mark.parametrize("as_what", [np.asarray, tvm.nd.array, np.ndarray.tolist])
def test_values_may_be_arrays_or_lists(pair, built, as_what):
    ours, _ = pair
    ours.run(data=as_what(built.input))
    np.testing.assert_array_equal(ours.get_output(0).numpy(), built.expected[0])


def test_inputs_may_be_numbered(pair, built):
    ours, _ = pair
    ours.set_input(ours.get_input_index("data"), built.input)
    ours.run()
    np.testing.assert_array_equal(ours.get_output(0).numpy(), built.expected[0])


def test_copies_go_to_the_callers_array(pair, built):
    ours, _ = pair
    ours.run(data=built.input)
    out = tvm.nd.empty(built.expected[0].shape)
    assert ours.get_output(0, out).same_as(out)
    np.testing.assert_array_equal(out.numpy(), built.expected[0])
    data = tvm.nd.empty(built.input.shape)
    ours.get_input("data", data)
    np.testing.assert_array_equal(data.numpy(), built.input)


def test_changed_parameters_count(pair, built):
    ours, stock = pair
    name = next(iter(built.factory.get_params()))
    value = np.full_like(built.factory.get_params()[name].numpy(), 0.125)
    for module in pair:
        module.set_input(name, value)
        module.run(data=built.input)
    np.testing.assert_array_equal(ours.get_output(0).numpy(), stock.get_output(0).numpy())
    assert (ours.get_output(0).numpy() != built.expected[0]).any()


def test_changed_parameters_stay_in_their_module(exported, built):
    from tvm_ios.runtime.artifact.artifact import read_plan
    from tvm_ios.runtime.base.kernel_library import KernelLibrary
    from tvm_ios.runtime.cpu.graph_module import MultiStreamGraphModule

    library = KernelLibrary(exported[1])
    params = built.factory.get_params()
    first, second = (MultiStreamGraphModule(read_plan(library.path), library, params) for _ in "ab")
    name = next(iter(params))
    first.set_input(name, np.zeros_like(params[name].numpy()))
    second.run(data=built.input)
    np.testing.assert_array_equal(second.get_output(0).numpy(), built.expected[0])


def test_parameters_load_and_share(pair, built, exported):
    ours, _ = pair
    zeros = {
        name: tvm.nd.array(np.zeros_like(value.numpy()))
        for name, value in built.factory.get_params().items()
    }
    ours.load_params(tvm.runtime.save_param_dict({**zeros, "unknown": tvm.nd.array([1.0])}))
    with load(exported[1]) as other:
        other.share_params(ours, tvm.runtime.save_param_dict(zeros))
        for module in (ours, other):
            module.run(data=built.input)
        zero = ours.get_output(0).numpy()
        np.testing.assert_array_equal(zero, other.get_output(0).numpy())
        other.load_params(tvm.runtime.save_param_dict(built.factory.get_params()))
        ours.run()
        np.testing.assert_array_equal(ours.get_output(0).numpy(), zero)
        other.share_params(ours, tvm.runtime.save_param_dict(zeros))
        ours.load_params(tvm.runtime.save_param_dict(built.factory.get_params()))
        other.run()
        np.testing.assert_array_equal(other.get_output(0).numpy(), built.expected[0])


def test_zero_copy_inputs_and_outputs(pair, built):
    ours, _ = pair
    data = tvm.nd.array(np.zeros_like(built.input))
    ours.set_input_zero_copy("data", data)
    outs = [tvm.nd.empty(value.shape) for value in built.expected]
    for index, out in enumerate(outs):
        ours.set_output_zero_copy(index, out)
    data.copyfrom(built.input)
    ours.run()
    for out, expected in zip(outs, built.expected, strict=True):
        np.testing.assert_array_equal(out.numpy(), expected)


def test_arrays_that_are_replaced_are_let_go(pair, built):
    ours, _ = pair
    data, out = tvm.nd.array(built.input), tvm.nd.empty(built.expected[0].shape)
    held = [sys.getrefcount(array) for array in (data, out)]
    ours.set_input_zero_copy("data", data)
    ours.set_output_zero_copy(0, out)
    ours.run()
    ours.set_input_zero_copy("data", tvm.nd.array(built.input))
    ours.set_output_zero_copy(0, tvm.nd.empty(built.expected[0].shape))
    assert [sys.getrefcount(array) for array in (data, out)] == held


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("dat", np.zeros(1), r"no input 'dat'; the inputs are 'data'"),
        (99, np.zeros(1), r"no input 99"),
        ("data", np.zeros((1, 2), "float32"), r"float32\(1, 16, 8, 8\), but float32\(1, 2\)"),
        ("data", np.zeros((1, 16, 8, 8)), r"'data' is float32.* but float64"),
    ],
)
def test_wrong_inputs_are_named(pair, key, value, message):
    ours, _ = pair
    with pytest.raises(ExecutionError, match=message):
        ours.set_input(key, value)
    if isinstance(key, str):
        with pytest.raises(ExecutionError, match=message):
            ours.run(**{key: value})


@pytest.mark.parametrize("index", [-1, 3, "x"])
def test_wrong_outputs_are_named(pair, index):
    with pytest.raises(ExecutionError, match=r"no output .*; outputs are numbered 0 to 2"):
        pair[0].get_output(index)


def test_zero_copy_refuses_what_does_not_fit(pair):
    ours, _ = pair
    with pytest.raises(ExecutionError, match="zero-copy array is float32"):
        ours.set_input_zero_copy("data", tvm.nd.empty((1, 2)))
    with pytest.raises(ExecutionError, match="without a copy"):
        ours.set_input_zero_copy("data", "a string")


def test_debug_get_output_says_where_to_go(pair):
    with pytest.raises(ExecutionError, match="debug_executor"):
        pair[0].debug_get_output(0, None)


@pytest.mark.parametrize("number", [np.int64(0), np.uint8(0), np.array(0)])
def test_positions_may_be_integers_of_any_kind(pair, built, number):
    ours, _ = pair
    place = np.int32(ours.get_input_index("data"))
    ours.set_input(place, built.input)
    ours.run()
    np.testing.assert_array_equal(ours.get_output(number).numpy(), built.expected[0])
    np.testing.assert_array_equal(ours.get_input(place).numpy(), built.input)
    ours.set_output_zero_copy(number, tvm.nd.empty(built.expected[0].shape))


@pytest.mark.parametrize("key", [0.7, 0.0, True, np.bool_(False), None, "0", b"data", [0], -1])
def test_nothing_else_is_a_position(pair, built, key):
    ours, _ = pair
    with pytest.raises(ExecutionError, match=r"no input|input None"):
        ours.set_input(key, built.input)
    with pytest.raises(ExecutionError, match=r"no input|input None"):
        ours.set_input_zero_copy(key, built.input)
    with pytest.raises(ExecutionError, match="no output"):
        ours.get_output(key)
    with pytest.raises(ExecutionError, match="no output"):
        ours.set_output_zero_copy(key, tvm.nd.empty(built.expected[0].shape))
    ours.set_input()  # as TVM: nothing given, nothing done


@pytest.mark.parametrize(
    "out",
    [tvm.nd.empty((3,)), tvm.nd.empty((1, 16, 8, 8), "float64"), np.zeros((1, 16, 8, 8)), "out", 3],
)
def test_an_array_for_a_copy_that_does_not_fit_is_refused_in_one_line(pair, out):
    ours, _ = pair
    for get, what in (
        (lambda: ours.get_output(0, out), "output 0"),
        (lambda: ours.get_input("data", out), "input 'data'"),
    ):
        with pytest.raises(ExecutionError, match=f"{what} is float32.*, but out is") as caught:
            get()
        assert "\n" not in str(caught.value)


def test_rows_of_unequal_length_are_refused(pair):
    with pytest.raises(ExecutionError, match=r"'data' is float32\(1, 16, 8, 8\).*equal length"):
        pair[0].set_input("data", [[1.0, 2.0], [3.0]])


def test_bytes_that_hold_no_parameters_are_refused_in_one_line(pair):
    ours, _ = pair
    for given in (b"nonsense", b"", 3):
        for load_them in (ours.load_params, lambda bytes_: ours.share_params(ours, bytes_)):
            with pytest.raises(ExecutionError, match="holds no parameters") as caught:
                load_them(given)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("repeat", 1),
        ("number", 1),
        ("min_repeat_ms", 0),
        ("cooldown_interval_ms", 0),
        ("repeats_to_cooldown", 1),
    ],
)
@pytest.mark.parametrize("value", [-1, 0, 1.5, "3", float("inf")])
def test_a_benchmark_is_counted_in_whole_numbers(pair, built, name, least, value):
    if value == least:
        return
    with pytest.raises(OptionError, match=f"{name} is .*; give a whole number of {least} or more"):
        pair[0].benchmark(data=built.input, **{name: value})


@pytest.mark.parametrize("number", [0, -1, 2.5])
def test_runs_are_timed_in_whole_numbers(pair, number):
    with pytest.raises(OptionError, match="number is .*; give a whole number of 1 or more"):
        pair[0].time_ns(number)


def test_functions_by_name(pair, built):
    ours, _ = pair
    ours["set_input"]("data", built.input)
    ours["run"]()
    np.testing.assert_array_equal(ours["get_output"](0).numpy(), built.expected[0])
    with pytest.raises(ExecutionError, match="no function 'fly'"):
        ours["fly"]


@pytest.mark.parametrize("end_to_end", [False, True])
def test_benchmark_gives_one_result_a_repeat(pair, built, end_to_end):
    ours, _ = pair
    result = ours.benchmark(
        tvm.cpu(),
        repeat=np.int64(3),
        number=2,
        min_repeat_ms=1,
        end_to_end=end_to_end,
        data=built.input,
    )
    assert len(result.results) == 3
    assert all(seconds > 0 for seconds in result.results)
    with pytest.raises(ExecutionError, match="only 'run'"):
        ours.benchmark(tvm.cpu(), func_name="get_output")


def test_outputs_outlive_the_module(exported):
    built, path = exported
    module = load(path)
    module.run(data=built.input)
    output = module.get_output(0)
    module.close()
    del module
    gc.collect()
    np.testing.assert_array_equal(output.numpy(), built.expected[0])


def test_a_closed_module_refuses_to_run(exported):
    module = load(exported[1])
    module.close()
    with pytest.raises(ExecutionError, match="closed"):
        module.run()


@pytest.fixture(scope="module")
def odd_types(tmp_path_factory):
    """Outputs that are inputs, reshapes of inputs, truth values, integers and scalars."""
    from tvm import relay

    flag, value = relay.var("key", shape=(3,), dtype="bool"), relay.var("value", shape=(3,))

    data = relay.var("data", shape=(2, 3, 4))
    count = relay.var("count", shape=(), dtype="int64")
    large = relay.greater(data, relay.const(0.5))
    ends = relay.Tuple(
        [
            data,
            relay.reshape(data, (6, 4)),
            large,
            relay.argmax(data, axis=2),
            relay.add(count, relay.const(1, "int64")),
            relay.where(large, data, relay.zeros_like(data)),
            relay.cast(data, "float16"),
            relay.logical_not(flag),
            relay.where(flag, value, relay.negative(value)),
            flag,
        ]
    )
    module = tvm.IRModule.from_expr(relay.Function([data, count, flag, value], ends))
    with tvm.transform.PassContext(opt_level=3):
        factory = relay.build(module, "llvm")
    graph = read_graph_json(factory.get_graph_json())
    placements = [Placement(stage=index, group=0) for index in range(len(graph.operators))]
    path = tmp_path_factory.mktemp("odd") / "model.so"
    export_artifact(factory, lower_plan(graph, placements, lanes=2), path)
    return path


def test_odd_types_agree_with_stock(odd_types):
    stock = graph_executor.GraphModule(
        tvm.runtime.load_module(str(odd_types))["default"](tvm.cpu())
    )
    inputs = {
        "data": np.random.default_rng(0).random((2, 3, 4), "float32"),
        "count": np.array(41, "int64"),
        # By these names: TVM's own module mistakes them for arguments of set_input.
        "key": np.array([True, False, True]),
        "value": np.array([1, 2, 3], "float32"),
    }
    with load(odd_types) as ours:
        for name, value in inputs.items():
            stock.set_input(name, value)
        stock.run()
        ours.run(**inputs)
        for index in range(stock.get_num_outputs()):
            mine, theirs = ours.get_output(index), stock.get_output(index)
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
        assert ours.get_output(4).numpy() == 42
        ours.set_input("count", 1)
        ours.run()
        assert ours.get_output(4).numpy() == 2


def test_outputs_that_share_their_bytes_go_to_arrays_of_the_caller(tmp_path):
    from tvm import relay

    x, w = relay.var("x", shape=(2, 8)), relay.const(np.full((2, 8), 3, "float32"))
    y = relay.nn.relu(x)
    ends = [y, relay.reshape(y, (16,)), relay.reshape(x, (16,)), x, relay.reshape(w, (16,)), y]
    factory = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.Tuple(ends))), "llvm")
    graph = read_graph_json(factory.get_graph_json())
    placements = [Placement(stage=index, group=0) for index in range(len(graph.operators))]
    path = tmp_path / "model.so"
    export_artifact(factory, lower_plan(graph, placements, lanes=1), path)
    with load(path) as ours:
        for seed in range(2):
            value = np.random.default_rng(seed).standard_normal((2, 8), "float32")
            shared = tvm.nd.array(value)
            outs = [
                tvm.nd.array(np.full(shape, np.nan, "float32"))
                for shape in ((2, 8), (16,), (16,), (2, 8), (16,), (2, 8))
            ]
            ours.set_input_zero_copy("x", shared)
            for number, out in enumerate(outs):
                ours.set_output_zero_copy(number, out)
            ours.run()
            relu = np.maximum(value, 0)
            expected = (relu, relu, value, value, np.full(16, 3, "float32"), relu)
            for out, wanted in zip(outs, expected, strict=True):
                np.testing.assert_array_equal(out.numpy(), wanted.reshape(out.shape))
            np.testing.assert_array_equal(shared.numpy(), value)
        with pytest.raises(ExecutionError, match="convert it first"):
            ours.set_output_zero_copy(1, tvm.nd.empty((4, 4)))


def test_inputs_may_have_any_name(tmp_path):
    from tvm import relay

    name = 'größe 🎉 "?"'
    x = relay.var(name, shape=(2, 8))
    factory = relay.build(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))), "llvm")
    graph = read_graph_json(factory.get_graph_json())
    path = tmp_path / "model.so"
    export_artifact(factory, lower_plan(graph, [Placement(stage=0, group=0)], lanes=1), path)
    with load(path) as ours:
        assert ours.input_names == (name,)


@pytest.mark.slow
def test_a_daemon_thread_may_run_while_the_interpreter_ends(exported):
    script = (
        "import threading, time, tvm_ios\n"
        f"module = tvm_ios.load({str(exported[1])!r})\n"
        "def loop():\n"
        "    while True:\n"
        "        module.run()\n"
        "for _ in range(2):\n"
        "    threading.Thread(target=loop, daemon=True).start()\n"
        "time.sleep(0.2)\n"
    )
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr


def test_truth_values_go_in_and_come_out_in_every_way(odd_types):
    flags = np.array([False, True, True])
    with load(odd_types) as ours:
        assert ours.get_input_info()[1]["key"] == "bool"
        place = ours.get_input_index("key")
        for given in (flags, flags.tolist(), [0, 1, 1], tvm.nd.array(flags)):
            ours.set_input(place, np.zeros(3, bool))
            ours.set_input("key", given)
            ours.run()
            assert ours.get_output(7).numpy().dtype == np.dtype(bool)
            np.testing.assert_array_equal(ours.get_output(7).numpy(), ~flags)
            np.testing.assert_array_equal(ours.get_output(9).numpy(), flags)
        out = tvm.nd.empty((3,), "bool")
        ours.get_output(7, out)
        np.testing.assert_array_equal(out.numpy(), ~flags)
        shared = tvm.nd.array(~flags)
        ours.set_input_zero_copy("key", shared)
        ours.set_output_zero_copy(7, out)
        ours.run()
        np.testing.assert_array_equal(out.numpy(), flags)
        for wrong in (flags.astype("uint8"), flags.astype("float32"), [0, 2, 1], [[1], [0, 1]]):
            with pytest.raises(ExecutionError, match=r"input 'key' is bool\(3,\)"):
                ours.set_input("key", wrong)
