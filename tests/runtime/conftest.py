"""Random graphs for the runtime's tests: graph JSON without TVM, and Relay modules with it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runtime.cuda_stand_in import cuda_stand_in  # noqa: F401 - a fixture
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.placement import ConcatView, Placement


@dataclass(frozen=True)
class BuiltModule:
    """A compiled random module, its input, and what stock TVM answers."""

    factory: Any
    path: Path
    """The exported file, which stock TVM ran: kernels are generated once."""
    graph_json: str
    graph: KernelGraph
    input: np.ndarray
    expected: list[np.ndarray]
    views: tuple[ConcatView | None, ...]


def _random_relay(seed: int, size: int) -> tuple[Any, dict[str, Any]]:
    import tvm
    from tvm import relay

    chooser, numbers = random.Random(seed), np.random.default_rng(seed)
    data = relay.var("data", shape=(1, 16, 8, 8))
    values, channels, params = [data], [16], {}

    def convolution(source: Any, inputs: int, outputs: int) -> Any:
        kernel = chooser.choice((1, 3))
        name = f"w{len(params)}"
        shape = (outputs, inputs, kernel, kernel)
        weight = (numbers.standard_normal(shape) * 0.2).astype("float32")
        params[name] = tvm.nd.array(weight)
        return relay.nn.conv2d(
            source,
            relay.var(name, shape=shape),
            kernel_size=(kernel, kernel),
            padding=(kernel // 2, kernel // 2),
            channels=outputs,
        )

    for _ in range(size):
        source = chooser.randrange(max(0, len(values) - 5), len(values))
        value, width = values[source], channels[source]
        kind = chooser.choice(("conv", "conv", "branch", "pool", "concat", "add", "sigmoid"))
        if kind == "conv":
            outputs = chooser.choice((8, 16, 24))
            value, width = relay.nn.relu(convolution(value, width, outputs)), outputs
        elif kind == "branch":
            branches = [relay.nn.relu(convolution(value, width, 8)) for _ in range(3)]
            value, width = relay.concatenate(branches, axis=1), 24
        elif kind == "pool":
            value = relay.nn.max_pool2d(value, pool_size=(3, 3), padding=(1, 1))
        elif kind == "sigmoid":
            value = relay.sigmoid(value)
        else:
            other = chooser.randrange(max(0, len(values) - 5), len(values))
            if kind == "add" and channels[other] == width:
                value = relay.add(value, values[other])
            else:
                value = relay.concatenate([value, values[other]], axis=1)
                width += channels[other]
                if width > 64:
                    value, width = convolution(value, width, 16), 16
        values.append(value)
        channels.append(width)
    ends = relay.Tuple([values[-1], relay.nn.batch_flatten(values[-2]), values[len(values) // 2]])
    return tvm.IRModule.from_expr(ends), params


def _concat_views(graph: dict[str, Any]) -> tuple[ConcatView | None, ...]:
    """True wherever a kernel only concatenates channels of batch-one tensors."""
    shapes, row = graph["attrs"]["shape"][1], graph["node_row_ptr"]
    views: list[ConcatView | None] = []
    for number, node in enumerate(graph["nodes"]):
        if node["op"] != "tvm_op":
            continue
        name = node["attrs"]["func_name"].removeprefix("tvmgen_default_fused_")
        if name.rstrip("_0123456789") != "concatenate":
            views.append(None)
            continue
        sizes = [4 * int(np.prod(shapes[row[e[0]] + e[1]])) for e in node["inputs"]]
        offsets = tuple(sum(sizes[:index]) for index in range(len(sizes)))
        whole = sum(sizes) == 4 * int(
            np.prod(shapes[row[number]])
        )  # else one argument stands for two
        views.append(ConcatView(offsets) if whole else None)
    return tuple(views)


def _build(
    reference_build: Callable[..., Any], folder: Path, seed: int, size: int, opt_level: int
) -> BuiltModule:
    import tvm
    from tvm.contrib import graph_executor

    from tvm_ios.host import host_target
    from tvm_ios.relay.graph_json import read_graph_json

    module, params = _random_relay(seed, size)
    factory = reference_build(module, params, f"{host_target()} -opt-level=0", opt_level=opt_level)
    path = folder / f"{seed}-{size}-{opt_level}.so"
    factory.export_library(str(path))
    stock = graph_executor.GraphModule(tvm.runtime.load_module(str(path))["default"](tvm.cpu()))
    data = np.random.default_rng(seed).standard_normal((1, 16, 8, 8)).astype("float32")
    stock.run(data=data)
    graph_json = factory.get_graph_json()
    return BuiltModule(
        factory=factory,
        path=path,
        graph_json=graph_json,
        graph=read_graph_json(graph_json),
        input=data,
        expected=[stock.get_output(i).numpy() for i in range(stock.get_num_outputs())],
        views=_concat_views(json.loads(graph_json)),
    )


@pytest.fixture(scope="session")
def build_random(
    reference_build: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., BuiltModule]:
    """Compile a random branching module, once a session for equal arguments.

    Odd optimisation: level 2 keeps NCHW, so concatenations stay plain and may become views.
    """
    return cache(partial(_build, reference_build, tmp_path_factory.mktemp("random")))


@pytest.fixture(scope="session")
def place_built(
    placements_of: Callable[..., list[Placement]],
) -> Callable[[BuiltModule, int], list[Placement]]:
    """A random valid placement of a built module, views included."""

    def place(built: BuiltModule, seed: int) -> list[Placement]:
        return placements_of(built.graph, random.Random(seed), built.views)

    return place


@pytest.fixture(scope="session")
def exported(
    build_random: Callable[..., BuiltModule],
    place_built: Callable[[BuiltModule, int], list[Placement]],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[BuiltModule, Path]:
    """One built module and its exported file, for two lanes."""
    from tvm_ios.plan.lower import lower_plan
    from tvm_ios.runtime.artifact.artifact import export_artifact

    built = build_random(seed=12, size=12, opt_level=2)
    plan = lower_plan(built.graph, place_built(built, 1), lanes=2)
    path = tmp_path_factory.mktemp("artifact") / "model.so"
    export_artifact(built.factory, plan, path)
    return built, path
