"""Networks for the scenarios of ``cuda_child.py``: how they are compiled, and read back.

Device code is left out, since nothing would run it; host code and modules are TVM's own.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm

from tvm_ios.models.operators import IS_RELAX, op
from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.image_reader import read_image
from tvm_ios.plan.library_call import LibraryCall
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.tvm_names import filled
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios.runtime.libraries.cudnn.convolution import CudnnAlgorithm, CudnnCall
from tvm_ios.runtime.libraries.cudnn.provider import CudnnLibrary
from tvm_ios.support.stored_value import StoredValue


def build(model, folder):
    """Compile a network for CUDA without device code; write what the scenarios need."""
    from tvm_ios.compile.built_model import build_model
    from tvm_ios.plan.lower import lower_plan
    from tvm_ios.plan.schedule_places import placements_for
    from tvm_ios.runtime.base.tvm_names import linkers
    from tvm_ios.search.baselines import greedy_schedule
    from tvm_ios.support.c_compiler import compile_object

    sources = without_device_code()
    built = build_model(*network(model), "cuda -arch=sm_90").kernels.staged
    folder = Path(folder)
    kernels = Path(__file__).with_name("native") / "cuda_kernels.c"
    library = built.factory.get_lib()
    library.export_library(
        str(folder / "kernels.so"),
        fcompile=linkers().create_shared,
        addons=[str(compile_object(kernels))],
    )
    lines = [
        f"{name} {arguments.count(',') + 1}"
        for name, arguments in re.findall(
            r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\)", "".join(sources)
        )
    ]
    (folder / "arguments.txt").write_text("\n".join(dict.fromkeys(lines)))
    (folder / "params").write_bytes(tvm.runtime.save_param_dict(built.params))
    rows = [None] * len(built.graph.operators) if IS_RELAX else cudnn_data(built.extraction.calls)
    (folder / "cudnn.json").write_text(json.dumps(rows))
    placements = placements_for(built.extraction, greedy_schedule(built.extraction.graph))
    for lanes in range(1, 5):
        names = built.operator_names
        plan = lower_plan(built.graph, placements, lanes=lanes, operator_names=names)
        (folder / f"plan{lanes}").write_bytes(image_bytes(plan))
        listed = placements_for(built.extraction, _list(built.extraction.graph, lanes))
        plan = lower_plan(built.graph, listed, lanes=lanes, operator_names=names)
        (folder / f"list{lanes}").write_bytes(image_bytes(plan))
    return {}


def without_device_code():
    """Sources that TVM has compiled from now on, none of which is."""
    from tvm_ios.compile.dialects.dialect import dialect_here

    dialect_here()  # takes the compiler that is there now for TVM's own
    sources = []
    name = "tvm_callback_cuda_compile"
    if IS_RELAX:
        tvm.register_global_func(name, lambda code: sources.append(code) or b"none", override=True)
    else:
        tvm.register_func(name, lambda code, _: sources.append(code) or "none", override=True)
    return sources


def keep_without_device_code():
    """Kernels have no device code from now on, and are kept apart from those that have some."""
    without_device_code()
    if IS_RELAX:
        return
    from tvm_ios.kernels import code_generation, workers

    code_generation._cuda_is_untouched = lambda: True
    code_generation.cuda_compiler = lambda: "none"
    workers.WORTH_STARTING = 1 << 30  # others would compile device code


def _list(graph, lanes):
    """A list for streams; an operator takes as long as it has bytes."""
    from tvm_ios.plan.lanes import STREAMS
    from tvm_ios.search.baselines import sequential_schedule
    from tvm_ios.search.list_schedule import OperatorTimes, list_schedule
    from tvm_ios.search.list_search import ListOptions

    times_ns = [operator.memory_bytes for operator in graph.operators]
    return list_schedule(
        graph,
        OperatorTimes(alone_ns=times_ns, helped_ns=times_ns),
        lanes=lanes,
        hand_over=STREAMS,
        start=sequential_schedule(graph),
        options=ListOptions(draws=50, moves=200),
    )


def network(model):
    from tvm_ios.models import nasnet_small, squeezenet

    if model == "squeezenet":
        return squeezenet(image_size=64)
    if model == "nasnet_small":
        return nasnet_small(num_cells=2)
    if model == "convolutions":
        return convolutions()
    data = op.var("data", shape=(1, 16, 8, 8))
    random = np.random.default_rng(1)
    params, weights = {}, []

    def convolution(value, kernel, inputs, outputs):
        name = f"weight{len(params)}"
        shape = (outputs, inputs, kernel, kernel)
        params[name] = filled(random.standard_normal(shape).astype("float32"))
        weights.append(op.var(name, shape=shape))
        sizes = {"channels": outputs, "kernel_size": (kernel, kernel)}
        padding = (kernel // 2, kernel // 2)
        return op.nn.relu(op.nn.conv2d(value, weights[-1], padding=padding, **sizes))

    if model == "one":
        result = convolution(data, 3, 16, 16)
    elif model == "small":
        first = [
            convolution(data, 1, 16, 16),
            convolution(data, 3, 16, 16),
            op.nn.max_pool2d(data, (3, 3), strides=(1, 1), padding=(1, 1)),
        ]
        joined = op.concatenate(first, axis=1)
        second = [convolution(joined, 3, 48, 8), convolution(joined, 1, 48, 16)]
        result = op.concatenate(second, axis=1)
    elif model == "bfloat16":  # NumPy has no such numbers
        halves = [_cast(convolution(data, 1, 16, 8), "bfloat16") for _ in range(2)]
        pooled = [op.nn.max_pool2d(half, (3, 3), strides=(1, 1), padding=(1, 1)) for half in halves]
        result = _cast(op.concatenate(pooled, axis=1), "float32")
    else:  # operators of several kernels, with workspace between them
        sorted_ = [_argsort(convolution(data, 1, 16, width)) for width in (16, 24, 48)]
        result = op.concatenate(sorted_, axis=1)
    if IS_RELAX:
        return op.module_of([data, *weights], result), params
    return tvm.relay.transform.InferType()(tvm.IRModule.from_expr(result)), params


def _argsort(value):
    if not IS_RELAX:
        return op.argsort(value, axis=1)
    return _made(tvm.relax.op.argsort(value.variable, axis=1), value)


def _cast(value, dtype):
    if not IS_RELAX:
        return op.cast(value, dtype)
    return _made(tvm.relax.op.astype(value.variable, dtype), value)


def _made(call, *reads):
    """Value of an operator that no network of the zoo has."""
    call = tvm.relax.BlockBuilder().normalize(call)
    return op.Value(tvm.relax.Var("value", call.ty), call, reads)


class Model:
    """What :func:`build` wrote."""

    def __init__(self, folder, lanes=2, *, listed=False):
        folder = Path(folder)
        stored = folder / f"{'list' if listed else 'plan'}{lanes}"
        self.plan = read_image(stored.read_bytes())
        self.library = KernelLibrary(folder / "kernels.so", shared_runtime())
        self.params = tvm.runtime.load_param_dict((folder / "params").read_bytes())
        self.cudnn = json.loads((folder / "cudnn.json").read_text())
        lines = (folder / "arguments.txt").read_text().splitlines()
        self.kernels = [line.split()[0] for line in lines]

    def module(self, plan=None, **options):
        return CudaGraphModule(plan or self.plan, self.library, self.params, **options)

    def with_cudnn(self, every=1, **changes):
        """The plan with every n-th operator that cuDNN can compute computed by it."""
        able = [launch for launch in self.plan.launches if self.cudnn[launch.operator_index]]
        chosen = {launch.operator for launch in able[::every]}
        return replace(
            self.plan,
            launches=tuple(
                replace(launch, call=self._call(launch, **changes))
                if launch.operator in chosen
                else launch
                for launch in self.plan.launches
            ),
        )

    def _call(self, launch, *, known=True, tf32=False):
        call = CudnnCall.from_data(StoredValue(self.cudnn[launch.operator_index]["call"], "call"))
        convolution = replace(call.convolution, tf32=tf32)
        # Without an activation, the stand-in runs algorithm 5 too, and the bias is added apart.
        number = 1 if convolution.relu or convolution.weight_shape[0] // 8 % 2 else 5
        algorithm = CudnnAlgorithm(number=number, device="Stand-in (sm_90)", version=91002)
        made = replace(call, convolution=convolution, algorithm=algorithm if known else None)
        return LibraryCall(CudnnLibrary.name, made)

    def data(self):
        entry = next(e for e in self.plan.inputs if e.name not in self.params)
        tensor = self.plan.tensors[entry.tensor]
        return entry.name, np.ones(tensor.shape, tensor.dtype)

    def names(self, launch):
        """Device kernels of a launch, or calls of cuDNN, in order."""
        if launch.call is not None:
            return cudnn_names(launch.call.descriptor)
        own = re.compile(rf"{launch.kernel}_kernel(_\d+)?")
        named = [name for name in self.kernels if own.fullmatch(name)]
        return sorted(named, key=lambda name: (len(name), name))

    def calling(self, kernel, at):
        """The plan with another host function for one operator."""
        launches = list(self.plan.launches)
        launches[at] = replace(launches[at], kernel=kernel)
        return replace(self.plan, launches=tuple(launches))


def convolutions():
    """Convolutions of one input in all forms that cuDNN computes, and one that it does not."""
    from tvm import relay

    data = relay.var("data", shape=(1, 16, 9, 7))
    params = {}

    def convolution(kernel, outputs, *, bias=False, relu=False, groups=1, **attributes):
        shape = (outputs, 16 // groups, *kernel)
        value = relay.nn.conv2d(data, parameter(*shape), groups=groups, **attributes)
        if bias:
            value = relay.nn.bias_add(value, parameter(outputs))
        return relay.nn.relu(value) if relu else value

    def parameter(*shape):
        name = f"p{len(params)}"
        values = np.random.default_rng(len(params)).standard_normal(shape)
        params[name] = tvm.nd.array(values.astype("float32"))
        return relay.var(name, shape=shape)

    results = [
        convolution((3, 3), 16, padding=(1, 1), groups=16, relu=True),
        convolution((5, 3), 24, padding=(2, 1), strides=(2, 1), bias=True, relu=True),
        convolution((1, 1), 8),
        convolution((3, 3), 8, padding=(2, 2), dilation=(2, 2), bias=True),
        convolution((1, 7), 32, padding=(0, 3), strides=(1, 2), groups=4, bias=True),
        convolution((3, 3), 8, padding=(0, 0, 1, 1), relu=True),
    ]
    pooled = [relay.nn.batch_flatten(relay.nn.global_avg_pool2d(each)) for each in results]
    joined = relay.concatenate(pooled, axis=1)
    return relay.transform.InferType()(tvm.IRModule.from_expr(joined)), params


def cudnn_data(calls):
    """For each operator the call of cuDNN, and what Relay says of its convolution."""
    from tvm import relay

    from tvm_ios.relay.functions.fused_function import describe_calls
    from tvm_ios.runtime.libraries.placed_calls import library_calls

    rows = []
    for call, found in zip(
        calls, library_calls(describe_calls(calls), CudnnLibrary()), strict=True
    ):
        inside = []
        relay.analysis.post_order_visit(call.op, inside.append)
        attributes = [
            each.attrs
            for each in inside
            if isinstance(each, relay.Call) and each.op == tvm.ir.Op.get("nn.conv2d")
        ]
        shapes = [[int(n) for n in arg.checked_type.shape] for arg in call.args if found]
        rows.append(
            found
            and {
                "call": found.descriptor.to_data(),
                "shapes": shapes,
                "padding": [int(n) for n in attributes[0].padding],
                "strides": [int(n) for n in attributes[0].strides],
                "dilation": [int(n) for n in attributes[0].dilation],
                "groups": int(attributes[0].groups),
            }
        )
    return rows


def cudnn_names(call):
    """What a prepared call calls, as cuDNN's documentation has it."""
    bias, relu = call.convolution.bias, call.convolution.relu
    if relu or (bias and call.algorithm.number == 1):
        return ["cudnnConvolutionBiasActivationForward"]
    return ["cudnnConvolutionForward", *(["cudnnAddTensor"] if bias else [])]
