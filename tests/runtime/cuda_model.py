"""Networks for the scenarios of ``cuda_child.py``: how they are compiled, and read back.

Device code is left out, since nothing would run it; host code and modules are TVM's own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm

from tvm_ios.runtime.cuda_module import CudaGraphModule
from tvm_ios.runtime.kernel_library import KernelLibrary
from tvm_ios.runtime.native_runtime import shared_runtime
from tvm_ios.runtime.plan import ExecutionPlan


def build(model, folder):
    """Compile a network for CUDA without device code; write what the scenarios need."""
    from tvm.contrib import cc

    from tvm_ios.core.c_compiler import compile_object
    from tvm_ios.host import cached_libinfo
    from tvm_ios.relay import build as build_module
    from tvm_ios.relay import placements_for, prepare
    from tvm_ios.runtime.lower import lower_plan
    from tvm_ios.search.baselines import greedy_schedule

    tvm._ffi.register_func("tvm_callback_cuda_compile", lambda *_: "none", override=True)
    with cached_libinfo():
        prepared = prepare(*network(model), "cuda -arch=sm_90")
        built = build_module(prepared.module, prepared.target, prepared.params)
    folder = Path(folder)
    kernels = Path(__file__).with_name("native") / "cuda_kernels.c"
    library = built.factory.get_lib()
    library.export_library(
        str(folder / "kernels.so"), fcompile=cc.create_shared, addons=[str(compile_object(kernels))]
    )
    source = "".join(each.get_source() for each in library.imported_modules)
    lines = [
        f"{name} {arguments.count(',') + 1}"
        for name, arguments in re.findall(
            r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\)", source
        )
    ]
    (folder / "arguments.txt").write_text("\n".join(dict.fromkeys(lines)))
    (folder / "params").write_bytes(tvm.runtime.save_param_dict(built.params))
    placements = placements_for(built.extraction, greedy_schedule(built.extraction.graph))
    for lanes in range(1, 5):
        names = built.operator_names
        plan = lower_plan(built.graph_json, placements, lanes=lanes, operator_names=names)
        (folder / f"plan{lanes}.json").write_text(plan.to_json())
    return {}


def network(model):
    from tvm import relay

    from tvm_ios.models import nasnet_small, squeezenet

    if model == "squeezenet":
        return squeezenet(image_size=64)
    if model == "nasnet_small":
        return nasnet_small()
    data = relay.var("data", shape=(1, 16, 8, 8))
    random = np.random.default_rng(1)
    params = {}

    def convolution(value, kernel, inputs, outputs):
        name = f"weight{len(params)}"
        shape = (outputs, inputs, kernel, kernel)
        params[name] = tvm.nd.array(random.standard_normal(shape).astype("float32"))
        padding = (kernel // 2, kernel // 2)
        return relay.nn.relu(relay.nn.conv2d(value, relay.var(name, shape=shape), padding=padding))

    if model == "small":
        first = [
            convolution(data, 1, 16, 16),
            convolution(data, 3, 16, 16),
            relay.nn.max_pool2d(data, (3, 3), padding=(1, 1)),
        ]
        joined = relay.concatenate(first, axis=1)
        second = [convolution(joined, 3, 48, 8), convolution(joined, 1, 48, 16)]
        result = relay.concatenate(second, axis=1)
    else:  # operators of several kernels, with workspace between them
        sorted_ = [relay.argsort(convolution(data, 1, 16, width), axis=1) for width in (16, 24, 48)]
        result = relay.concatenate(sorted_, axis=1)
    return relay.transform.InferType()(tvm.IRModule.from_expr(result)), params


class Model:
    """What :func:`build` wrote."""

    def __init__(self, folder, lanes=2):
        folder = Path(folder)
        self.plan = ExecutionPlan.from_json((folder / f"plan{lanes}.json").read_text())
        self.library = KernelLibrary(folder / "kernels.so", shared_runtime())
        self.params = tvm.runtime.load_param_dict((folder / "params").read_bytes())
        lines = (folder / "arguments.txt").read_text().splitlines()
        self.kernels = [line.split()[0] for line in lines]

    def module(self, plan=None, **options):
        return CudaGraphModule(plan or self.plan, self.library, self.params, **options)

    def data(self):
        entry = next(e for e in self.plan.inputs if e.name not in self.params)
        tensor = self.plan.tensors[entry.tensor]
        return entry.name, np.ones(tensor.shape, tensor.dtype)

    def names(self, launch):
        """Device kernels of a launch, in order."""
        own = re.compile(rf"{launch.kernel}_kernel(_\d+)?")
        named = [name for name in self.kernels if own.fullmatch(name)]
        return sorted(named, key=lambda name: (len(name), name))

    def calling(self, kernel, at):
        """The plan with another host function for one operator."""
        launches = list(self.plan.launches)
        launches[at] = replace(launches[at], kernel=kernel)
        return replace(self.plan, launches=tuple(launches))
